//! Resolves settings: defaults, and checks of values.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::{
    AppError, defaults,
    parsed::{AttentionKind, Parsed},
    settings::{Ordered, Settings},
};
use anyhow::Context;

use crate::{
    base::{Diagnostic, Diagnostics, Location, MemorySpace, Setting},
    data::{HELD_OUT_QUESTION, HeldOut, QUICKSTART_HELD_OUT, SampleFile, UpdateSize, quickstart},
    mesh::{self, Loaded},
    model::{Config, LoraPlan, LoraSpec, Scaling, Targets, nn::Attention},
    optim::{AdamW, Schedule, ScheduleKind},
    runtime::{DeviceMesh, DeviceMeshError},
    step::{Packing, StepOptions},
    targets::{GpuMemory, Target},
    train::{RunData, RunSettings, Start, TrainError, checkpoint},
    weights::refuse_dangling,
};

/// The training samples and the held-out samples.
///
/// # Errors
/// If the file is invalid, or too few samples are left for training.
pub fn data(settings: &Settings) -> Result<RunData, AppError> {
    let (rows, held_out) = match &settings.data {
        None => {
            let rows = SampleFile::parse("the quick start", quickstart().as_bytes())?;
            (rows, HeldOut::Last(settings.held_out.unwrap_or(QUICKSTART_HELD_OUT)))
        }
        Some(file) => {
            refuse_dangling(file)?;
            let rows = SampleFile::read(file)?;
            let twentieth = (rows.samples.len() / defaults::SAMPLES_PER_HELD_OUT).min(defaults::MAX_HELD_OUT);
            let wanted = settings.held_out.unwrap_or(twentieth);
            (rows, HeldOut::Random { samples: wanted, seed: settings.seed.unwrap_or_default() })
        }
    };
    match held_out {
        HeldOut::Last(0) | HeldOut::Random { samples: 0, .. } => Ok(RunData { train: rows, held_out: None }),
        some => {
            let (train, held_out) = rows.split(some)?;
            Ok(RunData { train, held_out: Some(held_out) })
        }
    }
}

/// Everything else about a run that needs neither model nor rows; a batch is split into `batch_shards`. `folder` is where
/// relative defaults are.
///
/// # Errors
/// The first invalid setting, including those of the schedule.
pub fn run_settings(
    settings: &Settings,
    batch_shards: usize,
    folder: &Path,
) -> Result<RunSettings, AppError> {
    let quick_start = settings.data.is_none();
    let source = if quick_start { DataSource::QuickStart } else { DataSource::Own };
    let BatchShape { batch, seq } = batch_shape(settings, source, batch_shards)?;
    let size = UpdateSize {
        batch: at_least_one(Setting::Batch, batch)?,
        accumulate: at_least_one(Setting::Accumulate, settings.accumulate.unwrap_or(defaults::ACCUMULATE))?,
    };
    // Checked before anything is fetched; the number of updates is known only with the samples.
    schedule(settings, 1)?;
    let start = if settings.resume == Some(true) { Start::Resume } else { Start::Fresh };
    let question = || quick_start.then(|| HELD_OUT_QUESTION.to_owned());
    Ok(RunSettings {
        size,
        seq,
        packing: packing(settings),
        lora: lora(settings),
        options: options(settings, BatchShape { batch, seq }, batch_shards)?,
        optimizer: optimizer(settings)?,
        max_grad_norm: max_grad_norm(settings)?,
        seed: settings.seed.unwrap_or_default(),
        save_every: settings.save_every.unwrap_or(defaults::SAVE_EVERY),
        now: SystemTime::now(),
        out: out_folder(settings.out.as_deref(), start, folder)?,
        start,
        question: settings.question.clone().or_else(question),
    })
}

/// The learning rate schedule of a run; `one_pass` is the number of updates of one epoch.
///
/// # Errors
/// If there are no updates, or the rate is not a positive number.
pub fn schedule(settings: &Settings, one_pass: usize) -> Result<Schedule, AppError> {
    let quick_start = settings.data.is_none();
    let steps = if quick_start { defaults::QUICKSTART_STEPS } else { one_pass.max(1) };
    let steps = at_least_one(Setting::Steps, settings.steps.unwrap_or(steps))?.get();
    Ok(Schedule {
        kind: settings.schedule.as_ref().map_or(ScheduleKind::Cosine, |word| word.0),
        peak_lr: positive(Setting::Lr, settings.lr.unwrap_or(defaults::LR))?,
        warmup_steps: settings.warmup.unwrap_or(defaults::WARMUP.min(steps / 10)),
        total_steps: steps,
    })
}

/// Whether a sequence of a batch holds one row of the data or several.
pub fn packing(settings: &Settings) -> Packing {
    if settings.pack == Some(true) { Packing::On } else { Packing::Off }
}

/// Where samples come from, which decides the default row length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataSource {
    /// The built-in conversations.
    QuickStart,
    /// Samples of the user.
    Own,
}

/// The size of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchShape {
    /// Sequences.
    pub batch: usize,
    /// Tokens of each.
    pub seq: usize,
}

/// The sizes of a batch that is split into `batch_shards`.
///
/// # Errors
/// If it is empty or too large.
pub fn batch_shape(
    settings: &Settings,
    source: DataSource,
    batch_shards: usize,
) -> Result<BatchShape, AppError> {
    let seq = match source {
        DataSource::QuickStart => defaults::QUICKSTART_SEQ,
        DataSource::Own => defaults::SEQ,
    };
    let micro_batches = settings.micro_batches.map_or(1, NonZeroUsize::get);
    let whole_parts =
        defaults::BATCH.next_multiple_of(batch_shards.saturating_mul(micro_batches).min(1 << 31));
    let batch = at_least_one(Setting::Batch, settings.batch.unwrap_or(whole_parts))?.get();
    let seq = settings.seq.unwrap_or(seq);
    if seq < 2 {
        return Err(wrong(Setting::Seq, format!("expected at least 2, found: {seq}")));
    }
    if batch.checked_mul(seq).is_none_or(|tokens| tokens > i32::MAX as usize) {
        return Err(wrong(
            Setting::Batch,
            format!("{batch} sequences of {seq} tokens are more than a step can hold"),
        ));
    }
    Ok(BatchShape { batch, seq })
}

/// The step options for this batch, on a mesh with `batch_shards` shards of it.
///
/// # Errors
/// If the batch cannot be divided as requested, or settings contradict each other.
pub fn options(settings: &Settings, shape: BatchShape, batch_shards: usize) -> Result<StepOptions, AppError> {
    let BatchShape { batch, seq } = shape;
    let usual = StepOptions::for_length(seq);
    let block = || settings.attention_block.map_or(Attention::BLOCK, NonZeroUsize::get);
    let attention = match (&settings.attention, settings.attention_block) {
        (Some(Parsed(AttentionKind::Dense)), Some(_)) => {
            return Err(AppError::Train(TrainError::Setting {
                setting: Setting::AttentionBlock,
                problem: format!("expected {} with it, found dense", Setting::Attention.with("blocks")),
                hint: None,
            }));
        }
        (Some(Parsed(AttentionKind::Dense)), None) => Attention::Dense,
        (Some(Parsed(AttentionKind::Blocks)), _) | (None, Some(_)) => Attention::Blocks(block()),
        (None, None) => usual.attention,
    };
    let micro_batches = settings.micro_batches.unwrap_or(usual.micro_batches);
    let least = micro_batches.get().saturating_mul(batch_shards);
    if micro_batches.get() > 1 && !batch.is_multiple_of(least) {
        let split =
            if batch_shards > 1 { format!(" that {batch_shards} devices share") } else { String::new() };
        return Err(AppError::Train(TrainError::Setting {
            setting: Setting::MicroBatches,
            problem: format!(
                "a batch of {batch} cannot be taken apart into {micro_batches} equal parts{split}"
            ),
            hint: batch.checked_next_multiple_of(least).map(|batch| format!("a batch of {batch} can")),
        }));
    }
    Ok(StepOptions {
        attention,
        loss_chunk: settings.loss_chunk,
        remat: settings.remat.as_ref().map(|word| word.0),
        remat_every: settings.remat_every,
        weights: if settings.offload_weights == Some(true) { MemorySpace::Host } else { usual.weights },
        micro_batches,
    })
}

/// The settings that select the step options.
pub fn settings_of_options(options: &StepOptions) -> Settings {
    let &StepOptions { attention, loss_chunk, remat, remat_every, weights, micro_batches } = options;
    let (kind, block) = match attention {
        Attention::Dense => (AttentionKind::Dense, None),
        Attention::Blocks(block) => (AttentionKind::Blocks, NonZeroUsize::new(block)),
    };
    Settings {
        attention: Some(Parsed(kind)),
        attention_block: block,
        loss_chunk,
        remat: remat.map(Parsed),
        remat_every,
        offload_weights: Some(weights == MemorySpace::Host),
        micro_batches: Some(micro_batches),
        ..Settings::default()
    }
}

/// The adapters.
pub fn lora(settings: &Settings) -> LoraSpec {
    fn entries<T: Clone>(table: &Option<Ordered<T>>) -> Vec<(String, T)> {
        table.as_ref().map(|table| table.0.clone()).unwrap_or_default()
    }
    LoraSpec {
        scaling: if settings.rslora == Some(true) { Scaling::RankStabilized } else { Scaling::Classic },
        targets: settings.targets.as_ref().map_or(Targets::AllLinear, |word| word.0.clone()),
        rank_pattern: entries(&settings.rank_pattern),
        alpha_pattern: entries(&settings.alpha_pattern),
        ..LoraSpec::all_linear(
            settings.rank.unwrap_or(defaults::RANK),
            settings.alpha.unwrap_or(defaults::ALPHA),
        )
    }
}

/// Resolves which linears of a model are adapted, with what rank and scale.
///
/// # Errors
/// Every problem, each at its setting.
pub fn lora_plan(spec: &LoraSpec, config: &Config) -> Result<LoraPlan, Diagnostics> {
    const SETTINGS: [(&str, Setting); 3] =
        [("r", Setting::Rank), ("lora_alpha", Setting::Alpha), ("target_modules", Setting::Targets)];
    let named = |mut diagnostic: Diagnostic| {
        let setting = SETTINGS.iter().find(|(field, _)| diagnostic.location.item.as_deref() == Some(field));
        if let Some((_, setting)) = setting {
            diagnostic.location = Location::file(setting.to_string());
        }
        diagnostic
    };
    spec.resolve(config).map_err(|diagnostics| Diagnostics(diagnostics.0.into_iter().map(named).collect()))
}

/// The target, with its GPU memory settings.
///
/// # Errors
/// If it has no GPUs, or the fraction is invalid.
pub fn target(settings: &Settings) -> Result<Option<Parsed<Target>>, AppError> {
    let memory = GpuMemory { fraction: settings.memory_fraction, preallocate: settings.preallocate };
    if memory == GpuMemory::default() {
        return Ok(settings.target.clone());
    }
    let target = settings.target.as_ref().map(|word| word.0.clone()).unwrap_or_default();
    Ok(Some(Parsed(target.with_memory(memory).map_err(DeviceMeshError::from)?)))
}

/// Reads a mesh config.
///
/// # Errors
/// If the file cannot be read. Its problems are part of the result.
pub fn load_mesh(path: &Path) -> Result<Loaded, AppError> {
    Ok(mesh::load(path).with_context(|| format!("cannot read: {}", path.display()))?)
}

/// The devices to run on, and the mesh config for them.
///
/// # Errors
/// If the mesh config cannot be read, or there are several devices without one.
pub fn devices(target: Option<&Parsed<Target>>, mesh: Option<&Path>) -> Result<DeviceMesh, AppError> {
    let loaded = mesh.map(load_mesh).transpose()?;
    Ok(DeviceMesh::new(target.map(|word| word.0.clone()), loaded)?)
}

/// The optimizer.
///
/// # Errors
/// If a number is out of range.
pub fn optimizer(settings: &Settings) -> Result<AdamW, AppError> {
    let AdamW { beta1, beta2, eps, .. } = AdamW::default();
    let weight_decay = settings.weight_decay.unwrap_or(defaults::WEIGHT_DECAY);
    if !(weight_decay.is_finite() && weight_decay >= 0.0) {
        return Err(wrong(Setting::WeightDecay, format!("expected zero or more, found: {weight_decay}")));
    }
    Ok(AdamW {
        beta1: fraction(Setting::Beta1, settings.beta1.unwrap_or(beta1))?,
        beta2: fraction(Setting::Beta2, settings.beta2.unwrap_or(beta2))?,
        eps: positive(Setting::Eps, settings.eps.unwrap_or(eps))?,
        weight_decay,
    })
}

/// The global norm that gradients are clipped to; infinity disables clipping.
///
/// # Errors
/// If it is not above zero.
pub fn max_grad_norm(settings: &Settings) -> Result<f64, AppError> {
    let norm = settings.max_grad_norm.unwrap_or(defaults::MAX_GRAD_NORM);
    if norm > 0.0 {
        return Ok(norm);
    }
    Err(AppError::Train(TrainError::Setting {
        setting: Setting::MaxGradNorm,
        problem: format!("expected a number above zero, found: {norm}"),
        hint: Some(format!("{} disables clipping", Setting::MaxGradNorm.with("inf"))),
    }))
}

/// The output folder: the given one, else the first of `out`, `out-2`, `out-3` ... without files of a run.
///
/// # Errors
/// If the given one contains an adapter and the run does not resume, or none is given to resume from.
fn out_folder(given: Option<&Path>, start: Start, folder: &Path) -> Result<PathBuf, AppError> {
    match (given, start) {
        (Some(out), Start::Resume) => Ok(out.to_owned()),
        (Some(out), Start::Fresh) => {
            checkpoint::refuse_occupied(out)?;
            Ok(out.to_owned())
        }
        (None, Start::Resume) => Err(AppError::Train(TrainError::Setting {
            setting: Setting::Resume,
            problem: format!("expected {} with it, found none", Setting::Out),
            hint: Some(format!("set the folder of the run to resume, such as {}", Setting::Out.with("out"))),
        })),
        (None, Start::Fresh) => {
            let numbered = (2..).map(|number| folder.join(format!("{}-{number}", defaults::OUT)));
            let mut folders = std::iter::once(folder.join(defaults::OUT)).chain(numbered);
            let free = folders.find(|out| !checkpoint::holds_run(out));
            Ok(free.unwrap_or_else(|| defaults::OUT.into()))
        }
    }
}

fn at_least_one(setting: Setting, found: usize) -> Result<NonZeroUsize, AppError> {
    NonZeroUsize::new(found).ok_or_else(|| wrong(setting, "expected at least 1, found: 0".into()))
}

fn positive(setting: Setting, found: f64) -> Result<f64, AppError> {
    if found.is_finite() && found > 0.0 {
        return Ok(found);
    }
    Err(wrong(setting, format!("expected a finite number above zero, found: {found}")))
}

fn fraction(setting: Setting, found: f64) -> Result<f64, AppError> {
    if (0.0..1.0).contains(&found) {
        return Ok(found);
    }
    Err(wrong(setting, format!("expected a number from 0 to below 1, found: {found}")))
}

fn wrong(setting: Setting, problem: String) -> AppError {
    AppError::Train(TrainError::Setting { setting, problem, hint: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(settings: Settings) -> Result<RunSettings, AppError> {
        let folder = tempfile::tempdir().unwrap();
        run_settings(&settings, 1, folder.path())
    }

    /// The schedule of a run on 100 sequences.
    fn of_hundred(settings: Settings) -> Schedule {
        let size = plan(settings.clone()).unwrap().size;
        schedule(&settings, size.updates_per_epoch(100)).unwrap()
    }

    fn own_data() -> Settings {
        Settings { data: Some("rows.jsonl".into()), ..Settings::default() }
    }

    #[test]
    fn the_quick_start_needs_no_settings() {
        let config = plan(Settings::default()).unwrap();
        assert_eq!((config.size.batch.get(), config.seq, config.size.accumulate.get()), (4, 128, 1));
        let schedule = of_hundred(Settings::default());
        assert_eq!((schedule.warmup_steps, schedule.total_steps), (5, 60));
        assert_eq!(config.lora, LoraSpec::all_linear(8, 16.0));
        assert_eq!(config.optimizer, AdamW { weight_decay: 0.0, ..AdamW::default() });
        assert_eq!(config.question.as_deref(), Some(HELD_OUT_QUESTION));
        let data = data(&Settings::default()).unwrap();
        assert_eq!(
            (data.train.samples.len(), data.held_out.unwrap().samples.len()),
            (144, QUICKSTART_HELD_OUT)
        );
    }

    #[test]
    fn own_data_are_passed_over_once() {
        let config = plan(own_data()).unwrap();
        assert_eq!((config.seq, config.question), (512, None));
        let thirds = of_hundred(Settings { accumulate: Some(3), ..own_data() });
        assert_eq!((thirds.total_steps, thirds.warmup_steps), (9, 0));
        assert_eq!(of_hundred(Settings { batch: Some(1000), ..own_data() }).total_steps, 1);
        let fewer = schedule(&own_data(), 60).unwrap();
        assert_eq!((fewer.total_steps, fewer.warmup_steps), (60, 5));
        assert_eq!(schedule(&Settings { steps: Some(7), ..own_data() }, 60).unwrap().total_steps, 7);
    }

    #[test]
    fn rows_are_packed_where_that_is_asked_for() {
        let found = [None, Some(false), Some(true)]
            .map(|pack| plan(Settings { pack, ..own_data() }).unwrap().packing);
        assert_eq!(found, [Packing::Off, Packing::Off, Packing::On]);
    }

    #[test]
    fn a_twentieth_of_own_data_is_held_out() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rows.jsonl");
        let check = |rows: usize, held_out: Option<usize>, expect: [usize; 2]| {
            std::fs::write(&file, "{\"text\": \"a\"}\n".repeat(rows)).unwrap();
            let data = data(&Settings { data: Some(file.clone()), held_out, ..Settings::default() }).unwrap();
            assert_eq!(
                [data.train.samples.len(), data.held_out.map_or(0, |rows| rows.samples.len())],
                expect
            );
        };
        check(19, None, [19, 0]);
        check(40, None, [38, 2]);
        check(2000, None, [1936, 64]);
        check(40, Some(0), [40, 0]);
        check(40, Some(10), [30, 10]);
    }

    #[test]
    fn what_is_not_possible_is_named_by_its_flag() {
        let check = |settings: Settings, expect: &str| {
            assert_eq!(plan(settings).unwrap_err().to_string(), expect);
        };
        let none = Settings::default;
        check(Settings { steps: Some(0), ..none() }, "setting `steps`: expected at least 1, found: 0");
        check(Settings { batch: Some(0), ..none() }, "setting `batch`: expected at least 1, found: 0");
        check(
            Settings { accumulate: Some(0), ..none() },
            "setting `accumulate`: expected at least 1, found: 0",
        );
        check(Settings { seq: Some(1), ..none() }, "setting `seq`: expected at least 2, found: 1");
        check(
            Settings { batch: Some(usize::MAX), ..none() },
            "setting `batch`: 18446744073709551615 sequences of 128 tokens are more than a step can hold",
        );
        check(
            Settings { lr: Some(0.0), ..none() },
            "setting `lr`: expected a finite number above zero, found: 0",
        );
        check(
            Settings { lr: Some(f64::NAN), ..none() },
            "setting `lr`: expected a finite number above zero, found: NaN",
        );
        check(
            Settings { eps: Some(-1.0), ..none() },
            "setting `eps`: expected a finite number above zero, found: -1",
        );
        check(
            Settings { beta1: Some(1.0), ..none() },
            "setting `beta1`: expected a number from 0 to below 1, found: 1",
        );
        check(
            Settings { beta2: Some(-0.5), ..none() },
            "setting `beta2`: expected a number from 0 to below 1, found: -0.5",
        );
        check(
            Settings { weight_decay: Some(-0.1), ..none() },
            "setting `weight-decay`: expected zero or more, found: -0.1",
        );
        check(
            Settings { max_grad_norm: Some(0.0), ..none() },
            "setting `max-grad-norm`: expected a number above zero, found: 0",
        );
        check(
            Settings { resume: Some(true), ..none() },
            "setting `resume`: expected setting `out` with it, found none",
        );
        assert!(plan(Settings { max_grad_norm: Some(f64::INFINITY), ..none() }).is_ok());
    }

    #[test]
    fn several_devices_need_a_mesh() {
        assert_eq!(devices(None, None).unwrap().target().to_string(), "cpu:1");
        let several = Parsed("cpu:8".parse().unwrap());
        let error = devices(Some(&several), None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "setting `target`: expected a mesh config for the devices of cpu:8, found none"
        );
        let hint = "set one with setting `mesh`, such as mesh-configs/fsdp8.toml for eight devices, or setting `target = cpu`";
        assert_eq!(error.hint().as_deref(), Some(hint));
        let fsdp8 = Path::new(env!("CARGO_MANIFEST_DIR")).join("mesh-configs/fsdp8.toml");
        let found = devices(None, Some(&fsdp8)).unwrap();
        assert_eq!((found.target().to_string().as_str(), found.batch_shards()), ("cpu:8", 8));
    }

    #[test]
    fn only_gpus_are_told_how_to_take_memory() {
        let found = |name: &str, fraction| {
            let named = Some(Parsed(name.parse().unwrap()));
            let settings = Settings { target: named, memory_fraction: Some(fraction), ..Settings::default() };
            target(&settings).map(|word| word.unwrap().0.client_options()).map_err(|error| error.to_string())
        };
        let options = vec![("memory_fraction", crate::pjrt::NamedValue::Float(0.5))];
        assert_eq!(found("mi300x:8", 0.5), Ok(options));
        let expect = "setting `target`: memory options apply to GPUs only, found: cpu:1";
        assert_eq!(found("cpu", 0.5), Err(expect.to_owned()));
        let expect = "setting `target`: expected a fraction of memory above 0 and at most 1, found: 1.5";
        assert_eq!(found("h100", 1.5), Err(expect.to_owned()));
    }

    #[test]
    fn the_first_free_folder_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let free = || out_folder(None, Start::Fresh, folder).unwrap();
        assert_eq!(free(), folder.join("out"));
        for name in ["out", "out-2"] {
            std::fs::create_dir(folder.join(name)).unwrap();
        }
        std::fs::write(folder.join("out/adapter_model.safetensors"), "").unwrap();
        // A run that has only begun, or was killed.
        std::fs::write(folder.join("out-2/metrics.jsonl"), "").unwrap();
        assert_eq!(free(), folder.join("out-3"));
        let occupied = folder.join("out");
        let error = out_folder(Some(&occupied), Start::Fresh, folder).unwrap_err();
        assert!(matches!(error, AppError::Train(TrainError::Occupied(_))));
        assert_eq!(out_folder(Some(&occupied), Start::Resume, folder).unwrap(), occupied);
    }
}
