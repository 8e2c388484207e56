//! What a module does, by its instructions: how often each computation runs, floating-point operations, bytes
//! moved, memory over the schedule, collectives and what they overlap with, and the parts of the source that operations come from.
//!
//! All of it works on [`raw::Module`](crate::hlo::raw::Module), so on any HLO: before or after partitioning and optimization.

mod axes;
mod bytes;
mod collectives;
mod executions;
mod flops;
mod loops;
mod memory;
mod op_name;

pub use axes::{axes, permute_axes};
pub use bytes::{BytesMoved, Traffic};
pub use collectives::{Collective, CollectiveKind, collectives};
pub use executions::{Executions, callee_runs};
pub use flops::{Flops, flops, instruction_flops};
pub use loops::trip_count;
pub use memory::{Buffer, BufferKind, Memory, Peak, Position, padded_bytes};
pub use op_name::{OpPath, Pass, nearest_op_names, op_name};
