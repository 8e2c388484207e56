use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{Build, BundleError, MANIFEST, MESH, MODULE, Manifest, SlotRecord, sha256};
use crate::{
    hlo::{proto, verify},
    model::Config,
    step::{Slot, StepProgram, StepSpec, roles, slots},
};

/// A bundle whose files are those that were written.
#[derive(Clone, Debug)]
pub struct Bundle {
    folder: PathBuf,
    manifest: Manifest,
}

impl Bundle {
    /// Reads the manifest of the bundle in `folder`, and every file once to see that it has not changed.
    ///
    /// # Errors
    /// If it is no bundle, or a file is missing or has changed.
    pub fn open(folder: &Path) -> Result<Self, BundleError> {
        let manifest = read_manifest(folder)?;
        let bundle = Self { folder: folder.to_owned(), manifest };
        for name in [MODULE.to_owned()].iter().chain(bundle.manifest.files.keys()) {
            bundle.read(name)?;
        }
        Ok(bundle)
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What it says of itself.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Its mesh config, if it has one.
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

    /// Refuses another model than the one that it was made for.
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
                let setting = format!("--model: `{name}` of {}", self.manifest.made.model);
                return Err(BundleError::Differs {
                    setting,
                    made: made.to_string(),
                    found: found.to_string(),
                });
            }
        }
        Ok(())
    }

    /// The module with its slots, which must be those that `spec` gives.
    ///
    /// # Errors
    /// If the module cannot be read, or the first slot that lies otherwise.
    pub fn program(&self, spec: &StepSpec<'_>) -> Result<StepProgram, BundleError> {
        let path = self.folder.join(MODULE);
        let module = proto::decode(&self.read(MODULE)?)
            .map_err(|source| BundleError::Module { path: path.clone(), source })?;
        let module = verify(module).map_err(|findings| self.odd(findings.to_string()))?;
        let known: BTreeMap<String, Slot> =
            slots(spec, roles(spec.workload)).into_iter().map(|slot| (slot.role.to_string(), slot)).collect();
        let resolve = |records: &[SlotRecord]| {
            let slot = |record: &SlotRecord| {
                let slot = known.get(&record.role);
                let slot = slot.ok_or_else(|| self.odd(format!("no such role: {}", record.role)))?;
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
        Ok(StepProgram { module, inputs, outputs })
    }

    /// What was made for a target.
    pub fn build(&self, target: &str) -> Option<&Build> {
        self.manifest.targets.iter().find(|build| build.target == target)
    }

    /// The executable for a target, if the plugin of this SHA-256 made one.
    ///
    /// # Errors
    /// If it cannot be read, or has changed.
    pub fn executable(&self, target: &str, plugin_sha256: &str) -> Result<Option<Vec<u8>>, BundleError> {
        let build = self.build(target).filter(|build| build.plugin.sha256 == plugin_sha256);
        build.and_then(|build| build.executable.as_ref()).map(|name| self.read(name)).transpose()
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, BundleError> {
        let path = self.folder.join(name);
        let bytes = fs::read(&path).map_err(|source| BundleError::Io {
            action: "read",
            path: path.clone(),
            source,
        })?;
        let manifest = &self.manifest;
        let listed = manifest.files.get(name).ok_or_else(|| self.odd(format!("it does not list {name}")))?;
        let expected = if name == MODULE { &manifest.module_sha256 } else { listed };
        let found = sha256(&bytes);
        if found != *expected {
            return Err(BundleError::Edited { path, expected: expected.clone(), found });
        }
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
    let text = fs::read(&path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => odd(format!("it has no {MANIFEST}")),
        _ => BundleError::Io { action: "read", path: path.clone(), source },
    })?;
    let manifest: Manifest =
        serde_json::from_slice(&text).map_err(|error| odd(format!("{MANIFEST}: {error}")))?;
    // Names are those of files in the folder, whatever an edited manifest says.
    let outside = |name: &&String| Path::new(name).components().count() != 1 || name.starts_with("..");
    let builds = manifest.targets.iter().flat_map(|build| [&build.executable, &build.optimized]);
    let stranger = manifest.files.keys().chain(builds.flatten()).find(outside).cloned();
    match stranger {
        Some(name) => Err(odd(format!("{MANIFEST} names a file outside of it: {name}"))),
        None => Ok(manifest),
    }
}
