//! AdamW, clipping and learning-rate schedules.

mod adamw;
mod clip;
mod schedule;

pub use adamw::{AdamW, Trained, Update};
pub(crate) use clip::{clip_factor, global_norm};
pub use schedule::{Schedule, ScheduleKind, UnknownSchedule};
