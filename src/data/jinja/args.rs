//! Arguments of calls, as Python binds them to parameters.

use std::sync::Arc;

use super::{
    error::{Error, Result},
    undefined::defined,
    value::PyValue,
};

/// Values passed to a function.
#[derive(Clone, Debug, Default)]
pub(super) struct Args {
    pub positional: Vec<PyValue>,
    pub named: Vec<(Arc<str>, PyValue)>,
}

impl Args {
    /// The arguments of the parameters `names` of `function`; an argument that was not passed is `None`.
    pub(super) fn bind<const N: usize>(
        self,
        function: &str,
        names: [&str; N],
    ) -> Result<[Option<PyValue>; N]> {
        let mut bound = [const { None }; N];
        let given = self.positional.len();
        if given > N {
            return Err(Error::new(format!("{function}() takes {N} arguments but {given} were given")));
        }
        for (slot, value) in bound.iter_mut().zip(self.positional) {
            *slot = Some(value);
        }
        for (name, value) in self.named {
            let Some(at) = names.iter().position(|known| **known == *name) else {
                let message = format!("{function}() got an unexpected keyword argument '{name}'");
                return Err(Error::new(message));
            };
            if bound[at].replace(value).is_some() {
                return Err(Error::new(format!("{function}() got multiple values for argument '{name}'")));
            }
        }
        Ok(bound)
    }

    /// As [`Self::bind`], for a function of Python that takes no names.
    pub(super) fn bind_positional<const N: usize>(self, function: &str) -> Result<[Option<PyValue>; N]> {
        if !self.named.is_empty() {
            return Err(Error::new(format!("{function}() takes no keyword arguments")));
        }
        self.bind(function, [""; N])
    }

    /// Fails if there is an argument.
    pub(super) fn none(self, function: &str) -> Result<()> {
        self.bind::<0>(function, []).map(|_| ())
    }
}

/// The argument, which must have been passed.
pub(super) fn required(argument: Option<PyValue>, function: &str, name: &str) -> Result<PyValue> {
    argument
        .ok_or_else(|| Error::new(format!("{function}() missing 1 required positional argument: '{name}'")))
}

/// An integer, or `default`.
pub(super) fn int_or(argument: Option<PyValue>, default: i128) -> Result<i128> {
    argument.map_or(Ok(default), |value| int(&value))
}

/// The integer of a value.
pub(super) fn int(value: &PyValue) -> Result<i128> {
    defined(value)?;
    let found = || Error::new(format!("'{}' object cannot be interpreted as an integer", value.type_name()));
    value.as_int().ok_or_else(found)
}

/// A text.
pub(super) fn text(value: &PyValue, function: &str) -> Result<String> {
    match value {
        PyValue::Text(text) => Ok(text.text.clone()),
        _ => Err(Error::new(format!("{function}: expected str, found {}", value.type_name()))),
    }
}

/// Whether an argument was passed and is true.
pub(super) fn is_true(argument: Option<PyValue>) -> bool {
    argument.is_some_and(|value| value.is_true())
}

/// The argument, unless it is `None`.
pub(super) fn not_none(argument: Option<PyValue>) -> Option<PyValue> {
    argument.filter(|value| !matches!(value, PyValue::None))
}

/// The bounds `start` and `stop` of a search in `length` items.
pub(super) fn bounds(length: usize, start: Option<PyValue>, stop: Option<PyValue>) -> Result<(usize, usize)> {
    let bound = |value: Option<PyValue>, default: usize| -> Result<usize> {
        let Some(value) = value.filter(|value| !matches!(value, PyValue::None)) else { return Ok(default) };
        let index = int(&value)?;
        let index = if index < 0 { (index + length as i128).max(0) } else { index };
        Ok(usize::try_from(index).unwrap_or(usize::MAX))
    };
    Ok((bound(start, 0)?, bound(stop, length)?.min(length)))
}
