//! The layer mathematics, as HLO text with parameters in `hlo-templates/`.
//!
//! `NAME.hlo` holds one computation, `NAME.grad.hlo` beside it the gradient that replaces what autodiff would derive.
//! `NAME@PLATFORM.hlo` and `NAME@PLATFORM.grad.hlo` are for one platform only, for example with a vendor's kernel.
//! A parameter is `$name`; its argument is an element type, a size, several sizes or a number. The files are embedded in the
//! binary; a folder given by the user replaces them by name.

mod embedded;
mod error;
mod info;
mod instantiate;
mod library;
mod signature;
mod source;
mod substitute;

pub use embedded::KERNELS;
pub use error::{FIT, TemplateError};
pub use info::TemplateInfo;
pub use instantiate::Instantiator;
pub use library::TemplateLibrary;
pub use substitute::TemplateArg;
pub(crate) use substitute::template_args;
