//! Layer 1': the boundary to PJRT plugins. Bytes and handles only; it knows no HLO.
//!
//! A [`Plugin`] starts a [`Client`], which compiles a [`Program`] into a [`LoadedExecutable`] and holds
//! [`Buffer`]s; or it describes a [`Topology`] of devices that are not present and compiles for that. Every call
//! goes through one funnel, every object keeps what it depends on, and all calls block.

mod sys;

mod call;

mod error;

mod elf;

mod library_file;

mod loader;

mod plugin;

mod options;

mod handle;

mod device;

mod client;

mod buffer;

mod executable;

mod topology;

mod log;

mod process;

mod presence;

mod cuda_toolkit;

mod stand_ins;

pub mod targets;

pub mod child;

pub mod store;

#[doc(hidden)]
pub mod testing;

#[cfg(test)]
mod tests;

pub use buffer::{Buffer, HostArray};
pub use client::Client;
pub use device::Device;
pub use error::{ErrorCode, PjrtError};
pub use executable::{Arg, Executable, LoadedExecutable, MemoryStats};
pub use log::while_listening;
pub use options::{CompileOptions, NamedValue, OptionValue, Program, ProgramFormat};
pub use plugin::{LOG_LEVEL, Plugin, quiet_logs};
pub use presence::Presence;
pub use topology::Topology;
