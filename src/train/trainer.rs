use std::collections::{BTreeMap, BTreeSet};

use super::{TrainError, factors::TrainableValues};
use crate::{
    base::{ArrayShape, DType, Literal},
    data::Batch,
    model::{TrainableId, TrainableSpec, trainable_params},
    runtime::{CompiledStep, DeviceState, Engine, RuntimeError, StepResults, place_base, place_zeros},
    step::{Packing, Role, Slot, StepKind, StepSpec, Workload, build, slots},
    weights::Checkpoint,
};

/// A model on devices, with the programs of its step, which are compiled on first use.
pub struct Trainer<'a> {
    engine: Engine,
    spec: StepSpec<'a>,
    state: DeviceState,
    compiled: BTreeMap<StepKind, CompiledStep>,
    warnings: BTreeSet<String>,
}

/// Metrics of one update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepMetrics {
    /// Mean loss over the labelled tokens, before the update.
    pub loss: f32,
    /// Norm of the gradients before clipping.
    pub grad_norm: f32,
    /// Labelled tokens of the step; without any, the update changes nothing.
    pub num_label_tokens: usize,
}

impl<'a> Trainer<'a> {
    /// Copies a model's weights to the devices. `loaded` receives the bytes of each tensor.
    ///
    /// # Errors
    /// If a tensor cannot be read or copied.
    pub fn new(
        engine: Engine,
        spec: StepSpec<'a>,
        checkpoint: &Checkpoint,
        loaded: impl FnMut(usize),
    ) -> Result<Self, TrainError> {
        let mut state = DeviceState::default();
        place_base(&engine, &mut state, checkpoint, &spec, loaded)?;
        Ok(Self { engine, spec, state, compiled: BTreeMap::new(), warnings: BTreeSet::new() })
    }

    /// The specification of its programs.
    pub fn spec(&self) -> &StepSpec<'a> {
        &self.spec
    }

    /// Compiler warnings since the last call, without duplicates.
    pub fn take_warnings(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.warnings)
    }

    /// Copies values of trainable tensors to the devices, with a new optimizer state; those without a value keep theirs.
    ///
    /// # Errors
    /// If the plugin fails.
    pub fn start(&mut self, values: &TrainableValues) -> Result<(), TrainError> {
        values.iter().try_for_each(|(&id, value)| self.put(Role::Trainable(id), value))?;
        self.forget_gradients();
        self.put_zeros(Role::Moment1)?;
        self.put_zeros(Role::Moment2)?;
        self.put(Role::Updates, &Literal::s32s([], &[0]))
    }

    /// Copies a value to the slot of a role.
    ///
    /// # Errors
    /// If the plugin fails.
    pub fn put(&mut self, role: Role, literal: &Literal) -> Result<(), TrainError> {
        for slot in slots(&self.spec, [role]) {
            self.state.insert(role, self.engine.upload(&slot, literal)?);
        }
        Ok(())
    }

    /// Fills the slots of a role with zeros, for every trainable tensor.
    fn put_zeros(&mut self, role: impl Fn(TrainableId) -> Role) -> Result<(), TrainError> {
        let slots: Vec<Slot> = slots(&self.spec, self.trainable().iter().map(|spec| role(spec.id)));
        Ok(place_zeros(&self.engine, &mut self.state, &slots)?)
    }

    /// The trainable tensors.
    pub fn trainable(&self) -> Vec<TrainableSpec> {
        trainable_params(self.spec.workload.config, self.spec.workload.trainable)
    }

    /// The value of a role, copied from the device.
    ///
    /// # Errors
    /// If the slot is empty, or the plugin fails.
    pub fn get(&self, role: Role) -> Result<Literal, TrainError> {
        Ok(self.state.get(role)?.to_literal()?)
    }

    /// Uses a program that is compiled already.
    pub fn adopt(&mut self, program: StepKind, compiled: CompiledStep) {
        self.compiled.insert(program, compiled);
    }

    /// Compiles a program ahead of its first use.
    ///
    /// # Errors
    /// If it cannot be built or compiled.
    pub fn prepare(&mut self, program: StepKind) -> Result<&CompiledStep, TrainError> {
        if !self.compiled.contains_key(&program) {
            let workload = self.workload(program);
            let built = build(&StepSpec { workload, ..self.spec }, program)?;
            let compiled = self.engine.compile(built, self.spec.mesh)?;
            self.warnings.extend(compiled.warnings().iter().cloned());
            self.compiled.insert(program, compiled);
        }
        Ok(&self.compiled[&program])
    }

    /// The workload of a program: logits are computed for rows with one sample each.
    fn workload(&self, program: StepKind) -> Workload<'a> {
        let workload = self.spec.workload;
        match program {
            StepKind::NextLogits => Workload { batch: 1, packing: Packing::Off, ..workload },
            StepKind::Logits => Workload { packing: Packing::Off, ..workload },
            StepKind::Train | StepKind::Accumulate | StepKind::Apply | StepKind::Evaluate => workload,
        }
    }

    /// The arrays of a batch by role; a program uses those that are among its inputs.
    fn arrays<'b>(&self, batch: &'b Batch) -> [(Role, &'b Literal); 3] {
        let packing = self.spec.workload.packing;
        assert!(packing == Packing::On || !batch.is_packed(), "a packed batch for a step that packs nothing");
        [
            (Role::InputIds, &batch.input_ids),
            (Role::SegmentIds, &batch.segment_ids),
            (Role::Labels, &batch.labels),
        ]
    }

    /// One update from one batch.
    ///
    /// # Errors
    /// If the plugin fails.
    ///
    /// # Panics
    /// If a batch is packed and the step is built for rows with one sample.
    pub fn step(&mut self, batch: &Batch, learning_rate: f64) -> Result<StepMetrics, TrainError> {
        let learning_rate = Literal::scalar(DType::F32, learning_rate);
        let [ids, segments, labels] = self.arrays(batch);
        let inputs = [ids, segments, labels, (Role::LearningRate, &learning_rate)];
        let results = self.run(StepKind::Train, &inputs)?;
        Ok(StepMetrics {
            loss: scalar(&results, Role::Loss)?,
            grad_norm: scalar(&results, Role::GradNorm)?,
            num_label_tokens: scalar(&results, Role::NumLabelTokens)? as usize,
        })
    }

    /// One update from several batches: the mean is over the labelled tokens of all of them.
    ///
    /// # Errors
    /// If the plugin fails.
    ///
    /// # Panics
    /// If a batch is packed and the step is built for rows with one sample.
    pub fn step_accumulated(
        &mut self,
        batches: &[Batch],
        learning_rate: f64,
    ) -> Result<StepMetrics, TrainError> {
        let num_label_tokens: usize = batches.iter().map(|batch| batch.num_label_tokens).sum();
        let loss = self.accumulate(batches, num_label_tokens)?;
        let learning_rate = Literal::scalar(DType::F32, learning_rate);
        let count = Literal::scalar(DType::S32, num_label_tokens as f64);
        let inputs = [(Role::LearningRate, &learning_rate), (Role::NumLabelTokens, &count)];
        let results = self.run(StepKind::Apply, &inputs)?;
        Ok(StepMetrics { loss, grad_norm: scalar(&results, Role::GradNorm)?, num_label_tokens })
    }

    /// The gradients of the mean loss over the labelled tokens of `batches`, and that loss.
    ///
    /// # Errors
    /// If the plugin fails.
    ///
    /// # Panics
    /// If a batch is packed and the step is built for rows with one sample.
    pub fn gradients(&mut self, batches: &[Batch]) -> Result<(f32, TrainableValues), TrainError> {
        let num_label_tokens = batches.iter().map(|batch| batch.num_label_tokens).sum();
        self.put_zeros(Role::Gradient)?;
        let loss = self.accumulate(batches, num_label_tokens)?;
        let gradients = self.download(Role::Gradient)?;
        self.put_zeros(Role::Gradient)?;
        Ok((loss, gradients))
    }

    /// The mean loss over the labelled tokens of `batches`; zero if there are none.
    ///
    /// # Errors
    /// If the plugin fails.
    ///
    /// # Panics
    /// If a batch is packed and the step is built for rows with one sample.
    pub fn evaluate(&mut self, batches: impl IntoIterator<Item = Batch>) -> Result<f64, TrainError> {
        let (mut sum, mut num_label_tokens) = (0.0, 0.0);
        for batch in batches {
            let results = self.run(StepKind::Evaluate, &self.arrays(&batch))?;
            let weight = f64::from(scalar(&results, Role::NumLabelTokens)?);
            sum += f64::from(scalar(&results, Role::Loss)?) * weight;
            num_label_tokens += weight;
        }
        Ok(if num_label_tokens == 0.0 { 0.0 } else { sum / num_label_tokens })
    }

    /// `f32[batch, seq, vocab]` for `input_ids s32[batch, seq]`, one sample a row.
    ///
    /// # Errors
    /// If the plugin fails.
    pub fn logits(&mut self, input_ids: &Literal) -> Result<Literal, TrainError> {
        self.result(StepKind::Logits, &[(Role::InputIds, input_ids)], Role::Logits)
    }

    /// `f32[1, vocab]` at one position of a single row: `input_ids s32[1, seq]`, `position s32[1]`.
    ///
    /// # Errors
    /// If the plugin fails.
    pub fn next_logits(&mut self, input_ids: &Literal, position: &Literal) -> Result<Literal, TrainError> {
        let inputs = [(Role::InputIds, input_ids), (Role::Position, position)];
        self.result(StepKind::NextLogits, &inputs, Role::NextLogits)
    }

    /// Bytes in use on each device, as the plugin reports them, in device order.
    ///
    /// # Errors
    /// If the plugin does not report them.
    pub fn device_bytes(&self) -> Result<Vec<u64>, TrainError> {
        Ok(self.state.device_bytes()?)
    }

    /// The current values of the trainable tensors.
    ///
    /// # Errors
    /// If the plugin fails.
    pub fn trained(&self) -> Result<TrainableValues, TrainError> {
        self.download(Role::Trainable)
    }

    /// The value of a role for every trainable tensor.
    ///
    /// # Errors
    /// If the slot is empty, or the plugin fails.
    pub fn download(&self, role: impl Fn(TrainableId) -> Role) -> Result<TrainableValues, TrainError> {
        let specs = self.trainable();
        specs.into_iter().map(|spec| Ok((spec.id, self.get(role(spec.id))?))).collect()
    }

    /// Accumulates loss and gradients. After an error the gradients are removed, so that no partial sum is used.
    fn accumulate(&mut self, batches: &[Batch], num_label_tokens: usize) -> Result<f32, TrainError> {
        self.accumulate_all(batches, num_label_tokens).inspect_err(|_| self.forget_gradients())
    }

    fn forget_gradients(&mut self) {
        for spec in self.trainable() {
            self.state.remove(Role::Gradient(spec.id));
        }
    }

    fn accumulate_all(&mut self, batches: &[Batch], num_label_tokens: usize) -> Result<f32, TrainError> {
        let specs = self.trainable();
        let fresh = specs.first().is_some_and(|spec| self.state.get(Role::Gradient(spec.id)).is_err());
        if fresh {
            self.put_zeros(Role::Gradient)?;
        }
        self.put(Role::Loss, &Literal::zeros(ArrayShape::scalar(DType::F32)))?;
        let count = Literal::scalar(DType::S32, num_label_tokens as f64);
        for batch in batches {
            let [ids, segments, labels] = self.arrays(batch);
            let inputs = [ids, segments, labels, (Role::NumLabelTokens, &count)];
            self.run(StepKind::Accumulate, &inputs)?;
        }
        Ok(self.get(Role::Loss)?.get_f64(0) as f32)
    }

    fn result(
        &mut self,
        program: StepKind,
        inputs: &[(Role, &Literal)],
        role: Role,
    ) -> Result<Literal, TrainError> {
        let mut results = self.run(program, inputs)?;
        Ok(results.remove(&role).ok_or(RuntimeError::Missing { role })?)
    }

    fn run(&mut self, program: StepKind, inputs: &[(Role, &Literal)]) -> Result<StepResults, TrainError> {
        self.prepare(program)?;
        Ok(self.engine.run(&self.compiled[&program], &mut self.state, inputs)?)
    }
}

fn scalar(results: &StepResults, role: Role) -> Result<f32, TrainError> {
    let literal = results.get(&role).ok_or(RuntimeError::Missing { role })?;
    Ok(literal.get_f64(0) as f32)
}
