#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(not(unix))]
use libloading::Library;
#[cfg(unix)]
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use super::{
    call::Table,
    error::PjrtError,
    library_file,
    loader::{self, LoaderMessage},
    options::{self, NamedValue},
    sys::{self, Api, CStruct, MIN_MINOR},
};

/// Loaded plugins by canonical path. A library is loaded and initialized once, and never unloaded.
static LOADED: Mutex<BTreeMap<PathBuf, Arc<Plugin>>> = Mutex::new(BTreeMap::new());

/// A PJRT plugin: a shared library that compiles for, and runs programs on, the devices of one platform.
pub struct Plugin {
    table: Table,
    path: PathBuf,
}

impl Plugin {
    /// Loads and initializes the plugin file at `path`, once per process. The library is never unloaded, since plugins
    /// leave threads behind. A plugin may crash or hang here; the compile worker tries it in another process.
    ///
    /// # Errors
    /// If the file is missing, or not a plugin for this machine; if a library or symbol that it needs is missing; if its
    /// API is older than 0.81 or not 0.x; or if initialization fails.
    pub fn load(path: &Path) -> Result<Arc<Self>, PjrtError> {
        Self::load_in_steps(path, || {})
    }

    /// Like [`Plugin::load`]; calls `before_initialize` between loading and initializing.
    pub(crate) fn load_in_steps(
        path: &Path,
        before_initialize: impl FnOnce(),
    ) -> Result<Arc<Self>, PjrtError> {
        let path = Self::check_file(path)?;
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plugin) = loaded.get(&path) {
            return Ok(plugin.clone());
        }
        let plugin = Arc::new(Self { table: open(&path)?, path: path.clone() });
        plugin.check_version()?;
        before_initialize();
        // SAFETY: the arguments hold no pointer.
        unsafe { plugin.table.call(sys::PluginInitializeArgs::new()) }?;
        tracing::debug!(path = %path.display(), version = ?plugin.api_version(), "loaded plugin");
        loaded.insert(path, plugin.clone());
        Ok(plugin)
    }

    /// Checks that a file can be a plugin, without loading it, and returns its canonical path.
    ///
    /// # Errors
    /// If the file is missing, or not a shared library for this machine.
    pub fn check_file(path: &Path) -> Result<PathBuf, PjrtError> {
        let open = |source| PjrtError::Open { path: path.to_owned(), source };
        let canonical = path.canonicalize().map_err(open)?;
        library_file::check(&canonical)?;
        Ok(canonical)
    }

    /// Major and minor version of the PJRT C API that the plugin was built with.
    pub fn api_version(&self) -> (i32, i32) {
        self.table.version()
    }

    /// The library's canonical path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The plugin's attributes, such as `xla_version` or `stablehlo_current_version`.
    ///
    /// # Errors
    /// If the call fails.
    pub fn attributes(&self) -> Result<BTreeMap<String, NamedValue>, PjrtError> {
        // SAFETY: the call only writes; the returned list lives as long as the plugin.
        unsafe {
            let args = self.table.call(sys::PluginAttributesArgs::new())?;
            Ok(options::decode(args.attributes, args.num_attributes))
        }
    }

    pub(super) fn table(&self) -> Table {
        self.table
    }

    fn check_version(&self) -> Result<(), PjrtError> {
        let path = || self.path.clone();
        match self.api_version() {
            (0, minor) if minor >= MIN_MINOR => {}
            (major, minor) => return Err(PjrtError::Version { path: path(), major, minor }),
        }
        match self.table.size() {
            found if found < size_of::<Api>() => {
                Err(PjrtError::ShortTable { path: path(), expected: size_of::<Api>(), found })
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugin").field("path", &self.path).field("api", &self.api_version()).finish()
    }
}

/// Environment variable for the log level of plugins: 1 suppresses information, and leaves warnings and errors.
pub(crate) const LOG_LEVEL: &str = "TF_CPP_MIN_LOG_LEVEL";

/// Limits the logs of plugins that are loaded later to warnings and errors. Call it first in `main`: it has no effect
/// once the process has other threads, or where their number is unknown.
pub(crate) fn quiet_logs() {
    let threads = std::fs::read_dir("/proc/self/task").map(Iterator::count);
    if threads.is_ok_and(|threads| threads == 1) {
        // SAFETY: nothing else reads or writes the environment meanwhile, since this is the only thread.
        unsafe { std::env::set_var(LOG_LEVEL, "1") };
    }
}

/// Loads the library and gets its table of calls.
fn open(path: &Path) -> Result<Table, PjrtError> {
    let library = load_library(path).map_err(|message| loader::explain(path, message))?;
    // SAFETY: the C API defines the symbol's type.
    let get_api = unsafe { library.get::<unsafe extern "C" fn() -> *mut Api>(b"GetPjrtApi\0") }
        .map_err(|_| PjrtError::NotAPlugin { path: path.to_owned() })?;
    // SAFETY: as above.
    let api =
        NonNull::new(unsafe { get_api() }).ok_or_else(|| PjrtError::NullTable { path: path.to_owned() })?;
    std::mem::forget(library);
    // SAFETY: the plugin returned the table, and the library was leaked above.
    let table = unsafe { Table::new(api) };
    match table.size() {
        found if found < Table::VERSION_END => {
            Err(PjrtError::ShortTable { path: path.to_owned(), expected: size_of::<Api>(), found })
        }
        _ => Ok(table),
    }
}

/// Loads a shared library, and what it needs, for the rest of the process.
///
/// # Errors
/// The loader's message.
pub(crate) fn keep_library(path: &Path) -> Result<(), LoaderMessage> {
    std::mem::forget(load_library(path)?);
    Ok(())
}

/// Loads a shared library with all of its symbols: by default one that is missing would end the process when it is first
/// called.
fn load_library(path: &Path) -> Result<Library, LoaderMessage> {
    #[cfg(unix)]
    // SAFETY: loading runs the library's initializers. The user chose the library to be run.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
    #[cfg(not(unix))]
    // SAFETY: as above.
    let library = unsafe { Library::new(path) };
    library.map_err(|error| LoaderMessage::new(&error))
}

/// Calls the function `name` of a library.
#[cfg(test)]
pub(crate) fn call_for_test(path: &Path, name: &[u8]) -> i32 {
    let library = load_library(path).unwrap();
    // SAFETY: the caller's library defines the symbol as such a function.
    unsafe { library.get::<unsafe extern "C" fn() -> i32>(name).unwrap()() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pjrt::fake_table::fake_table;

    #[test]
    fn an_old_api_is_refused() {
        let plugin = |minor| Plugin { table: fake_table(size_of::<Api>(), minor), path: "/p.so".into() };
        assert!(plugin(MIN_MINOR).check_version().is_ok());
        let error = plugin(MIN_MINOR - 1).check_version().unwrap_err();
        assert_eq!(error.to_string(), "expected PJRT API 0.81 or a later 0.x, found 0.80: /p.so");
    }

    #[test]
    fn a_short_table_is_refused() {
        let size = size_of::<Api>();
        let plugin = Plugin { table: fake_table(size - 8, MIN_MINOR), path: "/p.so".into() };
        let expect = format!(
            "expected a PJRT API table of at least {size} bytes, found a `struct_size` of {}: /p.so",
            size - 8
        );
        assert_eq!(plugin.check_version().unwrap_err().to_string(), expect);
    }
}
