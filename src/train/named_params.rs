use std::collections::BTreeMap;

use super::factors::TrainableValues;
use crate::{
    base::{ArrayShape, Literal},
    model::{Config, TrainableId, base_params},
};

/// The tensors of trained parameters (or of their gradients) by their Hugging Face names: each layer's of its own, with the
/// sizes on disk. Adapters are left out.
pub fn named_params(values: &TrainableValues, config: &Config) -> BTreeMap<String, Literal> {
    let mut tensors = BTreeMap::new();
    for spec in base_params(config) {
        let Some(value) = values.get(&TrainableId::Param(spec.param)) else { continue };
        let shape = ArrayShape::new(value.shape().dtype, spec.stored_sizes());
        let each = value.bytes().chunks(shape.bytes());
        let each = each.map(|bytes| Literal::from_bytes(shape.clone(), bytes.to_vec()));
        tensors.extend(spec.stored_names().into_iter().zip(each));
    }
    tensors
}
