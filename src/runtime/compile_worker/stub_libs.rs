//! Stubs of missing shared libraries that a plugin links with. The ROCm plugin links with a dozen libraries that only
//! machines with AMD GPUs have, and calls none of them to compile for a topology. A stub has the name, symbols and versions
//! that the plugin imports; each function returns 1, an error in all of ROCm's interfaces, so that the plugin finds no
//! device.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::pjrt::{
    PjrtError,
    elf::{self, Needs},
    loader, plugin,
};

/// Error of loading a plugin with stubs.
#[derive(Debug, thiserror::Error)]
pub(super) enum StubLibsError {
    /// Loading failed for another reason than a missing library.
    #[error(transparent)]
    Pjrt(#[from] PjrtError),
    /// A stub library could not be built.
    #[error("cannot build a stub of {library}: {reason}")]
    Build {
        /// The missing library's name.
        library: String,
        /// The reason.
        reason: String,
    },
}

impl StubLibsError {
    /// A hint for the user.
    pub(super) fn hint(&self) -> Option<String> {
        match self {
            Self::Pjrt(error) => error.hint(),
            Self::Build { .. } => Some(
                "compiling for AMD GPUs without ROCm needs the system's C compiler and linker: install gcc or clang, \
                 or ROCm itself"
                    .into(),
            ),
        }
    }
}

/// Symbol versions of system libraries, which cannot be replaced by a stub.
const SYSTEM_VERSIONS: &[&str] = &["GLIBC", "GCC_", "CXXABI"];
const COMPILER: &str = "cc";

/// Loads stubs, built in `folder`, of the libraries that are missing for the plugin at `path`, and returns their names. They
/// stay loaded, so call it only in a process that only compiles.
///
/// # Errors
/// If the plugin cannot be loaded for another reason, or the system's C compiler is missing or fails.
pub(super) fn load(path: &Path, folder: &Path) -> Result<Vec<String>, StubLibsError> {
    let mut needs: Option<Needs> = None;
    let mut made: Vec<String> = Vec::new();
    loop {
        let Err(message) = plugin::keep_library(path) else { return Ok(made) };
        let needs = match &mut needs {
            Some(needs) => needs,
            none => none.insert(
                elf::needs(path).map_err(|source| PjrtError::Open { path: path.to_owned(), source })?,
            ),
        };
        let missing = needs.libraries.iter().find(|name| message.names(name));
        match missing {
            Some(name) if !made.contains(name) && !is_system(needs, name) => {
                let made_here = make(needs, name, folder)?;
                plugin::keep_library(&made_here).map_err(|message| loader::explain(&made_here, message))?;
                tracing::debug!(library = name, "loaded a stub");
                made.push(name.clone());
            }
            _ => return Err(loader::explain(path, message).into()),
        }
    }
}

fn is_system(needs: &Needs, library: &str) -> bool {
    let versions = needs.imports.iter().filter_map(|import| import.version.as_ref());
    let mut names = versions.filter(|version| version.library == library).map(|version| &version.name);
    names.any(|name| SYSTEM_VERSIONS.iter().any(|system| name.starts_with(system)))
}

/// Builds the stub of a library.
fn make(needs: &Needs, library: &str, folder: &Path) -> Result<PathBuf, StubLibsError> {
    let failed = |reason: String| StubLibsError::Build { library: library.to_owned(), reason };
    if !is_plain(library) {
        return Err(failed("the name is not that of a file".into()));
    }
    let (source, script) = sources(needs, library);
    let place = |extension: &str| folder.join(format!("{library}.{extension}"));
    let (source_path, script_path, path) = (place("c"), place("map"), folder.join(library));
    for (path, text) in [(&source_path, &source), (&script_path, &script)] {
        fs::write(path, text).map_err(|error| failed(format!("{}: {error}", path.display())))?;
    }
    let mut command = Command::new(COMPILER);
    command.args(["-shared", "-fPIC", "-nostdlib", "-w"]).arg(format!("-Wl,-soname,{library}"));
    // The linker rejects an empty script.
    if !script.is_empty() {
        let mut argument = OsString::from("-Wl,--version-script=");
        argument.push(&script_path);
        command.arg(argument);
    }
    let output = command
        .arg("-o")
        .args([&path, &source_path])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(format!("cannot run `{COMPILER}`: {error}")))?;
    if output.status.success() {
        return Ok(path);
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.trim().lines().last().unwrap_or("no message");
    Err(failed(format!("`{COMPILER}` failed with {}: {last}", output.status)))
}

/// The C source and the linker's version script of a stand-in: every symbol that the plugin wants from this
/// library by version, and every one that may come from any library.
fn sources(needs: &Needs, library: &str) -> (String, String) {
    let mut source = String::from("static int answer(void) { return 1; }\n");
    let mut versions = BTreeSet::new();
    for (index, import) in needs.imports.iter().enumerate().filter(|(_, import)| is_plain(&import.symbol)) {
        let symbol = &import.symbol;
        // Writing to a text cannot fail.
        let _ = match &import.version {
            None => writeln!(source, "int {symbol}(void) __attribute__((alias(\"answer\")));"),
            Some(version) if version.library == library && is_plain(&version.name) => {
                let name = &version.name;
                versions.insert(name);
                writeln!(
                    source,
                    "int answer_{index}(void) __attribute__((alias(\"answer\")));\n\
                     __asm__(\".symver answer_{index}, {symbol}@{name}\");"
                )
            }
            Some(_) => Ok(()),
        };
    }
    (source, versions.iter().map(|name| format!("{name} {{}};\n")).collect())
}

/// Whether a name can stand in C source, in a linker script and in a path as it is.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-$".contains(c)) && name != ".."
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pjrt::elf::{Import, SymbolVersion};

    /// A library that needs `libhloomfar.so.3`, which is nowhere, and an unversioned symbol of it.
    fn orphan(folder: &Path) -> PathBuf {
        let build = |args: &[&str], source: &str| {
            fs::write(folder.join("a.c"), source).unwrap();
            let status = Command::new(COMPILER).current_dir(folder).args(args).arg("a.c").status().unwrap();
            assert!(status.success());
        };
        fs::write(folder.join("far.map"), "FAR_1 { global: far_old; };\nFAR_2 { global: far_new; };\n")
            .unwrap();
        build(
            &[
                "-shared",
                "-fPIC",
                "-o",
                "libfar.so",
                "-Wl,-soname,libhloomfar.so.3",
                "-Wl,--version-script=far.map",
            ],
            "int far_old(void) { return 5; } int far_new(void) { return 6; } int far_plain(void) { return 7; }",
        );
        build(
            &["-shared", "-fPIC", "-o", "orphan.so", "-L.", "-Wl,--no-as-needed", "-lfar"],
            "int far_old(void); int far_new(void); int far_plain(void);\n\
             int orphan(void) { return far_old() + 10 * far_new() + 100 * far_plain(); }",
        );
        fs::remove_file(folder.join("libfar.so")).unwrap();
        folder.join("orphan.so")
    }

    #[test]
    fn needs_are_read_with_their_versions() {
        let folder = tempfile::tempdir().unwrap();
        let needs = elf::needs(&orphan(folder.path())).unwrap();
        assert_eq!(needs.libraries.first().map(String::as_str), Some("libhloomfar.so.3"));
        let version =
            |name: &str| Some(SymbolVersion { library: "libhloomfar.so.3".into(), name: name.into() });
        let mut far: Vec<Import> =
            needs.imports.into_iter().filter(|import| import.symbol.starts_with("far_")).collect();
        far.sort();
        let import = |symbol: &str, version| Import { symbol: symbol.into(), version };
        assert_eq!(
            far,
            [
                import("far_new", version("FAR_2")),
                import("far_old", version("FAR_1")),
                import("far_plain", None),
            ]
        );
    }

    #[test]
    fn what_a_library_lacks_is_stood_in_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = orphan(folder.path());
        let error = plugin::keep_library(&path).unwrap_err().to_string();
        assert!(error.contains("libhloomfar.so.3: cannot open shared object file"), "{error}");
        let stub_libs = folder.path().join("stub-libs");
        fs::create_dir(&stub_libs).unwrap();
        assert_eq!(load(&path, &stub_libs).unwrap(), ["libhloomfar.so.3"]);
        assert_eq!(plugin::call_for_test(&path, b"orphan\0"), 111);
        // What is there is left alone.
        assert!(load(&path, &stub_libs).unwrap().is_empty());
    }

    #[test]
    fn system_libraries_get_no_stubs() {
        let version = |library: &str, name: &str| Import {
            symbol: "f".into(),
            version: Some(SymbolVersion { library: library.into(), name: name.into() }),
        };
        let imports = vec![version("libc.so.6", "GLIBC_2.34"), version("libamdhip64.so.7", "hip_4.2")];
        let needs = Needs { libraries: vec![], folders: vec![], imports };
        assert!(is_system(&needs, "libc.so.6") && !is_system(&needs, "libamdhip64.so.7"));
    }
}
