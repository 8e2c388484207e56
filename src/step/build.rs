use std::collections::BTreeMap;

use super::{Role, Slot, StepProgram, passes::mean};
use crate::{
    autodiff::AutodiffError,
    base::{ArrayShape, DType, Dim, Findings},
    hlo::{Alias, Builder, Comparison, ModuleBuilder, Value, verify},
    model::{
        AdapterId, AdapterSpec, Config, LoraPlan, Param, ParamSpec, adapter_params, base_params, llama,
        nn::{self, Scope},
    },
    optim::AdamW,
    templates::{Loom, TemplateError, Templates},
};

/// What a step is built from.
#[derive(Clone, Copy)]
pub struct StepSpec<'a> {
    /// The model.
    pub config: &'a Config,
    /// Which linears are adapted, and how.
    pub lora: &'a LoraPlan,
    /// The element type of base weights and activations.
    pub dtype: DType,
    /// Sequences of a batch.
    pub batch: usize,
    /// Positions of a sequence.
    pub seq: usize,
    /// The optimizer.
    pub optimizer: AdamW,
    /// The largest norm of the gradients; infinity clips nothing.
    pub max_grad_norm: f64,
    /// The layer mathematics.
    pub templates: &'a Templates,
}

/// The programs that can be built of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Program {
    /// Forward, backward and update in one. Takes tokens, labels and the learning rate; gives the mean loss, the norm of
    /// the gradients and how many positions counted.
    Train,
    /// Forward and backward of a micro-batch, divided by the positions that count in all of them, which it takes. Adds
    /// gradients and loss to those of the micro-batches before.
    Accumulate,
    /// The update with accumulated gradients, which are set back to zero. Takes the learning rate and the positions that
    /// counted; gives the norm of the gradients.
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
    Build(#[from] Findings),
}

impl StepError {
    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Template(error) => error.hint(),
            Self::Autodiff(error) => error.hint(),
            Self::Build(_) => {
                Some("a template given with --templates must keep its parameters and result".into())
            }
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
    let loom = Loom::new(spec.templates, &module);
    let weaver = Weaver::new(spec, &loom);
    let inputs = weaver.inputs(program);
    let mut outputs = Vec::new();
    let entry = module.try_define("step", |b| {
        let arguments: BTreeMap<Role, Value<'_>> = inputs
            .iter()
            .map(|slot| (slot.role, b.parameter(&slot.role.to_string(), slot.shape())))
            .collect();
        let results = weaver.program(program, b, &arguments)?;
        outputs = results.iter().map(|(role, _)| weaver.slot(*role)).collect();
        let values: Vec<Value<'_>> = results.into_iter().map(|(_, value)| value).collect();
        Ok::<_, StepError>(b.tuple(&values))
    })?;
    let aliases = outputs.iter().enumerate().filter_map(|(output, slot)| {
        let parameter = inputs.iter().position(|input| input.role == slot.role)?;
        Some(Alias { output, parameter })
    });
    let aliases = aliases.collect();
    let module = verify(module.finish("hloom_step", entry, aliases))?;
    Ok(StepProgram { module, inputs, outputs })
}

/// The step being woven.
pub(super) struct Weaver<'a> {
    pub spec: &'a StepSpec<'a>,
    pub scope: Scope<'a>,
    pub base: Vec<ParamSpec>,
    pub adapters: Vec<AdapterSpec>,
}

pub(super) type Arguments<'b> = BTreeMap<Role, Value<'b>>;
pub(super) type Results<'b> = Vec<(Role, Value<'b>)>;

impl<'a> Weaver<'a> {
    fn new(spec: &'a StepSpec<'a>, loom: &'a Loom<'a>) -> Self {
        let &StepSpec { config, lora, dtype, batch, seq, .. } = spec;
        Self {
            spec,
            scope: Scope { loom, config, t: dtype, batch, seq },
            base: base_params(config),
            adapters: adapter_params(config, lora),
        }
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = AdapterId> {
        self.adapters.iter().map(|spec| spec.id)
    }

    fn inputs(&self, program: Program) -> Vec<Slot> {
        let base = self.base.iter().map(|spec| Role::Base(spec.param));
        let adapters = || self.ids().map(Role::Adapter);
        let optimizer =
            || self.ids().map(Role::Moment1).chain(self.ids().map(Role::Moment2)).chain([Role::Updates]);
        let gradients = || self.ids().map(Role::Gradient);
        let roles: Vec<Role> = match program {
            Program::Train => base
                .chain(adapters())
                .chain(optimizer())
                .chain([Role::InputIds, Role::Labels, Role::LearningRate])
                .collect(),
            Program::Accumulate => base
                .chain(adapters())
                .chain(gradients())
                .chain([Role::Loss, Role::InputIds, Role::Labels, Role::Counted])
                .collect(),
            Program::Apply => adapters()
                .chain(optimizer())
                .chain(gradients())
                .chain([Role::LearningRate, Role::Counted])
                .collect(),
            Program::Evaluate => base.chain(adapters()).chain([Role::InputIds, Role::Labels]).collect(),
            Program::Logits => base.chain(adapters()).chain([Role::InputIds]).collect(),
            Program::NextLogits => base.chain(adapters()).chain([Role::InputIds, Role::Position]).collect(),
        };
        roles.into_iter().map(|role| self.slot(role)).collect()
    }

    fn slot(&self, role: Role) -> Slot {
        let &StepSpec { config, dtype, batch, seq, .. } = self.spec;
        let (batch, seq, vocab) = ((Dim::Batch, batch), (Dim::Seq, seq), (Dim::Vocab, config.vocab_size));
        let (dims, dtype) = match role {
            Role::Base(param) => {
                let spec = self.base.iter().find(|spec| spec.param == param);
                (spec.map(ParamSpec::dims).unwrap_or_default(), dtype)
            }
            Role::Adapter(id) | Role::Moment1(id) | Role::Moment2(id) | Role::Gradient(id) => {
                let spec = self.adapters.iter().find(|spec| spec.id == id);
                (spec.map(|spec| spec.dims.clone()).unwrap_or_default(), DType::F32)
            }
            Role::InputIds | Role::Labels => (vec![batch, seq], DType::S32),
            Role::Position => (vec![batch], DType::S32),
            Role::Updates | Role::Counted => (vec![], DType::S32),
            Role::LearningRate | Role::Loss | Role::GradNorm => (vec![], DType::F32),
            Role::Logits => (vec![batch, seq, vocab], DType::F32),
            Role::NextLogits => (vec![batch, vocab], DType::F32),
        };
        Slot { role, dims, dtype }
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
                let (loss, gradients) =
                    self.loss_and_gradients(b, arguments, targets.target, targets.counted)?;
                let (mut results, norm) = self.update(b, arguments, &gradients, targets.counted)?;
                results.extend([
                    (Role::Loss, loss),
                    (Role::GradNorm, norm),
                    (Role::Counted, targets.counted),
                ]);
                Ok(results)
            }
            Program::Accumulate => {
                let targets = nn::next_token(&self.scope, arguments[&Role::Labels])?;
                let (loss, gradients) =
                    self.loss_and_gradients(b, arguments, targets.target, arguments[&Role::Counted])?;
                let sums = gradients
                    .into_iter()
                    .map(|(id, value)| (Role::Gradient(id), arguments[&Role::Gradient(id)] + value));
                Ok(sums.chain([(Role::Loss, arguments[&Role::Loss] + loss)]).collect())
            }
            Program::Apply => {
                let gradients: Vec<(AdapterId, Value<'b>)> =
                    self.ids().map(|id| (id, arguments[&Role::Gradient(id)])).collect();
                let (mut results, norm) = self.update(b, arguments, &gradients, arguments[&Role::Counted])?;
                let zeroed =
                    gradients.iter().map(|(id, value)| (Role::Gradient(*id), b.full(value.array(), 0.0)));
                results.extend(zeroed);
                results.push((Role::GradNorm, norm));
                Ok(results)
            }
            Program::Evaluate => {
                let targets = nn::next_token(&self.scope, arguments[&Role::Labels])?;
                let x = self.forward(b, arguments)?;
                let head = self.head_loss(b.module())?;
                let sum = b.call(head, &self.head_arguments(arguments, x, targets.target));
                Ok(vec![(Role::Loss, mean(sum, targets.counted)), (Role::Counted, targets.counted)])
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
        let (norm, head) = (arguments[&Role::Base(Param::FinalNorm)], arguments[&self.head()]);
        Ok(llama::logits(scope, x, norm, head)?.convert(DType::F32))
    }

    /// The role of the matrix that gives logits.
    pub(super) fn head(&self) -> Role {
        let tied = self.scope.config.tie_word_embeddings;
        Role::Base(if tied { Param::Embed } else { Param::Head })
    }
}
