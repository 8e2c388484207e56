use rayon::prelude::*;

use super::{Engine, RuntimeError, State};
use crate::{
    base::{ArrayShape, DType, Findings},
    model::{AdapterSpec, Config, ParamSpec, base_params, sizes},
    step::Role,
    weights::{Checkpoint, WeightsError},
};

/// Checks that the files hold every parameter of the model, of the right sizes, and nothing else that would matter.
///
/// # Errors
/// All problems at once.
pub fn check_weights(checkpoint: &Checkpoint, config: &Config) -> Result<(), Findings> {
    let expected: Vec<(String, Vec<usize>)> = base_params(config)
        .iter()
        .flat_map(|spec| {
            let sizes = spec.stored_sizes();
            spec.stored_names().into_iter().map(move |name| (name, sizes.clone()))
        })
        .collect();
    let expected = expected.iter().map(|(name, sizes)| (name.as_str(), sizes.as_slice()));
    checkpoint.check_names(expected, |name| {
        let tied_copy = config.tie_word_embeddings && name == "lm_head.weight";
        tied_copy || name.ends_with(".rotary_emb.inv_freq")
    })
}

/// Loads the frozen parameters onto the device, one stacked tensor at a time, straight from the mapped files. `loaded`
/// is told the bytes after each.
///
/// # Errors
/// If a tensor cannot be read or copied.
pub fn place_base(
    engine: &Engine,
    state: &mut State,
    checkpoint: &Checkpoint,
    config: &Config,
    dtype: DType,
    mut loaded: impl FnMut(usize),
) -> Result<(), RuntimeError> {
    for spec in base_params(config) {
        let shape = ArrayShape::new(dtype, sizes(&spec.dims()));
        let bytes = read_stack(checkpoint, &spec, dtype, shape.bytes())?;
        state.insert(Role::Base(spec.param), engine.upload_bytes(&bytes, &shape)?);
        loaded(shape.bytes());
    }
    Ok(())
}

fn read_stack(
    checkpoint: &Checkpoint,
    spec: &ParamSpec,
    dtype: DType,
    total: usize,
) -> Result<Vec<u8>, WeightsError> {
    let names = spec.stored_names();
    let window: Vec<_> = spec.stored_sizes().into_iter().map(|size| 0..size).collect();
    let mut bytes = vec![0; total];
    let each = total / names.len().max(1);
    bytes
        .par_chunks_mut(each.max(1))
        .zip(&names)
        .try_for_each(|(layer, name)| checkpoint.read(name, &window, dtype, layer))?;
    Ok(bytes)
}

/// Puts zeros under a role for every adapter factor: fresh moments, or gradients to add to.
///
/// # Errors
/// If the plugin fails.
pub fn place_zeros(
    engine: &Engine,
    state: &mut State,
    adapters: &[AdapterSpec],
    role: impl Fn(crate::model::AdapterId) -> Role,
) -> Result<(), RuntimeError> {
    for spec in adapters {
        let shape = ArrayShape::new(DType::F32, sizes(&spec.dims));
        state.insert(role(spec.id), engine.upload_bytes(&vec![0; shape.bytes()], &shape)?);
    }
    Ok(())
}
