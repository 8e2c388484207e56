//! The operations of a Llama, each a call of a template.

mod attention;
mod dequantize;
mod dropout;
mod embed;
mod linear;
mod loss;
mod mlp;
mod norm;
mod rope;
mod scope;

pub use attention::attention;
pub use dequantize::{QuantizedValues, block_dims, dequantize};
pub use dropout::{DropoutKey, DropoutRate, dropout, dropout_key};
pub use embed::embed;
pub use linear::{LoraValues, linear};
pub use loss::{IGNORED, NextToken, loss, next_token};
pub use mlp::mlp;
pub use norm::norm;
pub use rope::{RopeTable, rope, rope_table};
pub use scope::{Attention, ModelScope, per_token, residual};
