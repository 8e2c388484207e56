//! Bundles: a folder with a step compiled for one or more targets, to run on another machine.
//!
//! `module.hlo.pb` is the same bytes for every target; `manifest.json` has the inputs it was built from and the SHA-256
//! of every other file; `executable.TARGET.bin` and `optimized.TARGET.hlo.pb` are the executable and the optimized module;
//! `memory.json` has the memory report of each target. `manifest.sha256` has the digest of the manifest, in the format of
//! `sha256sum -c`.
//!
//! The digests detect accidents: an interrupted copy, a file of another bundle, an edit. They do not prove who made a
//! bundle, since anyone who can write a file can write its digest too. An executable is machine code that the plugin runs
//! without checks: use only those from a trusted source. The module is data: it is verified when it is read,
//! and compiling it, as with [`Contents::Module`], ignores the executables.

mod error;
mod files;
mod manifest;
mod memory;
mod open;
mod write;

pub use error::BundleError;
pub use files::MESH;
pub(crate) use files::{MANIFEST, MANIFEST_SHA256, MEMORY, MODULE, MODULE_TEXT};
pub use manifest::{
    Manifest, ModuleInputs, OptimizerSettings, PluginRecord, SlotRecord, TargetBuild, sha256,
};
pub use memory::{LargeValue, MemoryReport, ProbableCause};
pub use open::{Bundle, Contents};
pub use write::BundleWriter;
pub(crate) use write::claim;
