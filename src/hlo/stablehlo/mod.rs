//! StableHLO text, the other format in which plugins take a module.
//!
//! A tuple of HLO is a list of values here, as loops and functions of StableHLO have lists of operands and results. A
//! computation that runs as the body, condition or reducer of one operation is printed as its region; the others are
//! functions. Names are those of the instructions.

mod body;
mod error;
mod forms;
mod functions;
mod literal;
mod module;
mod operations;
mod sharding;
mod shardy_text;
mod syntax;

pub use error::StablehloError;
pub use module::{print, print_with_locations};
