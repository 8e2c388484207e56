//! Errors of undefined values.

use super::{
    error::{Error, Result},
    meter::Writer,
    print,
    value::{PyValue, Undefined},
};

/// The error that using an undefined value raises.
pub(super) fn undefined_error(undefined: &Undefined) -> Error {
    message(undefined).map_or_else(|error| error, Error::new)
}

/// Fails if a value is undefined.
pub(super) fn defined(value: &PyValue) -> Result<()> {
    match value {
        PyValue::Undefined(undefined) => Err(undefined_error(undefined)),
        _ => Ok(()),
    }
}

/// Message of the error that using an undefined value raises.
fn message(undefined: &Undefined) -> Result<String> {
    Ok(match undefined {
        Undefined::Name(name) => format!("'{name}' is undefined"),
        Undefined::Attribute(of, PyValue::Text(name)) => {
            format!("'{of}' has no attribute {}", print::repr_text(&name.text))
        }
        Undefined::Attribute(of, name) => {
            let mut text = Writer::default();
            print::repr(name, &mut text)?;
            format!("{of} has no element {}", text.into_parts().0)
        }
        Undefined::Hint(hint) => hint.clone(),
    })
}
