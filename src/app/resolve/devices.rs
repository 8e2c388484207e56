use std::path::Path;

use anyhow::Context;

use crate::{
    app::{AppError, Parsed, settings::Settings},
    mesh::{self, Loaded},
    runtime::{DeviceMesh, DeviceMeshError},
    targets::{GpuMemory, Target},
};

/// The target, with its GPU memory settings.
///
/// # Errors
/// If it has no GPUs, or the fraction is invalid.
pub fn target(settings: &Settings) -> Result<Option<Parsed<Target>>, AppError> {
    let memory = GpuMemory { fraction: settings.memory_fraction, preallocate: settings.preallocate };
    if memory == GpuMemory::default() {
        return Ok(settings.target.clone());
    }
    let target = settings.target.as_ref().map(|word| word.0.clone()).unwrap_or_default();
    Ok(Some(Parsed(target.with_memory(memory).map_err(DeviceMeshError::from)?)))
}

/// Reads a mesh config file.
///
/// # Errors
/// If the file cannot be read. Its problems are part of the result.
pub fn load_mesh(path: &Path) -> Result<Loaded, AppError> {
    Ok(mesh::load(path).with_context(|| format!("cannot read the mesh config: {}", path.display()))?)
}

/// The devices to run on, and the mesh config for them.
///
/// # Errors
/// If the mesh config cannot be read, or there are several devices without one.
pub fn devices(target: Option<&Parsed<Target>>, mesh: Option<&Path>) -> Result<DeviceMesh, AppError> {
    let loaded = mesh.map(load_mesh).transpose()?;
    Ok(DeviceMesh::new(target.map(|word| word.0.clone()), loaded)?)
}
