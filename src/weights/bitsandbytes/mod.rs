//! Weights that bitsandbytes quantized, as transformers saves them: the codes under the name of the weight, other arrays beside it.

mod format;

mod read;
mod write;

pub use format::torch_name;
pub(super) use read::join;
pub use write::{QuantizedWeight, quantization_config};
