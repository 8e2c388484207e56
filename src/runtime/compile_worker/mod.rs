//! Work with a plugin in another process, since a plugin may crash or hang: on an unsupported module, without enough
//! memory, or without its devices. Request and response are files in a temporary folder.
//!
//! [`compile_in_worker`], [`start()`] and [`describe`] start a program, which must do nothing but call [`serve()`] with its
//! last argument. It should end itself once its standard input ends: then this process has.

mod exchange;

mod cache;

mod error;

mod request;

mod run;

mod serve;

mod stub_libs;

mod start;

#[cfg(test)]
mod tests;

pub use cache::{CompileOrigin, compile_cached};
pub use error::{CompileWorkerError, WorkerStage};
pub use exchange::WorkerProgram;
pub use request::{CompiledProgram, PluginDescription};
pub use run::{CompileJob, compile_in_worker};
pub use serve::serve;
pub use start::{StartError, StartJob, describe, start};
