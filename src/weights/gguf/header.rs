use std::{collections::BTreeMap, ops::Range, path::Path, sync::Arc};

use super::{
    super::{
        StoredType, TensorInfo, WeightsError,
        mapping::Mapping,
        stored::READABLE,
        tensor::{MappedTensor, RowOrder},
    },
    cursor::{Cursor, Fault},
    metadata::Metadata,
};
use crate::base::DType;

pub(super) const MAGIC: &[u8] = b"GGUF";

const VERSION: u32 = 3;

/// `GGML_MAX_DIMS` of ggml.
const MAX_DIMS: u32 = 4;

/// The fewest bytes that a key with its value, and a tensor's entry, can take.
const SMALLEST_PAIR: usize = 8 + 4 + 1;
const SMALLEST_TENSOR: usize = 8 + 4 + 4 + 8;

/// Reads and checks the header of a mapped file: keys and names are unique and the tensors lie one behind the other,
/// each at the next multiple of the alignment, all of them inside the file.
pub(super) fn parse(file: &Arc<Mapping>) -> Result<(Metadata, BTreeMap<String, MappedTensor>), WeightsError> {
    let path = file.path();
    let Layout { metadata, tensors } = layout(path, file.bytes())?;
    let mapped = |(info, bytes)| MappedTensor { info, file: file.clone(), bytes, rows: RowOrder::Same };
    Ok((metadata, tensors.into_iter().map(|(name, tensor)| (name, mapped(tensor))).collect()))
}

#[derive(Debug)]
struct Layout {
    metadata: Metadata,
    tensors: BTreeMap<String, (TensorInfo, Range<usize>)>,
}

fn layout(path: &Path, bytes: &[u8]) -> Result<Layout, WeightsError> {
    let located = |fault| match fault {
        Fault::Bad(problem) => WeightsError::Header { path: path.to_owned(), problem },
        Fault::Ends(expected) => {
            WeightsError::Truncated { path: path.to_owned(), expected, found: bytes.len() as u64 }
        }
    };
    let mut cursor = Cursor::new(bytes);
    let (n_tensors, metadata) = read_metadata(path, &mut cursor).map_err(located)?;
    let mut entries = Vec::new();
    for _ in 0..n_tensors {
        entries.push(read_entry(&mut cursor).map_err(located)?);
    }

    let alignment = metadata.size("general.alignment")?.unwrap_or(32);
    if !alignment.is_power_of_two() {
        return Err(
            metadata.wrong("general.alignment", format!("expected a power of two, found {alignment}"))
        );
    }
    let start = cursor.position().next_multiple_of(alignment);
    let mut tensors = BTreeMap::new();
    let mut position = start;
    for Entry { name, info, offset } in entries {
        let wrong = |problem| WeightsError::Tensor { path: path.to_owned(), name: name.clone(), problem };
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
        if end > bytes.len() {
            return Err(located(Fault::Ends(end as u64)));
        }
        if tensors.insert(name.clone(), (info, position..end)).is_some() {
            return Err(wrong("named twice".to_owned()));
        }
        position = next;
    }
    Ok(Layout { metadata, tensors })
}

fn read_metadata(path: &Path, cursor: &mut Cursor) -> Result<(usize, Metadata), Fault> {
    let magic = cursor.u32()?.to_le_bytes();
    if magic != MAGIC {
        return Err(Fault::Bad(format!(
            "expected the letters GGUF, found {:?}",
            magic.escape_ascii().to_string()
        )));
    }
    let version = cursor.u32()?;
    if version != VERSION {
        return Err(Fault::Bad(format!("expected GGUF version {VERSION}, found {version}")));
    }
    let n_tensors = cursor.count(SMALLEST_TENSOR)?;
    let n_pairs = cursor.count(SMALLEST_PAIR)?;
    let mut values = BTreeMap::new();
    for _ in 0..n_pairs {
        let key = cursor.string()?;
        let value = cursor.value()?;
        if values.insert(key.clone(), value).is_some() {
            return Err(Fault::Bad(format!("metadata key given twice: {key}")));
        }
    }
    Ok((n_tensors, Metadata::new(path, values)))
}

struct Entry {
    name: String,
    info: TensorInfo,
    /// From the start of the tensor data.
    offset: u64,
}

fn read_entry(cursor: &mut Cursor) -> Result<Entry, Fault> {
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
    // GGUF counts from the innermost dimension.
    dims.reverse();
    let stored = stored_type(cursor.u32()?).map_err(|found| {
        Fault::Bad(format!("tensor `{name}`: expected element type {READABLE}, found {found}"))
    })?;
    let (block, _) = stored.block().unwrap_or((1, 0));
    if dims.last().is_some_and(|row| !row.is_multiple_of(block)) {
        return Err(Fault::Bad(format!(
            "tensor `{name}`: expected rows of whole {stored} blocks, found {dims:?}"
        )));
    }
    let offset = cursor.u64()?;
    Ok(Entry { name, info: TensorInfo { dims, stored }, offset })
}

/// `enum ggml_type`. The error is the name of a type that is not supported.
fn stored_type(number: u32) -> Result<StoredType, String> {
    let unsupported = match number {
        0 => return Ok(StoredType::Plain(DType::F32)),
        1 => return Ok(StoredType::Plain(DType::F16)),
        2 => return Ok(StoredType::Q4_0),
        3 => return Ok(StoredType::Q4_1),
        8 => return Ok(StoredType::Q8_0),
        30 => return Ok(StoredType::Plain(DType::BF16)),
        6 => "Q5_0",
        7 => "Q5_1",
        9 => "Q8_1",
        10 => "Q2_K",
        11 => "Q3_K",
        12 => "Q4_K",
        13 => "Q5_K",
        14 => "Q6_K",
        15 => "Q8_K",
        16 => "IQ2_XXS",
        17 => "IQ2_XS",
        18 => "IQ3_XXS",
        19 => "IQ1_S",
        20 => "IQ4_NL",
        21 => "IQ3_S",
        22 => "IQ2_S",
        23 => "IQ4_XS",
        24 => "I8",
        25 => "I16",
        26 => "I32",
        27 => "I64",
        28 => "F64",
        29 => "IQ1_M",
        34 => "TQ1_0",
        35 => "TQ2_0",
        39 => "MXFP4",
        _ => return Err(format!("type number {number}")),
    };
    Err(unsupported.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::fixture::Fixture, *};

    fn fixture() -> Fixture {
        Fixture::new()
            .text("general.architecture", "llama")
            .f32("llama.rope.freq_base", 10000.0)
            .texts("tokenizer.ggml.tokens", &["a", "b"])
            .f32s("a.weight", &[3], &[1.0, 2.0, 3.0])
            .raw("b.weight", &[2, 32], 8, &[0; 68])
    }

    fn check(bytes: &[u8], expect: &str) {
        assert_eq!(layout(Path::new("m.gguf"), bytes).unwrap_err().to_string(), expect);
    }

    #[test]
    fn a_header_gives_sizes_outermost_first() {
        let layout = layout(Path::new("m.gguf"), &fixture().bytes()).unwrap();
        let (info, _) = &layout.tensors["b.weight"];
        assert_eq!(*info, TensorInfo { dims: vec![2, 32], stored: StoredType::Q8_0 });
        assert_eq!(layout.metadata.float("llama.rope.freq_base").unwrap(), Some(10000.0));
        assert_eq!(layout.metadata.texts("tokenizer.ggml.tokens").unwrap(), Some(vec!["a", "b"]));
    }

    #[test]
    fn wrong_headers_are_refused() {
        let good = fixture().bytes();
        check(
            &good[..good.len() - 1],
            &format!("m.gguf is cut short: expected {} bytes, found {}", good.len(), good.len() - 1),
        );
        check(b"GGML\x03\0\0\0", "malformed header in m.gguf: expected the letters GGUF, found \"GGML\"");
        check(b"GGUF\x01\0\0\0", "malformed header in m.gguf: expected GGUF version 3, found 1");
        let mut many = good.clone();
        many[8..16].fill(0xff);
        check(&many, &format!("m.gguf is cut short: expected {} bytes, found {}", u64::MAX, good.len()));
        check(
            &Fixture::new().raw("w", &[256], 12, &[]).bytes(),
            "malformed header in m.gguf: tensor `w`: expected element type f32, f16, bf16, Q8_0, Q4_0 or Q4_1, \
             found Q4_K",
        );
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
            "m.gguf: tensor `w`: named twice",
        );
        check(
            &Fixture::new().text("k", "a").text("k", "b").bytes(),
            "malformed header in m.gguf: metadata key given twice: k",
        );
        check(
            &Fixture::new().f32s("v", &[1], &[1.0]).at_offset(64).f32s("w", &[1], &[1.0]).bytes(),
            "m.gguf: tensor `w`: expected data at offset 32, found 64",
        );
    }

    proptest! {
        #[test]
        fn random_cut_and_mutated_headers_never_panic(at in 0usize..1000, bytes: [u8; 4], noise: Vec<u8>) {
            let path = Path::new("m.gguf");
            let _ = layout(path, &noise);
            let _ = layout(path, &[b"GGUF\x03\0\0\0", &noise[..]].concat());
            let mut mutated = fixture().bytes();
            let at = at % (mutated.len() - 4);
            prop_assert!(layout(path, &mutated[..at]).is_err());
            mutated[at..at + 4].copy_from_slice(&bytes);
            let _ = layout(path, &mutated);
        }
    }
}
