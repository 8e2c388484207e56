use std::fmt;

use super::error::TemplateError;
use crate::base::{DType, LineIndex};

/// The argument of a template parameter `$name`.
#[derive(Clone, Debug, PartialEq)]
pub enum TemplateArg {
    /// An element type.
    DType(DType),
    /// One size.
    Size(usize),
    /// Several sizes or dimensions, separated by commas.
    Sizes(Vec<usize>),
    /// A number, printed so that it reads back as the same float64.
    Number(f64),
}

impl fmt::Display for TemplateArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DType(dtype) => dtype.fmt(f),
            Self::Size(size) => size.fmt(f),
            Self::Sizes(sizes) => {
                let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
                f.write_str(&sizes.join(","))
            }
            Self::Number(number) => write!(f, "{number:?}"),
        }
    }
}

macro_rules! from {
    ($( $type:ty => $variant:ident; )*) => { $(
        impl From<$type> for TemplateArg {
            fn from(value: $type) -> Self {
                Self::$variant(value)
            }
        }
    )* };
}

from! {
    DType => DType;
    usize => Size;
    Vec<usize> => Sizes;
    f64 => Number;
}

/// The arguments of a template: `template_args! { t: dtype, batch, seq }`; a bare name takes the variable of that name.
macro_rules! template_args {
    (@value $name:ident) => { $crate::templates::TemplateArg::from($name.clone()) };
    (@value $name:ident $value:expr) => { $crate::templates::TemplateArg::from($value) };
    ($( $name:ident $(: $value:expr)? ),* $(,)?) => {
        &[$( (stringify!($name), $crate::templates::template_args!(@value $name $($value)?)), )*]
    };
}
pub(crate) use template_args;

/// Replaces every `$name` in `text` by its argument.
///
/// # Errors
/// A name without an argument.
pub(super) fn substitute(
    text: &str,
    file: &str,
    args: &[(&str, TemplateArg)],
) -> Result<String, TemplateError> {
    let mut result = String::with_capacity(text.len() * 2);
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        result.push_str(&rest[..at]);
        let name_and_rest = &rest[at + 1..];
        let length = name_and_rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(name_and_rest.len());
        let (name, after) = name_and_rest.split_at(length);
        let Some((_, arg)) = args.iter().find(|(known, _)| *known == name) else {
            let before = text.len() - rest.len() + at;
            return Err(TemplateError::MissingArgument {
                file: file.to_owned(),
                line: LineIndex::new(text).line(before),
                parameter: name.to_owned(),
                known: args.iter().map(|(known, _)| (*known).to_owned()).collect(),
            });
        };
        result.push_str(&arg.to_string());
        rest = after;
    }
    result.push_str(rest);
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_argument_is_substituted() {
        let args =
            [("t", DType::BF16.into()), ("n", 3.into()), ("dims", vec![4, 5].into()), ("eps", 1e-5.into())];
        let text = substitute("x = $t[$n,$dims] constant($eps)", "f", &args).unwrap();
        assert_eq!(text, "x = bf16[3,4,5] constant(1e-5)");
        let open = substitute("a\n$b", "f", &[]).unwrap_err();
        assert_eq!(open.to_string(), "f:2: no argument for template parameter: $b");
    }
}
