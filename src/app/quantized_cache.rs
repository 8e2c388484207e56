//! Weights that are quantized once: a folder in the store, in the format of bitsandbytes, which transformers loads too.

use std::{fs, path::Path};

use super::{AppError, Status};
use crate::{
    base::{DType, Scheme},
    model::{BaseStorage, Param, base_params},
    store::Store,
    train::Model,
    weights::{Checkpoint, FolderWriter, QuantizedWeight, StoredType, WeightsError, quantization_config},
};

/// Folder of the store that has a folder for each model and scheme.
const FOLDER: &str = "quantized";

/// Replaces the tensors of `model` by quantized ones of the store, which are made on first use: one weight after the other, so
/// that no more than one is in memory beside a shard of the file. Only formats of bitsandbytes are stored; other schemes, and
/// weights that are quantized in the model's own files, stay.
///
/// # Errors
/// If a weight cannot be read, or the folder cannot be written.
pub(super) fn quantized(
    model: &mut Model,
    base: BaseStorage,
    store: &Store,
    status: &mut dyn Status,
) -> Result<(), AppError> {
    let BaseStorage::Quantized(scheme @ (Scheme::Nf4 | Scheme::Nf4Double)) = base else { return Ok(()) };
    let params = base_params(&model.config);
    let weights = params.iter().filter(|spec| matches!(spec.param, Param::Weight(_)));
    let mut names = weights.flat_map(|spec| spec.stored_names());
    if names.all(|name| model.checkpoint.stored_scheme(&name) == Some(scheme)) {
        return Ok(());
    }
    let parent = store.root().join(FOLDER);
    let folder = parent.join(format!("{}-{}", &model.checkpoint.fingerprint()[..32], scheme.name()));
    if !folder.is_dir() {
        fs::create_dir_all(&parent).map_err(|source| WeightsError::Io {
            action: "create",
            path: parent.clone(),
            source,
        })?;
        write(model, scheme, &folder, status)?;
    }
    model.checkpoint = Checkpoint::open(&folder)?;
    Ok(())
}

fn write(model: &Model, scheme: Scheme, path: &Path, status: &mut dyn Status) -> Result<(), WeightsError> {
    let checkpoint = &model.checkpoint;
    let total = checkpoint.names().filter_map(|name| checkpoint.stored_bytes(name)).sum::<usize>() as u64;
    let (mut folder, mut done) = (FolderWriter::create(path)?, 0);
    for spec in base_params(&model.config) {
        for name in spec.stored_names() {
            status.fetched("quantizing", done, Some(total));
            let dtype = match checkpoint.get(&name).map(|info| &info.stored) {
                Some(&StoredType::Plain(dtype)) if dtype != DType::F64 => dtype,
                _ => DType::F32,
            };
            match (spec.param, &spec.stored_sizes()[..]) {
                (Param::Weight(_), &[rows, columns]) => {
                    let parts = checkpoint.parts(&name, scheme)?;
                    let parts: Vec<&[u8]> = parts.iter().map(AsRef::as_ref).collect();
                    let weight = QuantizedWeight { name: &name, scheme, rows, columns, dtype, parts: &parts };
                    folder.add_quantized(weight)?;
                }
                _ => folder.add(&name, checkpoint.literal(&name, dtype)?)?,
            }
            checkpoint.release(&name)?;
            done += checkpoint.stored_bytes(&name).unwrap_or(0) as u64;
        }
    }
    let mut config = model.files.config()?;
    config["quantization_config"] = quantization_config(&config, scheme);
    folder.finish(&model.files, &config)?;
    status.done();
    Ok(())
}
