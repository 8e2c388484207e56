//! Declarations of the C API, written by hand: opaque objects, argument structures of the calls in use, and the table
//! of calls. Source: `pjrt_c_api.h`; a test compares every offset with the header of API 0.81.

mod api;
mod args;
#[cfg(test)]
mod header;

pub(super) use api::{Api, Call, MIN_MINOR};
pub(super) use args::*;
