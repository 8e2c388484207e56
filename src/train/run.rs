//! A training run: evaluation before and after, updates in between, metrics and checkpoints on disk.

use std::time::{Instant, SystemTime};

use super::{
    Encoded, Event, Model, Observer, StepMetrics, StepRecord, Summary, TrainError, Trainer, When,
    adapter::adapter_config,
    checkpoint::{self, Record},
    config::RunConfig,
    factors::{TrainableValues, initial_factors, peft_tensors},
    generate,
    metrics::Metrics,
};
use crate::{
    base::{Setting, output},
    data::{
        Batches, Dataset, Ending, Message, MessageRole, SpecialTokens, TemplateInputs, Tokenizer,
        held_out_batches,
    },
    mesh::Plan,
    model::LoraPlan,
    runtime::{CompiledStep, Engine},
    step::{StepKind, StepSpec},
    templates::TemplateLibrary,
    weights::{Adapter, write_adapter},
};

/// Started devices.
#[derive(Debug)]
pub struct Ready {
    /// The devices.
    pub engine: Engine,
    /// The step, if it is compiled already.
    pub step: Option<CompiledStep>,
}

/// Trains an adapter. `ready` starts the devices; it is called once all input has been checked.
///
/// # Errors
/// If the input is invalid or the device fails; if the loss is no longer finite, after the last finite adapter is saved.
pub fn run<E: From<TrainError>>(
    config: &RunConfig,
    input: RunInput<'_>,
    ready: impl FnOnce(&StepSpec<'_>) -> Result<Ready, E>,
    observer: &mut dyn Observer,
) -> Result<Summary, E> {
    let RunInput { model, data, mesh, templates } = input;
    let plan = config.settings.lora.resolve(&model.config).map_err(TrainError::from)?;
    let prepared = Prepared::new(config, input, observer)?;
    let spec = StepSpec {
        workload: config.settings.workload(&model.config, &plan, config.dtype, config.base_storage),
        options: config.settings.options,
        optimizer: config.settings.optimizer,
        max_grad_norm: config.settings.max_grad_norm,
        templates,
        mesh,
    };
    let ready = ready(&spec)?;
    let trainer = prepared.trainer(config, input, ready, spec, observer)?;
    let Prepared { question, record, metrics, done } = prepared;
    let tokenizer = &data.tokenizer;
    let run = Run { config, model, plan: &plan, tokenizer, question, record, metrics, trainer, observer };
    Ok(run.train(data, done)?)
}

/// Input of a run.
#[derive(Clone, Copy)]
pub struct RunInput<'a> {
    /// The base model.
    pub model: &'a Model,
    /// Encoded samples.
    pub data: &'a Encoded,
    /// The mesh that shards every tensor; `None` for a single device.
    pub mesh: Option<&'a Plan>,
    /// The layer mathematics.
    pub templates: &'a TemplateLibrary,
}

/// A run whose input was checked, and whose output folder is claimed.
struct Prepared<'a> {
    question: Option<Question<'a>>,
    record: Record,
    metrics: Metrics,
    /// Updates made before the run was resumed.
    done: usize,
}

impl<'a> Prepared<'a> {
    fn new(
        config: &'a RunConfig,
        input: RunInput<'a>,
        observer: &mut dyn Observer,
    ) -> Result<Self, TrainError> {
        let RunInput { model, data, templates, .. } = input;
        let Encoded { tokenizer, started, train, held_out, saved } = data;
        observer
            .event(Event::Data { train: train.report(), held_out: held_out.as_ref().map(Dataset::report) });
        let question = config.settings.question.as_deref();
        let question =
            question.map(|text| Question::new(text, tokenizer, config.settings.seq)).transpose()?;
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
        // From here on, other runs see that the folder is in use.
        let metrics = Metrics::open(&config.settings.out, done)?;
        let leftovers = output::remove_leftovers(&config.settings.out);
        leftovers.map_err(|(path, source)| TrainError::Io { action: "clean up", path, source })?;
        Ok(Self { question, record, metrics, done })
    }

    /// The trainer, with its programs compiled and its state on the devices.
    fn trainer<'s>(
        &self,
        config: &RunConfig,
        input: RunInput<'_>,
        ready: Ready,
        spec: StepSpec<'s>,
        observer: &mut dyn Observer,
    ) -> Result<Trainer<'s>, TrainError> {
        let Ready { engine, step } = ready;
        observer.event(Event::Phase("loading weights"));
        let loaded = |bytes| observer.event(Event::Loaded { bytes });
        let mut trainer = Trainer::new(engine, spec, &input.model.checkpoint, loaded)?;
        if let Some(step) = step {
            trainer.adopt(StepKind::Train, step);
        }
        let of_adapters = |plan| initial_factors(&input.model.config, plan, config.settings.seed);
        trainer.start(&spec.workload.trainable.lora().map(of_adapters).unwrap_or_default())?;
        if let Some(saved) = &input.data.saved {
            saved.restore(&mut trainer)?;
            observer.event(Event::Resumed { steps: self.done });
        }
        observer.event(Event::Placed { device_bytes: &trainer.device_bytes()? });
        observer.event(Event::Phase("compiling"));
        let kinds: &[StepKind] = match config.settings.size.accumulate.get() {
            1 => &[StepKind::Train],
            _ => &[StepKind::Accumulate, StepKind::Apply],
        };
        kinds.iter().try_for_each(|&kind| trainer.prepare(kind).map(|_| ()))?;
        trainer.take_warnings().iter().for_each(|warning| observer.event(Event::Warning(warning)));
        Ok(trainer)
    }
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
    fn train(mut self, data: &Encoded, done: usize) -> Result<Summary, TrainError> {
        let held_out = data.held_out.as_ref();
        let held_out_before = self.evaluate_and_sample(held_out, When::Before)?;
        let records = self.updates(&data.train, done)?;
        let held_out_after = self.evaluate_and_sample(held_out, When::After)?;
        Ok(Summary {
            steps: done + records.len(),
            steps_planned: self.config.steps(),
            steps_before: done,
            samples_seen: self.record.samples,
            label_tokens_seen: self.record.label_tokens,
            loss_first: records.first().map(|record| record.loss),
            loss_last: records.last().map(|record| record.loss),
            held_out_before,
            held_out_after,
            tokens_per_second: median(records.iter().map(|record| record.tokens_per_second)),
            adapter: self.config.settings.out.clone(),
        })
    }

    /// Makes the remaining updates, or fewer if the observer stops the run. The last finite state is always saved.
    fn updates(&mut self, train: &Dataset, done: usize) -> Result<Vec<StepRecord>, TrainError> {
        let mut records = Vec::new();
        let outcome = self.update_until_done(train, done, &mut records);
        let steps = done + records.len();
        match outcome {
            Ok(()) => self.save(steps)?,
            // Resuming from the state before this step would diverge again; an older checkpoint is more useful.
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

    /// Writes the adapter and a checkpoint.
    fn save(&mut self, steps: usize) -> Result<(), TrainError> {
        let config = self.config;
        let factors: TrainableValues = self.trainer.trained()?;
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

    /// The held-out loss, and an answer to the question; skipped when stopping.
    fn evaluate_and_sample(
        &mut self,
        held_out: Option<&Dataset>,
        when: When,
    ) -> Result<Option<f64>, TrainError> {
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

/// Maximum number of tokens of an answer.
const MAX_NEW_TOKENS: usize = 64;

/// A question to answer before and after training.
struct Question<'a> {
    text: &'a str,
    prompt: Vec<u32>,
}

impl<'a> Question<'a> {
    fn new(text: &'a str, tokenizer: &Tokenizer, seq: usize) -> Result<Self, TrainError> {
        let messages = [Message::new(MessageRole::User, text)];
        let template = tokenizer.chat_template().map_err(|error| TrainError::Setting {
            setting: Setting::Question,
            problem: error.to_string(),
            hint: Some(
                "put the model's chat_template.jinja beside its tokenizer.json, or ask no question".into(),
            ),
        })?;
        let prompt = template.render(&messages, &TemplateInputs::default(), Ending::Prompt)?;
        let prompt = tokenizer.encode_plain(&prompt)?;
        generate::check_room(prompt.len(), seq, Setting::Question)?;
        Ok(Self { text, prompt })
    }
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
