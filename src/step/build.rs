use std::collections::BTreeMap;

use super::{Role, Slot, StepOptions, StepProgram, Workload, passes::mean, tensors::Catalog};
use crate::{
    autodiff::AutodiffError,
    base::{ArrayShape, DType, Diagnostics, MemorySpace},
    hlo::{Alias, Builder, Comparison, ModuleBuilder, Sharding, Value, verify},
    mesh::{self, Plan},
    model::{
        AdapterId, Param, llama,
        nn::{self, Scope},
    },
    optim::AdamW,
    templates::{self, Instantiator, TemplateError, TemplateLibrary},
};

/// What a step is built from.
#[derive(Clone, Copy)]
pub struct StepSpec<'a> {
    /// What is trained.
    pub workload: Workload<'a>,
    /// How it is computed.
    pub options: StepOptions,
    /// The optimizer.
    pub optimizer: AdamW,
    /// The largest norm of the gradients; infinity clips nothing.
    pub max_grad_norm: f64,
    /// The layer mathematics.
    pub templates: &'a TemplateLibrary,
    /// The mesh that everything lies on; `None` for a single device.
    pub mesh: Option<&'a Plan>,
}

impl<'a> StepSpec<'a> {
    /// A step on a single device, with the default options and the usual optimizer, whose gradients are clipped to a norm of
    /// one.
    pub fn new(workload: Workload<'a>, templates: &'a TemplateLibrary) -> Self {
        let options = StepOptions::for_length(workload.seq);
        Self { workload, options, optimizer: AdamW::default(), max_grad_norm: 1.0, templates, mesh: None }
    }
}

/// The programs that can be built of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Program {
    /// Forward, backward and update in one. Takes tokens, labels and the learning rate; gives the mean loss, the norm of
    /// the gradients and the number of labelled tokens.
    Train,
    /// Forward and backward of a micro-batch, divided by the positions that count in all of them, which it takes. Adds
    /// gradients and loss to those of the micro-batches before.
    Accumulate,
    /// The update with accumulated gradients, which are set back to zero. Takes the learning rate and the positions that
    /// labelled tokens; gives the norm of the gradients.
    Apply,
    /// Gives the mean loss of a batch and the positions that count.
    Evaluate,
    /// Gives the logits of every position.
    Logits,
    /// Gives the logits of one position of each sequence, which it takes.
    NextLogits,
}

/// Why a step cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// A template is not right.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// A gradient cannot be derived, by reason of a template.
    #[error(transparent)]
    Autodiff(#[from] AutodiffError),
    /// The pieces do not fit together, by reason of a template.
    #[error(transparent)]
    Build(#[from] Diagnostics),
}

impl StepError {
    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Template(error) => error.hint(),
            Self::Autodiff(error) => error.hint(),
            Self::Build(_) => Some(templates::FIT.to_owned()),
        }
    }
}

/// Builds and verifies a program.
///
/// # Errors
/// Only by reason of the templates: everything else in `spec` has been checked before.
///
/// # Panics
/// If a program is to train a plan that adapts nothing.
pub fn build(spec: &StepSpec<'_>, program: Program) -> Result<StepProgram, StepError> {
    let module = ModuleBuilder::new();
    let templates = Instantiator::new(spec.templates, &module);
    let catalog = Catalog::new(spec.workload);
    let step = StepBuilder::new(spec, &catalog, &templates);
    let inputs = step.inputs(program);
    let mut outputs = Vec::new();
    let entry = module.try_define("step", |b| {
        let arguments: BTreeMap<Role, Value<'_>> = inputs
            .iter()
            .map(|slot| {
                let argument = b.parameter(&slot.role.to_string(), slot.padded_shape());
                (
                    slot.role,
                    argument
                        .with_logical_sharding(step.catalog.logical(slot.role))
                        .truncate_to(&slot.shape().dims),
                )
            })
            .collect();
        let results = step.program(program, b, &arguments)?;
        outputs = results.iter().map(|&(role, _)| slot(spec, &catalog, role)).collect();
        let values = results.into_iter().zip(&outputs).map(|((role, value), slot)| {
            value.pad_to(&slot.padded_shape().dims, 0.0).with_logical_sharding(step.catalog.logical(role))
        });
        Ok::<_, StepError>(b.tuple(&values.collect::<Vec<_>>()))
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

/// The argument or result with this role, of any program of the step.
pub fn slots(spec: &StepSpec<'_>, roles: impl IntoIterator<Item = Role>) -> Vec<Slot> {
    let catalog = Catalog::new(spec.workload);
    roles.into_iter().map(|role| slot(spec, &catalog, role)).collect()
}

fn slot(spec: &StepSpec<'_>, catalog: &Catalog<'_>, role: Role) -> Slot {
    let tensor = catalog.tensor(role);
    let sharding = spec.mesh.map_or(Sharding::Replicated, |plan| plan.assign(&tensor).sharding(&plan.mesh));
    Slot { role, dims: tensor.dims, dtype: tensor.dtype, sharding, memory: spec.options.memory(role) }
}

/// The step under construction.
pub(super) struct StepBuilder<'a> {
    pub spec: &'a StepSpec<'a>,
    pub scope: Scope<'a>,
    pub catalog: &'a Catalog<'a>,
}

pub(super) type Arguments<'b> = BTreeMap<Role, Value<'b>>;
pub(super) type Results<'b> = Vec<(Role, Value<'b>)>;

impl<'a> StepBuilder<'a> {
    fn new(spec: &'a StepSpec<'a>, catalog: &'a Catalog<'a>, templates: &'a Instantiator<'a>) -> Self {
        let Workload { config, dtype, batch, seq, .. } = spec.workload;
        let scope = Scope { templates, config, t: dtype, batch, seq, attention: spec.options.attention };
        Self { spec, scope, catalog }
    }

    fn inputs(&self, program: Program) -> Vec<Slot> {
        let Self { catalog, .. } = self;
        let adapters = || catalog.ids().map(Role::Adapter);
        let model = || catalog.base.iter().map(|spec| Role::Base(spec.param)).chain(adapters());
        let gradients = || catalog.ids().map(Role::Gradient);
        let rows = || catalog.rows();
        let roles: Vec<Role> = match program {
            Program::Train => {
                catalog.at_rest().chain(rows()).chain([Role::Labels, Role::LearningRate]).collect()
            }
            Program::Accumulate => model()
                .chain(gradients())
                .chain([Role::Loss])
                .chain(rows())
                .chain([Role::Labels, Role::NumLabelTokens])
                .collect(),
            Program::Apply => adapters()
                .chain(catalog.optimizer())
                .chain(gradients())
                .chain([Role::LearningRate, Role::NumLabelTokens])
                .collect(),
            Program::Evaluate => model().chain(rows()).chain([Role::Labels]).collect(),
            Program::Logits => model().chain(rows()).collect(),
            Program::NextLogits => model().chain(rows()).chain([Role::Position]).collect(),
        };
        roles.into_iter().map(|role| slot(self.spec, catalog, role)).collect()
    }

    fn program<'b>(
        &self,
        program: Program,
        b: &'b Builder<'b>,
        arguments: &Arguments<'b>,
    ) -> Result<Results<'b>, StepError> {
        match program {
            Program::Train => {
                let targets = nn::next_token(&self.scope, arguments[&Role::Labels])?;
                let (loss, gradients) = self.batch_loss_and_gradients(b, arguments, targets)?;
                let (mut results, norm) = self.update(b, arguments, &gradients, targets.num_label_tokens)?;
                results.extend([
                    (Role::Loss, loss),
                    (Role::GradNorm, norm),
                    (Role::NumLabelTokens, targets.num_label_tokens),
                ]);
                Ok(results)
            }
            Program::Accumulate => {
                let targets = nn::next_token(&self.scope, arguments[&Role::Labels])?;
                let targets = nn::NextToken { num_label_tokens: arguments[&Role::NumLabelTokens], ..targets };
                let (loss, gradients) = self.batch_loss_and_gradients(b, arguments, targets)?;
                let sums = gradients
                    .into_iter()
                    .map(|(id, value)| (Role::Gradient(id), arguments[&Role::Gradient(id)] + value));
                Ok(sums.chain([(Role::Loss, arguments[&Role::Loss] + loss)]).collect())
            }
            Program::Apply => {
                let gradients: Vec<(AdapterId, Value<'b>)> =
                    self.catalog.ids().map(|id| (id, arguments[&Role::Gradient(id)])).collect();
                let (mut results, norm) =
                    self.update(b, arguments, &gradients, arguments[&Role::NumLabelTokens])?;
                let zeroed =
                    gradients.iter().map(|(id, value)| (Role::Gradient(*id), b.full(value.array(), 0.0)));
                results.extend(zeroed);
                results.push((Role::GradNorm, norm));
                Ok(results)
            }
            Program::Evaluate => {
                let targets = nn::next_token(&self.scope, arguments[&Role::Labels])?;
                let sum = self.batch_loss(b, arguments, targets)?;
                Ok(vec![
                    (Role::Loss, mean(sum, targets.num_label_tokens)),
                    (Role::NumLabelTokens, targets.num_label_tokens),
                ])
            }
            Program::Logits => {
                let x = self.forward(b, arguments)?;
                Ok(vec![(Role::Logits, self.logits(&self.scope, arguments, x)?)])
            }
            Program::NextLogits => {
                let x = self.forward(b, arguments)?;
                let (batch, dim) = (self.scope.batch, self.scope.config.hidden_size);
                let at = self.at_position(x, arguments[&Role::Position]);
                let scope = Scope { seq: 1, ..self.scope };
                let logits = self.logits(&scope, arguments, at.reshape(&[batch, 1, dim]))?;
                Ok(vec![(Role::NextLogits, logits.reshape(&[batch, self.scope.config.vocab_size]))])
            }
        }
    }

    /// The row of `x [batch, seq, embed]` that each sequence's `position` names, as a sum over a mask, which is exact
    /// and needs no gather.
    fn at_position<'b>(&self, x: Value<'b>, position: Value<'b>) -> Value<'b> {
        let b = x.builder();
        let dims = x.dims();
        let seq = b.iota(ArrayShape::new(DType::S32, dims.clone()), 1);
        let here = seq.compare(Comparison::Eq, position.broadcast(&dims, &[0]));
        here.select(x, b.full(x.array(), 0.0)).sum(&[1])
    }

    fn logits<'b>(
        &self,
        scope: &Scope<'_>,
        arguments: &Arguments<'b>,
        x: Value<'b>,
    ) -> Result<Value<'b>, StepError> {
        let (norm, head) = (arguments[&Role::Base(Param::FinalNorm)], arguments[&self.head_role()]);
        Ok(llama::logits(scope, x, norm, head, &self.head_param())?.convert(DType::F32))
    }
}
