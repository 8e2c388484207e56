//! Bundles: a folder with a step compiled for one or several targets, which another machine runs it from.
//!
//! `module.hlo.pb` is the same bytes for every target; `manifest.json` says what it is made for and holds the SHA-256 of
//! every other file; `executable.TARGET.bin` and `optimized.TARGET.hlo.pb` are what a plugin made of the module;
//! `memory.json` says what each device must hold. `manifest.sha256` holds the digest of the manifest, in the form that
//! `sha256sum -c` reads.
//!
//! The digests detect accidents: an interrupted copy, a file of another bundle, an edit. They do not prove who made a
//! bundle, since anyone who can write a file can write its digest too. An executable is machine code that the plugin runs
//! without looking at it, so that one from a stranger may do anything. The module is data: it is verified when it is read,
//! and compiling it, as with [`Contents::Module`], ignores the executables.

mod error;
mod files;
mod manifest;
mod memory;
mod open;
mod write;

pub use error::BundleError;
pub use files::{MANIFEST, MANIFEST_SHA256, MEMORY, MESH, MODULE, MODULE_TEXT};
pub use manifest::{
    Manifest, ModuleInputs, OptimizerSettings, PluginRecord, SlotRecord, TargetBuild, sha256,
};
pub use memory::{LargeValue, MemoryReport, ProbableCause};
pub use open::{Bundle, Contents};
pub use write::{BundleWriter, claim};
