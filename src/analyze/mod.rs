//! What a module does, by its instructions: how often each computation runs, floating-point operations, collectives.
//!
//! All of it works on [`raw::Module`](crate::hlo::raw::Module), so on any HLO: before or after partitioning and optimization.

mod bytes;
mod collectives;
mod executions;
mod flops;
mod loops;
mod memory;

pub use bytes::{BytesMoved, Traffic};
pub use collectives::{Collective, CollectiveKind, collectives};
pub use executions::Executions;
pub use flops::{Flops, flops};
pub use loops::trip_count;
pub use memory::{Buffer, BufferKind, Memory, Peak, Position, padded_bytes};
