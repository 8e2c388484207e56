//! The safetensors format: eight bytes of header length, a JSON header, the contiguous data of the tensors.
//! Source: <https://github.com/huggingface/safetensors#format>.

mod header;

use std::{collections::BTreeMap, io, path::Path, sync::Arc};

use safetensors::{Dtype, tensor::TensorInfo as Entry};
use serde::ser::{SerializeMap, Serializer};

use super::{
    WeightsError,
    mapping::Mapping,
    stored::StoredType,
    tensor::{MappedTensor, RowOrder, TensorInfo},
};
use crate::base::{ArrayShape, DType, FileKind, Literal, output::Pending};

/// Maps a file and checks its header.
pub(super) fn open(path: &Path) -> Result<BTreeMap<String, MappedTensor>, WeightsError> {
    let file = Arc::new(Mapping::open(path)?);
    let entries = header::parse(path, file.bytes()).map_err(|error| {
        let bytes = file.bytes();
        match FileKind::of(bytes) {
            FileKind::Safetensors | FileKind::Binary => error,
            found => WeightsError::Format { path: path.to_owned(), expected: "a safetensors file", found },
        }
    })?;
    let tensor = |entry: header::Checked| MappedTensor {
        info: TensorInfo { dims: entry.dims, stored: stored_type(&entry.dtype) },
        file: file.clone(),
        bytes: entry.bytes,
        rows: RowOrder::Same,
        quantized: None,
    };
    Ok(entries.into_iter().map(|(name, entry)| (name, tensor(entry))).collect())
}

/// Reads every tensor of a file into memory, as stored.
///
/// # Errors
/// If the file cannot be read, its header is malformed, or an element type is not one of [`DType`].
pub fn read_safetensors(path: &Path) -> Result<BTreeMap<String, Literal>, WeightsError> {
    open(path)?
        .into_iter()
        .map(|(name, tensor)| match &tensor.info.stored {
            StoredType::Plain(dtype) => {
                let shape = ArrayShape::new(*dtype, tensor.info.dims.clone());
                let literal = Literal::from_bytes(shape, tensor.source().to_vec());
                Ok((name, literal))
            }
            other => {
                let problem = format!("element type {other} cannot be read");
                Err(WeightsError::Tensor { path: path.to_owned(), name, problem })
            }
        })
        .collect()
}

/// Writes tensors and text metadata, deterministically and atomically.
///
/// # Errors
/// If the file cannot be written.
pub fn write_safetensors(
    path: &Path,
    tensors: &BTreeMap<String, Literal>,
    metadata: &BTreeMap<String, String>,
) -> Result<(), WeightsError> {
    let written = pending(path, tensors, metadata).and_then(Pending::commit);
    written.map_err(|source| WeightsError::write(path, source))
}

/// Writes the file of [`write_safetensors`] to a temporary path, to be committed.
pub(super) fn pending(
    path: &Path,
    tensors: &BTreeMap<String, Literal>,
    metadata: &BTreeMap<String, String>,
) -> io::Result<Pending> {
    Pending::write(path, |out| {
        // Widest elements first keeps every tensor aligned to its own element, as other readers rely on.
        let mut order: Vec<_> = tensors.iter().collect();
        order.sort_by_key(|(_, literal)| std::cmp::Reverse(literal.shape().dtype.bytes()));
        let mut header = header_json(&order, metadata)?;
        header.resize(header.len().next_multiple_of(8), b' ');
        out.write_all(&(header.len() as u64).to_le_bytes())?;
        out.write_all(&header)?;
        order.into_iter().try_for_each(|(_, literal)| out.write_all(literal.bytes()))
    })
}

fn header_json(
    order: &[(&String, &Literal)],
    metadata: &BTreeMap<String, String>,
) -> serde_json::Result<Vec<u8>> {
    let mut header = Vec::new();
    let mut serializer = serde_json::Serializer::new(&mut header);
    let mut map = serializer.serialize_map(None)?;
    if !metadata.is_empty() {
        map.serialize_entry(header::METADATA, metadata)?;
    }
    let mut offset = 0;
    for (name, literal) in order {
        let ArrayShape { dtype, dims } = literal.shape();
        let end = offset + literal.bytes().len();
        let entry = Entry { dtype: file_type(*dtype), shape: dims.clone(), data_offsets: (offset, end) };
        map.serialize_entry(name, &entry)?;
        offset = end;
    }
    map.end()?;
    Ok(header)
}

/// The format's type of a [`DType`]; the inverse of [`stored_type`].
fn file_type(dtype: DType) -> Dtype {
    match dtype {
        DType::Pred => Dtype::BOOL,
        DType::S8 => Dtype::I8,
        DType::S16 => Dtype::I16,
        DType::S32 => Dtype::I32,
        DType::S64 => Dtype::I64,
        DType::U8 => Dtype::U8,
        DType::U16 => Dtype::U16,
        DType::U32 => Dtype::U32,
        DType::U64 => Dtype::U64,
        DType::F16 => Dtype::F16,
        DType::F32 => Dtype::F32,
        DType::F64 => Dtype::F64,
        DType::BF16 => Dtype::BF16,
    }
}

fn stored_type(name: &str) -> StoredType {
    match DType::ALL.iter().find(|&&dtype| file_type(dtype).to_string() == name) {
        Some(&dtype) => StoredType::Plain(dtype),
        None => StoredType::Other(name.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tensors() -> impl Strategy<Value = BTreeMap<String, Literal>> {
        let literal =
            (0..DType::ALL.len(), prop::collection::vec(0usize..4, 0..3)).prop_map(|(dtype, dims)| {
                let shape = ArrayShape::new(DType::ALL[dtype], dims);
                let values: Vec<f64> = (0..shape.elements()).map(|i| (i % 2) as f64).collect();
                Literal::from_f64s(shape, values)
            });
        prop::collection::btree_map("[a-z.\"\\\\é]{1,8}", literal, 0..6)
    }

    #[test]
    fn a_type_that_cannot_be_read_is_left_to_its_reader() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.safetensors");
        let header = br#"{"a":{"dtype":"F9","shape":[3],"data_offsets":[0,5]}}   "#;
        let length = (header.len() as u64).to_le_bytes();
        std::fs::write(&path, [&length[..], header, &[0; 5]].concat()).unwrap();
        assert_eq!(open(&path).unwrap()["a"].info.stored, StoredType::Other("F9".into()));
        let expect = format!("{}: tensor `a`: element type F9 cannot be read", path.display());
        assert_eq!(read_safetensors(&path).unwrap_err().to_string(), expect);
    }

    #[test]
    fn a_file_of_another_format_is_an_error() {
        let check = |bytes: &[u8], expect: &str| {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            std::io::Write::write_all(&mut file, bytes).unwrap();
            let expect = format!("{}: expected a safetensors file, found {expect}", file.path().display());
            assert_eq!(open(file.path()).unwrap_err().to_string(), expect);
        };
        check(b"", "an empty file");
        check(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "a Git LFS pointer");
        check(b"<!doctype html><html></html>", "an HTML page");
        check(b"GGUF\x03\0\0\0\0\0\0\0", "a GGUF file");
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(tensors in tensors()) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("t.safetensors");
            write_safetensors(&path, &tensors, &BTreeMap::from([("format".into(), "pt".into())])).unwrap();
            prop_assert_eq!(read_safetensors(&path).unwrap(), tensors.clone());
            let bytes = std::fs::read(&path).unwrap();
            let reference = safetensors::SafeTensors::deserialize(&bytes).unwrap();
            for (name, literal) in &tensors {
                let view = reference.tensor(name).unwrap();
                prop_assert_eq!(view.data(), literal.bytes());
                prop_assert_eq!(view.shape(), &literal.shape().dims[..]);
            }
        }
    }
}
