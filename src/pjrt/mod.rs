//! The boundary to PJRT plugins. It passes bytes and handles, and knows nothing of HLO.
//!
//! A [`Plugin`] starts a [`Client`], which compiles a [`PjrtProgram`] into a [`LoadedExecutable`] and allocates
//! [`Buffer`]s. A [`Topology`] compiles for devices that are not present. Every call to a plugin goes through one
//! function, every object keeps alive what it depends on, and all calls block.
//!
//! # Examples
//! ```no_run
//! use hloom::{
//!     base::{ArrayShape, DType, MemorySpace},
//!     pjrt::{Client, HostArray, NamedValue, Plugin},
//! };
//!
//! let plugin = Plugin::load("pjrt_c_api_cpu_plugin.so".as_ref())?;
//! let client = Client::create(plugin, &[("cpu_device_count", NamedValue::Int64(8))])?;
//! let device = client.devices()[0].id;
//! let shape = ArrayShape::new(DType::F32, [1]);
//! let bytes = 1.5f32.to_le_bytes();
//! let array = HostArray { bytes: &bytes, shape: &shape, device, memory: MemorySpace::Device };
//! let buffer = client.upload(array)?;
//! assert_eq!(buffer.to_literal()?.get_f64(0), 1.5);
//! # Ok::<(), hloom::pjrt::PjrtError>(())
//! ```

mod buffer;
mod call;
mod client;
mod client_state;
mod device;
pub(crate) mod elf;
pub(crate) mod error;
mod executable;
#[cfg(test)]
mod fake_table;
mod handle;
mod library_file;
pub(crate) mod loader;
mod options;
pub(crate) mod plugin;
mod sys;
mod topology;

#[cfg(test)]
mod tests;

pub use buffer::{Buffer, HostArray};
pub use client::Client;
pub use device::Device;
pub use error::{ErrorCode, PjrtError};
pub use executable::{Arg, Executable, LoadedExecutable, MemoryStats};
pub use options::{CompileOptions, NamedValue, OptionValue, PjrtProgram, ProgramFormat};
pub use plugin::Plugin;
pub(crate) use plugin::{LOG_LEVEL, quiet_logs};
pub use topology::Topology;
