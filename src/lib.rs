//! `hloom` builds a Llama LoRA training step (forward, backward, optimizer) as one HLO module, shards it over a device mesh,
//! and compiles and runs it with any PJRT plugin: CPU, CUDA, ROCm, TPU.
//!
//! # A first example
//!
//! A training step, as the module that every compiler gets:
//!
//! ```
//! use hloom::{
//!     base::DType,
//!     hlo::text,
//!     model::{Config, LoraSpec},
//!     step::{self, Packing, StepKind, StepSpec, Workload},
//!     templates::TemplateLibrary,
//! };
//!
//! let config = Config::builtin("tiny")?;
//! let lora = LoraSpec::all_linear(8, 16.0).resolve(&config)?;
//! let workload =
//!     Workload::new(&config, &lora, DType::F32, 2, 16);
//! let templates = TemplateLibrary::embedded();
//! let program = step::build(&StepSpec::new(workload, &templates), StepKind::Train)?;
//! assert!(text::print(&program.module).starts_with("HloModule hloom_step"));
//! // Arguments and results are described by slots. What a step updates is donated: the 14 factors of two layers, two moments
//! // of each, and the number of updates.
//! let donated = program.inputs.iter().filter(|slot| program.is_donated(slot.role)).count();
//! assert_eq!(donated, 43);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! With a mesh config, [`mesh::parse`] and [`mesh::Loaded::plan`] decide how each tensor is sharded, and [`step::build`]
//! annotates the module. In `examples/`, `build_step` lists the slots of a step, `shard_step` shards one over eight devices,
//! `compile_for_mi300x` compiles for devices that are not attached, and `train_on_cpu` trains.
//!
//! # The pipeline, with the type at each arrow
//!
//! ```text
//!  models/*.toml | config.json | GGUF ──> model::Config          hlo-templates/*.hlo
//!                                           │                           │ templates::Instantiator
//!                                           v                           v
//!               model::llama, model::nn  ──> hlo::Computation of one layer, of the head
//!               autodiff::backward       ──> their backward computations + residuals
//!               step::build              ──> the whole step: layer loops, remat schedule, loss, clipping, AdamW, donation
//!                                           │ values with logical shardings
//!  mesh-configs/*.toml ──> mesh::Plan  ──> mesh::annotate: a sharding on every annotated value
//!                                           │ hlo::verify
//!                                           v
//!  step::StepProgram = hlo::Verified + slots (role, dimensions, element type, sharding) in call order
//!                                           │ hlo::proto::encode
//!                                           v
//!  runtime::Engine: pjrt::Plugin ──> Client ──> LoadedExecutable
//!  runtime::compile_worker: pjrt::Plugin ──> Topology ──> Executable (memory, optimized HLO, serialized bytes)
//!  runtime::place_base: weights::Checkpoint (mapped files) ──> a shard of each slot on every device
//!  train::run:      data::Batch ──> execute (state donated) ──> metrics, checkpoint ──> PEFT adapter
//!  app: settings ──> plans; compile, train and check as functions ──> cli: flags, printing, exit codes
//! ```
//!
//! # Layers
//!
//! A module uses only modules below it, and the files of a folder do not use each other in a circle; tests enforce both. From
//! the bottom: [`base`]; [`hlo`], [`data`], [`store`], [`pjrt`], and [`targets`] above `pjrt`; [`analyze`], with [`diff`] and
//! [`page`] above it, [`autodiff`], [`mesh`]; [`templates`]; [`model`], [`optim`]; [`weights`]; [`step`]; [`runtime`]; [`train`];
//! [`app`]; [`cli`]. Only `cli` reads the environment, prints, or exits. Only `pjrt` and the file mapping in `weights` contain
//! `unsafe` code.
//!
//! # Glossary
//!
//! - **cotangent**: the derivative of the loss with respect to a value, of that value's shape.
//! - **residual**: a value of the forward pass that the backward pass reads.
//! - **rematerialization**: computing a value of the forward pass again in the backward pass instead of saving it.
//! - **template**: HLO text with parameters (`$t[$rows,$dim]`); it is instantiated with arguments.
//! - **stack**: a parameter of all layers as one array, with the layers as its first dimension.
//! - **block** of attention: some queries with some keys, whose scores exist at one time. **Chunk** of the loss: some
//!   positions of every row, whose logits exist at one time.
//! - **sample**: one record of the data. **Row**: one line of a batch, `[seq]`. **Segment**: one sample inside a packed row.
//! - **labelled token**: a token whose prediction is part of the loss; the labels of others are -100.
//! - **micro-batch**: an equal part of a batch inside a step; their gradients are summed. **Gradient accumulation**: several
//!   batches, each in a call of its own, whose gradients make one update.
//! - **donation**: an argument whose memory a result reuses; the argument is gone afterwards.
//! - **slot**: an argument or a result of a program, described by its [`step::Role`], dimensions, element type and sharding.
//! - **mesh**: devices in a grid with named axes. A dimension that an axis shards has a **shard** on each device along it;
//!   along an axis that shards none of its dimensions, a tensor is **replicated**.
//! - **logical sharding**: the named dimensions of a value, and the rule set of a mesh config that decides their axes.
//! - **target**: a kind of device and a number of them, present or not: `mi300x:8`.
//! - **bundle**: a folder with a compiled step: module, executables, manifest, memory report.
//! - **factor**: one of the two matrices of a LoRA adapter, `A` (down to the rank) or `B` (up from it).

#![warn(clippy::match_wildcard_for_single_variants, clippy::too_many_lines)]
#![cfg_attr(not(test), warn(unreachable_pub))]

pub mod base;

pub mod hlo;

pub mod templates;

pub mod analyze;

pub mod diff;

pub mod page;

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
