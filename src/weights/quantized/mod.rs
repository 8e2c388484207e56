//! Quantization of weights on the host, and its inverse.
//!
//! The parts of a weight are flat, row-major, little-endian arrays in the order of [`Scheme::parts`](crate::base::Scheme::parts).

mod blockwise;

mod ggml;
mod hqq4;
mod int8;
mod nf4;

mod parts;
mod stored;

pub(super) use blockwise::{Matrix, floats};
pub(super) use ggml::unpack;
pub(super) use int8::LARGEST as LARGEST_INT8;
pub(super) use nf4::NESTED;
pub(super) use parts::{Parts, part_bytes};
pub(super) use stored::{PartBytes, StoredParts};
