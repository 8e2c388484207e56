use std::{
    collections::BTreeMap,
    fs, io,
    path::{Component, Path, PathBuf},
};

use serde_json::Value;

use super::{
    BundleError, MANIFEST, MANIFEST_SHA256, MESH, MODULE, Manifest, ModuleInputs, SlotRecord, TargetBuild,
    sha256,
};
use crate::{
    base::{FileKind, Setting, Shape},
    hlo::{Verified, proto, verify},
    model::Config,
    step::{Role, Slot, StepProgram, StepSpec, roles, slots},
};

/// Files of a bundle to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Everything.
    All,
    /// The module and the mesh config: executables are compiled from the module rather than read.
    Module,
}

/// A bundle whose files match the digests in its manifest. The digests do not authenticate its author; see the
/// [module's text](super).
///
/// # Examples
/// ```
/// use hloom::runtime::bundle::{Bundle, Contents};
///
/// let folder = tempfile::tempdir()?;
/// let error = Bundle::open(folder.path(), Contents::All).unwrap_err();
/// assert!(error.to_string().ends_with("it has no manifest.json"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Bundle {
    folder: PathBuf,
    manifest: Manifest,
    contents: Contents,
}

impl Bundle {
    /// Reads the manifest of the bundle in `folder`, and checks the digest of every file of `contents`.
    ///
    /// # Errors
    /// If it is not a bundle, if a file is missing or has changed, or if the module does not match the manifest.
    pub fn open(folder: &Path, contents: Contents) -> Result<Self, BundleError> {
        let manifest = read_manifest(folder)?;
        let bundle = Self { folder: folder.to_owned(), manifest, contents };
        let is_used = |name: &&String| contents == Contents::All || [MODULE, MESH].contains(&name.as_str());
        for name in bundle.manifest.files.keys().filter(is_used) {
            bundle.read(name)?;
        }
        bundle.check_batch(&bundle.module()?)?;
        Ok(bundle)
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Its manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Path of its mesh config, if it has one.
    pub fn mesh(&self) -> Option<PathBuf> {
        self.manifest.files.contains_key(MESH).then(|| self.folder.join(MESH))
    }

    /// The text of its mesh config.
    ///
    /// # Errors
    /// If it cannot be read, or has changed.
    pub fn mesh_text(&self) -> Result<Option<String>, BundleError> {
        let read = |_| Ok(String::from_utf8_lossy(&self.read(MESH)?).into_owned());
        self.mesh().map(read).transpose()
    }

    /// Checks that a model's configuration is that of the bundle.
    ///
    /// # Errors
    /// The first field of the configuration that differs.
    pub fn check_model(&self, config: &Config) -> Result<(), BundleError> {
        let found = serde_json::to_value(config).unwrap_or_default();
        let made = &self.manifest.made.config;
        let names = found.as_object().into_iter().chain(made.as_object()).flat_map(|object| object.keys());
        let field = |object: &Value, name: &str| object.get(name).cloned().unwrap_or_default();
        for name in names {
            let (made, found) = (field(made, name), field(&found, name));
            if made != found {
                let setting = format!("{}: `{name}` of {}", Setting::Model, self.manifest.made.model);
                return Err(BundleError::Differs {
                    setting,
                    made: made.to_string(),
                    found: found.to_string(),
                });
            }
        }
        Ok(())
    }

    /// The module with its slots, which must be those of `spec`.
    ///
    /// # Errors
    /// If the module cannot be read; or the first slot with another shape or sharding.
    pub fn program(&self, spec: &StepSpec<'_>) -> Result<StepProgram, BundleError> {
        let module = self.module()?;
        let known: BTreeMap<String, Slot> =
            slots(spec, roles(spec.workload)).into_iter().map(|slot| (slot.role.to_string(), slot)).collect();
        let resolve = |records: &[SlotRecord]| {
            let slot = |record: &SlotRecord| {
                let slot = known.get(&record.role);
                let slot = slot.ok_or_else(|| self.odd(format!("unknown role: {}", record.role)))?;
                let found = SlotRecord::of(slot);
                if found != *record {
                    let lies = |record: &SlotRecord| format!("{} as {}", record.shape, record.sharding);
                    let (made, found) = (lies(record), lies(&found));
                    return Err(BundleError::Differs { setting: format!("`{}`", record.role), made, found });
                }
                Ok(slot.clone())
            };
            records.iter().map(slot).collect::<Result<Vec<Slot>, BundleError>>()
        };
        let (inputs, outputs) = (resolve(&self.manifest.inputs)?, resolve(&self.manifest.outputs)?);
        let entry = module.module().entry();
        let results = entry.result().as_tuple().unwrap_or_default().iter().collect();
        self.check_shapes("arguments", &inputs, entry.parameter_shapes())?;
        self.check_shapes("results", &outputs, results)?;
        Ok(StepProgram { module, inputs, outputs })
    }

    /// The build for a target.
    pub fn build(&self, target: &str) -> Option<&TargetBuild> {
        self.manifest.targets.iter().find(|build| build.target == target)
    }

    /// The executable for a target, if it is to be used and the plugin with this SHA-256 compiled it.
    ///
    /// # Errors
    /// If it cannot be read, or has changed.
    pub fn executable(&self, target: &str, plugin_sha256: &str) -> Result<Option<Vec<u8>>, BundleError> {
        let build = self.build(target).filter(|build| build.plugin.sha256 == plugin_sha256);
        let name = build.and_then(|build| build.executable.as_ref());
        name.filter(|_| self.contents == Contents::All).map(|name| self.read(name)).transpose()
    }

    /// The module, verified.
    fn module(&self) -> Result<Verified, BundleError> {
        let path = self.folder.join(MODULE);
        let module =
            proto::decode(&self.read(MODULE)?).map_err(|source| BundleError::Module { path, source })?;
        verify(module).map_err(|diagnostics| self.odd(format!("{MODULE}: {diagnostics}")))
    }

    /// Checks that batch size and sequence length of the manifest are those of the module.
    fn check_batch(&self, module: &Verified) -> Result<(), BundleError> {
        let ModuleInputs { batch, seq, .. } = self.manifest.made;
        let role = Role::InputIds.to_string();
        let number = self.manifest.inputs.iter().position(|record| record.role == role);
        let shapes = module.module().entry().parameter_shapes();
        let shape = number.and_then(|number| shapes.get(number)?.as_array());
        // Sharding may pad a sequence.
        let is_length = |positions| positions == seq || (self.mesh().is_some() && positions > seq && seq > 1);
        match shape.map(|shape| &shape.dims[..]) {
            Some(&[rows, positions]) if rows == batch && is_length(positions) => Ok(()),
            _ => {
                let found = shape.map_or("none".to_owned(), ToString::to_string);
                Err(self.odd(format!(
                    "{MANIFEST}: expected `{role}` of the module to be s32[{batch},{seq}], found {found}"
                )))
            }
        }
    }

    /// Checks that the slots are the arguments or results of the module.
    fn check_shapes(&self, what: &str, slots: &[Slot], shapes: Vec<&Shape>) -> Result<(), BundleError> {
        if slots.len() != shapes.len() {
            let (expected, found) = (shapes.len(), slots.len());
            return Err(
                self.odd(format!("{MANIFEST}: expected {expected} {what} of the module, found {found}"))
            );
        }
        for (slot, &shape) in slots.iter().zip(&shapes) {
            let found = slot.padded_shape();
            if shape.as_array() != Some(&found) {
                let role = slot.role;
                return Err(self.odd(format!("{MANIFEST}: expected `{role}` to be {shape}, found {found}")));
            }
        }
        Ok(())
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, BundleError> {
        let path = self.folder.join(name);
        let bytes = read_file(&path)?;
        let manifest = &self.manifest;
        let listed = manifest.files.get(name);
        let listed = listed.ok_or_else(|| self.odd(format!("{MANIFEST} does not list {name}")))?;
        let expected = if name == MODULE { &manifest.module_sha256 } else { listed };
        check_digest(path, &bytes, expected)?;
        Ok(bytes)
    }

    fn odd(&self, reason: String) -> BundleError {
        BundleError::NotABundle { path: self.folder.clone(), reason }
    }
}

/// The manifest in `folder`.
pub(super) fn read_manifest(folder: &Path) -> Result<Manifest, BundleError> {
    let path = folder.join(MANIFEST);
    let odd = |reason: String| BundleError::NotABundle { path: folder.to_owned(), reason };
    if !path.exists() {
        return Err(odd(format!("it has no {MANIFEST}")));
    }
    let text = read_file(&path)?;
    let digest_path = folder.join(MANIFEST_SHA256);
    // Bundles of older versions have none.
    if digest_path.exists() {
        let digest = read_file(&digest_path)?;
        let digest =
            String::from_utf8_lossy(&digest).split_whitespace().next().unwrap_or_default().to_owned();
        check_digest(path, &text, &digest)?;
    }
    // Messages of the parser name the Rust type.
    let words = |error: serde_json::Error| error.to_string().replace("usize", "whole number");
    let manifest: Manifest = serde_json::from_slice(&text).map_err(|error| {
        let found = FileKind::of(&text);
        odd(match found {
            FileKind::Json | FileKind::Text(_) | FileKind::Binary => format!("{MANIFEST}: {}", words(error)),
            other => format!("{MANIFEST}: expected JSON, found {other}"),
        })
    })?;
    let builds = manifest.targets.iter().flat_map(|build| [&build.executable, &build.optimized]);
    let stranger = manifest.files.keys().chain(builds.flatten()).find(|name| !is_plain(name)).cloned();
    match stranger {
        Some(name) => Err(odd(format!("{MANIFEST} names a file outside of it: {name}"))),
        None => Ok(manifest),
    }
}

/// Whether a name is that of a file in the folder, whatever an edited manifest says.
fn is_plain(name: &str) -> bool {
    let mut components = Path::new(name).components();
    let only = (components.next(), components.next());
    matches!(only, (Some(Component::Normal(component)), None) if component == name) && !name.contains('\\')
}

/// Reads a regular file; reading a pipe could block.
fn read_file(path: &Path) -> Result<Vec<u8>, BundleError> {
    let read = || match fs::metadata(path)?.is_file() {
        true => fs::read(path),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    };
    read().map_err(|source| BundleError::Io { action: "read", path: path.to_owned(), source })
}

fn check_digest(path: PathBuf, bytes: &[u8], expected: &str) -> Result<(), BundleError> {
    let found = sha256(bytes);
    if found == expected {
        return Ok(());
    }
    Err(BundleError::Edited { path, expected: expected.to_owned(), found })
}
