//! Compilation in a process of its own, since a plugin may end the process that it runs in: on a module that it
//! does not like, or for lack of memory. Request and answer are files in a temporary folder.
//!
//! [`compile_in_child`] starts a program, which must do nothing but call [`serve()`] with its last argument.

mod cache;

mod error;

mod request;

mod run;

mod serve;

#[cfg(test)]
mod tests;

pub use cache::{Origin, compile_cached};
pub use error::ChildError;
pub use request::Compiled;
pub use run::{ChildProgram, CompileJob, compile_in_child};
pub use serve::serve;
