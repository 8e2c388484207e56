//! Values of settings that are parsed from one word, on a command line as in a run file.

use std::{fmt, marker::PhantomData, str::FromStr};

use serde::{Deserialize, Deserializer, de};

use crate::{
    base::{DType, Scheme, nearest_hint},
    model::{BaseStorage, Targets},
    optim::ScheduleKind,
    step::Remat,
    targets::{Target, TargetError},
};

/// A value that is parsed from the text that users write.
///
/// ```
/// use hloom::{app::Parsed, targets::Target};
///
/// let target: Parsed<Target> = "mi300x:8".parse()?;
/// assert_eq!(target.0.devices(), 8);
/// # Ok::<(), hloom::app::ParseValueError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed<T>(pub T);

impl<T: fmt::Display> fmt::Display for Parsed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Text that is not a value of a setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}", .hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default())]
pub struct ParseValueError {
    /// The value found and the values expected.
    pub message: String,
    /// A thing to do about it.
    pub hint: Option<String>,
}

impl ParseValueError {
    fn new(message: impl fmt::Display, hint: Option<String>) -> Self {
        Self { message: message.to_string(), hint }
    }
}

/// A type with a textual form; a list of words in a run file is joined with commas.
pub trait ParseValue: Sized {
    /// Parses `text`.
    ///
    /// # Errors
    /// If `text` is not one of the values.
    fn parse_value(text: &str) -> Result<Self, ParseValueError>;
}

impl ParseValue for ScheduleKind {
    fn parse_value(text: &str) -> Result<Self, ParseValueError> {
        text.parse()
            .map_err(|error: crate::optim::UnknownSchedule| ParseValueError::new(&error, error.hint()))
    }
}

impl ParseValue for Target {
    fn parse_value(text: &str) -> Result<Self, ParseValueError> {
        text.parse().map_err(|error: TargetError| ParseValueError::new(&error, error.hint()))
    }
}

impl ParseValue for DType {
    fn parse_value(text: &str) -> Result<Self, ParseValueError> {
        const NAMES: [&str; 2] = ["float32", "bfloat16"];
        match text {
            "float32" | "f32" => Ok(Self::F32),
            "bfloat16" | "bf16" => Ok(Self::BF16),
            _ => {
                let message = format!("expected `float32` or `bfloat16`, found: {text}");
                Err(ParseValueError::new(message, nearest_hint(text, NAMES)))
            }
        }
    }
}

impl ParseValue for BaseStorage {
    fn parse_value(text: &str) -> Result<Self, ParseValueError> {
        if let Ok(dtype) = DType::parse_value(text) {
            return Ok(Self::Plain(dtype));
        }
        let schemes = || Scheme::ALL.iter().copied();
        schemes().find(|scheme| scheme.name() == text).map(Self::Quantized).ok_or_else(|| {
            let names: Vec<&str> = schemes().map(Scheme::name).chain(["bf16", "f32"]).collect();
            let message = format!("expected one of {}, found: {text}", names.join(", "));
            ParseValueError::new(message, nearest_hint(text, names))
        })
    }
}

/// The kinds of [`Attention`](crate::model::nn::Attention), without the size of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttentionKind {
    /// All scores of a row at once.
    Dense,
    /// In blocks of queries and keys.
    Blocks,
}

impl AttentionKind {
    const ALL: [Self; 2] = [Self::Dense, Self::Blocks];

    /// Its name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dense => "dense",
            Self::Blocks => "blocks",
        }
    }
}

impl fmt::Display for AttentionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ParseValue for AttentionKind {
    fn parse_value(text: &str) -> Result<Self, ParseValueError> {
        one_of(text, Self::ALL.map(|kind| (kind.name(), kind)))
    }
}

impl ParseValue for Remat {
    fn parse_value(text: &str) -> Result<Self, ParseValueError> {
        one_of(text, Self::ALL.map(|remat| (remat.name(), remat)))
    }
}

/// The value of one of several names.
fn one_of<T, const N: usize>(text: &str, words: [(&'static str, T); N]) -> Result<T, ParseValueError> {
    let names = words.each_ref().map(|(name, _)| *name);
    let found = words.into_iter().find(|(name, _)| *name == text);
    found.map(|(_, meaning)| meaning).ok_or_else(|| {
        let message = format!("expected one of {}, found: {text}", names.join(", "));
        ParseValueError::new(message, nearest_hint(text, names))
    })
}

impl ParseValue for Targets {
    fn parse_value(text: &str) -> Result<Self, ParseValueError> {
        if text.eq_ignore_ascii_case("all-linear") {
            return Ok(Self::AllLinear);
        }
        if let Some(pattern) = text.strip_prefix("re:") {
            return Ok(Self::Regex(pattern.to_owned()));
        }
        let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
        if names.iter().any(String::is_empty) {
            let message = format!("expected comma-separated names, found: {text:?}");
            return Err(ParseValueError::new(message, None));
        }
        Ok(Self::Names(names))
    }
}

impl<T: ParseValue> FromStr for Parsed<T> {
    type Err = ParseValueError;

    fn from_str(text: &str) -> Result<Self, ParseValueError> {
        T::parse_value(text).map(Self)
    }
}

impl<'de, T: ParseValue> Deserialize<'de> for Parsed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ParsedVisitor(PhantomData))
    }
}

struct ParsedVisitor<T>(PhantomData<T>);

impl<'de, T: ParseValue> de::Visitor<'de> for ParsedVisitor<T> {
    type Value = Parsed<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Parsed<T>, E> {
        T::parse_value(text).map(Parsed).map_err(E::custom)
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut sequence: A) -> Result<Parsed<T>, A::Error> {
        let mut words: Vec<String> = Vec::new();
        while let Some(word) = sequence.next_element()? {
            words.push(word);
        }
        self.visit_str(&words.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: ParseValue + PartialEq + fmt::Debug>(text: &str, expect: Result<T, &str>) {
        assert_eq!(T::parse_value(text).map_err(|error| error.to_string()), expect.map_err(str::to_owned));
    }

    #[test]
    fn names_are_parsed() {
        check("linear", Ok(ScheduleKind::Linear));
        check("bfloat16", Ok(DType::BF16));
        check("cpu", Ok(Target::default()));
        check("none", Ok(Remat::None));
        check("blocks", Ok(AttentionKind::Blocks));
        check("all-linear", Ok(Targets::AllLinear));
        check("re:.*proj", Ok(Targets::Regex(".*proj".into())));
        check("q_proj, v_proj", Ok(Targets::Names(vec!["q_proj".into(), "v_proj".into()])));
    }

    #[test]
    fn an_unknown_name_is_an_error_with_the_known_ones() {
        check::<ScheduleKind>("cosin", Err("unknown schedule: cosin (did you mean `cosine`?)"));
        check::<Target>(
            "cpu:4x",
            Err("expected a number of devices after `cpu:`, found: 4x (for example `cpu:8`)"),
        );
        check::<Target>(
            "metal",
            Err(
                "unknown target: metal (targets: cpu, mi300x, mi325x, mi355x, mi300a, mi250x, h100, h200, b200, \
                 b300, gb200, a100-40, a100-80, l40s, a6000, rtx4090, rtx3090, v4, v5e, v5p, v6e, tpu7x, cuda, rocm, \
                 tpu, a device file NAME.toml)",
            ),
        );
        check::<Target>("h200s", Err("unknown target: h200s (did you mean `h200`?)"));
        check::<DType>(
            "float23",
            Err("expected `float32` or `bfloat16`, found: float23 (did you mean `float32`?)"),
        );
        check::<DType>("int8", Err("expected `float32` or `bfloat16`, found: int8"));
        check::<Remat>(
            "ofload",
            Err("expected one of full, dots, none, offload, found: ofload (did you mean `offload`?)"),
        );
        check::<AttentionKind>("flash", Err("expected one of dense, blocks, found: flash"));
        check::<Targets>("q_proj,", Err("expected comma-separated names, found: \"q_proj,\""));
    }
}
