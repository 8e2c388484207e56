#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use super::{
    call::Table,
    elf,
    error::PjrtError,
    options::{self, NamedValue},
    sys::{self, Api, CStruct, LEAST_MINOR},
};

/// The plugins of this process by canonical path. A library is loaded and initialized once and stays.
static LOADED: Mutex<BTreeMap<PathBuf, Arc<Plugin>>> = Mutex::new(BTreeMap::new());

/// A PJRT plugin: a shared library that compiles for and drives one kind of device.
pub struct Plugin {
    table: Table,
    path: PathBuf,
}

impl Plugin {
    /// Loads and initializes the plugin in the file `path`; a file that was loaded before is not loaded again.
    /// The library is never unloaded, since plugins leave threads behind.
    ///
    /// # Errors
    /// If the file is missing, no shared library, no plugin, of an API older than 0.81 or not 0.x, or if it
    /// fails to initialize.
    pub fn load(path: &Path) -> Result<Arc<Self>, PjrtError> {
        let canonical =
            path.canonicalize().map_err(|source| PjrtError::Open { path: path.to_owned(), source })?;
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plugin) = loaded.get(&canonical) {
            return Ok(plugin.clone());
        }
        let plugin = Arc::new(Self { table: open(&canonical)?, path: canonical.clone() });
        plugin.check_version()?;
        // SAFETY: the arguments hold no pointer.
        unsafe { plugin.table.call(sys::PluginInitializeArgs::new()) }?;
        tracing::debug!(path = %canonical.display(), version = ?plugin.api_version(), "loaded plugin");
        loaded.insert(canonical, plugin.clone());
        Ok(plugin)
    }

    /// The version of the PJRT C API of a plugin's file, which is loaded and not initialized: a plugin may look for devices,
    /// over the network even, when it is.
    ///
    /// # Errors
    /// If the file is missing, no shared library or no plugin.
    pub fn peek_version(path: &Path) -> Result<(i32, i32), PjrtError> {
        Ok(open(path)?.version())
    }

    /// Major and minor version of the PJRT C API that the plugin was built with.
    pub fn api_version(&self) -> (i32, i32) {
        self.table.version()
    }

    /// The library's canonical path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the plugin says of itself, such as `xla_version` or `stablehlo_current_version`.
    ///
    /// # Errors
    /// If the call fails.
    pub fn attributes(&self) -> Result<BTreeMap<String, NamedValue>, PjrtError> {
        // SAFETY: the call only writes; the list it gives lives as long as the plugin.
        unsafe {
            let args = self.table.call(sys::PluginAttributesArgs::new())?;
            Ok(options::decode(args.attributes, args.num_attributes))
        }
    }

    pub(super) fn table(&self) -> Table {
        self.table
    }

    fn check_version(&self) -> Result<(), PjrtError> {
        match self.api_version() {
            (0, minor) if minor >= LEAST_MINOR => Ok(()),
            (major, minor) => Err(PjrtError::Version { path: self.path.clone(), major, minor }),
        }
    }
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugin").field("path", &self.path).field("api", &self.api_version()).finish()
    }
}

/// The environment variable by which plugins decide what they log; 1 leaves out information.
pub const LOG_LEVEL: &str = "TF_CPP_MIN_LOG_LEVEL";

/// Has plugins that are loaded later log nothing but warnings and errors. To be called first in `main`: it does nothing once the
/// process has other threads, or where it cannot tell.
pub fn quiet_logs() {
    let threads = std::fs::read_dir("/proc/self/task").map(Iterator::count);
    if threads.is_ok_and(|threads| threads == 1) {
        // SAFETY: nothing else reads or writes the environment meanwhile, since this is the only thread.
        unsafe { std::env::set_var(LOG_LEVEL, "1") };
    }
}

/// Loads the library and asks it for its table.
fn open(path: &Path) -> Result<Table, PjrtError> {
    let not_a_plugin = || PjrtError::NotAPlugin { path: path.to_owned() };
    match elf::flaw(path) {
        Ok(None) => {}
        Ok(Some(reason)) => return Err(PjrtError::Load { path: path.to_owned(), reason }),
        Err(source) => return Err(PjrtError::Open { path: path.to_owned(), source }),
    }
    let library = load_library(path).map_err(name_rocm)?;
    // SAFETY: the C API defines the symbol's type.
    let get_api = unsafe { library.get::<unsafe extern "C" fn() -> *mut Api>(b"GetPjrtApi\0") }
        .map_err(|_| not_a_plugin())?;
    // SAFETY: as above.
    let api = NonNull::new(unsafe { get_api() }).ok_or_else(not_a_plugin)?;
    std::mem::forget(library);
    // SAFETY: the first field is the table's size.
    let size = unsafe { (*api.as_ptr()).struct_size };
    if size < offset_of!(Api, Error_Destroy) {
        return Err(not_a_plugin());
    }
    // SAFETY: the plugin returned the table, and the library was leaked above.
    Ok(unsafe { Table::new(api) })
}

/// Loads a shared library, and what it needs, for the rest of the process.
///
/// # Errors
/// The loader's own.
pub(super) fn keep_library(path: &Path) -> Result<(), PjrtError> {
    std::mem::forget(load_library(path)?);
    Ok(())
}

/// The error for a machine without ROCm, if that is why the plugin does not load.
fn name_rocm(error: PjrtError) -> PjrtError {
    let PjrtError::Load { path, reason } = &error else { return error };
    let Ok(needs) = elf::needs(path) else { return error };
    let is_rocm = needs.libraries.iter().any(|library| library.starts_with("libamdhip64.so"));
    let missing = needs.libraries.iter().find(|library| reason.starts_with(&format!("{library}: ")));
    match missing {
        Some(library) if is_rocm => PjrtError::NoRocm { path: path.clone(), library: library.clone() },
        _ => error,
    }
}

fn load_library(path: &Path) -> Result<libloading::Library, PjrtError> {
    // SAFETY: loading runs the library's initializers. The user chose the library to be run.
    unsafe { libloading::Library::new(path) }
        .map_err(|error| PjrtError::Load { path: path.to_owned(), reason: loader_text(&error) })
}

/// The innermost text of a loader's error, which names the library and the reason.
fn loader_text(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), loader_text)
}

/// What the function `name` of a loaded library answers.
#[cfg(test)]
pub(super) fn call_for_test(path: &Path, name: &[u8]) -> i32 {
    let library = load_library(path).unwrap();
    // SAFETY: the caller's library defines the symbol as such a function.
    unsafe { library.get::<unsafe extern "C" fn() -> i32>(name).unwrap()() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pjrt::call::tests::fake_table;

    #[test]
    fn an_old_api_is_refused() {
        let plugin = |minor| Plugin { table: fake_table(size_of::<Api>(), minor), path: "/p.so".into() };
        assert!(plugin(LEAST_MINOR).check_version().is_ok());
        let error = plugin(LEAST_MINOR - 1).check_version().unwrap_err();
        assert_eq!(error.to_string(), "expected PJRT API 0.81 or a later 0.x, found 0.80: /p.so");
    }
}
