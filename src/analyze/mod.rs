//! What a module does, by its instructions: how often each computation runs, floating-point operations, collectives.
//!
//! All of it works on [`raw::Module`](crate::hlo::raw::Module), so on any HLO: before or after partitioning and optimization.

mod collectives;
mod executions;
mod flops;
mod loops;
mod memory;

pub use collectives::{Collective, CollectiveKind, collectives};
pub use executions::{Executions, callee_runs};
pub use flops::{Flops, flops, instruction_flops};
pub use loops::trip_count;
pub use memory::{Buffer, BufferKind, Memory, Peak, Position, padded_bytes};
