//! Layer 1': the boundary to PJRT plugins. Bytes and handles only; it knows no HLO.
//!
//! A [`Plugin`] starts a [`Client`], which compiles a [`PjrtProgram`] into a [`LoadedExecutable`] and holds
//! [`Buffer`]s; or it describes a [`Topology`] of devices that are not present and compiles for that. Every call
//! goes through one funnel, every object keeps what it depends on, and all calls block.

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
pub use plugin::{LOG_LEVEL, Plugin, quiet_logs};
pub use topology::Topology;
