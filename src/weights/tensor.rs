//! A tensor in a mapped file, and conversion of windows of it.

use std::{
    borrow::Cow,
    ops::Range,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use rayon::prelude::*;

use super::{
    WeightsError,
    mapping::Mapping,
    quantized::{Matrix, Parts, StoredParts, unpack},
    stored::{PIECE, READABLE, StoredType, encode},
};
use crate::base::{DType, Scheme};

/// Smallest number of elements that a thread converts.
const GRAIN: usize = 64 * PIECE;

/// Dimensions and storage type of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Dimensions in Hugging Face order, outermost first: `[out, in]` for a linear layer.
    pub dims: Vec<usize>,
    /// Storage type of the elements.
    pub stored: StoredType,
}

impl TensorInfo {
    /// Number of elements; `None` if it exceeds `usize`.
    pub(super) fn elements(&self) -> Option<usize> {
        self.dims.iter().try_fold(1usize, |product, &dim| product.checked_mul(dim))
    }
}

/// The order of the outermost dimension in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowOrder {
    /// Hugging Face order.
    Same,
    /// Within each head of this size, the two halves that rotary embedding pairs are interleaved.
    Interleaved { head_dim: usize },
}

impl RowOrder {
    /// Row in the file of row `row` in Hugging Face order.
    fn stored_row(self, row: usize) -> usize {
        match self {
            Self::Same => row,
            Self::Interleaved { head_dim } => {
                let (head, within) = (row / head_dim, row % head_dim);
                let (half, pair) = (within / (head_dim / 2), within % (head_dim / 2));
                head * head_dim + 2 * pair + half
            }
        }
    }

    /// Row in Hugging Face order of row `row` of the file.
    pub(super) fn hf_row(self, row: usize) -> usize {
        match self {
            Self::Same => row,
            Self::Interleaved { head_dim } => {
                let (head, within) = (row / head_dim, row % head_dim);
                head * head_dim + within % 2 * (head_dim / 2) + within / 2
            }
        }
    }
}

/// A tensor in a mapped file. Invariant: `bytes` is inside the mapping, and its length is that of `info`.
#[derive(Clone, Debug)]
pub(super) struct MappedTensor {
    pub info: TensorInfo,
    pub file: Arc<Mapping>,
    pub bytes: Range<usize>,
    pub rows: RowOrder,
    /// Its parts, if `info.stored` is [`StoredType::Packed`]; `bytes` are its codes then.
    pub quantized: Option<Arc<StoredParts>>,
}

impl MappedTensor {
    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// The error that it is not as expected.
    pub(super) fn wrong(&self, name: &str, problem: String) -> WeightsError {
        WeightsError::Tensor { path: self.path().to_owned(), name: name.to_owned(), problem }
    }

    /// The stored bytes of the tensor.
    pub(super) fn source(&self) -> &[u8] {
        &self.file.bytes()[self.bytes.clone()]
    }

    /// Converts the elements `range`, in the order of the file, to float32.
    fn decode(&self, range: Range<usize>, out: &mut [f32]) {
        match &self.quantized {
            None => self.info.stored.decode(self.source(), range, out),
            Some(parts) => parts.decode(range, out),
        }
    }

    /// Releases the memory of its mapped pages.
    pub(super) fn release(&self) {
        match &self.quantized {
            None => self.file.release(self.bytes.clone()),
            Some(parts) => parts.release(),
        }
    }

    /// Its bytes: of its only array, or of each part.
    pub(super) fn arrays(&self) -> Vec<&[u8]> {
        self.quantized.as_ref().map_or_else(|| vec![self.source()], |parts| parts.slices())
    }

    /// The parts of the weight quantized by `scheme`: as they are stored, with finite numbers, or computed from its values.
    pub(super) fn parts(&self, name: &str, scheme: Scheme) -> Result<Vec<Cow<'_, [u8]>>, WeightsError> {
        if let Some(stored) = self.quantized.as_ref().filter(|stored| stored.scheme == scheme) {
            let slices = stored.slices();
            for (format, bytes) in scheme.parts().iter().zip(&slices) {
                let bad = if format.dtype.is_float() { first_not_finite(format.dtype, bytes) } else { None };
                if let Some(element) = bad {
                    let part = format.part.name();
                    let problem = format!("{part}: expected finite numbers, found another at [{element}]");
                    return Err(self.wrong(name, problem));
                }
            }
            return Ok(slices.into_iter().map(Cow::Borrowed).collect());
        }
        let &[rows, columns] = &self.info.dims[..] else {
            let problem = format!("expected a matrix, found shape {:?}", self.info.dims);
            return Err(self.wrong(name, problem));
        };
        let matrix = Matrix { rows, columns };
        if let StoredType::Quantized(quantization) = &self.info.stored
            && let Some(row) = unpack(*quantization, scheme)
        {
            let (block, bytes) = quantization.block();
            let row_bytes = columns / block * bytes;
            let stored = |row: usize| &self.source()[self.rows.stored_row(row) * row_bytes..][..row_bytes];
            let parts =
                Parts::of_rows(scheme, matrix, |number, codes, scale| row(stored(number), codes, scale));
            return Ok(parts.bytes.into_iter().map(Cow::Owned).collect());
        }
        let read = |range: Range<usize>, out: &mut [f32]| self.read_flat(name, range, out);
        let parts = Parts::quantize(scheme, matrix, &read)?;
        Ok(parts.bytes.into_iter().map(Cow::Owned).collect())
    }

    /// The values `range` of the flattened tensor, in Hugging Face order; all are finite.
    fn read_flat(&self, name: &str, range: Range<usize>, out: &mut [f32]) -> Result<(), WeightsError> {
        self.check_types(name, DType::F32)?;
        let columns = self.info.dims.last().copied().unwrap_or(1).max(1);
        let mut at = range.start;
        let mut rest = &mut out[..];
        while at < range.end {
            let (row, column) = (at / columns, at % columns);
            // Rows in the order of the file are one run.
            let len = if self.rows == RowOrder::Same { rest.len() } else { rest.len().min(columns - column) };
            let start = self.rows.stored_row(row) * columns + column;
            let (run, later) = rest.split_at_mut(len);
            self.decode(start..start + len, run);
            if let Some(bad) = run.iter().position(|value| !value.is_finite()) {
                return Err(self.not_finite(name, start + bad, DType::F32));
            }
            (at, rest) = (at + len, later);
        }
        Ok(())
    }

    /// Reads a window of the tensor into `out`, row-major, as `dtype`. `name` is for errors.
    pub(super) fn read(
        &self,
        name: &str,
        window: &[Range<usize>],
        dtype: DType,
        out: &mut [u8],
    ) -> Result<(), WeightsError> {
        self.check_read(name, window, dtype, out)?;
        if out.is_empty() {
            return Ok(());
        }
        let runs = Runs::new(&self.info.dims, window, self.rows);
        let width = dtype.bytes();
        let bad = AtomicUsize::new(usize::MAX);
        out.par_chunks_mut(runs.len * width).with_min_len(GRAIN.div_ceil(runs.len)).enumerate().for_each(
            |(i, out)| {
                let run = runs.start(i);
                out.par_chunks_mut(GRAIN * width).enumerate().for_each(|(j, out)| {
                    let start = run + j * GRAIN;
                    self.convert(start..start + out.len() / width, dtype, out);
                    if let Some(at) = first_not_finite(dtype, out) {
                        bad.fetch_min(start + at, Ordering::Relaxed);
                    }
                });
            },
        );
        match bad.into_inner() {
            usize::MAX => Ok(()),
            element => Err(self.not_finite(name, element, dtype)),
        }
    }

    /// Converts the elements `range`, in the order of the file, to little-endian `dtype`.
    fn convert(&self, range: Range<usize>, dtype: DType, out: &mut [u8]) {
        let width = dtype.bytes();
        if self.info.stored == StoredType::Plain(dtype) {
            out.copy_from_slice(&self.source()[range.start * width..range.end * width]);
            return;
        }
        let mut values = [0.0; PIECE];
        for (start, out) in range.step_by(PIECE).zip(out.chunks_mut(PIECE * width)) {
            let values = &mut values[..out.len() / width];
            self.decode(start..start + values.len(), values);
            encode(values, dtype, out);
        }
    }

    /// The error for an element, by its index in the file, that is not finite as `dtype`.
    fn not_finite(&self, name: &str, element: usize, dtype: DType) -> WeightsError {
        let mut decoded = [0.0];
        self.decode(element..element + 1, &mut decoded);
        let [value] = decoded;
        let mut rest = element;
        let mut index = vec![0; self.info.dims.len()];
        for (d, &dim) in self.info.dims.iter().enumerate().rev() {
            (index[d], rest) = (rest % dim, rest / dim);
        }
        if let Some(row) = index.first_mut() {
            *row = self.rows.hf_row(*row);
        }
        let (path, name) = (self.path().to_owned(), name.to_owned());
        if value.is_finite() {
            WeightsError::Overflow { path, name, value, index, dtype }
        } else {
            WeightsError::NotFinite { path, name, value, index }
        }
    }

    /// Whether both tensors have the same shape and values, compared as float32 if their types differ. `false` if one
    /// cannot be read.
    pub(super) fn same_values(&self, other: &Self) -> bool {
        let readable = self.info.stored.is_readable() && other.info.stored.is_readable();
        if !readable || self.info.dims != other.info.dims {
            return false;
        }
        let alike = self.info.stored == other.info.stored && self.rows == other.rows;
        if alike && self.arrays() == other.arrays() {
            return true;
        }
        if self.rows != RowOrder::Same || other.rows != RowOrder::Same {
            return false;
        }
        let elements = self.info.elements().unwrap_or(0);
        (0..elements.div_ceil(PIECE)).into_par_iter().with_min_len(GRAIN / PIECE).all(|piece| {
            let range = piece * PIECE..((piece + 1) * PIECE).min(elements);
            let [mut ours, mut theirs] = [[0.0; PIECE]; 2];
            let [ours, theirs] = [&mut ours[..range.len()], &mut theirs[..range.len()]];
            self.decode(range.clone(), ours);
            other.decode(range, theirs);
            ours == theirs
        })
    }

    /// Whether the tensor can be read as `dtype`.
    pub(super) fn check_types(&self, name: &str, dtype: DType) -> Result<(), WeightsError> {
        if !matches!(dtype, DType::F32 | DType::F16 | DType::BF16) {
            return Err(WeightsError::TargetType(dtype));
        }
        let TensorInfo { stored, .. } = &self.info;
        if !stored.is_readable() {
            let problem = format!("expected element type {READABLE}, found {stored}");
            return Err(self.wrong(name, problem));
        }
        Ok(())
    }

    fn check_read(
        &self,
        name: &str,
        window: &[Range<usize>],
        dtype: DType,
        out: &[u8],
    ) -> Result<(), WeightsError> {
        let wrong = |problem| Err(self.wrong(name, problem));
        self.check_types(name, dtype)?;
        let dims = &self.info.dims;
        let inside = |(range, &dim): (&Range<usize>, &usize)| range.start <= range.end && range.end <= dim;
        if window.len() != dims.len() || !window.iter().zip(dims).all(inside) {
            return wrong(format!("expected a window inside {dims:?}, found {window:?}"));
        }
        let expected = window.iter().map(Range::len).product::<usize>() * dtype.bytes();
        if out.len() != expected {
            return wrong(format!("expected a buffer of {expected} bytes, found {}", out.len()));
        }
        Ok(())
    }
}

/// The longest pieces of a window that are contiguous in the file, in row-major order, all of one length.
struct Runs<'a> {
    dims: &'a [usize],
    window: &'a [Range<usize>],
    rows: RowOrder,
    /// Leading dimensions that are walked index by index.
    walked: usize,
    /// Elements of one run.
    len: usize,
}

impl<'a> Runs<'a> {
    fn new(dims: &'a [usize], window: &'a [Range<usize>], rows: RowOrder) -> Self {
        let mut walked = dims.len();
        while walked > 0
            && window[walked..].iter().zip(&dims[walked..]).all(|(range, &dim)| range.len() == dim)
        {
            walked -= 1;
        }
        if rows != RowOrder::Same {
            walked = walked.max(1);
        }
        let len = window[walked..].iter().map(Range::len).product();
        Self { dims, window, rows, walked, len }
    }

    /// The first element, counted in the whole stored tensor, of run `i`.
    fn start(&self, mut i: usize) -> usize {
        let (mut start, mut stride) = (0, 1);
        for d in (0..self.dims.len()).rev() {
            let mut index = self.window[d].start;
            if d < self.walked {
                index += i % self.window[d].len();
                i /= self.window[d].len();
            }
            if d == 0 {
                index = self.rows.stored_row(index);
            }
            start += index * stride;
            stride *= self.dims[d];
        }
        start
    }
}

/// The first element of little-endian `bytes` that is NaN or infinite: its exponent has all bits set.
fn first_not_finite(dtype: DType, bytes: &[u8]) -> Option<usize> {
    let half = |limit: u16| {
        let (halves, _) = bytes.as_chunks();
        let magnitude = |half: &[u8; 2]| u16::from_le_bytes(*half) & 0x7fff;
        // Without an early exit the maximum is computed in vectors.
        let largest = halves.iter().map(magnitude).max();
        largest.filter(|&largest| largest >= limit)?;
        halves.iter().position(|half| magnitude(half) >= limit)
    };
    match dtype {
        DType::F16 => half(0x7c00),
        DType::BF16 => half(0x7f80),
        _ => {
            let (words, _) = bytes.as_chunks();
            let magnitude = |word: &[u8; 4]| u32::from_le_bytes(*word) & 0x7fff_ffff;
            let largest = words.iter().map(magnitude).max();
            largest.filter(|&largest| largest >= 0x7f80_0000)?;
            words.iter().position(|word| magnitude(word) >= 0x7f80_0000)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, slice};

    use proptest::prelude::*;

    use super::*;
    use crate::base::{ArrayShape, Literal};

    /// A float32 tensor whose elements count up from zero in file order.
    fn counting(dims: &[usize], rows: RowOrder) -> MappedTensor {
        let n: usize = dims.iter().product();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        (0..n).for_each(|i| file.write_all(&(i as f32).to_le_bytes()).unwrap());
        file.flush().unwrap();
        MappedTensor {
            info: TensorInfo { dims: dims.to_vec(), stored: StoredType::Plain(DType::F32) },
            file: Arc::new(Mapping::open(file.path()).unwrap()),
            bytes: 0..4 * n,
            rows,
            quantized: None,
        }
    }

    fn read(tensor: &MappedTensor, window: &[Range<usize>], dtype: DType) -> Vec<f64> {
        let shape = ArrayShape::new(dtype, window.iter().map(Range::len).collect::<Vec<_>>());
        let mut literal = Literal::zeros(shape);
        tensor.read("w", window, dtype, literal.bytes_mut()).unwrap();
        literal.to_f64s()
    }

    /// The definition of a window: element by element.
    fn expected(dims: &[usize], window: &[Range<usize>], rows: RowOrder) -> Vec<f64> {
        let mut indices = vec![0];
        for (d, range) in window.iter().enumerate() {
            let row = |i| if d == 0 { rows.stored_row(i) } else { i };
            indices =
                indices.iter().flat_map(|&at| range.clone().map(move |i| at * dims[d] + row(i))).collect();
        }
        indices.into_iter().map(|i| i as f64).collect()
    }

    #[test]
    fn interleaved_rows_come_out_as_halves() {
        let tensor = counting(&[8], RowOrder::Interleaved { head_dim: 4 });
        assert_eq!(
            read(&tensor, slice::from_ref(&(0..8)), DType::F32),
            [0.0, 2.0, 1.0, 3.0, 4.0, 6.0, 5.0, 7.0]
        );
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        let tensor = counting(&[2, 3], RowOrder::Same);
        let check = |window: &[Range<usize>], dtype, bytes, expect: &str| {
            let error = tensor.read("w", window, dtype, &mut vec![0; bytes]).unwrap_err().to_string();
            assert_eq!(
                error.strip_prefix(&format!("{}: ", tensor.path().display())).unwrap_or(&error),
                expect
            );
        };
        check(
            slice::from_ref(&(0..2)),
            DType::F32,
            8,
            "tensor `w`: expected a window inside [2, 3], found [0..2]",
        );
        check(
            &[0..2, 1..4],
            DType::F32,
            24,
            "tensor `w`: expected a window inside [2, 3], found [0..2, 1..4]",
        );
        check(&[0..2, 1..3], DType::F16, 9, "tensor `w`: expected a buffer of 8 bytes, found 9");
        check(&[0..2, 1..3], DType::S32, 16, "weights cannot be read as s32: expected f32, bf16 or f16");
    }

    fn of_values(dims: &[usize], values: &[f32], rows: RowOrder) -> MappedTensor {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        values.iter().for_each(|value| file.write_all(&value.to_le_bytes()).unwrap());
        file.flush().unwrap();
        MappedTensor {
            info: TensorInfo { dims: dims.to_vec(), stored: StoredType::Plain(DType::F32) },
            file: Arc::new(Mapping::open(file.path()).unwrap()),
            bytes: 0..4 * values.len(),
            rows,
            quantized: None,
        }
    }

    #[test]
    fn a_value_that_is_not_finite_is_named() {
        let check = |at: usize, value: f32, rows, dtype: DType, expect: &str| {
            let mut values = [1.0; 12];
            values[at] = value;
            let tensor = of_values(&[4, 3], &values, rows);
            let error = tensor.read("w", &[0..4, 0..3], dtype, &mut vec![0; 12 * dtype.bytes()]).unwrap_err();
            let error = error.to_string();
            assert_eq!(
                error.strip_prefix(&format!("{}: tensor `w`: ", tensor.path().display())),
                Some(expect)
            );
        };
        let same = RowOrder::Same;
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            check(7, f32::NAN, same, dtype, "expected finite numbers, found NaN at [2, 1]");
            check(11, f32::NEG_INFINITY, same, dtype, "expected finite numbers, found -inf at [3, 2]");
        }
        check(3, 7e4, same, DType::F16, "70000 at [1, 0] exceeds the range of f16");
        check(
            0,
            f32::MAX,
            same,
            DType::BF16,
            "340282350000000000000000000000000000000 at [0, 0] exceeds the range of bf16",
        );
        let interleaved = RowOrder::Interleaved { head_dim: 4 };
        check(3, f32::INFINITY, interleaved, DType::F32, "expected finite numbers, found inf at [2, 0]");
        let tensor = of_values(&[2, 2], &[f32::NAN, 1.0, 65504.0, -65504.0], same);
        tensor.read("w", &[1..2, 0..2], DType::F16, &mut [0; 4]).unwrap();
    }

    #[test]
    fn values_are_compared_across_types() {
        let wide = of_values(&[2], &[1.0, -0.5], RowOrder::Same);
        let other = of_values(&[2], &[1.0, 0.5], RowOrder::Same);
        assert!(wide.same_values(&wide) && !wide.same_values(&other));
        assert!(!wide.same_values(&of_values(&[1, 2], &[1.0, -0.5], RowOrder::Same)));
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[0x00, 0x3c, 0x00, 0xb8]).unwrap();
        let half = MappedTensor {
            info: TensorInfo { dims: vec![2], stored: StoredType::Plain(DType::F16) },
            file: Arc::new(Mapping::open(file.path()).unwrap()),
            bytes: 0..4,
            rows: RowOrder::Same,
            quantized: None,
        };
        assert!(wide.same_values(&half) && !other.same_values(&half));
    }

    #[test]
    fn doubles_are_read() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        [0.1_f64, -2.0, 1e300].iter().for_each(|value| file.write_all(&value.to_le_bytes()).unwrap());
        let tensor = MappedTensor {
            info: TensorInfo { dims: vec![3], stored: StoredType::Plain(DType::F64) },
            file: Arc::new(Mapping::open(file.path()).unwrap()),
            bytes: 0..24,
            rows: RowOrder::Same,
            quantized: None,
        };
        assert_eq!(read(&tensor, slice::from_ref(&(0..2)), DType::F32), [f64::from(0.1_f32), -2.0]);
        let error =
            tensor.read("w", slice::from_ref(&(2..3)), DType::F32, &mut [0; 4]).unwrap_err().to_string();
        assert!(error.ends_with("`w`: expected finite numbers, found inf at [2]"), "{error}");
    }

    #[test]
    fn a_window_larger_than_a_grain_is_whole() {
        let tensor = counting(&[3, GRAIN], RowOrder::Same);
        let window = [1..3, 0..GRAIN];
        assert!(read(&tensor, &window, DType::F32) == expected(&tensor.info.dims, &window, RowOrder::Same));
    }

    fn dims_and_window() -> impl Strategy<Value = (Vec<usize>, Vec<Range<usize>>)> {
        prop::collection::vec((0usize..6, 0usize..6, 0usize..6), 0..4).prop_map(|sizes| {
            let window = |(a, b, dim): &(usize, usize, usize)| {
                let (a, b) = (a % (dim + 1), b % (dim + 1));
                a.min(b)..a.max(b)
            };
            (sizes.iter().map(|size| size.2).collect(), sizes.iter().map(window).collect())
        })
    }

    proptest! {
        #[test]
        fn a_window_is_its_definition((dims, window) in dims_and_window(), n_heads in 1usize..3) {
            let tensor = counting(&dims, RowOrder::Same);
            for dtype in [DType::F32, DType::F16, DType::BF16] {
                let all_exact = expected(&dims, &window, RowOrder::Same);
                prop_assert_eq!(read(&tensor, &window, dtype), all_exact);
            }
            if let Some(&rows) = dims.first().filter(|rows| **rows > 0 && rows.is_multiple_of(2 * n_heads)) {
                let order = RowOrder::Interleaved { head_dim: rows / n_heads };
                let tensor = MappedTensor { rows: order, ..tensor };
                prop_assert_eq!(read(&tensor, &window, DType::F32), expected(&dims, &window, order));
            }
        }
    }
}
