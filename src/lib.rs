//! `hloom` weaves a Llama LoRA training step (forward, backward, optimizer) into one HLO module and hands it to
//! whatever PJRT plugin is there: CPU, CUDA, ROCm, TPU.
//!
//! # The pipeline, with the type at each arrow
//!
//! ```text
//!  models/*.toml | config.json | GGUF ──> model::Config          hlo-templates/*.hlo
//!                                           │                           │ templates::Instantiator
//!                                           v                           v
//!               model::llama, model::nn  ──> hlo::Computation of one layer, of the head
//!               autodiff::backward       ──> their backward computations
//!               step::build              ──> both loops over the stack, the loss in chunks, clipping, AdamW, aliases;
//!                                           │ a step::StepOptions says what is kept, where, and in which pieces
//!                                           │ values tagged with their named dimensions
//!  mesh-configs/*.toml ──> mesh::Plan  ──> mesh::annotate: a sharding for every tag
//!                                           │ hlo::verify
//!                                           v
//!  step::StepProgram = hlo::Verified + slots (role, dimensions, element type, sharding) in call order
//!                                           │ hlo::proto::encode
//!                                           v
//!  runtime::Engine: pjrt::Plugin ──> Client ──> LoadedExecutable
//!  runtime::place:  weights::Checkpoint (mapped files) ──> a shard of each slot on every device
//!  train::run:      data::Batch ──> execute (state donated) ──> metrics, checkpoint ──> PEFT adapter
//! ```
//!
//! # Layers
//!
//! A module uses only those below it; a test sees to it. From the bottom: [`base`]; [`hlo`], [`templates`] and, apart
//! from these, [`pjrt`]; [`autodiff`], [`mesh`], [`weights`], [`data`]; [`model`], [`optim`]; [`step`]; [`runtime`]; [`train`];
//! [`cli`]. Only `cli` reads the environment, prints, or exits. Only `pjrt` and the file mapping in `weights` hold
//! `unsafe` code.
//!
//! # Glossary
//!
//! - **cotangent**: the derivative of the loss with respect to a value, of that value's shape.
//! - **residual**: a value of the forward pass that the backward pass reads.
//! - **rematerialization**: computing a value of the forward pass again in the backward pass instead of keeping it.
//! - **stack**: a parameter of all layers as one tensor, with the layers as its first dimension.
//! - **block** of attention: some queries with some keys, whose scores are there at one time. **Chunk** of the loss: some
//!   positions of every sequence, whose logits are.
//! - **micro-batch**: a part of a batch that is computed before the next one; their gradients are summed.
//! - **segment**: one of several sequences that share a row of a batch.
//! - **donation**: an argument whose memory a result takes over; the argument is gone afterwards.
//! - **slot**: an argument or a result of a program, described by its [`step::Role`], dimensions, element type and sharding.
//! - **mesh**: devices in a grid with named axes. A dimension that an axis splits has a **shard** on each device along it;
//!   an axis that splits none of a tensor's dimensions holds **replicas** of it.
//! - **tag**: the named dimensions of a value, and which rules of a mesh config it goes by.
//! - **factor**: one of the two matrices of a low-rank adapter, `A` (down to the rank) or `B` (up from it).
//! - **counted token**: a token whose prediction is part of the loss; labels of -100 are not.

#![warn(clippy::match_wildcard_for_single_variants)]

pub mod base;

pub mod hlo;

pub mod templates;

pub mod autodiff;

pub mod mesh;

pub mod pjrt;

pub mod store;

pub mod targets;

pub mod weights;

pub mod data;

pub mod model;

pub mod optim;

pub mod step;

pub mod runtime;

pub mod train;

pub mod app;

pub mod cli;

#[doc(hidden)]
pub mod testing;
