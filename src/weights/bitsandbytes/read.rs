use std::{collections::BTreeMap, sync::Arc};

use super::super::{
    StoredType, TensorInfo, WeightsError,
    bitsandbytes::format::{FORMAT, NESTED_QUANT_MAP, NF4_TYPE, QUANT_MAP, QuantState, SCALE, STATE},
    quantized::{LARGEST_INT8, Matrix, NESTED, PartBytes, StoredParts, floats, part_bytes},
    tensor::{MappedTensor, RowOrder},
};
use crate::base::{
    DType, Part, PartFormat, Scheme,
    codebook::{NF4, dynamic_map},
};

type Tensors = BTreeMap<String, MappedTensor>;

/// Joins the arrays of each quantized weight to one tensor of the weight's name and shape.
///
/// # Errors
/// If a weight has another format than 4-bit NormalFloat in blocks of 64 or 8-bit integers by rows, or its arrays contradict
/// each other.
pub(crate) fn join(mut tensors: Tensors) -> Result<Tensors, WeightsError> {
    let states: Vec<String> = tensors.keys().filter(|name| name.contains(STATE)).cloned().collect();
    for state in states {
        let Some((name, _)) = state.split_once(STATE) else { continue };
        let Some(described) = tensors.remove(&state) else { continue };
        let joined = Weight { name, tensors: &mut tensors }.join(&described)?;
        tensors.insert(name.to_owned(), joined);
    }
    let scales: Vec<String> = tensors.keys().filter(|name| name.ends_with(SCALE)).cloned().collect();
    for scale in scales {
        let module = scale.trim_end_matches(SCALE);
        let name = format!("{module}.weight");
        let Some(scale) = tensors.remove(&scale) else { continue };
        let format = tensors.remove(&format!("{module}{FORMAT}"));
        let joined = Weight { name: &name, tensors: &mut tensors }.join_int8(&scale, format.as_ref())?;
        tensors.insert(name, joined);
    }
    Ok(tensors)
}

struct Weight<'a> {
    name: &'a str,
    tensors: &'a mut Tensors,
}

impl Weight<'_> {
    fn join(mut self, described: &MappedTensor) -> Result<MappedTensor, WeightsError> {
        let bad = |problem| described.wrong(self.name, problem);
        let state: QuantState = serde_json::from_slice(described.source())
            .map_err(|error| bad(format!("its quantization state is malformed: {error}")))?;
        let scheme = if state.nested_offset.is_some() { Scheme::Nf4Double } else { Scheme::Nf4 };
        let QuantState { quant_type, blocksize, shape, nested_blocksize, .. } = &state;
        if (quant_type.as_str(), Some(*blocksize)) != (NF4_TYPE, scheme.block()) {
            return Err(bad(format!(
                "expected 4-bit NormalFloat in blocks of 64, found {quant_type} in blocks of {blocksize}"
            )));
        }
        if let Some(found) = nested_blocksize.filter(|&found| found != NESTED) {
            return Err(bad(format!("expected absmax in blocks of {}, found {found}", NESTED)));
        }
        let &[rows, columns] = &shape[..] else {
            return Err(bad(format!("expected a matrix, found shape {shape:?}")));
        };
        if rows.checked_mul(columns).is_none_or(|numel| numel == 0) {
            return Err(bad(format!("expected a matrix with elements, found shape {shape:?}")));
        }
        let matrix = Matrix { rows, columns };
        let offset = state.nested_offset.map(|offset| (offset as f32).to_le_bytes().to_vec());
        self.table(QUANT_MAP, &NF4)?;
        if scheme == Scheme::Nf4Double {
            self.table(NESTED_QUANT_MAP, &dynamic_map())?;
        }
        let codes = self.take(None)?;
        let (file, bytes) = (codes.file.clone(), codes.bytes.clone());
        let mut codes = Some(codes);
        let mut parts = Vec::new();
        for format in scheme.parts() {
            let part = match (format.part, &offset) {
                (Part::Codes, _) => codes.take(),
                (Part::Offset, Some(offset)) => {
                    parts.push(PartBytes::Owned(offset.clone()));
                    continue;
                }
                (part, _) => Some(self.take(Some(part.name()))?),
            };
            if let Some(part) = part {
                parts.push(self.checked(format, matrix, &part)?);
            }
        }
        let info = TensorInfo { dims: vec![rows, columns], stored: StoredType::Packed(scheme) };
        let quantized = Some(Arc::new(StoredParts { scheme, matrix, parts }));
        Ok(MappedTensor { info, file, bytes, rows: RowOrder::Same, quantized })
    }

    /// Joins a weight of 8-bit integers, of which `scale` has the largest magnitude of each row.
    fn join_int8(
        mut self,
        scale: &MappedTensor,
        format: Option<&MappedTensor>,
    ) -> Result<MappedTensor, WeightsError> {
        if let Some(format) = format.filter(|format| format.source() != [0]) {
            let problem = "expected bytes in row-major order, found another `weight_format`".to_owned();
            return Err(format.wrong(self.name, problem));
        }
        let codes = self.take(None)?;
        let &[rows, columns] = &codes.info.dims[..] else {
            let problem = format!("expected a matrix, found shape {:?}", codes.info.dims);
            return Err(codes.wrong(self.name, problem));
        };
        let (scheme, matrix) = (Scheme::Int8, Matrix { rows, columns });
        let mut parts = Vec::new();
        for (format, part) in scheme.parts().iter().zip([&codes, scale]) {
            parts.push(self.checked(format, matrix, part)?);
        }
        let magnitudes = floats(scale.source()).into_iter();
        let scales = magnitudes.flat_map(|magnitude| (magnitude / LARGEST_INT8).to_le_bytes());
        parts[1] = PartBytes::Owned(scales.collect());
        let info = TensorInfo { dims: vec![rows, columns], stored: StoredType::Packed(scheme) };
        let quantized = Some(Arc::new(StoredParts { scheme, matrix, parts }));
        Ok(MappedTensor { info, rows: RowOrder::Same, quantized, ..codes })
    }

    /// Removes the array with this suffix, or the codes.
    fn take(&mut self, suffix: Option<&str>) -> Result<MappedTensor, WeightsError> {
        let name = suffix.map_or(self.name.to_owned(), |suffix| format!("{}.{suffix}", self.name));
        let file = self.tensors.values().next().map(|tensor| tensor.path().to_owned()).unwrap_or_default();
        let missing = || WeightsError::Tensor {
            path: file,
            name: self.name.to_owned(),
            problem: format!("expected an array of its quantization, found none: {name}"),
        };
        self.tensors.remove(&name).ok_or_else(missing)
    }

    fn checked(
        &self,
        format: &PartFormat,
        matrix: Matrix,
        part: &MappedTensor,
    ) -> Result<PartBytes, WeightsError> {
        let expected = part_bytes(format, matrix);
        let (found, stored) = (part.bytes.len(), &part.info.stored);
        if *stored != StoredType::Plain(format.dtype) || found != expected {
            let problem = format!(
                "{}: expected {expected} bytes of {}, found {found} of {stored}",
                format.part.name(),
                format.dtype
            );
            return Err(part.wrong(self.name, problem));
        }
        Ok(PartBytes::Mapped(part.file.clone(), part.bytes.clone()))
    }

    /// Removes a table and checks that it is the expected one.
    fn table(&mut self, suffix: &str, expected: &[f32]) -> Result<(), WeightsError> {
        let table = self.take(Some(suffix))?;
        let bytes: Vec<u8> = expected.iter().flat_map(|value| value.to_le_bytes()).collect();
        if table.info.stored != StoredType::Plain(DType::F32) || table.source() != bytes {
            let problem = format!("{suffix}: expected the table of bitsandbytes, found another");
            return Err(table.wrong(self.name, problem));
        }
        Ok(())
    }
}
