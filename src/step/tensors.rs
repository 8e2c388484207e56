//! The tensors of a step, with the names that mesh rules use.

use serde::{Deserialize, Serialize};

use super::Role;
use crate::{
    base::{DType, Scheme},
    mesh::{Dim, LogicalSharding, RuleSet, Tensor, TensorGroup, in_computation},
    model::{
        AdapterId, BaseStorage, Config, Factor, Linear, NamedDims, Param, ParamSpec, PartId, PartSpec,
        TrainableId, TrainableSet, TrainableSpec, base_params, features, trainable_params,
    },
};

/// Model, trainable set and batch, which determine the tensors of a step.
#[derive(Clone, Copy, Debug)]
pub struct Workload<'a> {
    /// The model.
    pub config: &'a Config,
    /// What is trained.
    pub trainable: TrainableSet<'a>,
    /// The element type of computation, which activations have.
    pub dtype: DType,
    /// How frozen parameters are stored.
    pub base: BaseStorage,
    /// Rows of a batch.
    pub batch: usize,
    /// Positions of a row.
    pub seq: usize,
    /// Whether a row contains several samples.
    pub packing: Packing,
}

impl<'a> Workload<'a> {
    /// A workload whose rows contain one sample each, with frozen parameters stored in the type of computation.
    pub fn new(
        config: &'a Config,
        trainable: impl Into<TrainableSet<'a>>,
        dtype: DType,
        batch: usize,
        seq: usize,
    ) -> Self {
        let (trainable, base) = (trainable.into(), BaseStorage::Plain(dtype));
        Self { config, trainable, dtype, base, batch, seq, packing: Packing::Off }
    }

    /// The role of a parameter of the base model as one array, frozen or trained.
    pub fn role(&self, param: Param) -> Role {
        if self.trainable.contains(param) {
            Role::Trainable(TrainableId::Param(param))
        } else {
            Role::Base(PartId::whole(param))
        }
    }

    /// The scheme by which a parameter is quantized; `None` if it is stored as one array, or trained.
    pub fn scheme(&self, param: Param) -> Option<Scheme> {
        self.base.scheme(param).filter(|_| !self.trainable.contains(param))
    }

    /// Bytes of the parameters of the base model as they are stored, on all devices of a mesh together.
    pub fn base_bytes(&self) -> u64 {
        let catalog = Catalog::new(*self);
        let stored = catalog.params.iter().flat_map(|spec| self.stored_roles(spec));
        stored.map(|role| catalog.tensor(role).shape().bytes() as u64).sum()
    }

    /// The roles of the arrays that store a parameter of the base model: several if it is quantized.
    pub fn stored_roles(&self, spec: &ParamSpec) -> Vec<Role> {
        match self.role(spec.param) {
            Role::Base(_) => {
                let parts = spec.parts(self.base, self.dtype);
                parts.into_iter().map(|part| Role::Base(part.id)).collect()
            }
            trained => vec![trained],
        }
    }
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
    /// Every parameter of the base model.
    pub params: Vec<ParamSpec>,
    pub trainable: Vec<TrainableSpec>,
}

impl<'a> Catalog<'a> {
    pub(super) fn new(workload: Workload<'a>) -> Self {
        let Workload { config, trainable, .. } = workload;
        Self { workload, params: base_params(config), trainable: trainable_params(config, trainable) }
    }

    /// The trainable tensors.
    pub(super) fn ids(&self) -> impl Iterator<Item = TrainableId> {
        self.trainable.iter().map(|spec| spec.id)
    }

    /// The trainable tensors with stacked layers.
    pub(super) fn stacked_ids(&self) -> impl Iterator<Item = TrainableId> {
        self.trainable.iter().filter(|spec| spec.is_stacked()).map(|spec| spec.id)
    }

    /// The parameters that are not trained.
    fn frozen(&self) -> impl Iterator<Item = &ParamSpec> {
        self.params.iter().filter(|spec| !self.workload.trainable.contains(spec.param))
    }

    /// The arrays that store frozen parameters, and trainable tensors.
    pub(super) fn model(&self) -> impl Iterator<Item = Role> {
        let frozen = self.frozen().flat_map(|spec| self.workload.stored_roles(spec));
        frozen.chain(self.ids().map(Role::Trainable))
    }

    /// The model and the optimizer state, in the order of a program's arguments.
    pub(super) fn at_rest(&self) -> impl Iterator<Item = Role> {
        self.model().chain(self.optimizer())
    }

    /// Stacks that a layer reads a slice of: the arrays that store frozen parameters, then trainable tensors.
    pub(super) fn stacks(&self) -> impl Iterator<Item = Role> {
        let stored = self.frozen_of_layers().flat_map(|spec| self.workload.stored_roles(spec));
        stored.chain(self.stacked_ids().map(Role::Trainable))
    }

    /// What a layer computes with: frozen parameters, each as one array, then trainable tensors.
    pub(super) fn layer_params(&self) -> impl Iterator<Item = Role> {
        let whole = self.frozen_of_layers().map(|spec| Role::Base(PartId::whole(spec.param)));
        whole.chain(self.stacked_ids().map(Role::Trainable))
    }

    fn frozen_of_layers(&self) -> impl Iterator<Item = &ParamSpec> {
        self.frozen().filter(|spec| spec.layers.is_some())
    }

    /// The scheme by which a parameter is quantized.
    pub(super) fn scheme(&self, role: Role) -> Option<(Param, Scheme)> {
        match role {
            Role::Base(PartId { param, part: None }) => Some((param, self.workload.scheme(param)?)),
            _ => None,
        }
    }

    /// The role of a parameter of the base model.
    pub(super) fn role(&self, param: Param) -> Role {
        self.workload.role(param)
    }

    /// The linears with an adapter, in the order of their factors.
    pub(super) fn adapted(&self) -> impl Iterator<Item = Linear> {
        self.ids().filter_map(|id| match id {
            TrainableId::Adapter(AdapterId { linear, factor: Factor::A }) => Some(linear),
            TrainableId::Adapter(_) | TrainableId::Param(_) => None,
        })
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
        let &Workload { config, batch, seq, .. } = &self.workload;
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
            Role::Base(id) => {
                let spec = self.base_spec(id.param);
                let PartSpec { dtype, dims, .. } = self.part_spec(spec, id);
                let part = id.part.map_or_else(String::new, |part| format!(".{}", part.name()));
                let name = format!("{}{part}", spec.name);
                stored(name, TensorGroup::Base, dims, dtype, spec.name.clone())
            }
            Role::Trainable(id) => {
                let group = match id {
                    TrainableId::Adapter(_) => TensorGroup::Adapter,
                    TrainableId::Param(_) => TensorGroup::Base,
                };
                self.trainable_tensor("", group, id, self.spec(id).dtype)
            }
            Role::Moment1(id) => {
                self.trainable_tensor("m.", TensorGroup::Optimizer, id, self.spec(id).moments)
            }
            Role::Moment2(id) => {
                self.trainable_tensor("v.", TensorGroup::Optimizer, id, self.spec(id).moments)
            }
            Role::Gradient(id) => self.trainable_tensor("grad.", TensorGroup::Gradient, id, DType::F32),
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

    fn trainable_tensor(&self, prefix: &str, group: TensorGroup, id: TrainableId, dtype: DType) -> Tensor {
        let owner = &self.base_spec(id.param()).name;
        let name = match id {
            TrainableId::Adapter(AdapterId { factor, .. }) => {
                format!("{}{}", owner.trim_end_matches(".weight"), factor.tensor_suffix())
            }
            TrainableId::Param(_) => owner.clone(),
        };
        stored(format!("{prefix}{name}"), group, self.spec(id).dims.clone(), dtype, owner.clone())
    }

    fn spec(&self, id: TrainableId) -> &TrainableSpec {
        self.trainable.iter().find(|spec| spec.id == id).expect("roles are of the trainable set")
    }

    /// The layout of an array that stores a parameter; whole, it has the compute type if it is quantized.
    fn part_spec(&self, spec: &ParamSpec, id: PartId) -> PartSpec {
        let Workload { base, dtype, .. } = self.workload;
        let stored = spec.parts(base, dtype).into_iter().find(|part| part.id == id);
        stored.unwrap_or_else(|| spec.whole(dtype))
    }

    fn base_spec(&self, param: Param) -> &ParamSpec {
        self.params.iter().find(|spec| spec.param == param).expect("roles are of parameters of the model")
    }
}

/// The parameters as a step computes with them. Of a quantized one the parts too, which are gathered before they are
/// dequantized.
fn computed<'c>(catalog: &'c Catalog<'_>) -> impl Iterator<Item = Tensor> + 'c {
    let tensor = |name: &str, dims: &NamedDims, dtype| Tensor {
        name: in_computation(name),
        group: TensorGroup::Activation,
        dims: dims.iter().copied().filter(|&(dim, _)| dim != Dim::Layers).collect(),
        dtype,
        rules: RuleSet::Compute,
    };
    catalog.params.iter().flat_map(move |spec| {
        let mut tensors = vec![tensor(&spec.name, &spec.dims(), catalog.workload.dtype)];
        for role in catalog.workload.stored_roles(spec) {
            if matches!(role, Role::Base(PartId { part: Some(_), .. })) {
                let Tensor { name, dims, dtype, .. } = catalog.tensor(role);
                tensors.push(tensor(&name, &dims, dtype));
            }
        }
        tensors
    })
}

fn stored(name: String, group: TensorGroup, dims: NamedDims, dtype: DType, param: String) -> Tensor {
    Tensor { name, group, dims, dtype, rules: RuleSet::AtRest { param } }
}

/// The roles of the arguments and results of all programs of the step ([`StepKind`](super::StepKind)): frozen parameters,
/// trainable tensors, their gradients and moments, batches, scalars.
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
    tensors.extend(computed(&catalog));
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
