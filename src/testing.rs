//! Helpers of the tests of several modules: the two CPU plugins, from the user's store.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::{
    pjrt::{Client, NamedValue, Plugin},
    store::{Network, Silent, Store, package},
};

/// The CPU plugins that tests run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuBuild {
    /// The one that users get.
    Pinned,
    /// One of the oldest API that hloom takes.
    Api081,
}

impl CpuBuild {
    /// Both.
    pub const ALL: &[CpuBuild] = &[Self::Pinned, Self::Api081];

    fn key(self) -> &'static str {
        match self {
            Self::Pinned => "cpu",
            Self::Api081 => "cpu-0.81",
        }
    }
}

/// The store in `$HLOOM_STORE`, else in `hloom` under the user's cache folder.
///
/// # Panics
/// If none of the variables HLOOM_STORE, XDG_CACHE_HOME and HOME is set.
pub fn store() -> Store {
    let folder = |variable: &str| env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let root = folder("HLOOM_STORE")
        .or_else(|| Some(folder("XDG_CACHE_HOME")?.join("hloom")))
        .or_else(|| Some(folder("HOME")?.join(".cache").join("hloom")))
        .expect("HLOOM_STORE, XDG_CACHE_HOME or HOME must be set");
    Store::at(root)
}

/// The file of a package, installed where it is missing.
///
/// # Panics
/// If there is no such package, or it cannot be installed.
pub fn package_file(key: &str) -> PathBuf {
    let package = package(key).unwrap_or_else(|| panic!("no such package: {key}"));
    store()
        .ensure(package, Network::Allowed, &mut Silent)
        .unwrap_or_else(|error| panic!("tests need the package {key}: {error}"))
}

/// The file of a package that is too large for every run of the tests, if it is installed. Where it is not, the test
/// that needs it is skipped, aloud, unless `HLOOM_REQUIRE` lists the key.
///
/// # Panics
/// If there is no such package, or it is required and not installed.
pub fn installed_package(key: &str) -> Option<PathBuf> {
    let package = package(key).unwrap_or_else(|| panic!("no such package: {key}"));
    let store = store();
    let path = store.installed(package);
    if path.is_none() {
        assert!(!is_required(key), "{key} is required here: install the package {key}");
        skipped(&format!("{key}: not in the store {}", store.root().display()));
    }
    path
}

/// The shared library `name` in `folder`, compiled from C. Where there is no C compiler, the test that needs it is skipped,
/// aloud, unless `HLOOM_REQUIRE` lists `cc`.
///
/// # Panics
/// If the compiler fails, or is required and missing.
pub fn c_library(folder: &Path, name: &str, source: &str, options: &[&str]) -> Option<PathBuf> {
    let file = format!("{name}.c");
    std::fs::write(folder.join(&file), source).unwrap_or_else(|error| panic!("{error}"));
    let mut command = Command::new("cc");
    command.current_dir(folder).args(["-shared", "-fPIC", "-w", "-o", name, &file]).args(options);
    match command.output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(folder.join(name))
        }
        Err(error) => {
            assert!(!is_required("cc"), "cc is required here: {error}");
            skipped(&format!("a C compiler: {error}"));
            None
        }
    }
}

fn is_required(what: &str) -> bool {
    env::var("HLOOM_REQUIRE").is_ok_and(|names| names.split(',').any(|name| name == what))
}

/// Says that a test is skipped, past the test harness, which swallows what the print macros write.
fn skipped(needs: &str) {
    let line = format!("SKIPPED a test that needs {needs}\n");
    std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap_or_default();
}

/// The library of a CPU plugin, installed where it is missing.
///
/// # Panics
/// If it cannot be installed.
pub fn cpu_plugin_path(build: CpuBuild) -> PathBuf {
    package_file(build.key())
}

/// A CPU plugin, loaded.
///
/// # Panics
/// If it cannot be installed or loaded.
pub fn cpu_plugin(build: CpuBuild) -> Arc<Plugin> {
    let path = cpu_plugin_path(build);
    Plugin::load(&path).unwrap_or_else(|error| panic!("{error}"))
}

/// A client of a CPU plugin with a number of devices.
///
/// # Panics
/// If it cannot be installed, loaded or started.
pub fn cpu_client(build: CpuBuild, devices: i64) -> Client {
    Client::create(cpu_plugin(build), &[("cpu_device_count", NamedValue::Int64(devices))])
        .unwrap_or_else(|error| panic!("{error}"))
}
