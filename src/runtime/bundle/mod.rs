//! Bundles: a folder with a step compiled for one or several targets, which another machine runs it from.
//!
//! `module.hlo.pb` is the same bytes for every target; `manifest.json` says what it is made for and holds the SHA-256 of
//! every other file; `executable.TARGET.bin` and `optimized.TARGET.hlo.pb` are what a plugin made of the module;
//! `memory.json` says what each device must hold.

mod error;
mod manifest;
mod memory;
mod open;
mod write;

pub use error::BundleError;
pub use manifest::{Build, Made, Manifest, Optimizer, PluginRecord, SlotRecord, sha256};
pub use memory::{Cause, LargeValue, MemoryReport};
pub use open::Bundle;
pub use write::{BundleWriter, claim};

/// The manifest's file.
pub const MANIFEST: &str = "manifest.json";
/// The module as a proto.
pub const MODULE: &str = "module.hlo.pb";
/// The module as text.
pub const MODULE_TEXT: &str = "module.hlo.txt";
/// The mesh config, in one file.
pub const MESH: &str = "mesh.toml";
/// What each device must hold, a report for each target.
pub const MEMORY: &str = "memory.json";
