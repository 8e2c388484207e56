//! Our step against golden values: logits, loss, gradients, training, accumulation. `tests/golden/generate.py` says what
//! each tensor of a case is, and makes cases of the user's own models.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroUsize,
    path::Path,
};

use serde::{Deserialize, Serialize};

use super::{
    Model, TrainError, Trainer,
    adapter::{Factors, OpenedAdapter, open_adapter, peft_tensors},
};
use crate::{
    base::{DType, Literal, read_text},
    data::Batch,
    optim::AdamW,
    runtime::{Devices, Engine},
    step::{Packing, StepOptions, StepSpec, Workload},
    templates::TemplateLibrary,
    weights::{read_adapter, read_safetensors},
};

/// Where a case lies.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// The folder of the adapter, as PEFT writes it.
    pub adapter: &'a Path,
    /// The golden values; `expected.json` beside them says the optimizer's settings.
    pub expected: &'a Path,
}

/// One golden value and how far ours is from it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The golden tensor.
    pub name: String,
    /// Relative L2 norm of the difference (for `logits.max_abs`, its largest magnitude).
    pub error: f64,
    /// What is allowed.
    pub limit: f64,
}

impl Row {
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

/// What a case came to.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Every golden value.
    pub rows: Vec<Row>,
    /// What of the adapter was ignored or changed, and what plugins warned of while they compiled, each once.
    pub warnings: BTreeSet<String>,
}

/// Runs a case, computed as `options` says, and compares everything it has golden values for.
///
/// # Errors
/// If the case is not complete, or the device fails.
pub fn compare(
    model: &Model,
    case: Case<'_>,
    engine: impl Fn() -> Result<Engine, TrainError>,
    devices: &Devices,
    dtype: DType,
    options: impl Fn(Workload<'_>) -> Result<StepOptions, TrainError>,
    templates: &TemplateLibrary,
) -> Result<Comparison, TrainError> {
    let adapter = read_adapter(case.adapter)?;
    let folder = case.adapter.display().to_string();
    let OpenedAdapter { plan, factors, warnings: ignored } = open_adapter(adapter, &model.config, &folder)?;
    let golden = Golden { tensors: read_safetensors(case.expected)?, file: case.expected };
    let hyper = golden.hyper()?;
    let golden_batch = golden.batch(model.config.vocab_size)?;
    let parts = devices.batch_shards();
    let batch = golden_batch.pad_to_multiple(parts);
    let sizes = &batch.input_ids.shape().dims;
    let (config, (rows, seq)) = (&model.config, (sizes[0], sizes[1]));
    let workload = Workload { config, lora: &plan, dtype, batch: rows, seq, packing: Packing::Off };
    let mesh = devices.plan(workload)?;
    let spec = StepSpec {
        workload,
        options: options(workload)?,
        optimizer: AdamW {
            beta1: hyper.betas.0,
            beta2: hyper.betas.1,
            eps: hyper.eps,
            weight_decay: hyper.weight_decay,
        },
        max_grad_norm: hyper.clip,
        templates,
        mesh: mesh.as_ref(),
    };
    let peft = |factors: &Factors| peft_tensors(factors, &model.config, &plan);
    let mut rows = Rows { golden: &golden, rows: Vec::new() };

    let mut trainer = Trainer::new(engine()?, spec, &model.checkpoint, |_| ())?;
    trainer.start(&factors)?;
    let logits = first_rows(&trainer.logits(&batch.input_ids)?, golden_batch.input_ids.shape().dims[0]);
    rows.max_abs("logits", &logits, LOGITS)?;
    rows.push("logits", &logits, LOGITS)?;
    let (loss, gradients) = trainer.gradients(std::slice::from_ref(&batch))?;
    rows.push("loss", &scalar(loss), LOSS)?;
    rows.push_all("grad.", &peft(&gradients), GRADIENT)?;

    let rates = golden.get("train.lrs")?.to_f64s();
    let metrics = rates.iter().map(|&rate| trainer.step(&batch, rate));
    let metrics: Vec<_> = metrics.collect::<Result<_, _>>()?;
    let losses: Vec<f32> = metrics.iter().map(|step| step.loss).collect();
    let norms: Vec<f32> = metrics.iter().map(|step| step.grad_norm).collect();
    rows.push("train.losses", &Literal::f32s([losses.len()], &losses), TRAINING)?;
    rows.push("train.grad_norms", &Literal::f32s([norms.len()], &norms), TRAINING)?;
    rows.push_all("train.", &peft(&trainer.factors()?), TRAINING)?;

    // One model on the device at a time.
    let mut warnings = trainer.take_warnings();
    drop(trainer);
    // Its micro-batches are those of several calls.
    let options = StepOptions { micro_batches: NonZeroUsize::MIN, ..spec.options };
    let spec = StepSpec { workload: Workload { batch: parts, ..workload }, options, ..spec };
    let mut trainer = Trainer::new(engine()?, spec, &model.checkpoint, |_| ())?;
    trainer.start(&factors)?;
    let micro = golden_batch.rows().into_iter().map(|row| row.pad_to_multiple(parts));
    let micro: Vec<Batch> = micro.collect();
    let (loss, gradients) = trainer.gradients(&micro)?;
    rows.push("accum.loss", &scalar(loss), LOSS)?;
    rows.push_all("accum.grad.", &peft(&gradients), GRADIENT)?;
    trainer.start(&factors)?;
    let losses = rates.iter().map(|&rate| Ok(trainer.step_accumulated(&micro, rate)?.loss));
    let losses: Vec<f32> = losses.collect::<Result<_, TrainError>>()?;
    rows.rows.push(Row {
        name: "accum.train.losses".into(),
        ..row("train.losses", &golden.get("train.losses")?.to_f64s(), &losses, TRAINING)
    });
    warnings.append(&mut trainer.take_warnings());
    warnings.extend(ignored.iter().map(ToString::to_string));
    Ok(Comparison { rows: rows.rows, warnings })
}

/// Reads the settings beside golden values and drops what they say.
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
            setting: "--expected",
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
        // The device takes an id past the end for the last one.
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
            setting: "--expected",
            problem,
            hint: Some("tests/golden/generate.py makes a complete case".into()),
        }
    }
}

fn narrow(ids: &Literal) -> Literal {
    Literal::from_f64s(ids.shape().with_dtype(DType::S32), ids.to_f64s())
}

/// The first `rows` entries along the first dimension.
fn first_rows(literal: &Literal, rows: usize) -> Literal {
    let mut shape = literal.shape().clone();
    shape.dims[0] = rows;
    let bytes = literal.bytes()[..shape.bytes()].to_vec();
    Literal::from_bytes(shape, bytes)
}

fn scalar(value: f32) -> Literal {
    Literal::f32s([], &[value])
}

struct Rows<'a> {
    golden: &'a Golden<'a>,
    rows: Vec<Row>,
}

impl Rows<'_> {
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
        self.rows.push(Row { name: format!("{name}.max_abs"), error, limit });
        Ok(())
    }

    /// Every tensor of ours against the golden one, and every golden one against ours.
    fn push_all(
        &mut self,
        prefix: &str,
        ours: &BTreeMap<String, Literal>,
        limit: f64,
    ) -> Result<(), TrainError> {
        let golden = self.golden.tensors.keys().filter_map(|name| name.strip_prefix(prefix));
        let extra =
            golden.filter(|name| name.starts_with("base_model.")).find(|name| !ours.contains_key(*name));
        if let Some(extra) = extra {
            return Err(self.golden.wrong(format!("`{prefix}{extra}` belongs to no adapted module")));
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

fn row(name: &str, golden: &[f64], ours: &[f32], limit: f64) -> Row {
    let square = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>();
    let difference = square(&mut golden.iter().zip(ours).map(|(golden, &ours)| golden - f64::from(ours)));
    let size = square(&mut golden.iter().copied());
    let error = if size == 0.0 { difference.sqrt() } else { (difference / size).sqrt() };
    Row { name: name.to_owned(), error, limit }
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
