//! The values of attributes: each is recognized, checked by its form, and kept as its text.

mod aliases;
mod fields;
mod form;
mod metadata;
mod parts;
mod sharding;
mod window;

pub(super) use form::{Form, skip};
pub(super) use parts::{element, skip_unknown};
