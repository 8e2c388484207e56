//! A training run: held-out loss and an answer before and after, updates in between, metrics and checkpoints on disk.

use std::{
    fs::{File, TryLockError},
    io::{BufRead, BufReader, BufWriter, Write},
    path::{Path, PathBuf},
    time::{Instant, SystemTime},
};

use serde::{Deserialize, Serialize};

use super::{
    Encoded, Model, StepMetrics, TrainError, Trainer,
    adapter::{Factors, adapter_config, initial_factors, peft_tensors},
    checkpoint::{self, Record},
    generate,
};
use crate::{
    base::{DType, output},
    data::{
        Batches, Dataset, DatasetReport, Ending, Message, MessageRole, SpecialTokens, TemplateInputs,
        Tokenizer, UpdateSize, held_out_batches,
    },
    mesh::Plan,
    model::{Config, LoraPlan, LoraSpec},
    optim::{AdamW, Schedule},
    runtime::{Compiled, Engine},
    step::{Packing, StepKind, StepOptions, StepSpec, Workload},
    templates::TemplateLibrary,
    weights::{Adapter, write_adapter},
};

/// What a run is asked to be, before model and data are known.
#[derive(Clone, Debug)]
pub struct RunSettings {
    /// Sequences of a micro-batch, and micro-batches of an update.
    pub size: UpdateSize,
    /// Positions of a sequence.
    pub seq: usize,
    /// Whether a sequence of a batch holds one row of the data or several.
    pub packing: Packing,
    /// What is adapted.
    pub lora: LoraSpec,
    /// How a step is computed.
    pub options: StepOptions,
    /// The optimizer.
    pub optimizer: AdamW,
    /// The largest norm of the gradients.
    pub max_grad_norm: f64,
    /// Decides the order of the data and the start of the adapters.
    pub seed: u64,
    /// Updates between two checkpoints; zero for none but the last.
    pub save_every: usize,
    /// Where the adapter, metrics and checkpoints go.
    pub out: PathBuf,
    /// Whether to go on from what `out` holds.
    pub start: Start,
    /// When the run begins; a resumed one takes the time at which it first began.
    pub now: SystemTime,
    /// A question whose answer is shown before and after.
    pub question: Option<String>,
}

impl RunSettings {
    /// What a run trains of a model with these adapters, computed in `dtype`.
    pub fn workload<'a>(&self, config: &'a Config, lora: &'a LoraPlan, dtype: DType) -> Workload<'a> {
        let &Self { size, seq, packing, .. } = self;
        Workload { config, lora, dtype, batch: size.batch.get(), seq, packing }
    }
}

/// Everything a run is determined by, besides model and data.
#[derive(Clone, Debug)]
pub struct RunConfig {
    /// What was asked for.
    pub settings: RunSettings,
    /// The element type of weights and activations.
    pub dtype: DType,
    /// The updates, and the learning rate of every one.
    pub schedule: Schedule,
    /// What the adapter's config names as its base.
    pub base_model: Option<String>,
}

impl RunConfig {
    /// Updates.
    pub fn steps(&self) -> usize {
        self.schedule.total_steps
    }
}

/// How a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// From fresh adapters, in a folder that holds none.
    Fresh,
    /// From the last checkpoint.
    Resume,
}

/// What happens in a run, in order.
#[derive(Debug)]
pub enum Event<'a> {
    /// The data are read.
    Data {
        /// Those to learn from.
        train: &'a DatasetReport,
        /// Those held out.
        held_out: Option<&'a DatasetReport>,
    },
    /// Something is under way that takes a while.
    Phase(&'a str),
    /// Weights went to the device.
    Loaded {
        /// Bytes of the last tensor.
        bytes: usize,
    },
    /// Everything that stays on the devices is there.
    Placed {
        /// Bytes that each device holds, as the plugin counts them.
        device_bytes: &'a [u64],
    },
    /// A plugin warned of something while it compiled.
    Warning(&'a str),
    /// The run goes on from a checkpoint.
    Resumed {
        /// Updates made before.
        steps: usize,
    },
    /// The loss on the held-out rows.
    HeldOut {
        /// Before or after training.
        when: When,
        /// Mean over counted tokens.
        loss: f64,
    },
    /// The answer to the question.
    Answer {
        /// Before or after training.
        when: When,
        /// The question.
        question: &'a str,
        /// The model's words.
        text: &'a str,
    },
    /// An update was made.
    Step(&'a StepRecord),
    /// The adapter is on disk.
    Saved {
        /// The folder.
        folder: &'a Path,
    },
}

/// Before or after training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Before the first update of this run.
    Before,
    /// After the last.
    After,
}

/// One line of `metrics.jsonl`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StepRecord {
    /// Counted from one.
    pub step: usize,
    /// Mean loss before the update.
    pub loss: f32,
    /// The learning rate of the update.
    pub learning_rate: f64,
    /// The norm of the gradients before clipping.
    pub grad_norm: f32,
    /// Labelled tokens of the step.
    pub num_label_tokens: usize,
    /// Tokens a second, padding included.
    pub tokens_per_second: f64,
    /// Seconds since the first update began.
    pub seconds: f64,
}

/// Hears what happens, and says whether to go on.
pub trait Observer {
    /// Something happened.
    fn event(&mut self, event: Event<'_>);

    /// Whether to end after the current update.
    fn wants_stop(&self) -> bool;
}

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Updates made, those before a resumption included.
    pub steps: usize,
    /// Updates that were to be made; more than `steps` where the run was stopped.
    pub steps_planned: usize,
    /// Updates made before this run, by the one that it resumes.
    pub steps_before: usize,
    /// Samples of all updates made, each counted as often as it was seen.
    pub samples_seen: u64,
    /// Labelled tokens of all updates made.
    pub label_tokens_seen: u64,
    /// Loss of the first update of this run.
    pub loss_first: Option<f32>,
    /// Loss of the last.
    pub loss_last: Option<f32>,
    /// Held-out loss before the first update of this run.
    pub held_out_before: Option<f64>,
    /// Held-out loss after it.
    pub held_out_after: Option<f64>,
    /// Median over the updates, over all positions, padding included.
    pub tokens_per_second: Option<f64>,
    /// The folder of the adapter.
    pub adapter: PathBuf,
}

/// Devices that are ready to train.
#[derive(Debug)]
pub struct Ready {
    /// The devices.
    pub engine: Engine,
    /// The step, where it is compiled already.
    pub step: Option<Compiled>,
}

/// Trains. `ready` starts the devices; it is called when all that was given has been checked.
///
/// # Errors
/// If anything given is not right, the device fails, or the loss is no longer finite; in the latter case the adapter
/// from before is saved.
pub fn run(
    config: &RunConfig,
    model: &Model,
    data: &Encoded,
    ready: impl FnOnce(&StepSpec<'_>) -> Result<Ready, TrainError>,
    mesh: Option<&Plan>,
    templates: &TemplateLibrary,
    observer: &mut dyn Observer,
) -> Result<Summary, TrainError> {
    let plan = config.settings.lora.resolve(&model.config)?;
    let Encoded { tokenizer, started, train, held_out, saved } = data;
    observer.event(Event::Data { train: train.report(), held_out: held_out.as_ref().map(Dataset::report) });
    let question = config.settings.question.as_deref();
    let question = question.map(|text| Question::new(text, tokenizer, config.settings.seq)).transpose()?;
    let record = Record {
        steps: 0,
        samples: saved.as_ref().map_or(0, checkpoint::Saved::samples),
        label_tokens: saved.as_ref().map_or(0, checkpoint::Saved::label_tokens),
        started: started.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        settings: checkpoint::settings(config, model, templates, train)?,
    };
    if let Some(saved) = saved {
        saved.check(&record.settings, config.steps())?;
    }
    checkpoint::refuse_unwritable(&config.settings.out)?;

    let done = saved.as_ref().map_or(0, checkpoint::Saved::steps);
    // From here on, the folder is seen to be in use.
    let metrics = Metrics::open(&config.settings.out, done)?;
    let leftovers = output::remove_leftovers(&config.settings.out);
    leftovers.map_err(|(path, source)| TrainError::Io { action: "clean up", path, source })?;

    let spec = StepSpec {
        workload: config.settings.workload(&model.config, &plan, config.dtype),
        options: config.settings.options,
        optimizer: config.settings.optimizer,
        max_grad_norm: config.settings.max_grad_norm,
        templates,
        mesh,
    };
    let Ready { engine, step } = ready(&spec)?;
    observer.event(Event::Phase("loading weights"));
    let mut trainer =
        Trainer::new(engine, spec, &model.checkpoint, |bytes| observer.event(Event::Loaded { bytes }))?;
    if let Some(step) = step {
        trainer.adopt(StepKind::Train, step);
    }
    trainer.start(&initial_factors(&model.config, &plan, config.settings.seed))?;
    if let Some(saved) = saved {
        saved.restore(&mut trainer)?;
        observer.event(Event::Resumed { steps: done });
    }
    observer.event(Event::Placed { device_bytes: &trainer.device_bytes()? });
    observer.event(Event::Phase("compiling"));
    let programs = if config.settings.size.accumulate.get() == 1 {
        vec![StepKind::Train]
    } else {
        vec![StepKind::Accumulate, StepKind::Apply]
    };
    programs.into_iter().try_for_each(|program| trainer.prepare(program).map(|_| ()))?;
    trainer.take_warnings().iter().for_each(|warning| observer.event(Event::Warning(warning)));

    let mut run = Run { config, model, plan: &plan, tokenizer, question, record, metrics, trainer, observer };
    let held_out_before = run.look(held_out.as_ref(), When::Before)?;
    let records = run.updates(train, done)?;
    let held_out_after = run.look(held_out.as_ref(), When::After)?;
    Ok(Summary {
        steps: done + records.len(),
        steps_planned: config.steps(),
        steps_before: done,
        samples_seen: run.record.samples,
        label_tokens_seen: run.record.label_tokens,
        loss_first: records.first().map(|record| record.loss),
        loss_last: records.last().map(|record| record.loss),
        held_out_before,
        held_out_after,
        tokens_per_second: median(records.iter().map(|record| record.tokens_per_second)),
        adapter: config.settings.out.clone(),
    })
}

struct Run<'a, 'o> {
    config: &'a RunConfig,
    model: &'a Model,
    plan: &'a LoraPlan,
    tokenizer: &'a Tokenizer,
    question: Option<Question<'a>>,
    record: Record,
    metrics: Metrics,
    trainer: Trainer<'a>,
    observer: &'o mut dyn Observer,
}

impl Run<'_, '_> {
    /// The updates, until all are made or the observer wants to stop. Whatever ends them, the state that is still good
    /// is saved.
    fn updates(&mut self, train: &Dataset, done: usize) -> Result<Vec<StepRecord>, TrainError> {
        let mut records = Vec::new();
        let outcome = self.update_until_done(train, done, &mut records);
        let steps = done + records.len();
        match outcome {
            Ok(()) => self.save(steps)?,
            // The state from before this step leads to the same place again; an older one is worth more.
            Err(TrainError::Diverged { .. }) if checkpoint::exists(&self.config.settings.out) => {}
            Err(_) => drop(self.save(steps)),
        }
        outcome.map(|()| records)
    }

    fn update_until_done(
        &mut self,
        train: &Dataset,
        done: usize,
        records: &mut Vec<StepRecord>,
    ) -> Result<(), TrainError> {
        let config = self.config;
        let size = config.settings.size;
        let accumulate = size.accumulate.get();
        let batches = Batches::from_update(train, size, config.settings.seed, done as u64);
        let tokens = (size.batch.get() * config.settings.seq * accumulate) as f64;
        let begin = Instant::now();
        for (step, batches) in (done..config.steps()).zip(batches) {
            let learning_rate = config.schedule.lr(step);
            let started = Instant::now();
            let StepMetrics { loss, grad_norm, num_label_tokens } = match &batches[..] {
                [batch] if accumulate == 1 => self.trainer.step(batch, learning_rate)?,
                several => self.trainer.step_accumulated(several, learning_rate)?,
            };
            let record = StepRecord {
                step: step + 1,
                loss,
                learning_rate,
                grad_norm,
                num_label_tokens,
                tokens_per_second: tokens / started.elapsed().as_secs_f64(),
                seconds: begin.elapsed().as_secs_f64(),
            };
            self.observer.event(Event::Step(&record));
            if !(loss.is_finite() && grad_norm.is_finite()) {
                return Err(TrainError::Diverged { step: step + 1, loss, grad_norm });
            }
            records.push(record);
            self.record.samples += batches.iter().map(|batch| batch.num_segments as u64).sum::<u64>();
            self.record.label_tokens += num_label_tokens as u64;
            self.metrics.write(&record)?;
            if self.observer.wants_stop() {
                break;
            }
            if config.settings.save_every > 0
                && (step + 1) % config.settings.save_every == 0
                && step + 1 < config.steps()
            {
                self.save(step + 1)?;
            }
        }
        Ok(())
    }

    /// Writes the adapter, and what a resumption needs.
    fn save(&mut self, steps: usize) -> Result<(), TrainError> {
        let config = self.config;
        let factors: Factors = self.trainer.factors()?;
        let tensors = peft_tensors(&factors, &self.model.config, self.plan);
        if let Some((name, _)) = tensors.iter().find(|(_, t)| !t.to_f32s().iter().all(|x| x.is_finite())) {
            return Err(TrainError::NotFinite { what: format!("`{name}` after step {steps}") });
        }
        let adapter =
            Adapter { config: adapter_config(&config.settings.lora, config.base_model.clone()), tensors };
        self.record.steps = steps;
        checkpoint::write(&self.trainer, &factors, &self.record, &config.settings.out)?;
        write_adapter(&config.settings.out, &adapter)?;
        self.observer.event(Event::Saved { folder: &config.settings.out });
        Ok(())
    }

    /// The held-out loss, and the answer to the question; skipped when stopping.
    fn look(&mut self, held_out: Option<&Dataset>, when: When) -> Result<Option<f64>, TrainError> {
        if self.observer.wants_stop() {
            return Ok(None);
        }
        let mut loss = None;
        if let Some(held_out) = held_out {
            self.observer.event(Event::Phase("evaluating"));
            let mean = self.trainer.evaluate(held_out_batches(held_out, self.config.settings.size.batch))?;
            if !mean.is_finite() {
                return Err(TrainError::NotFinite { what: format!("the held-out loss: {mean}") });
            }
            self.observer.event(Event::HeldOut { when, loss: mean });
            loss = Some(mean);
        }
        if let Some(Question { text: question, prompt }) = &self.question {
            self.observer.event(Event::Phase("answering"));
            let ids = generate::greedy(&mut self.trainer, prompt, MAX_NEW_TOKENS, self.tokenizer)?;
            let text = self.tokenizer.decode(&ids, SpecialTokens::Skip)?;
            self.observer.event(Event::Answer { when, question, text: &text });
        }
        Ok(loss)
    }
}

/// The longest answer that is shown.
const MAX_NEW_TOKENS: usize = 64;

/// A question to ask before and after.
struct Question<'a> {
    text: &'a str,
    prompt: Vec<u32>,
}

impl<'a> Question<'a> {
    fn new(text: &'a str, tokenizer: &Tokenizer, seq: usize) -> Result<Self, TrainError> {
        let messages = [Message::new(MessageRole::User, text)];
        let template = tokenizer.chat_template().map_err(|error| TrainError::Setting {
            setting: "--question",
            problem: error.to_string(),
            hint: Some(
                "put the model's chat_template.jinja beside its tokenizer.json, or ask no question".into(),
            ),
        })?;
        let prompt = template.render(&messages, &TemplateInputs::default(), Ending::Prompt)?;
        let prompt = tokenizer.encode_plain(&prompt)?;
        generate::check_room(prompt.len(), seq, "--question")?;
        Ok(Self { text, prompt })
    }
}

/// `metrics.jsonl`, a line an update, each flushed.
struct Metrics {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Metrics {
    /// The file in `out`, with the lines of the first `done` updates; what a killed run wrote after its last checkpoint
    /// is cut off, for the same updates are made again.
    fn open(out: &Path, done: usize) -> Result<Self, TrainError> {
        let path = out.join(checkpoint::METRICS);
        let error = |action: &'static str, path: &Path| {
            let path = path.to_owned();
            move |source| TrainError::Io { action, path, source }
        };
        std::fs::create_dir_all(out).map_err(error("create", out))?;
        let mut options = File::options();
        let file = options.read(true).append(true).create(true).open(&path).map_err(error("open", &path))?;
        // The lock goes with the process, however that ends.
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(TrainError::InUse(out.to_owned())),
            // Some network file systems have no locks; a run there is as safe as it was.
            Err(TryLockError::Error(source)) if source.kind() == std::io::ErrorKind::Unsupported => {}
            Err(TryLockError::Error(source)) => return Err(error("lock", &path)(source)),
        }
        let kept = bytes_of_updates(&file, done).and_then(|kept| file.set_len(kept));
        kept.map_err(error("read", &path))?;
        Ok(Self { path, file: BufWriter::new(file) })
    }

    fn write(&mut self, record: &StepRecord) -> Result<(), TrainError> {
        let line = serde_json::to_string(record).map_err(std::io::Error::other);
        let written = line.and_then(|line| writeln!(self.file, "{line}").and_then(|()| self.file.flush()));
        written.map_err(|source| TrainError::Io { action: "write", path: self.path.clone(), source })
    }
}

/// How many bytes the whole lines take that tell of the first `done` updates.
fn bytes_of_updates(file: &File, done: usize) -> std::io::Result<u64> {
    #[derive(Deserialize)]
    struct Numbered {
        step: usize,
    }
    let mut lines = BufReader::new(file);
    let mut bytes = 0;
    let mut line = Vec::new();
    loop {
        let read = lines.read_until(b'\n', &mut line)?;
        let numbered = serde_json::from_slice::<Numbered>(&line);
        if !line.ends_with(b"\n") || !numbered.is_ok_and(|record| record.step <= done) {
            return Ok(bytes);
        }
        bytes += read as u64;
        line.clear();
    }
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
