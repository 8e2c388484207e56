//! Types, names, strings and lists of MLIR.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::{self, Display},
};

use crate::base::{ArrayShape, DType, Shape};

/// The name of an element type.
pub(super) const fn element_type(dtype: DType) -> &'static str {
    match dtype {
        DType::Pred => "i1",
        DType::S8 => "i8",
        DType::S16 => "i16",
        DType::S32 => "i32",
        DType::S64 => "i64",
        DType::U8 => "ui8",
        DType::U16 => "ui16",
        DType::U32 => "ui32",
        DType::U64 => "ui64",
        DType::F16 => "f16",
        DType::F32 => "f32",
        DType::F64 => "f64",
        DType::BF16 => "bf16",
    }
}

/// `tensor<4x8xf32>`
pub(super) fn tensor(ArrayShape { dtype, dims }: &ArrayShape) -> String {
    let sizes: String = dims.iter().map(|size| format!("{size}x")).collect();
    format!("tensor<{sizes}{}>", element_type(*dtype))
}

/// `tensor<f32>`, or `tuple<tensor<f32>, tensor<i32>>`.
pub(super) fn tensor_or_tuple(shape: &Shape) -> String {
    match shape {
        Shape::Array(array) => tensor(array),
        Shape::Tuple(elements) => format!("tuple<{}>", commas(elements.iter().map(tensor_or_tuple))),
    }
}

/// The types of the arrays of a shape, nested tuples flattened.
pub(super) fn tensors(shape: &Shape) -> Vec<String> {
    let mut arrays = Vec::new();
    collect(shape, &mut arrays);
    arrays
}

fn collect(shape: &Shape, arrays: &mut Vec<String>) {
    match shape {
        Shape::Array(array) => arrays.push(tensor(array)),
        Shape::Tuple(elements) => elements.iter().for_each(|element| collect(element, arrays)),
    }
}

/// The types of results: one without parentheses, others with.
pub(super) fn result_types(types: &[String]) -> String {
    match types {
        [one] => one.clone(),
        several => format!("({})", commas(several)),
    }
}

/// Joins with `, `.
pub(super) fn commas(items: impl IntoIterator<Item = impl Display>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}

/// `[0, 2]`
pub(super) fn list(items: impl IntoIterator<Item = impl Display>) -> String {
    format!("[{}]", commas(items))
}

/// A string in double quotes.
pub(super) struct Quoted<'a>(pub &'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for byte in self.0.bytes() {
            match byte {
                b'"' | b'\\' => write!(f, "\\{}", char::from(byte))?,
                b' '..=b'~' => write!(f, "{}", char::from(byte))?,
                _ => write!(f, "\\{byte:02X}")?,
            }
        }
        f.write_str("\"")
    }
}

/// `@name`, in quotes where MLIR requires them.
pub(super) fn symbol(name: &str) -> String {
    let starts = |c: char| c.is_ascii_alphabetic() || c == '_';
    let continues = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.');
    if name.starts_with(starts) && name.chars().all(continues) {
        format!("@{name}")
    } else {
        format!("@{}", Quoted(name))
    }
}

/// `{key = "value"}`
pub(super) fn dictionary(entries: &BTreeMap<&str, &str>) -> String {
    let plain = |key: &str| key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let entry = |(key, value): (&&str, &&str)| match plain(key) {
        true => format!("{key} = {}", Quoted(value)),
        false => format!("{} = {}", Quoted(key), Quoted(value)),
    };
    format!("{{{}}}", commas(entries.iter().map(entry)))
}

/// ` {a, b}`, or nothing.
pub(super) fn attributes(entries: &[String]) -> String {
    if entries.is_empty() { String::new() } else { format!(" {{{}}}", entries.join(", ")) }
}

/// The names in one scope, each unique.
#[derive(Default)]
pub(super) struct Names(HashMap<String, usize>);

impl Names {
    /// The name, with a number where it is taken.
    pub(super) fn unique(&mut self, name: &str) -> String {
        let mut unique = name.to_owned();
        while self.0.contains_key(&unique) {
            let uses = self.0.entry(name.to_owned()).or_default();
            *uses += 1;
            unique = format!("{name}.{uses}");
        }
        self.0.insert(unique.clone(), 0);
        unique
    }
}
