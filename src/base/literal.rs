use half::{bf16, f16};

use super::{ArrayShape, DType};

/// A dense array in host memory: row-major, little-endian.
///
/// ```
/// use hloom::base::{ArrayShape, DType, Literal};
///
/// let literal = Literal::from_f64s(ArrayShape::new(DType::BF16, [2]), [1.0, 0.1]);
/// assert_eq!(literal.bytes(), [0x80, 0x3f, 0xcd, 0x3d]);
/// // bfloat16 has 8 significant bits.
/// assert_eq!(literal.to_f64s(), [1.0, 0.100_097_656_25]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Literal {
    shape: ArrayShape,
    bytes: Vec<u8>,
}

impl Literal {
    /// An array from its raw little-endian bytes.
    ///
    /// # Panics
    /// If the length of `bytes` is not that of `shape`.
    pub fn from_bytes(shape: ArrayShape, bytes: Vec<u8>) -> Self {
        assert_eq!(shape.bytes(), bytes.len(), "byte length of a literal {shape}");
        Self { shape, bytes }
    }

    /// An array of `shape` whose elements are `values`, each rounded to the element type.
    ///
    /// # Panics
    /// If the number of values is not the number of elements.
    pub fn from_f64s(shape: ArrayShape, values: impl IntoIterator<Item = f64>) -> Self {
        let mut bytes = Vec::with_capacity(shape.bytes());
        values.into_iter().for_each(|value| push_element(&mut bytes, shape.dtype, value));
        Self::from_bytes(shape, bytes)
    }

    /// A float32 array.
    ///
    /// # Panics
    /// If the number of values is not the number of elements.
    pub fn f32s(dims: impl Into<Vec<usize>>, values: &[f32]) -> Self {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Self::from_bytes(ArrayShape::new(DType::F32, dims), bytes)
    }

    /// A signed 32-bit array.
    ///
    /// # Panics
    /// If the number of values is not the number of elements.
    pub fn s32s(dims: impl Into<Vec<usize>>, values: &[i32]) -> Self {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Self::from_bytes(ArrayShape::new(DType::S32, dims), bytes)
    }

    /// One value, rounded to `dtype`.
    pub fn scalar(dtype: DType, value: f64) -> Self {
        Self::from_f64s(ArrayShape::scalar(dtype), [value])
    }

    /// An array of zeros.
    pub fn zeros(shape: ArrayShape) -> Self {
        let bytes = vec![0; shape.bytes()];
        Self { shape, bytes }
    }

    /// Element type and dimensions.
    pub fn shape(&self) -> &ArrayShape {
        &self.shape
    }

    /// The elements as little-endian bytes, row-major.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The elements as little-endian bytes, row-major.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Element `index` (row-major), widened to float64; exact but for 64-bit integers beyond 2^53.
    ///
    /// # Panics
    /// If `index` is out of range.
    pub fn get_f64(&self, index: usize) -> f64 {
        let width = self.shape.dtype.bytes();
        element(self.shape.dtype, &self.bytes[index * width..(index + 1) * width])
    }

    /// All elements, row-major, widened to float64.
    pub fn to_f64s(&self) -> Vec<f64> {
        self.bytes
            .chunks_exact(self.shape.dtype.bytes())
            .map(|chunk| element(self.shape.dtype, chunk))
            .collect()
    }

    /// All elements, row-major, as float32.
    pub fn to_f32s(&self) -> Vec<f32> {
        match self.shape.dtype {
            DType::F32 => {
                self.bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
            }
            _ => self.to_f64s().into_iter().map(|value| value as f32).collect(),
        }
    }

    /// The same elements with other dimensions.
    ///
    /// # Panics
    /// If the number of elements differs.
    pub fn reshaped(self, dims: impl Into<Vec<usize>>) -> Self {
        Self::from_bytes(ArrayShape::new(self.shape.dtype, dims), self.bytes)
    }
}

/// `bytes` as one little-endian array of its own width.
fn le<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(bytes);
    array
}

fn element(dtype: DType, bytes: &[u8]) -> f64 {
    match dtype {
        DType::Pred => f64::from(u8::from(bytes[0] != 0)),
        DType::S8 => f64::from(i8::from_le_bytes(le(bytes))),
        DType::S16 => f64::from(i16::from_le_bytes(le(bytes))),
        DType::S32 => f64::from(i32::from_le_bytes(le(bytes))),
        DType::S64 => i64::from_le_bytes(le(bytes)) as f64,
        DType::U8 => f64::from(bytes[0]),
        DType::U16 => f64::from(u16::from_le_bytes(le(bytes))),
        DType::U32 => f64::from(u32::from_le_bytes(le(bytes))),
        DType::U64 => u64::from_le_bytes(le(bytes)) as f64,
        DType::F16 => f16::from_le_bytes(le(bytes)).to_f64(),
        DType::F32 => f64::from(f32::from_le_bytes(le(bytes))),
        DType::F64 => f64::from_le_bytes(le(bytes)),
        DType::BF16 => bf16::from_le_bytes(le(bytes)).to_f64(),
    }
}

fn push_element(bytes: &mut Vec<u8>, dtype: DType, value: f64) {
    match dtype {
        DType::Pred => bytes.push(u8::from(value != 0.0)),
        DType::S8 => bytes.extend((value as i8).to_le_bytes()),
        DType::S16 => bytes.extend((value as i16).to_le_bytes()),
        DType::S32 => bytes.extend((value as i32).to_le_bytes()),
        DType::S64 => bytes.extend((value as i64).to_le_bytes()),
        DType::U8 => bytes.push(value as u8),
        DType::U16 => bytes.extend((value as u16).to_le_bytes()),
        DType::U32 => bytes.extend((value as u32).to_le_bytes()),
        DType::U64 => bytes.extend((value as u64).to_le_bytes()),
        DType::F16 => bytes.extend(f16::from_f64(value).to_le_bytes()),
        DType::F32 => bytes.extend((value as f32).to_le_bytes()),
        DType::F64 => bytes.extend(value.to_le_bytes()),
        DType::BF16 => bytes.extend(bf16::from_f64(value).to_le_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_integers_survive_every_type() {
        for &dtype in DType::ALL {
            let literal = Literal::from_f64s(ArrayShape::new(dtype, [2]), [1.0, 0.0]);
            assert_eq!(literal.to_f64s(), [1.0, 0.0], "{dtype}");
            assert_eq!(literal.to_f32s(), [1.0, 0.0], "{dtype}");
        }
    }

    #[test]
    #[should_panic(expected = "byte length of a literal f32[2]")]
    fn a_literal_of_the_wrong_length_is_refused() {
        Literal::from_bytes(ArrayShape::new(DType::F32, [2]), vec![0; 4]);
    }
}
