use indexmap::IndexMap;

use super::{
    Role, Slot, StepError, StepKind, StepProgram, StepSpec,
    builder::{ResultValues, StepArgs, StepBuilder, per_label_token},
    scopes::{ARGUMENTS, FORWARD, FORWARD_HEAD, FORWARD_LOSS, GRADIENT_ACCUMULATION, RESULTS},
    tensors::Catalog,
};
use crate::{
    autodiff::VjpTable,
    base::{ArrayShape, DType, MemorySpace},
    hlo::{Alias, Builder, ComparisonDirection, ModuleBuilder, OpMetadata, Sharding, Value, verify},
    mesh,
    mesh::WithLogicalSharding,
    model::{
        Param, llama,
        nn::{self, ModelScope, NextToken},
    },
    templates::Instantiator,
};

/// Builds a program, annotates it with the shardings of `spec.mesh`, and verifies it. The result needs no further
/// [`mesh::annotate`].
///
/// # Errors
/// If a template is invalid or does not fit, or `micro_batches` does not divide the batch. The constructors of the parts of
/// `spec` check everything else.
///
/// # Panics
/// If a program that trains is built from an empty trainable set.
pub fn build(spec: &StepSpec<'_>, kind: StepKind) -> Result<StepProgram, StepError> {
    let (module, vjps) = (ModuleBuilder::new(), VjpTable::default());
    let templates = Instantiator::new(spec.templates, &module, &vjps);
    let catalog = Catalog::new(spec.workload);
    let step = StepBuilder::new(spec, &catalog, &templates);
    let inputs = step.inputs(kind);
    let mut outputs = Vec::new();
    let entry = module.try_define("step", |b| {
        let args: StepArgs<'_> = inputs
            .iter()
            .map(|slot| {
                let name = slot.role.to_string();
                let metadata = OpMetadata::default().nested(&name);
                let argument = b.parameter(&name, slot.padded_shape()).with_metadata(metadata);
                let argument = argument.with_logical_sharding(catalog.logical_sharding(slot.role));
                let truncated = || argument.truncate_to(&slot.shape().dims);
                (slot.role, b.root_scope(ARGUMENTS, || b.named_scope(&name, truncated)))
            })
            .collect();
        let results = step.program(kind, b, &args)?;
        outputs = results.iter().map(|&(role, _)| slot(spec, &catalog, role)).collect();
        let values = results.into_iter().zip(&outputs).map(|((role, value), slot)| {
            let padded = || value.pad_to(&slot.padded_shape().dims, 0.0);
            let padded = b.named_scope(&role.to_string(), padded);
            padded.with_logical_sharding(catalog.logical_sharding(role))
        });
        Ok::<_, StepError>(b.root_scope(RESULTS, || b.tuple(&values.collect::<Vec<_>>())))
    })?;
    let aliases = outputs.iter().enumerate().filter_map(|(output, slot)| {
        let parameter = inputs.iter().position(|input| input.role == slot.role)?;
        Some(Alias { output, parameter })
    });
    let aliases = aliases.collect();
    let mut module = module.finish("hloom_step", entry, aliases);
    let on_host = inputs.iter().enumerate().filter(|(_, slot)| slot.memory == MemorySpace::Host);
    module.host_parameters = on_host.map(|(number, _)| number).collect();
    let module = match spec.mesh {
        Some(plan) => mesh::annotate(module, plan),
        None => module,
    };
    Ok(StepProgram { module: verify(module)?, inputs, outputs })
}

/// The slot of each role: dimensions, dtype, sharding and memory space of an argument or result of the step.
pub fn slots(spec: &StepSpec<'_>, roles: impl IntoIterator<Item = Role>) -> Vec<Slot> {
    let catalog = Catalog::new(spec.workload);
    roles.into_iter().map(|role| slot(spec, &catalog, role)).collect()
}

fn slot(spec: &StepSpec<'_>, catalog: &Catalog<'_>, role: Role) -> Slot {
    let tensor = catalog.tensor(role);
    let sharding = spec.mesh.map_or(Sharding::Replicated, |plan| plan.assign(&tensor).sharding(&plan.mesh));
    Slot { role, dims: tensor.dims, dtype: tensor.dtype, sharding, memory: spec.options.memory(role) }
}

impl StepBuilder<'_> {
    fn inputs(&self, kind: StepKind) -> Vec<Slot> {
        let Self { catalog, .. } = self;
        let gradients = || catalog.ids().map(Role::Gradient);
        let rows = || catalog.rows();
        let roles: Vec<Role> = match kind {
            StepKind::Train => {
                catalog.at_rest().chain(rows()).chain([Role::Labels, Role::LearningRate]).collect()
            }
            StepKind::Accumulate => catalog
                .model()
                .chain(gradients())
                .chain([Role::Loss])
                .chain(rows())
                .chain([Role::Labels, Role::NumLabelTokens])
                .collect(),
            StepKind::Apply => catalog
                .ids()
                .map(Role::Trainable)
                .chain(catalog.optimizer())
                .chain(gradients())
                .chain([Role::LearningRate, Role::NumLabelTokens])
                .collect(),
            StepKind::Evaluate => catalog.model().chain(rows()).chain([Role::Labels]).collect(),
            StepKind::Logits => catalog.model().chain(rows()).collect(),
            StepKind::NextLogits => catalog.model().chain(rows()).chain([Role::Position]).collect(),
        };
        roles.into_iter().map(|role| slot(self.spec, catalog, role)).collect()
    }

    fn program<'b>(
        &self,
        kind: StepKind,
        b: &'b Builder<'b>,
        args: &StepArgs<'b>,
    ) -> Result<ResultValues<'b>, StepError> {
        match kind {
            StepKind::Train => self.train(b, args),
            StepKind::Accumulate => self.accumulate(b, args),
            StepKind::Apply => self.apply(b, args),
            StepKind::Evaluate => self.evaluate(b, args),
            StepKind::Logits => {
                let x = self.forward(b, args)?;
                Ok(vec![(Role::Logits, b.root_scope(FORWARD_HEAD, || self.logits(&self.scope, args, x))?)])
            }
            StepKind::NextLogits => self.next_logits(b, args),
        }
    }

    fn train<'b>(&self, b: &'b Builder<'b>, args: &StepArgs<'b>) -> Result<ResultValues<'b>, StepError> {
        let targets = self.targets(b, args)?;
        let (loss, gradients) = self.batch_loss_and_gradients(b, args, targets)?;
        let (mut results, norm) = self.update(b, args, &gradients, targets.num_label_tokens)?;
        results.extend([
            (Role::Loss, loss),
            (Role::GradNorm, norm),
            (Role::NumLabelTokens, targets.num_label_tokens),
        ]);
        Ok(results)
    }

    fn accumulate<'b>(&self, b: &'b Builder<'b>, args: &StepArgs<'b>) -> Result<ResultValues<'b>, StepError> {
        let targets = self.targets(b, args)?;
        let targets = NextToken { num_label_tokens: args[&Role::NumLabelTokens], ..targets };
        let (loss, gradients) = self.batch_loss_and_gradients(b, args, targets)?;
        b.root_scope(GRADIENT_ACCUMULATION, || {
            let loss = (Role::Loss, args[&Role::Loss] + loss);
            let gradients = gradients.into_iter().map(|(id, value)| (Role::Gradient(id), value));
            let sums = gradients.map(|(role, value)| (role, args[&role] + value));
            Ok(sums.chain([loss]).collect())
        })
    }

    fn apply<'b>(&self, b: &'b Builder<'b>, args: &StepArgs<'b>) -> Result<ResultValues<'b>, StepError> {
        let gradients: IndexMap<_, _> =
            self.catalog.ids().map(|id| (id, args[&Role::Gradient(id)])).collect();
        let (mut results, norm) = self.update(b, args, &gradients, args[&Role::NumLabelTokens])?;
        let zeroed = gradients.iter().map(|(id, value)| (Role::Gradient(*id), b.full(value.array(), 0.0)));
        b.root_scope(GRADIENT_ACCUMULATION, || results.extend(zeroed));
        results.push((Role::GradNorm, norm));
        Ok(results)
    }

    fn evaluate<'b>(&self, b: &'b Builder<'b>, args: &StepArgs<'b>) -> Result<ResultValues<'b>, StepError> {
        let targets = self.targets(b, args)?;
        let sum = self.batch_loss(b, args, targets)?;
        Ok(vec![
            (Role::Loss, b.root_scope(FORWARD_LOSS, || per_label_token(sum, targets.num_label_tokens))),
            (Role::NumLabelTokens, targets.num_label_tokens),
        ])
    }

    fn targets<'b>(&self, b: &'b Builder<'b>, args: &StepArgs<'b>) -> Result<NextToken<'b>, StepError> {
        Ok(b.root_scope(FORWARD, || nn::next_token(&self.scope, args[&Role::Labels]))?)
    }

    fn next_logits<'b>(
        &self,
        b: &'b Builder<'b>,
        args: &StepArgs<'b>,
    ) -> Result<ResultValues<'b>, StepError> {
        let ModelScope { batch, config, .. } = self.scope;
        let x = self.forward(b, args)?;
        b.root_scope(FORWARD_HEAD, || {
            let at = self.at_position(x, args[&Role::Position]).reshape(&[batch, 1, config.hidden_size]);
            let logits = self.logits(&ModelScope { seq: 1, ..self.scope }, args, at)?;
            Ok(vec![(Role::NextLogits, logits.reshape(&[batch, config.vocab_size]))])
        })
    }

    /// `x [batch, seq, embed]` at one `position s32[batch]` of each row, `[batch, embed]`: a sum over a mask, which is exact
    /// and needs no gather.
    fn at_position<'b>(&self, x: Value<'b>, position: Value<'b>) -> Value<'b> {
        let b = x.builder();
        let dims = x.dims();
        let seq = b.iota(ArrayShape::new(DType::S32, dims.clone()), 1);
        let here = seq.compare(ComparisonDirection::Eq, position.broadcast(&dims, &[0]));
        here.select(x, b.full(x.array(), 0.0)).sum(&[1])
    }

    fn logits<'b>(
        &self,
        scope: &ModelScope<'_>,
        args: &StepArgs<'b>,
        x: Value<'b>,
    ) -> Result<Value<'b>, StepError> {
        let (norm, head) = (self.param(args, Param::FinalNorm), self.param(args, self.head_matrix()));
        Ok(llama::logits(scope, x, norm, head, &self.head_param())?.convert(DType::F32))
    }
}
