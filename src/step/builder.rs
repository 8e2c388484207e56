use std::collections::BTreeMap;

use super::{Packing, Role, StepSpec, Workload, tensors::Catalog};
use crate::{
    base::DType,
    hlo::{Builder, Value},
    model::{Param, nn::ModelScope},
    templates::Instantiator,
};

/// The arguments of a program.
pub(super) type StepArgs<'b> = BTreeMap<Role, Value<'b>>;

/// The results of a program, in order.
pub(super) type ResultValues<'b> = Vec<(Role, Value<'b>)>;

/// Builds the computations of a step.
pub(super) struct StepBuilder<'a> {
    pub spec: &'a StepSpec<'a>,
    pub scope: ModelScope<'a>,
    pub catalog: &'a Catalog<'a>,
}

impl<'a> StepBuilder<'a> {
    pub(super) fn new(
        spec: &'a StepSpec<'a>,
        catalog: &'a Catalog<'a>,
        instantiator: &'a Instantiator<'a>,
    ) -> Self {
        let Workload { config, dtype, batch, seq, .. } = spec.workload;
        let attention = spec.options.attention;
        let scope = ModelScope { templates: instantiator, config, t: dtype, batch, seq, attention };
        Self { spec, scope, catalog }
    }

    pub(super) fn num_layers(&self) -> usize {
        self.scope.config.num_hidden_layers
    }

    pub(super) fn is_packed(&self) -> bool {
        self.spec.workload.packing == Packing::On
    }

    /// The matrix that logits are computed with.
    pub(super) fn head_matrix(&self) -> Param {
        if self.scope.config.tie_word_embeddings { Param::Embed } else { Param::Head }
    }

    /// The name of that matrix in mesh rules.
    pub(super) fn head_param(&self) -> String {
        self.catalog.tensor(self.catalog.role(self.head_matrix())).name
    }

    /// A parameter outside the layers, in the compute type.
    pub(super) fn param<'b>(&self, args: &StepArgs<'b>, param: Param) -> Value<'b> {
        args[&self.catalog.role(param)].convert(self.scope.t)
    }
}

/// `number` as `s32[]`.
pub(super) fn index<'b>(b: &'b Builder<'b>, number: usize) -> Value<'b> {
    b.scalar(DType::S32, number as f64)
}

/// `sum` divided by the number of labelled tokens; by one if there are none.
pub(super) fn per_label_token<'b>(sum: Value<'b>, num_label_tokens: Value<'b>) -> Value<'b> {
    let one = sum.builder().scalar(DType::S32, 1.0);
    sum / num_label_tokens.max(one).convert(DType::F32)
}
