use super::{StepOptions, Workload};
use crate::{
    autodiff::AutodiffError,
    base::Diagnostics,
    mesh::Plan,
    optim::AdamW,
    templates::{self, TemplateError, TemplateLibrary},
};

/// The specification of a step.
///
/// ```
/// use std::num::NonZeroUsize;
///
/// use hloom::{
///     base::DType,
///     model::{Config, LoraSpec},
///     step::{self, Packing, StepKind, StepOptions, StepSpec, Workload},
///     templates::TemplateLibrary,
/// };
///
/// let config = Config::builtin("tiny")?;
/// let lora = LoraSpec::all_linear(8, 16.0).resolve(&config)?;
/// let templates = TemplateLibrary::embedded();
/// let workload =
///     Workload::new(&config, &lora, DType::BF16, 6, 16);
/// let options = StepOptions { micro_batches: NonZeroUsize::new(4).unwrap(), ..StepOptions::for_length(16) };
/// let spec = StepSpec { options, ..StepSpec::new(workload, &templates) };
/// let error = step::build(&spec, StepKind::Train).unwrap_err();
/// assert_eq!(error.to_string(), "micro_batches: expected a batch that 4 micro-batches divide, found 6");
/// # Ok::<(), hloom::base::Diagnostics>(())
/// ```
#[derive(Clone, Copy)]
pub struct StepSpec<'a> {
    /// Model, adapters and batch.
    pub workload: Workload<'a>,
    /// Time and memory trade-offs.
    pub options: StepOptions,
    /// The optimizer.
    pub optimizer: AdamW,
    /// Global norm that gradients are clipped to; infinity disables clipping.
    pub max_grad_norm: f64,
    /// The layer mathematics.
    pub templates: &'a TemplateLibrary,
    /// The shardings of every tensor on a mesh, which [`build`](super::build()) annotates the module with; `None` for a single
    /// device.
    pub mesh: Option<&'a Plan>,
}

impl<'a> StepSpec<'a> {
    /// A step on a single device with the default options and optimizer; gradients are clipped to a norm of one.
    pub fn new(workload: Workload<'a>, templates: &'a TemplateLibrary) -> Self {
        let options = StepOptions::for_length(workload.seq);
        Self { workload, options, optimizer: AdamW::default(), max_grad_norm: 1.0, templates, mesh: None }
    }
}

/// The programs of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StepKind {
    /// Forward, backward and update. Takes tokens, labels and the learning rate; returns the mean loss, the gradient norm
    /// and the number of labelled tokens.
    Train,
    /// One of several gradient accumulation steps: forward and backward, divided by the labelled tokens of all of them,
    /// which is an argument. Adds to the gradients and the loss of those before.
    Accumulate,
    /// The update with accumulated gradients, which are set to zero. Takes the learning rate and the number of labelled
    /// tokens; returns the gradient norm.
    Apply,
    /// Returns the mean loss of a batch and the number of labelled tokens.
    Evaluate,
    /// Returns the logits of every position.
    Logits,
    /// Returns the logits of one position of each row, which is an argument.
    NextLogits,
}

/// A step that cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// Invalid template.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// A template without a gradient.
    #[error(transparent)]
    Autodiff(#[from] AutodiffError),
    /// A module that does not verify, because of a template.
    #[error(transparent)]
    Build(#[from] Diagnostics),
}

impl StepError {
    /// A way to fix it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Template(error) => error.hint(),
            Self::Autodiff(error) => error.hint(),
            Self::Build(_) => Some(templates::FIT.to_owned()),
        }
    }
}
