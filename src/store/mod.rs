//! The store: a folder of packages (plugins and a small pretrained model), pinned by version and SHA-256, which
//! Python's pip fetches with the user's own index, proxy and certificates.

mod error;
mod find;
mod folder;
mod install;
mod manifest;
mod packages;
mod pip;
mod progress;
mod unpack;

#[cfg(test)]
mod tests;

pub use error::StoreError;
pub use find::{FileOrigin, PackageFile};
pub use folder::{Network, Store};
pub use manifest::Installed;
pub(crate) use packages::PACKAGES;
pub use packages::{Package, Wheel, package};
pub use progress::{Progress, Silent};
