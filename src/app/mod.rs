//! The application as functions. Settings are resolved to plans, models and plugins are found, steps are compiled
//! and bundles read. Nothing here reads the environment or prints: what happens is reported to a [`Status`].

mod compile;
mod compute_type;
mod defaults;
mod dump_folder;
mod error;
mod fit_report;
pub mod hlo_files;
pub mod inspect;
pub mod merge;
mod module_file;
pub mod module_page;
mod parsed;
mod quantized_cache;
pub mod resolve;
pub mod resources;
pub mod settings;
mod starter;
mod status;
pub mod train_from_bundle;
mod workload;

pub(crate) use compile::common_templates;
pub use compile::{CompileReport, CompileRequest, CompileTools, compile, compile_module, target_devices};
pub use compute_type::ComputeType;
pub(crate) use defaults::{START_SECONDS, describe as describe_default};
pub use error::{AppError, ErrorClass};
pub use fit_report::{FitAdvice, TargetReport, fit_advice};
pub use parsed::{AttentionKind, ParseValueError, Parsed};
pub use starter::{Starter, timeout};
pub use status::Status;
pub use workload::OwnedWorkload;
