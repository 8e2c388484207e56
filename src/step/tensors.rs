//! The tensors of a step, as meshes speak of them.

use crate::{
    base::{DType, Dim},
    mesh::{Group, Tensor, Use},
    model::{AdapterSpec, Config, Factor, LoraPlan, NamedDims, Param, adapter_params, base_params},
};

/// What decides the tensors of a step.
#[derive(Clone, Copy)]
pub struct TensorSpec<'a> {
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
}

/// Everything that a training step keeps on devices, then the batch's arrays and the main activations.
pub fn tensors(spec: &TensorSpec<'_>) -> Vec<Tensor> {
    let &TensorSpec { config, lora, dtype, .. } = spec;
    let base = base_params(config);
    let mut tensors: Vec<Tensor> = base
        .iter()
        .map(|param| Tensor {
            name: param.name.clone(),
            follows: None,
            group: Group::Base,
            dims: param.dims(),
            dtype,
            used: Use::Store,
        })
        .collect();
    let adapters = adapter_params(config, lora);
    let owner = |spec: &AdapterSpec| {
        let param = base.iter().find(|param| param.param == Param::Weight(spec.id.linear));
        param.map(|param| param.name.clone()).unwrap_or_default()
    };
    for (prefix, group) in [("", Group::Adapter), ("m.", Group::Optimizer), ("v.", Group::Optimizer)] {
        tensors.extend(adapters.iter().map(|spec| {
            let owner = owner(spec);
            let factor = match spec.id.factor {
                Factor::A => "lora_A",
                Factor::B => "lora_B",
            };
            let module = owner.strip_suffix(".weight").unwrap_or(&owner);
            Tensor {
                name: format!("{prefix}{module}.{factor}.weight"),
                group,
                dims: spec.dims.clone(),
                dtype: DType::F32,
                used: Use::Store,
                follows: Some(owner),
            }
        }));
    }
    tensors.push(Tensor {
        name: "updates".into(),
        follows: None,
        group: Group::Optimizer,
        dims: vec![],
        dtype: DType::S32,
        used: Use::Store,
    });
    tensors.extend(values(spec));
    tensors
}

fn values(spec: &TensorSpec<'_>) -> impl Iterator<Item = Tensor> {
    let &TensorSpec { config, dtype, batch, seq, .. } = spec;
    let features = |features: &[(Dim, usize)]| -> NamedDims {
        [&[(Dim::Batch, batch), (Dim::Seq, seq)], features].concat()
    };
    let head_dim = (Dim::HeadDim, config.head_dim);
    let keys = features(&[(Dim::KvHeads, config.num_key_value_heads), head_dim]);
    [
        ("input_ids", Group::Batch, features(&[]), DType::S32),
        ("labels", Group::Batch, features(&[]), DType::S32),
        ("activation.residual", Group::Activation, features(&[(Dim::Embed, config.hidden_size)]), dtype),
        (
            "activation.q",
            Group::Activation,
            features(&[(Dim::Heads, config.num_attention_heads), head_dim]),
            dtype,
        ),
        ("activation.k", Group::Activation, keys.clone(), dtype),
        ("activation.v", Group::Activation, keys, dtype),
        ("activation.mlp", Group::Activation, features(&[(Dim::Mlp, config.intermediate_size)]), dtype),
        ("activation.logits", Group::Activation, features(&[(Dim::Vocab, config.vocab_size)]), DType::F32),
    ]
    .into_iter()
    .map(|(name, group, dims, dtype)| Tensor {
        name: name.to_owned(),
        follows: None,
        group,
        dims,
        dtype,
        used: Use::Compute,
    })
}
