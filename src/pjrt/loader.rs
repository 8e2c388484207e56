//! Explains errors of the system's loader.

use std::collections::{BTreeSet, VecDeque};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use super::{elf, error::PjrtError, library_file};

/// Message of the system's loader, which names the library and the reason.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct LoaderMessage(String);

impl LoaderMessage {
    /// The innermost text of a loader's error.
    pub(super) fn new(error: &dyn Error) -> Self {
        error.source().map_or_else(|| Self(error.to_string()), Self::new)
    }

    /// Whether the message is about `library`.
    pub(crate) fn names(&self, library: &str) -> bool {
        self.0.strip_prefix(library).is_some_and(|rest| rest.starts_with(": "))
    }
}

/// The error for the loader's message about the plugin at `path`.
pub(crate) fn explain(path: &Path, LoaderMessage(reason): LoaderMessage) -> PjrtError {
    const MISSING: &str = ": cannot open shared object file: No such file or directory";
    const EXECUTABLE: &str = "cannot dynamically load position-independent executable";
    const UNDEFINED: &str = ": undefined symbol: ";
    let path = path.to_owned();
    let own = format!("{}: ", path.display());
    if reason.strip_prefix(&own) == Some(EXECUTABLE) {
        let (expected, found) = (library_file::expected(), "a position-independent executable".into());
        return PjrtError::Format { path, expected, found };
    }
    if let Some(library) = reason.strip_suffix(MISSING) {
        let library = library.to_owned();
        let needs = elf::needs(&path).map(|needs| needs.libraries).unwrap_or_default();
        let is_rocm = needs.iter().any(|name| name.starts_with("libamdhip64.so"));
        if is_rocm && needs.contains(&library) {
            return PjrtError::NoRocm { path, library };
        }
        let needed_by = needed_by(&path, &library);
        return PjrtError::MissingLibrary { path, library, needed_by };
    }
    if let Some((library, symbol)) = reason.split_once(UNDEFINED) {
        let (library, symbol) = (library.into(), symbol.replace(", version ", "@"));
        return PjrtError::UndefinedSymbol { path, symbol, library };
    }
    // The message begins with the path already.
    let reason = reason.strip_prefix(&own).unwrap_or(&reason).to_owned();
    PjrtError::Load { path, reason }
}

/// The file, among those that the loader opens for `plugin`, that links with `missing`. Folders that only
/// LD_LIBRARY_PATH names are not searched.
fn needed_by(plugin: &Path, missing: &str) -> Option<PathBuf> {
    let system = system_folders();
    let mut seen = BTreeSet::new();
    let mut files = VecDeque::from([plugin.to_owned()]);
    while let Some(file) = files.pop_front() {
        let Ok(needs) = elf::needs(&file) else { continue };
        if needs.libraries.iter().any(|library| library == missing) {
            return Some(file);
        }
        let home = file.parent().unwrap_or(Path::new("/")).display().to_string();
        let own = needs
            .folders
            .iter()
            .map(|folder| PathBuf::from(folder.replace("${ORIGIN}", &home).replace("$ORIGIN", &home)));
        let folders: Vec<PathBuf> = own.chain(system.iter().cloned()).collect();
        for library in needs.libraries.into_iter().filter(|library| seen.insert(library.clone())) {
            files.extend(folders.iter().map(|folder| folder.join(&library)).find(|path| path.is_file()));
        }
    }
    None
}

/// Folders of the system's libraries.
fn system_folders() -> Vec<PathBuf> {
    let configs = fs::read_dir("/etc/ld.so.conf.d").into_iter().flatten().flatten();
    let texts = configs.filter_map(|config| fs::read_to_string(config.path()).ok());
    let lines: Vec<String> =
        texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    let configured = lines.iter().map(|line| line.trim()).filter(|line| line.starts_with('/'));
    configured.chain(["/lib64", "/usr/lib64", "/lib", "/usr/lib"]).map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::c_library;

    #[track_caller]
    fn check(reason: &str, expect: &str) {
        assert_eq!(explain(Path::new("/p.so"), LoaderMessage(reason.to_owned())).to_string(), expect);
    }

    #[test]
    fn loader_messages_are_classified() {
        check(
            "/p.so: undefined symbol: far",
            "cannot load plugin: /p.so: undefined symbol `far`, which /p.so uses",
        );
        check(
            "/lib/q.so: undefined symbol: far, version FAR_2",
            "cannot load plugin: /p.so: undefined symbol `far@FAR_2`, which /lib/q.so uses",
        );
        check(
            "libq.so.2: cannot open shared object file: No such file or directory",
            "cannot load plugin: /p.so: missing library libq.so.2, which one of its libraries links with",
        );
        check("/p.so: file too short", "cannot load plugin: /p.so: file too short");
        check(
            "/p.so: cannot dynamically load position-independent executable",
            &format!(
                "cannot load plugin: /p.so: expected {}, found a position-independent executable",
                library_file::expected()
            ),
        );
        check(
            "/lib/libc.so.6: version `GLIBC_2.99' not found (required by /p.so)",
            "cannot load plugin: /p.so: /lib/libc.so.6: version `GLIBC_2.99' not found (required by /p.so)",
        );
    }

    #[test]
    fn the_library_that_links_with_a_missing_one_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let link = |name: &str, options: &[&str]| {
            let options = [&["-L.", "-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN"], options].concat();
            c_library(folder, name, "int unused;", &options)
        };
        let made = (|| {
            link("libfar.so", &[])?;
            link("libmiddle.so", &["-lfar"])?;
            link("plugin.so", &["-lmiddle"])
        })();
        let Some(plugin) = made else { return };
        fs::remove_file(folder.join("libfar.so")).unwrap();
        assert_eq!(needed_by(&plugin, "libfar.so"), Some(folder.join("libmiddle.so")));
        assert_eq!(needed_by(&plugin, "libmiddle.so"), Some(plugin.clone()));
        assert_eq!(needed_by(&plugin, "libelse.so"), None);
    }
}
