use std::fmt;

use super::TemplateError;
use crate::base::{DType, LineIndex};

/// What stands in the place of a `$name`.
#[derive(Clone, Debug, PartialEq)]
pub enum Hole {
    /// An element type.
    DType(DType),
    /// One size.
    Size(usize),
    /// Several sizes or dimensions, separated by commas.
    Sizes(Vec<usize>),
    /// A number, printed so that it reads back as the same float64.
    Number(f64),
}

impl fmt::Display for Hole {
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
        impl From<$type> for Hole {
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

/// `text` with every `$name` replaced.
pub(super) fn fill(text: &str, file: &str, holes: &[(&str, Hole)]) -> Result<String, TemplateError> {
    let mut filled = String::with_capacity(text.len() * 2);
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        filled.push_str(&rest[..at]);
        let name_and_rest = &rest[at + 1..];
        let length = name_and_rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(name_and_rest.len());
        let (name, after) = name_and_rest.split_at(length);
        let Some((_, hole)) = holes.iter().find(|(known, _)| *known == name) else {
            let before = text.len() - rest.len() + at;
            return Err(TemplateError::Hole {
                file: file.to_owned(),
                line: LineIndex::new(text).line(before),
                hole: name.to_owned(),
                known: holes.iter().map(|(known, _)| (*known).to_owned()).collect(),
            });
        };
        filled.push_str(&hole.to_string());
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_hole_is_filled() {
        let holes =
            [("t", DType::BF16.into()), ("n", 3.into()), ("dims", vec![4, 5].into()), ("eps", 1e-5.into())];
        let filled = fill("x = $t[$n,$dims] constant($eps)", "f", &holes).unwrap();
        assert_eq!(filled, "x = bf16[3,4,5] constant(1e-5)");
        let open = fill("a\n$b", "f", &[]).unwrap_err();
        assert_eq!(open.to_string(), "f:2: nothing fills the hole: $b");
    }
}
