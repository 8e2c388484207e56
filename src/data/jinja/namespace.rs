//! Attributes of namespaces.

use std::sync::Arc;

use super::{
    error::{Error, Result},
    meter,
    value::{Namespace, PyValue},
};

/// Sets an attribute of a namespace.
pub(super) fn set_attribute(namespace: &Namespace, name: Arc<str>, value: PyValue) -> Result<()> {
    if name.starts_with('_') {
        return Err(Error::new(format!(
            "Chat templates cannot store underscore-prefixed attributes on a namespace, but got '{name}'. Please rename the attribute."
        )));
    }
    let mut attributes = namespace.attributes.borrow_mut();
    meter::step(1 + attributes.len() / 8)?;
    match attributes.iter_mut().find(|(known, _)| *known == name) {
        // The old value is dropped after the new one is in place.
        Some((_, slot)) => drop(std::mem::replace(slot, value)),
        None => attributes.push((name, value)),
    }
    Ok(())
}
