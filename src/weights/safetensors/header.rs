use std::{collections::BTreeMap, fmt, ops::Range, path::Path};

use safetensors::Dtype;
use serde::{
    Deserialize, Deserializer,
    de::{Error, IntoDeserializer, MapAccess, Visitor, value},
};

use super::super::WeightsError;
use crate::base::MAX_SAFETENSORS_HEADER;

/// The header key of the metadata.
pub(super) const METADATA: &str = "__metadata__";

/// A tensor whose byte range has been checked against the file and its shape.
#[derive(Debug)]
pub(super) struct Checked {
    pub dtype: String,
    pub dims: Vec<usize>,
    /// Range from the start of the file.
    pub bytes: Range<usize>,
}

/// Reads and checks the header of `file`: names are unique, and the tensors cover the rest of the file without overlap or
/// gap. An unknown element type is an error only when the tensor is read.
pub(super) fn parse(path: &Path, file: &[u8]) -> Result<BTreeMap<String, Checked>, WeightsError> {
    let bad = |problem| WeightsError::Header { path: path.to_owned(), problem };
    let cut =
        |expected| WeightsError::Truncated { path: path.to_owned(), expected, found: file.len() as u64 };
    let (length, rest) = file.split_first_chunk::<8>().ok_or_else(|| cut(8))?;
    let length = u64::from_le_bytes(*length);
    if length > MAX_SAFETENSORS_HEADER {
        return Err(bad(format!(
            "expected a header of at most {MAX_SAFETENSORS_HEADER} bytes, found a length of {length}"
        )));
    }
    let (header, data) = rest.split_at_checked(length as usize).ok_or_else(|| cut(8 + length))?;
    let RawHeader(mut entries) = serde_json::from_slice(header)
        .map_err(|source| WeightsError::Json { path: path.to_owned(), source })?;
    entries.sort_by_key(|(_, entry)| entry.data_offsets);

    let start = 8 + header.len();
    let mut checked = BTreeMap::new();
    let mut position = start;
    for (name, entry) in entries {
        let wrong = |problem| WeightsError::Tensor { path: path.to_owned(), name: name.clone(), problem };
        if checked.contains_key(&name) {
            return Err(wrong("duplicate name".to_owned()));
        }
        let tensor = entry.check(start, position).map_err(|error| wrong(error.to_string()))?;
        position = tensor.bytes.end;
        checked.insert(name, tensor);
    }
    if position > file.len() {
        return Err(cut(position as u64));
    }
    if position < file.len() {
        let (expected, found) = (position - start, data.len());
        return Err(bad(format!("expected {expected} bytes of tensors, found {found}")));
    }
    Ok(checked)
}

#[derive(Debug, Deserialize)]
struct Raw {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (usize, usize),
}

/// A contradiction in the header entry of a tensor.
#[derive(Debug, thiserror::Error)]
enum EntryError {
    #[error("expected data from byte {expected} on, found {first} to {end}")]
    Offset { expected: usize, first: usize, end: usize },
    #[error("expected {expected} bytes for {dtype} {shape:?}, found {found}")]
    Size { expected: usize, dtype: String, shape: Vec<usize>, found: usize },
    #[error("expected a whole number of bytes, found {dtype} {shape:?}")]
    PartialByte { dtype: String, shape: Vec<usize> },
    #[error("expected a size below 2^64, found {0}")]
    Overflow(usize),
}

impl Raw {
    /// Checks an entry whose data is expected at `position`; the data of all tensors begins at `start`.
    fn check(self, start: usize, position: usize) -> Result<Checked, EntryError> {
        let Self { dtype, shape, data_offsets: (first, end) } = self;
        let expected = position - start;
        if first != expected || end < first {
            return Err(EntryError::Offset { expected, first, end });
        }
        let found = end - first;
        if let Some(expected) = expected_size(&dtype, &shape)?.filter(|&expected| expected != found) {
            return Err(EntryError::Size { expected, dtype, shape, found });
        }
        let end = position.checked_add(found).ok_or(EntryError::Overflow(found))?;
        Ok(Checked { dtype, dims: shape, bytes: position..end })
    }
}

/// Size of a tensor in bytes, by the element types of the reference implementation; `None` for an unknown type.
fn expected_size(dtype: &str, shape: &[usize]) -> Result<Option<usize>, EntryError> {
    let name: value::StrDeserializer<'_, value::Error> = dtype.into_deserializer();
    let Ok(known) = Dtype::deserialize(name) else { return Ok(None) };
    let elements = shape.iter().try_fold(1usize, |product, &dim| product.checked_mul(dim));
    match elements.and_then(|n| n.checked_mul(known.bitsize())) {
        Some(bits) if bits.is_multiple_of(8) => Ok(Some(bits / 8)),
        _ => Err(EntryError::PartialByte { dtype: dtype.to_owned(), shape: shape.to_vec() }),
    }
}

/// The entries in file order, including duplicates.
struct RawHeader(Vec<(String, Raw)>);

impl<'de> Deserialize<'de> for RawHeader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = RawHeader;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from tensor names to types, shapes and offsets")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawHeader, A::Error> {
                let mut entries = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    if name == METADATA {
                        map.next_value::<Option<BTreeMap<String, String>>>()?;
                        continue;
                    }
                    let entry =
                        map.next_value().map_err(|e| A::Error::custom(format!("tensor `{name}`: {e}")))?;
                    entries.push((name, entry));
                }
                Ok(RawHeader(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use proptest::prelude::*;

    use super::*;

    fn file(header: &str, data: usize) -> Vec<u8> {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes.resize(bytes.len() + data, 0);
        bytes
    }

    fn check(bytes: &[u8], expect: &str) {
        let error = parse(Path::new("m.safetensors"), bytes).unwrap_err();
        let text = match error.source() {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        };
        assert_eq!(text, expect);
    }

    fn f32s(name: &str, dims: &str, start: usize, end: usize) -> String {
        format!(r#""{name}":{{"dtype":"F32","shape":{dims},"data_offsets":[{start},{end}]}}"#)
    }

    #[test]
    fn a_file_cut_short_says_how_long_it_should_be() {
        check(&[1, 0, 0], "m.safetensors is truncated: expected 8 bytes, found 3");
        check(&file("{}", 0)[..9], "m.safetensors is truncated: expected 10 bytes, found 9");
        let header = format!("{{{}}}", f32s("w", "[4]", 0, 16));
        let expect = format!(
            "m.safetensors is truncated: expected {} bytes, found {}",
            header.len() + 24,
            header.len() + 23
        );
        check(&file(&header, 15), &expect);
        check(
            &u64::MAX.to_le_bytes(),
            "malformed header in m.safetensors: expected a header of at most 100000000 bytes, \
             found a length of 18446744073709551615",
        );
    }

    #[test]
    fn overlaps_holes_and_wrong_sizes_are_refused() {
        let two = |a: &str, b: &str, data| file(&format!("{{{a},{b}}}"), data);
        check(
            &two(&f32s("a", "[2]", 0, 8), &f32s("b", "[2]", 4, 12), 12),
            "m.safetensors: tensor `b`: expected data from byte 8 on, found 4 to 12",
        );
        check(
            &two(&f32s("a", "[2]", 0, 8), &f32s("b", "[1]", 12, 16), 16),
            "m.safetensors: tensor `b`: expected data from byte 8 on, found 12 to 16",
        );
        check(
            &two(&f32s("a", "[2]", 0, 8), &f32s("a", "[2]", 8, 16), 16),
            "m.safetensors: tensor `a`: duplicate name",
        );
        check(
            &file(&format!("{{{}}}", f32s("a", "[3]", 0, 8)), 8),
            "m.safetensors: tensor `a`: expected 12 bytes for F32 [3], found 8",
        );
        check(
            &file(&format!("{{{}}}", f32s("a", "[4294967296,4294967296]", 0, 8)), 8),
            "m.safetensors: tensor `a`: expected a whole number of bytes, found F32 [4294967296, 4294967296]",
        );
        check(
            &file(&format!("{{{}}}", f32s("a", "[2]", 0, 8)), 9),
            "malformed header in m.safetensors: expected 8 bytes of tensors, found 9",
        );
    }

    #[test]
    fn a_malformed_entry_names_its_tensor() {
        check(
            &file(r#"{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}"#, 4),
            "malformed JSON in m.safetensors: tensor `a`: invalid value: integer `-1`, expected usize \
             at line 1 column 31",
        );
    }

    proptest! {
        #[test]
        fn random_and_mutated_headers_never_panic(at in 0usize..200, byte: u8, noise: Vec<u8>) {
            let mut bytes = file(&format!("{{{},{}}}", f32s("a", "[2]", 0, 8), f32s("b", "[2]", 8, 16)), 16);
            let _ = parse(Path::new("m"), &noise);
            let at = at % bytes.len();
            bytes[at] = byte;
            let _ = parse(Path::new("m"), &bytes);
            let _ = parse(Path::new("m"), &bytes[..at]);
        }
    }
}
