use std::{borrow::Cow, collections::BTreeSet, ops::Range};

use rayon::prelude::*;

use super::{DeviceState, Engine, RuntimeError};
use crate::{
    base::{
        ArrayWindow, DType, Diagnostic, Diagnostics, Location, Scheme, at_origin, copy_window, full_window,
    },
    model::{Config, NamedDims, ParamSpec, base_params, sizes},
    step::{Slot, StepSpec, slots},
    weights::{Checkpoint, WeightsError},
};

const EMBED: &str = "model.embed_tokens.weight";
const HEAD: &str = "lm_head.weight";

/// Adapts tensor names and config to each other, with warnings. Names lose a common prefix, see [`Checkpoint::fit_names`].
/// With `tie_word_embeddings`, a head that differs from the embedding is untied, as in transformers; where only one of the
/// two is present, it serves as both.
///
/// # Errors
/// One diagnostic, if the names have another prefix and names are missing without it.
pub fn fit_config(checkpoint: &mut Checkpoint, config: &mut Config) -> Result<(), Diagnostics> {
    let names: Vec<String> = base_params(config).iter().flat_map(ParamSpec::stored_names).collect();
    let mut expected: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let mut optional = BTreeSet::new();
    if config.tie_word_embeddings {
        expected.remove(EMBED);
        optional.extend([EMBED, HEAD]);
    }
    checkpoint.fit_names(&expected, &optional)?;
    if !config.tie_word_embeddings {
        return Ok(());
    }
    let place = Location::file(checkpoint.path().display().to_string()).at(HEAD);
    match (checkpoint.get(EMBED), checkpoint.get(HEAD)) {
        (Some(_), Some(_)) if !checkpoint.same_values(EMBED, HEAD) => {
            config.tie_word_embeddings = false;
            let message = format!(
                "differs from `{EMBED}`, though `tie_word_embeddings` is true: it is used as a head of its own"
            );
            let hint =
                "set `tie_word_embeddings` to false in config.json, or remove the tensor if it is not meant";
            checkpoint.warn(Diagnostic::error(place, message).with_hint(hint));
        }
        (None, Some(_)) => {
            checkpoint.rename(HEAD, EMBED);
            let message =
                format!("used for `{EMBED}` too, which the files lack: `tie_word_embeddings` is true");
            checkpoint.warn(Diagnostic::error(place, message));
        }
        _ => {}
    }
    Ok(())
}

/// Checks that the checkpoint has every parameter of the model with the expected shape, and no unknown tensors.
///
/// # Errors
/// All problems at once.
pub fn check_weights(checkpoint: &Checkpoint, config: &Config) -> Result<(), Diagnostics> {
    let expected: Vec<(String, Vec<usize>)> = base_params(config)
        .iter()
        .flat_map(|spec| {
            let sizes = spec.stored_sizes();
            spec.stored_names().into_iter().map(move |name| (name, sizes.clone()))
        })
        .collect();
    let expected = expected.iter().map(|(name, sizes)| (name.as_str(), sizes.as_slice()));
    checkpoint.check_names(expected, |name| {
        let tied_copy = config.tie_word_embeddings && name == HEAD;
        tied_copy || name.ends_with(".rotary_emb.inv_freq")
    })
}

/// Loads the parameters of the base model onto the devices, one shard at a time from the mapped files. `loaded` receives
/// the size of each tensor in bytes.
///
/// # Errors
/// If a tensor cannot be read or copied.
pub fn place_base(
    engine: &Engine,
    state: &mut DeviceState,
    checkpoint: &Checkpoint,
    spec: &StepSpec<'_>,
    mut loaded: impl FnMut(usize),
) -> Result<(), RuntimeError> {
    let params = base_params(spec.workload.config);
    for param in &params {
        let scheme = spec.workload.scheme(param.param);
        let layers = scheme.map(|scheme| parts_of_layers(checkpoint, param, scheme)).transpose()?;
        let slots = slots(spec, spec.workload.stored_roles(param));
        for (part, slot) in slots.iter().enumerate() {
            let read = |window: &[Range<usize>], bytes: &mut [u8]| {
                match &layers {
                    Some(layers) => read_part(layers, part, slot, window, bytes),
                    None => read_stack(checkpoint, param, window, slot.dtype, bytes)?,
                }
                Ok(())
            };
            state.insert(slot.role, engine.place(slot, read)?);
            loaded(slot.shape().bytes());
        }
        param.stored_names().iter().try_for_each(|name| checkpoint.release(name))?;
    }
    Ok(())
}

/// The parts of each layer of a quantized parameter. Those that its file does not have are computed, one layer after the other.
fn parts_of_layers<'c>(
    checkpoint: &'c Checkpoint,
    param: &ParamSpec,
    scheme: Scheme,
) -> Result<Vec<Vec<Cow<'c, [u8]>>>, WeightsError> {
    let layer = |name: &String| {
        let parts = checkpoint.parts(name, scheme)?;
        if checkpoint.stored_scheme(name) != Some(scheme) {
            checkpoint.release(name)?;
        }
        Ok(parts)
    };
    param.stored_names().iter().map(layer).collect()
}

/// Copies a window of the stack of part `part` of every layer.
fn read_part(
    layers: &[Vec<Cow<'_, [u8]>>],
    part: usize,
    slot: &Slot,
    window: &[Range<usize>],
    out: &mut [u8],
) {
    let Some((range, window)) = window.split_first() else { return };
    let shape = slot.shape();
    let (extents, origin) = (window.iter().map(Range::len).collect::<Vec<_>>(), at_origin(window));
    let from = ArrayWindow { dims: &shape.dims[1..], ranges: window };
    let to = ArrayWindow { dims: &extents, ranges: &origin };
    let each = out.len() / range.len().max(1);
    let layers = out.par_chunks_mut(each.max(1)).zip(&layers[range.clone()]);
    layers.for_each(|(out, parts)| copy_window(&parts[part], from, out, to, shape.dtype.bytes()));
}

/// Fills slots with zeros: new moments, or gradients before accumulation.
///
/// # Errors
/// If the plugin fails.
pub fn place_zeros(engine: &Engine, state: &mut DeviceState, slots: &[Slot]) -> Result<(), RuntimeError> {
    for slot in slots {
        state.insert(slot.role, engine.place(slot, |_, _| Ok(()))?);
    }
    Ok(())
}

/// Reads a window of a parameter by its dimensions on the device, where layers are stacked.
fn read_stack(
    checkpoint: &Checkpoint,
    spec: &ParamSpec,
    window: &[Range<usize>],
    dtype: DType,
    out: &mut [u8],
) -> Result<(), WeightsError> {
    let names = spec.stored_names();
    let (names, window) = match (spec.layers, window.split_first()) {
        (Some(_), Some((layers, window))) => (&names[layers.clone()], window),
        _ => (&names[..], window),
    };
    let each = out.len() / names.len().max(1);
    let layers = out.par_chunks_mut(each.max(1)).zip(names);
    layers.try_for_each(|(layer, name)| read_layer(checkpoint, name, &spec.stored, window, dtype, layer))
}

/// Reads a window of one tensor by its named dimensions, several of which may form one dimension on disk.
fn read_layer(
    checkpoint: &Checkpoint,
    name: &str,
    stored: &[NamedDims],
    window: &[Range<usize>],
    dtype: DType,
    out: &mut [u8],
) -> Result<(), WeightsError> {
    let mut rest = window;
    let mut on_disk: Vec<Range<usize>> = vec![];
    // Shape of what is read, by named dimensions, and the requested window inside it.
    let (mut read, mut inside) = (vec![], vec![]);
    for parts in stored {
        let (ranges, later) = rest.split_at(parts.len());
        rest = later;
        let sizes = sizes(parts);
        let inner: usize = sizes[1..].iter().product();
        on_disk.push(ranges[0].start * inner..ranges[0].end * inner);
        read.extend([ranges[0].len()].into_iter().chain(sizes[1..].iter().copied()));
        inside.push(0..ranges[0].len());
        inside.extend(ranges[1..].iter().cloned());
    }
    if inside == full_window(&read) {
        return checkpoint.read(name, &on_disk, dtype, out);
    }
    let width = dtype.bytes();
    let mut bytes = vec![0; read.iter().product::<usize>() * width];
    checkpoint.read(name, &on_disk, dtype, &mut bytes)?;
    let (extents, origin) = (inside.iter().map(Range::len).collect::<Vec<_>>(), at_origin(&inside));
    let from = ArrayWindow { dims: &read, ranges: &inside };
    copy_window(&bytes, from, out, ArrayWindow { dims: &extents, ranges: &origin }, width);
    Ok(())
}
