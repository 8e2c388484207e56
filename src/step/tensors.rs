//! The tensors of a step, with the names that mesh rules use.

use serde::{Deserialize, Serialize};

use super::Role;
use crate::{
    base::DType,
    mesh::{Dim, LogicalSharding, RuleSet, Tensor, TensorGroup, in_computation},
    model::{
        AdapterId, AdapterSpec, Config, Factor, Linear, LoraPlan, NamedDims, Param, ParamSpec,
        adapter_params, base_params, features,
    },
};

/// Model, adapters and batch, which determine the tensors of a step.
#[derive(Clone, Copy, Debug)]
pub struct Workload<'a> {
    /// The model.
    pub config: &'a Config,
    /// The adapters.
    pub lora: &'a LoraPlan,
    /// The element type of base weights and activations.
    pub dtype: DType,
    /// Rows of a batch.
    pub batch: usize,
    /// Positions of a row.
    pub seq: usize,
    /// Whether a row contains several samples.
    pub packing: Packing,
}

/// Whether a row of a batch contains one sample or several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Packing {
    /// One sample, followed by padding.
    #[default]
    Off,
    /// Several samples, each a segment of the row: a token attends to its own segment only ([`Role::SegmentIds`]).
    On,
}

/// A workload with its parameters.
pub(super) struct Catalog<'a> {
    pub workload: Workload<'a>,
    pub base: Vec<ParamSpec>,
    pub adapters: Vec<AdapterSpec>,
}

impl<'a> Catalog<'a> {
    pub(super) fn new(workload: Workload<'a>) -> Self {
        let Workload { config, lora, .. } = workload;
        Self { workload, base: base_params(config), adapters: adapter_params(config, lora) }
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = AdapterId> {
        self.adapters.iter().map(|spec| spec.id)
    }

    /// Frozen parameters, adapter factors and optimizer state, in the order of a program's arguments.
    pub(super) fn at_rest(&self) -> impl Iterator<Item = Role> {
        let base = self.base.iter().map(|spec| Role::Base(spec.param));
        base.chain(self.ids().map(Role::Adapter)).chain(self.optimizer())
    }

    /// Stacks that a layer reads a slice of: stacked parameters, then adapter factors.
    pub(super) fn stacks(&self) -> impl Iterator<Item = Role> {
        let stacked = self.base.iter().filter(|spec| spec.layers.is_some());
        stacked.map(|spec| Role::Base(spec.param)).chain(self.ids().map(Role::Adapter))
    }

    /// The linears with an adapter, in the order of their factors.
    pub(super) fn adapted(&self) -> impl Iterator<Item = Linear> {
        self.ids().filter(|id| id.factor == Factor::A).map(|id| id.linear)
    }

    pub(super) fn optimizer(&self) -> impl Iterator<Item = Role> {
        self.ids().map(Role::Moment1).chain(self.ids().map(Role::Moment2)).chain([Role::Updates])
    }

    /// The arrays of a batch that the forward pass reads.
    pub(super) fn rows(&self) -> impl Iterator<Item = Role> {
        let segments = (self.workload.packing == Packing::On).then_some(Role::SegmentIds);
        [Role::InputIds].into_iter().chain(segments)
    }

    /// The tensor of an argument or result.
    pub(super) fn tensor(&self, role: Role) -> Tensor {
        let &Workload { config, batch, seq, dtype, .. } = &self.workload;
        let (rows, vocab) = ((Dim::Batch, batch), (Dim::Vocab, config.vocab_size));
        let per_token = |features: &[(Dim, usize)]| [&[rows, (Dim::Seq, seq)], features].concat();
        let computed = |group, dims, dtype| Tensor {
            name: role.to_string(),
            group,
            dims,
            dtype,
            rules: RuleSet::Compute,
        };
        match role {
            Role::Base(param) => {
                let spec = self.base_spec(param);
                stored(spec.name.clone(), TensorGroup::Base, spec.dims(), dtype, spec.name.clone())
            }
            Role::Adapter(id) => self.factor("", TensorGroup::Adapter, id),
            Role::Moment1(id) => self.factor("m.", TensorGroup::Optimizer, id),
            Role::Moment2(id) => self.factor("v.", TensorGroup::Optimizer, id),
            Role::Gradient(id) => self.factor("grad.", TensorGroup::Gradient, id),
            Role::Updates => {
                stored("updates".into(), TensorGroup::Optimizer, vec![], DType::S32, "updates".into())
            }
            Role::InputIds | Role::Labels | Role::SegmentIds => {
                computed(TensorGroup::Batch, per_token(&[]), DType::S32)
            }
            Role::Position => computed(TensorGroup::Batch, vec![rows], DType::S32),
            Role::NumLabelTokens => computed(TensorGroup::Batch, vec![], DType::S32),
            Role::LearningRate | Role::Loss | Role::GradNorm => {
                computed(TensorGroup::Batch, vec![], DType::F32)
            }
            Role::Logits => computed(TensorGroup::Activation, per_token(&[vocab]), DType::F32),
            Role::NextLogits => computed(TensorGroup::Activation, vec![rows, vocab], DType::F32),
        }
    }

    /// The logical sharding of an argument or result.
    pub(super) fn logical_sharding(&self, role: Role) -> LogicalSharding {
        let Tensor { dims, rules, .. } = self.tensor(role);
        LogicalSharding { dims: dims.into_iter().map(|(dim, _)| dim).collect(), rules }
    }

    fn factor(&self, prefix: &str, group: TensorGroup, id: AdapterId) -> Tensor {
        let owner = &self.base_spec(Param::Weight(id.linear)).name;
        let module = owner.trim_end_matches(".weight");
        let spec =
            self.adapters.iter().find(|spec| spec.id == id).expect("roles are of adapters of the plan");
        let name = format!("{prefix}{module}{}", id.factor.tensor_suffix());
        stored(name, group, spec.dims.clone(), DType::F32, owner.clone())
    }

    fn base_spec(&self, param: Param) -> &ParamSpec {
        self.base.iter().find(|spec| spec.param == param).expect("roles are of parameters of the model")
    }
}

fn stored(name: String, group: TensorGroup, dims: NamedDims, dtype: DType, param: String) -> Tensor {
    Tensor { name, group, dims, dtype, rules: RuleSet::AtRest { param } }
}

/// The roles of the arguments and results of all programs of the step ([`StepKind`](super::StepKind)): base parameters, LoRA
/// factors, their gradients and moments, batches, scalars.
pub fn roles(workload: Workload<'_>) -> Vec<Role> {
    let catalog = Catalog::new(workload);
    let plain = [
        Role::InputIds,
        Role::Labels,
        Role::SegmentIds,
        Role::Position,
        Role::LearningRate,
        Role::NumLabelTokens,
        Role::Loss,
        Role::GradNorm,
        Role::Logits,
        Role::NextLogits,
    ];
    catalog.at_rest().chain(catalog.ids().map(Role::Gradient)).chain(plain).collect()
}

/// The tensors that a mesh config shards, for [`Loaded::plan`](crate::mesh::Loaded::plan): those stored between steps, the
/// arrays of the batch, the parameters with their compute shardings, and the main activations.
pub fn tensors(workload: Workload<'_>) -> Vec<Tensor> {
    let catalog = Catalog::new(workload);
    let mut tensors: Vec<Tensor> = catalog
        .at_rest()
        .chain(catalog.rows())
        .chain([Role::Labels])
        .map(|role| catalog.tensor(role))
        .collect();
    let computed = catalog.base.iter().map(|spec| Tensor {
        name: in_computation(&spec.name),
        group: TensorGroup::Activation,
        dims: spec.stored.concat(),
        dtype: workload.dtype,
        rules: RuleSet::Compute,
    });
    tensors.extend(computed);
    tensors.extend(activations(workload));
    tensors
}

fn activations(workload: Workload<'_>) -> impl Iterator<Item = Tensor> {
    let Workload { config, dtype, batch, seq, .. } = workload;
    let residual = ("residual".to_owned(), features(Linear::Query, config).input, dtype);
    let inner = [Linear::Query, Linear::Key, Linear::Value, Linear::Gate, Linear::Up];
    let inner = inner.map(|linear| (linear.name().to_owned(), features(linear, config).output, dtype));
    let logits = ("logits".to_owned(), vec![(Dim::Vocab, config.vocab_size)], DType::F32);
    [residual].into_iter().chain(inner).chain([logits]).map(move |(name, features, dtype)| Tensor {
        name: format!("activation.{name}"),
        group: TensorGroup::Activation,
        dims: [vec![(Dim::Batch, batch), (Dim::Seq, seq)], features].concat(),
        dtype,
        rules: RuleSet::Compute,
    })
}
