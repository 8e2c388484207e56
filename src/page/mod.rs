//! A page to browse one HLO module, or two in step: one HTML file that needs no server and no network.
//!
//! It shows the computations as a tree with their sizes, every instruction with operands, users, layout, sharding, attributes
//! and source, the graph around an instruction, a search, the collectives, and where a [`MemoryCurve`] is given, the memory
//! over time. Of two modules it shows what was added, removed and changed.
//!
//! ```
//! use hloom::{
//!     hlo::raw,
//!     page::{self, Stage, Stages},
//! };
//!
//! let module = raw::parse("ENTRY main { x = f32[8] parameter(0) ROOT y = f32[8] negate(x) }", "negate.hlo")?;
//! let html = page::html(&Stages::One(Stage { title: "as written", module: &module, memory: None }));
//! assert!(html.starts_with("<!doctype html>"));
//! # Ok::<(), hloom::base::Diagnostics>(())
//! ```

mod data;
mod document;
mod pairs;
mod program;
mod strings;
#[cfg(test)]
mod tests;

pub use document::html;
pub use pairs::{Pair, PairStatus, Place};
pub use program::{CurveBuffer, CurvePoint, MemoryCurve, Stage, Stages};
