//! Names of a bundle's files.

/// The manifest.
pub(crate) const MANIFEST: &str = "manifest.json";
/// SHA-256 of the manifest.
pub(crate) const MANIFEST_SHA256: &str = "manifest.sha256";
/// The module as a proto.
pub(crate) const MODULE: &str = "module.hlo.pb";
/// The module as text.
pub(crate) const MODULE_TEXT: &str = "module.hlo.txt";
/// The mesh config with the files that it extends.
pub const MESH: &str = "mesh.toml";
/// Memory reports, one a target.
pub(crate) const MEMORY: &str = "memory.json";
