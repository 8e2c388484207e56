//! The C side, written by hand: the opaque objects, the argument structures of the calls in use, and the
//! table of calls. The source is `pjrt_c_api.h`; a test compares every offset with the header of API 0.81.

mod api;
mod args;
#[cfg(test)]
mod header;

pub use api::{Api, Call, MIN_MINOR};
pub use args::*;
