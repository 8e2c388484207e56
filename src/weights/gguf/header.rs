use std::{collections::BTreeMap, ops::Range, path::Path, sync::Arc};

use super::{
    super::{
        StoredType, TensorInfo, WeightsError,
        mapping::Mapping,
        tensor::{MappedTensor, RowOrder},
    },
    cursor::{Fault, GgufCursor},
    ggml_type,
    metadata::Metadata,
};

pub(super) const MAGIC: &[u8] = b"GGUF";

/// `GGML_MAX_DIMS` of ggml.
const MAX_DIMS: u32 = 4;

/// Minimum size in bytes of a key with its value, and of a tensor's entry.
const SMALLEST_PAIR: usize = 8 + 4 + 1;
const SMALLEST_TENSOR: usize = 8 + 4 + 4 + 8;

/// A file's metadata, and its tensors as the header lists them.
#[derive(Debug)]
pub(super) struct GgufHeader {
    pub metadata: Metadata,
    entries: Vec<TensorEntry>,
    /// Size of the header in bytes.
    len: usize,
}

impl GgufHeader {
    /// Reads the header of a mapped file. Metadata keys are unique.
    pub(super) fn read(file: &Mapping) -> Result<Self, WeightsError> {
        Self::parse(file.path(), file.bytes())
    }

    /// Checks that the tensors follow each other, each at the next multiple of the alignment, that they are inside the file,
    /// that names are unique and types supported.
    pub(super) fn tensors(self, file: &Arc<Mapping>) -> Result<BTreeMap<String, MappedTensor>, WeightsError> {
        let tensors = self.layout(file.bytes().len())?;
        let mapped = |(info, bytes)| MappedTensor {
            info,
            file: file.clone(),
            bytes,
            rows: RowOrder::Same,
            quantized: None,
        };
        Ok(tensors.into_iter().map(|(name, tensor)| (name, mapped(tensor))).collect())
    }

    fn parse(path: &Path, bytes: &[u8]) -> Result<Self, WeightsError> {
        let located = |fault| located(fault, path, bytes.len());
        let mut cursor = GgufCursor::new(bytes);
        check_version(path, &mut cursor).map_err(located)??;
        let (n_tensors, metadata) = read_metadata(path, &mut cursor).map_err(located)?;
        let mut entries = Vec::new();
        for _ in 0..n_tensors {
            entries.push(read_entry(&mut cursor).map_err(located)?);
        }
        Ok(Self { metadata, entries, len: cursor.position() })
    }

    fn layout(self, file_len: usize) -> Result<BTreeMap<String, (TensorInfo, Range<usize>)>, WeightsError> {
        let Self { metadata, entries, len } = self;
        let path = &metadata.path;
        check_types(path, &entries)?;
        let alignment = metadata.size("general.alignment")?.unwrap_or(32);
        if !alignment.is_power_of_two() {
            return Err(
                metadata.wrong("general.alignment", format!("expected a power of two, found {alignment}"))
            );
        }
        let start = len.next_multiple_of(alignment);
        let mut tensors = BTreeMap::new();
        let mut position = start;
        for TensorEntry { name, info, offset } in entries {
            let wrong = |problem| WeightsError::Tensor { path: path.clone(), name: name.clone(), problem };
            if offset != (position - start) as u64 {
                return Err(wrong(format!("expected data at offset {}, found {offset}", position - start)));
            }
            let size = info.elements().and_then(|n| info.stored.bytes(n));
            let end = size.and_then(|size| position.checked_add(size));
            let Some((end, next)) = end.and_then(|end| Some((end, end.checked_next_multiple_of(alignment)?)))
            else {
                let TensorInfo { dims, stored } = &info;
                return Err(wrong(format!("expected a size that fits in memory, found {stored} {dims:?}")));
            };
            if end > file_len {
                return Err(located(Fault::Ends(end as u64), path, file_len));
            }
            if tensors.insert(name.clone(), (info, position..end)).is_some() {
                return Err(wrong("duplicate name".to_owned()));
            }
            position = next;
        }
        Ok(tensors)
    }
}

fn located(fault: Fault, path: &Path, file_len: usize) -> WeightsError {
    match fault {
        Fault::Bad(problem) => WeightsError::Header { path: path.to_owned(), problem },
        Fault::Ends(expected) => {
            WeightsError::Truncated { path: path.to_owned(), expected, found: file_len as u64 }
        }
    }
}

/// Reports unsupported types, each with the number of its tensors and the first of them.
fn check_types(path: &Path, entries: &[TensorEntry]) -> Result<(), WeightsError> {
    let mut unreadable: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for TensorEntry { name, info, .. } in entries {
        if let StoredType::Other(kind) = &info.stored {
            unreadable.entry(kind).or_default().push(name);
        }
    }
    if unreadable.is_empty() {
        return Ok(());
    }
    let kind = |(kind, names): (&&str, &Vec<&str>)| match names[..] {
        [name] => format!("{kind} of `{name}`"),
        _ => format!("{kind} of {} tensors, the first of which is `{}`", names.len(), names[0]),
    };
    let kinds: Vec<String> = unreadable.iter().map(kind).collect();
    Err(WeightsError::Unsupported {
        path: path.to_owned(),
        problem: format!("unsupported element type: {}", kinds.join("; ")),
        hint: "use a file in F32, F16, BF16, Q8_0, Q6_K, Q5_K_M, Q4_K_M or another of the types Q4_0 to Q8_K, or the \
               model's Hugging Face folder",
    })
}

/// Reads the magic and the version. Version 2 has the layout of version 3, which allowed big-endian files.
fn check_version(path: &Path, cursor: &mut GgufCursor) -> Result<Result<(), WeightsError>, Fault> {
    let magic = cursor.u32()?.to_le_bytes();
    if magic != MAGIC {
        return Err(Fault::Bad(format!(
            "expected the letters GGUF, found {:?}",
            magic.escape_ascii().to_string()
        )));
    }
    let unsupported =
        |problem, hint| Ok(Err(WeightsError::Unsupported { path: path.to_owned(), problem, hint }));
    match cursor.u32()? {
        2 | 3 => Ok(Ok(())),
        1 => unsupported(
            "expected GGUF version 2 or 3, found 1".to_owned(),
            "convert the model again with a recent llama.cpp, or use its Hugging Face folder",
        ),
        version @ (0x0200_0000 | 0x0300_0000) => unsupported(
            format!("expected a little-endian file, found a big-endian one of version {}", version >> 24),
            "convert it with gguf-convert-endian of the Python package gguf",
        ),
        version => Err(Fault::Bad(format!("expected GGUF version 2 or 3, found {version}"))),
    }
}

fn read_metadata(path: &Path, cursor: &mut GgufCursor) -> Result<(usize, Metadata), Fault> {
    let n_tensors = cursor.count(SMALLEST_TENSOR)?;
    let n_pairs = cursor.count(SMALLEST_PAIR)?;
    let mut values = BTreeMap::new();
    for _ in 0..n_pairs {
        let key = cursor.string()?;
        let value = cursor.value()?;
        if values.insert(key.clone(), value).is_some() {
            return Err(Fault::Bad(format!("duplicate metadata key: {key}")));
        }
    }
    Ok((n_tensors, Metadata::new(path, values)))
}

#[derive(Debug)]
struct TensorEntry {
    name: String,
    info: TensorInfo,
    /// Offset from the start of the tensor data.
    offset: u64,
}

fn read_entry(cursor: &mut GgufCursor) -> Result<TensorEntry, Fault> {
    let name = cursor.string()?;
    let rank = cursor.u32()?;
    if rank > MAX_DIMS {
        return Err(Fault::Bad(format!(
            "tensor `{name}`: expected at most {MAX_DIMS} dimensions, found {rank}"
        )));
    }
    let mut dims = Vec::new();
    for _ in 0..rank {
        let dim = cursor.u64()?;
        let too_large = || Fault::Bad(format!("tensor `{name}`: dimension too large: {dim}"));
        dims.push(usize::try_from(dim).map_err(|_| too_large())?);
    }
    // GGUF lists the innermost dimension first.
    dims.reverse();
    let stored = ggml_type::stored(cursor.u32()?);
    let (block, _) = stored.block().unwrap_or((1, 0));
    if dims.last().is_some_and(|row| !row.is_multiple_of(block)) {
        return Err(Fault::Bad(format!(
            "tensor `{name}`: expected rows of whole {stored} blocks, found {dims:?}"
        )));
    }
    let offset = cursor.u64()?;
    Ok(TensorEntry { name, info: TensorInfo { dims, stored }, offset })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::fixture::Fixture, *};
    use crate::weights::Quantization;

    fn fixture() -> Fixture {
        Fixture::new()
            .text("general.architecture", "llama")
            .f32("llama.rope.freq_base", 10000.0)
            .texts("tokenizer.ggml.tokens", &["a", "b"])
            .f32s("a.weight", &[3], &[1.0, 2.0, 3.0])
            .raw("b.weight", &[2, 32], 8, &[0; 68])
    }

    fn layout(bytes: &[u8]) -> Result<BTreeMap<String, (TensorInfo, Range<usize>)>, WeightsError> {
        GgufHeader::parse(Path::new("m.gguf"), bytes)?.layout(bytes.len())
    }

    fn check(bytes: &[u8], expect: &str) {
        assert_eq!(layout(bytes).unwrap_err().to_string(), expect);
    }

    #[test]
    fn a_header_gives_sizes_outermost_first() {
        let bytes = fixture().bytes();
        let header = GgufHeader::parse(Path::new("m.gguf"), &bytes).unwrap();
        assert_eq!(header.metadata.float("llama.rope.freq_base").unwrap(), Some(10000.0));
        assert_eq!(header.metadata.texts("tokenizer.ggml.tokens").unwrap(), Some(vec!["a", "b"]));
        let (info, _) = &header.layout(bytes.len()).unwrap()["b.weight"];
        let stored = StoredType::Quantized(Quantization::Q8_0);
        assert_eq!(*info, TensorInfo { dims: vec![2, 32], stored });
    }

    #[test]
    fn wrong_headers_are_refused() {
        let good = fixture().bytes();
        check(
            &good[..good.len() - 1],
            &format!("m.gguf is truncated: expected {} bytes, found {}", good.len(), good.len() - 1),
        );
        check(b"GGML\x03\0\0\0", "malformed header in m.gguf: expected the letters GGUF, found \"GGML\"");
        check(b"GGUF\x04\0\0\0", "malformed header in m.gguf: expected GGUF version 2 or 3, found 4");
        let mut many = good.clone();
        many[8..16].fill(0xff);
        check(&many, &format!("m.gguf is truncated: expected {} bytes, found {}", u64::MAX, good.len()));
        check(
            &Fixture::new().raw("w", &[2, 33], 8, &[]).bytes(),
            "malformed header in m.gguf: tensor `w`: expected rows of whole Q8_0 blocks, found [2, 33]",
        );
        check(
            &Fixture::new().raw("w", &[1 << 40, 1 << 40], 0, &[]).bytes(),
            "m.gguf: tensor `w`: expected a size that fits in memory, found f32 [1099511627776, 1099511627776]",
        );
        check(
            &Fixture::new().f32s("w", &[1], &[1.0]).f32s("w", &[1], &[1.0]).bytes(),
            "m.gguf: tensor `w`: duplicate name",
        );
        check(
            &Fixture::new().text("k", "a").text("k", "b").bytes(),
            "malformed header in m.gguf: duplicate metadata key: k",
        );
        check(
            &Fixture::new().f32s("v", &[1], &[1.0]).at_offset(64).f32s("w", &[1], &[1.0]).bytes(),
            "m.gguf: tensor `w`: expected data at offset 32, found 64",
        );
    }

    #[test]
    fn version_2_is_read_as_version_3_and_others_are_named() {
        let with_version = |version: [u8; 4]| {
            let mut bytes = fixture().bytes();
            bytes[4..8].copy_from_slice(&version);
            bytes
        };
        assert_eq!(layout(&with_version([2, 0, 0, 0])).unwrap(), layout(&fixture().bytes()).unwrap());
        check(&with_version([1, 0, 0, 0]), "m.gguf: expected GGUF version 2 or 3, found 1");
        let big_endian = with_version([0, 0, 0, 3]);
        check(&big_endian, "m.gguf: expected a little-endian file, found a big-endian one of version 3");
        let hint = "convert it with gguf-convert-endian of the Python package gguf";
        assert_eq!(layout(&big_endian).unwrap_err().hint().as_deref(), Some(hint));
    }

    #[test]
    fn types_that_cannot_be_read_are_named_together() {
        let tensors = Fixture::new()
            .raw("blk.0.ffn_up.weight", &[256], 23, &[])
            .raw("blk.1.ffn_up.weight", &[256], 23, &[])
            .raw("output.weight", &[256], 18, &[])
            .raw("token_embd.weight", &[256], 12, &[])
            .raw("x.weight", &[5], 99, &[]);
        check(
            &tensors.bytes(),
            "m.gguf: unsupported element type: IQ3_XXS of `output.weight`; IQ4_XS of 2 tensors, the first of which is \
             `blk.0.ffn_up.weight`; type 99 of `x.weight`",
        );
        let hint = "use a file in F32, F16, BF16, Q8_0, Q6_K, Q5_K_M, Q4_K_M or another of the types Q4_0 to Q8_K, or the \
                    model's Hugging Face folder";
        assert_eq!(layout(&tensors.bytes()).unwrap_err().hint().as_deref(), Some(hint));
    }

    proptest! {
        #[test]
        fn random_cut_and_mutated_headers_never_panic(at in 0usize..1000, bytes: [u8; 4], noise: Vec<u8>) {
            let _ = layout(&noise);
            let _ = layout(&[b"GGUF\x03\0\0\0", &noise[..]].concat());
            let mut mutated = fixture().bytes();
            let at = at % (mutated.len() - 4);
            prop_assert!(layout(&mutated[..at]).is_err());
            mutated[at..at + 4].copy_from_slice(&bytes);
            let _ = layout(&mutated);
        }
    }
}
