//! Search for the parts of the CUDA toolkit that the CUDA plugin compiles with. The plugin ends the process if one is
//! missing.

use std::path::{Path, PathBuf};

use crate::base::command;
use crate::pjrt::{CompileOptions, OptionValue};

/// The debug option that names the toolkit's folder.
const FOLDER_OPTION: &str = "xla_gpu_cuda_data_dir";
/// Folders that the plugin searches by default, relative to its own: where pip installs NVIDIA's packages.
const BESIDE: &[&str] = &["../../nvidia/cu13", "../nvidia/cu13"];
const SYSTEM: &str = "/usr/local/cuda";
/// The assembler, and the math functions as LLVM bitcode.
const PARTS: &[&str] = &["bin/ptxas", "nvvm/libdevice/libdevice.10.bc"];

/// A part of the CUDA toolkit that no searched folder has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot find {part} of the CUDA toolkit; searched {}", list(searched))]
pub struct CudaToolkitError {
    /// The missing file, relative to the toolkit's folder.
    pub part: &'static str,
    /// Folders searched.
    pub searched: Vec<PathBuf>,
}

impl CudaToolkitError {
    /// A hint for the user.
    pub fn hint(&self) -> String {
        let install = command("plugin install cuda", &[]);
        format!(
            "{install} installs it too; for another plugin, set the flag xla_gpu_cuda_data_dir to the toolkit's folder"
        )
    }
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// Adds the toolkit's folder to compile options: the folder that they name already, else the first with all parts.
///
/// # Errors
/// If no folder has all parts.
pub(crate) fn locate(plugin: &Path, mut options: CompileOptions) -> Result<CompileOptions, CudaToolkitError> {
    let searched: Vec<PathBuf> = match options.overrides.get(FOLDER_OPTION) {
        Some(OptionValue::String(folder)) => vec![folder.into()],
        _ => {
            // The plugin resolves symbolic links before it searches.
            let plugin = plugin.canonicalize().unwrap_or_else(|_| plugin.to_owned());
            let home = plugin.parent().unwrap_or(Path::new("."));
            BESIDE.iter().map(|folder| lexical(home, folder)).chain([SYSTEM.into()]).collect()
        }
    };
    let lacks = |folder: &Path| PARTS.iter().find(|part| !folder.join(part).is_file());
    let Some(folder) = searched.iter().find(|folder| lacks(folder).is_none()) else {
        // An incomplete toolkit makes a better error than an absent one.
        let incomplete = searched.iter().find(|folder| folder.is_dir());
        let part = incomplete.and_then(|folder| lacks(folder)).unwrap_or(&PARTS[0]);
        return Err(CudaToolkitError { part, searched });
    };
    let value = OptionValue::String(folder.display().to_string());
    options.overrides.insert(FOLDER_OPTION.into(), value);
    Ok(options)
}

/// Joins `home` and a relative folder, with the leading `..` components resolved.
fn lexical(home: &Path, folder: &str) -> PathBuf {
    let steps = folder.matches("../").count();
    let base = home.ancestors().nth(steps).unwrap_or(home);
    base.join(folder.trim_start_matches("../"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn found(plugin: &Path) -> Result<OptionValue, CudaToolkitError> {
        Ok(locate(plugin, CompileOptions::for_devices(1))?.overrides[FOLDER_OPTION].clone())
    }

    #[test]
    fn a_missing_part_is_named_with_the_folders_searched() {
        let root = tempfile::tempdir().unwrap();
        let plugin = root.path().join("jax_plugins/xla_cuda13/plugin.so");
        let toolkit = root.path().join("nvidia/cu13");
        let text =
            |error: CudaToolkitError| error.to_string().replace(&root.path().display().to_string(), "ROOT");
        assert_eq!(
            text(found(&plugin).unwrap_err()),
            "cannot find bin/ptxas of the CUDA toolkit; searched ROOT/nvidia/cu13, \
             ROOT/jax_plugins/nvidia/cu13, /usr/local/cuda"
        );
        fs::create_dir_all(toolkit.join("bin")).unwrap();
        fs::write(toolkit.join("bin/ptxas"), "").unwrap();
        let error = found(&plugin).unwrap_err();
        assert!(error.hint().contains("command `plugin install cuda`"));
        assert!(text(error).starts_with("cannot find nvvm/libdevice/libdevice.10.bc of the CUDA toolkit"));
        fs::create_dir_all(toolkit.join("nvvm/libdevice")).unwrap();
        fs::write(toolkit.join("nvvm/libdevice/libdevice.10.bc"), "").unwrap();
        assert_eq!(found(&plugin).unwrap(), OptionValue::String(toolkit.display().to_string()));
    }

    #[test]
    fn a_folder_in_the_options_is_the_only_one_searched() {
        let mut options = CompileOptions::for_devices(1);
        options.overrides.insert(FOLDER_OPTION.into(), OptionValue::String("/nowhere".into()));
        assert_eq!(
            locate(Path::new("/p.so"), options).unwrap_err().to_string(),
            "cannot find bin/ptxas of the CUDA toolkit; searched /nowhere"
        );
    }
}
