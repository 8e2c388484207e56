//! Runs a plugin in a worker process, since a plugin may crash or hang: on an unsupported module, without enough memory, or
//! without its devices. Request and response are files in a temporary folder.
//!
//! [`compile_in_worker`], [`start()`] and [`describe`] start a [`WorkerProgram`] with the path of that folder as its last
//! argument. The program calls [`serve()`] with it and exits. This process holds the other end of the worker's standard
//! input: at end of file this process has exited, and the worker should exit too.

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
