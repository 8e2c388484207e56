//! Compares a step with reference values: logits, loss, gradients, training, gradient accumulation.
//! `tests/golden/generate.py` documents the tensors of a case, and makes cases of other models.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroUsize,
    path::Path,
};

use serde::{Deserialize, Serialize};

use super::{
    Model, TrainError, Trainer,
    adapter::{OpenedAdapter, open_adapter},
    factors::{TrainableValues, peft_tensors},
    named_params::named_params,
};
use crate::{
    base::{DType, Literal, Setting, read_text},
    data::Batch,
    model::{BaseStorage, FullTraining, TrainableSet},
    optim::AdamW,
    runtime::{DeviceMesh, Engine},
    step::{StepOptions, StepSpec, Workload},
    templates::TemplateLibrary,
    weights::{read_adapter, read_safetensors},
};

/// The files of a case.
#[derive(Clone, Copy, Debug)]
pub struct CaseFiles<'a> {
    /// The folder of the PEFT adapter; `None` if every weight of the model is trained.
    pub adapter: Option<&'a Path>,
    /// The reference values; the `.json` beside them has the optimizer settings.
    pub expected: &'a Path,
}

/// A reference value, and the error of the computed one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ParityRow {
    /// The reference tensor.
    pub name: String,
    /// Relative L2 norm of the difference (for `logits.max_abs`, its largest absolute value).
    pub error: f64,
    /// Maximum error that passes.
    pub limit: f64,
}

impl ParityRow {
    /// Whether the error is within the limit; NaN is not.
    pub fn passed(&self) -> bool {
        self.error <= self.limit
    }
}

const LOGITS: f64 = 1e-4;
const LOSS: f64 = 1e-5;
const GRADIENT: f64 = 1e-4;
const TRAINING: f64 = 1e-4;

#[derive(Deserialize)]
struct Hyper {
    betas: (f64, f64),
    eps: f64,
    weight_decay: f64,
    clip: f64,
}

#[derive(Deserialize)]
struct Info {
    optimizer: Hyper,
}

/// The result of a case.
#[derive(Clone, Debug)]
pub struct ParityReport {
    /// Every reference value.
    pub rows: Vec<ParityRow>,
    /// Warnings about the adapter and of the compiler, without duplicates.
    pub warnings: BTreeSet<String>,
}

/// The devices that a case runs on, and the options of its steps.
#[derive(Clone, Copy)]
pub struct ParitySetup<'a> {
    /// The devices, with the mesh config for them.
    pub devices: &'a DeviceMesh,
    /// Element type of computation.
    pub dtype: DType,
    /// How frozen weights are stored.
    pub base: BaseStorage,
    /// Time and memory trade-offs.
    pub options: StepOptions,
    /// The layer mathematics.
    pub templates: &'a TemplateLibrary,
}

/// A case that was read, with its adapter, if it has one, opened for a model.
pub struct ParityCase<'a> {
    model: &'a Model,
    golden: Golden<'a>,
    hyper: Hyper,
    batch: Batch,
    /// `None` if every weight is trained.
    adapter: Option<OpenedAdapter>,
}

impl<'a> ParityCase<'a> {
    /// Reads a case.
    ///
    /// # Errors
    /// If a file cannot be read, the adapter does not fit the model, or the batch is missing or invalid.
    pub fn open(model: &'a Model, files: CaseFiles<'a>) -> Result<Self, TrainError> {
        let open = |folder: &Path| {
            let adapter = read_adapter(folder)?;
            Ok::<_, TrainError>(open_adapter(adapter, &model.config, &folder.display().to_string())?)
        };
        let adapter = files.adapter.map(open).transpose()?;
        let golden = Golden { tensors: read_safetensors(files.expected)?, file: files.expected };
        let (hyper, batch) = (golden.hyper()?, golden.batch(model.config.vocab_size)?);
        Ok(Self { model, golden, hyper, batch, adapter })
    }

    /// The batch, padded with rows without labels to a multiple of `batch_shards`: rows and tokens of each.
    pub fn batch_size(&self, batch_shards: usize) -> [usize; 2] {
        let batch = self.batch.pad_to_multiple(batch_shards);
        let dims = &batch.input_ids.shape().dims;
        [dims[0], dims[1]]
    }

    /// Runs the case and compares every reference value. `engine` starts the devices, once for each step that is built.
    ///
    /// # Errors
    /// If a reference value is missing, the mesh has problems, or the device fails.
    pub fn compare(
        &self,
        setup: ParitySetup<'_>,
        engine: impl Fn() -> Result<Engine, TrainError>,
    ) -> Result<ParityReport, TrainError> {
        let batch_shards = setup.devices.batch_shards();
        let [rows, seq] = self.batch_size(batch_shards);
        let ParitySetup { devices, dtype, base, options, templates } = setup;
        let all = FullTraining { weights: DType::F32, moments: DType::F32 };
        let adapters = self.adapter.as_ref().map(|adapter| TrainableSet::Lora(&adapter.plan));
        let trainable = adapters.unwrap_or(TrainableSet::All(all));
        let workload = Workload { base, ..Workload::new(&self.model.config, trainable, dtype, rows, seq) };
        let mesh = devices.plan(workload)?;
        let Hyper { betas: (beta1, beta2), eps, weight_decay, clip } = self.hyper;
        let optimizer = AdamW { beta1, beta2, eps, weight_decay };
        let mesh = mesh.as_ref();
        let spec = StepSpec { workload, options, optimizer, max_grad_norm: clip, templates, mesh };
        let mut rows = ParityRows { golden: &self.golden, rows: Vec::new() };
        let mut warnings = self.compare_batch(spec, engine()?, &mut rows)?;
        // The micro-batches of accumulation are the rows of the batch.
        let options = StepOptions { micro_batches: NonZeroUsize::MIN, ..options };
        let spec = StepSpec { workload: Workload { batch: batch_shards, ..workload }, options, ..spec };
        warnings.append(&mut self.compare_accumulation(spec, engine()?, &mut rows)?);
        warnings.extend(self.adapter.iter().flat_map(|adapter| &adapter.warnings).map(ToString::to_string));
        Ok(ParityReport { rows: rows.rows, warnings })
    }

    /// Compares logits, loss, gradients and training on the batch.
    fn compare_batch(
        &self,
        spec: StepSpec<'_>,
        engine: Engine,
        rows: &mut ParityRows<'_>,
    ) -> Result<BTreeSet<String>, TrainError> {
        let batch = self.batch.pad_to_multiple(spec.workload.batch);
        let mut trainer = self.trainer(spec, engine)?;
        let logits = first_rows(&trainer.logits(&batch.input_ids)?, self.batch.input_ids.shape().dims[0]);
        rows.max_abs("logits", &logits, LOGITS)?;
        rows.push("logits", &logits, LOGITS)?;
        let (loss, gradients) = trainer.gradients(std::slice::from_ref(&batch))?;
        rows.push("loss", &scalar(loss), LOSS)?;
        rows.push_all("grad.", &self.named(&gradients), GRADIENT)?;

        let rates = self.golden.get("train.lrs")?.to_f64s();
        let metrics = rates.iter().map(|&rate| trainer.step(&batch, rate));
        let metrics: Vec<_> = metrics.collect::<Result<_, _>>()?;
        let losses: Vec<f32> = metrics.iter().map(|step| step.loss).collect();
        let norms: Vec<f32> = metrics.iter().map(|step| step.grad_norm).collect();
        rows.push("train.losses", &Literal::f32s([losses.len()], &losses), TRAINING)?;
        rows.push("train.grad_norms", &Literal::f32s([norms.len()], &norms), TRAINING)?;
        rows.push_all("train.", &self.named(&trainer.trained()?), TRAINING)?;
        Ok(trainer.take_warnings())
    }

    /// Compares gradients and training with one row of the batch at a time.
    fn compare_accumulation(
        &self,
        spec: StepSpec<'_>,
        engine: Engine,
        rows: &mut ParityRows<'_>,
    ) -> Result<BTreeSet<String>, TrainError> {
        let batches = self.batch.rows().into_iter();
        let batches: Vec<Batch> = batches.map(|row| row.pad_to_multiple(spec.workload.batch)).collect();
        let mut trainer = self.trainer(spec, engine)?;
        let (loss, gradients) = trainer.gradients(&batches)?;
        rows.push("accum.loss", &scalar(loss), LOSS)?;
        rows.push_all("accum.grad.", &self.named(&gradients), GRADIENT)?;
        self.start(&mut trainer)?;
        let rates = self.golden.get("train.lrs")?.to_f64s();
        let losses = rates.iter().map(|&rate| Ok(trainer.step_accumulated(&batches, rate)?.loss));
        let losses: Vec<f32> = losses.collect::<Result<_, TrainError>>()?;
        rows.rows.push(ParityRow {
            name: "accum.train.losses".into(),
            ..row("train.losses", &self.golden.get("train.losses")?.to_f64s(), &losses, TRAINING)
        });
        Ok(trainer.take_warnings())
    }

    fn trainer<'s>(&self, spec: StepSpec<'s>, engine: Engine) -> Result<Trainer<'s>, TrainError> {
        let mut trainer = Trainer::new(engine, spec, &self.model.checkpoint, |_| ())?;
        self.start(&mut trainer)?;
        Ok(trainer)
    }

    fn start(&self, trainer: &mut Trainer<'_>) -> Result<(), TrainError> {
        match &self.adapter {
            Some(adapter) => trainer.start(&adapter.factors),
            None => trainer.start(&TrainableValues::new()),
        }
    }

    /// The tensors of values, by their names in the case.
    fn named(&self, values: &TrainableValues) -> BTreeMap<String, Literal> {
        match &self.adapter {
            Some(adapter) => peft_tensors(values, &self.model.config, &adapter.plan),
            None => named_params(values, &self.model.config),
        }
    }
}

/// Reads the settings beside reference values and drops them.
///
/// # Errors
/// If they cannot be read, or one is missing.
#[cfg(fuzzing)]
pub fn check_settings(expected: &Path) -> Result<(), TrainError> {
    Golden { tensors: BTreeMap::new(), file: expected }.hyper().map(drop)
}

struct Golden<'a> {
    tensors: BTreeMap<String, Literal>,
    file: &'a Path,
}

impl Golden<'_> {
    fn get(&self, name: &str) -> Result<&Literal, TrainError> {
        self.tensors.get(name).ok_or_else(|| self.wrong(format!("`{name}` is missing")))
    }

    fn hyper(&self) -> Result<Hyper, TrainError> {
        let path = self.file.with_extension("json");
        let text = read_text(&path, "JSON")
            .map_err(|error| self.wrong(format!("the settings beside it, {}: {error}", path.display())))?;
        let info: Result<Info, _> = serde_json::from_str(&text);
        info.map(|info| info.optimizer).map_err(|error| TrainError::Setting {
            setting: Setting::Expected,
            problem: format!("{}: {error}", path.display()),
            hint: None,
        })
    }

    fn batch(&self, vocab: usize) -> Result<Batch, TrainError> {
        let (ids, labels) = (self.get("input_ids")?, self.get("labels")?);
        let same = ids.shape().dims == labels.shape().dims && ids.shape().rank() == 2;
        if !same || ids.shape().elements() == 0 {
            return Err(self.wrong(format!(
                "expected input_ids and labels of the same [batch, seq], found {} and {}",
                ids.shape(),
                labels.shape()
            )));
        }
        // A gather on the device would clamp an id past the end to the last one.
        let is_token = |id: f64| (0.0..vocab as f64).contains(&id);
        let is_label = |label: f64| label == f64::from(Batch::IGNORED) || is_token(label);
        let wrong = ids.to_f64s().into_iter().find(|&id| !is_token(id));
        let wrong = wrong.or_else(|| labels.to_f64s().into_iter().find(|&label| !is_label(label)));
        if let Some(id) = wrong {
            return Err(self.wrong(format!("expected token ids below {vocab}, found {id}")));
        }
        Ok(Batch::new(narrow(ids), narrow(labels)))
    }

    fn wrong(&self, problem: String) -> TrainError {
        let problem = format!("{}: {problem}", self.file.display());
        TrainError::Setting {
            setting: Setting::Expected,
            problem,
            hint: Some("tests/golden/generate.py makes a complete case".into()),
        }
    }
}

fn narrow(ids: &Literal) -> Literal {
    Literal::from_f64s(ids.shape().with_dtype(DType::S32), ids.to_f64s())
}

/// The first `rows` rows.
fn first_rows(literal: &Literal, rows: usize) -> Literal {
    let mut shape = literal.shape().clone();
    shape.dims[0] = rows;
    let bytes = literal.bytes()[..shape.bytes()].to_vec();
    Literal::from_bytes(shape, bytes)
}

fn scalar(value: f32) -> Literal {
    Literal::f32s([], &[value])
}

struct ParityRows<'a> {
    golden: &'a Golden<'a>,
    rows: Vec<ParityRow>,
}

impl ParityRows<'_> {
    fn push(&mut self, name: &str, ours: &Literal, limit: f64) -> Result<(), TrainError> {
        let golden = self.same_shape(name, ours)?.to_f64s();
        self.rows.push(row(name, &golden, &ours.to_f32s(), limit));
        Ok(())
    }

    fn max_abs(&mut self, name: &str, ours: &Literal, limit: f64) -> Result<(), TrainError> {
        let golden = self.same_shape(name, ours)?.to_f64s();
        let differences = golden.iter().zip(ours.to_f64s()).map(|(golden, ours)| (golden - ours).abs());
        // `max` would drop a NaN.
        let error = differences.fold(0.0, |most: f64, next| if next <= most { most } else { next });
        self.rows.push(ParityRow { name: format!("{name}.max_abs"), error, limit });
        Ok(())
    }

    /// Compares every computed tensor with its reference value; a reference value without a computed tensor is an error.
    fn push_all(
        &mut self,
        prefix: &str,
        ours: &BTreeMap<String, Literal>,
        limit: f64,
    ) -> Result<(), TrainError> {
        let golden = self.golden.tensors.keys().filter_map(|name| name.strip_prefix(prefix));
        // Tensors have the path of a module; losses and learning rates have none.
        let extra = golden.filter(|name| name.contains('.')).find(|name| !ours.contains_key(*name));
        if let Some(extra) = extra {
            return Err(self.golden.wrong(format!("`{prefix}{extra}` is not trained")));
        }
        ours.iter().try_for_each(|(name, tensor)| self.push(&format!("{prefix}{name}"), tensor, limit))
    }

    fn same_shape(&self, name: &str, ours: &Literal) -> Result<&Literal, TrainError> {
        let golden = self.golden.get(name)?;
        if golden.shape().dims != ours.shape().dims {
            let (expected, found) = (ours.shape(), golden.shape());
            return Err(self.golden.wrong(format!("expected `{name}` to be {expected}, found {found}")));
        }
        Ok(golden)
    }
}

fn row(name: &str, golden: &[f64], ours: &[f32], limit: f64) -> ParityRow {
    let square = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>();
    let difference = square(&mut golden.iter().zip(ours).map(|(golden, &ours)| golden - f64::from(ours)));
    let size = square(&mut golden.iter().copied());
    let error = if size == 0.0 { difference.sqrt() } else { (difference / size).sqrt() };
    ParityRow { name: name.to_owned(), error, limit }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_never_passes() {
        let nan = row("x", &[1.0], &[f32::NAN], 1e9);
        assert!(!nan.passed());
        assert!(row("x", &[1.0, 2.0], &[1.0, 2.0], 0.0).passed());
    }
}
