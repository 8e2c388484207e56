//! Compile targets: device models, each described by a TOML file, and the number and arrangement of devices. Users' device
//! files have the same format as the built-in ones.

mod builtin;
pub(crate) mod cuda_toolkit;
mod device;
mod gpu;
mod platform;
pub(crate) mod presence;
mod read;
mod shape;
mod target;

#[cfg(test)]
mod tests;

pub use builtin::devices;
pub use cuda_toolkit::CudaToolkitError;
pub use device::{DeviceSpec, Hardware, TpuInfo};
pub use gpu::{GpuInfo, MatrixUnits};
pub use platform::Platform;
pub use presence::Presence;
pub use read::DeviceError;
pub use shape::TargetShape;
pub use target::{GpuMemory, Target, TargetError};
