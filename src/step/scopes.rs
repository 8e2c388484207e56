//! The paths in the metadata of a step's instructions ([`hlo::metadata`](crate::hlo::metadata) has the rules).
//!
//! | path | instructions |
//! |---|---|
//! | `forward/next_token`, `forward/embed_tokens`, `forward/rotary_emb` | targets, embedding, rotation angles |
//! | `forward/layers` | the loops over the layers |
//! | `forward/layers/self_attn/q_proj` | a module of a layer, as transformers names it |
//! | `forward/layers/q_proj.lora_A` | the layer's slice of a parameter or adapter factor, and its resharding |
//! | `forward/layers/residuals` | what the backward pass reads |
//! | `forward/head/norm`, `forward/head/lm_head`, `forward/head/loss` | the head |
//! | `backward/head`, `backward/layers`, `backward/embed_tokens` | cotangents, with the paths of the primal operations |
//! | `backward/layers/grad.q_proj.lora_A` | the gradient of a trainable tensor |
//! | `optimizer/grad_norm`, `optimizer/clip`, `optimizer/adamw` | the update |
//! | `micro_batches` | the loop over micro-batches; what it runs has the paths above |
//! | `gradient_accumulation` | sums over several calls |
//! | `arguments`, `results` | padding of arguments and results |
//!
//! - A template is a scope of its own, and its instructions are named as in its file: `input_layernorm/rms_norm/inverse`.
//! - [`REMATTED`](crate::autodiff::REMATTED) is a component of the path of a value that is computed a second time:
//!   `backward/layers/rematted_computation/mlp/up_proj`.
//! - `sharding_constraint` after the path of a value is a constraint on its sharding.
//! - An argument has the name of its role and no scope, as in JAX.

/// The first component of every path, except those of arguments.
pub const FIRST: &[&str] =
    &[FORWARD, BACKWARD, OPTIMIZER, MICRO_BATCHES, GRADIENT_ACCUMULATION, ARGUMENTS, RESULTS];

/// The forward pass.
pub const FORWARD: &str = "forward";

/// The layers in the forward pass.
pub const FORWARD_LAYERS: &str = "forward/layers";

/// The head in the forward pass.
pub const FORWARD_HEAD: &str = "forward/head";

/// The loss in the forward pass.
pub const FORWARD_LOSS: &str = "forward/head/loss";

/// The backward pass.
pub const BACKWARD: &str = "backward";

/// The layers in the backward pass.
pub const BACKWARD_LAYERS: &str = "backward/layers";

/// The head in the backward pass.
pub const BACKWARD_HEAD: &str = "backward/head";

/// Values of the forward pass that the backward pass reads, inside of `layers`.
pub const RESIDUALS: &str = "residuals";

/// The update of the trainable tensors.
pub const OPTIMIZER: &str = "optimizer";

/// The loop over micro-batches.
pub const MICRO_BATCHES: &str = "micro_batches";

/// Sums over several calls.
pub const GRADIENT_ACCUMULATION: &str = "gradient_accumulation";

/// Arguments without padding.
pub const ARGUMENTS: &str = "arguments";

/// Results with padding.
pub const RESULTS: &str = "results";
