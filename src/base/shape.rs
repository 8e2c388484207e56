use std::fmt;

use super::DType;

/// The element type and dimensions of a dense array, row-major.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArrayShape {
    /// Element type.
    pub dtype: DType,
    /// Dimensions, outermost first; empty for a scalar.
    pub dims: Vec<usize>,
}

impl ArrayShape {
    /// An array of `dtype` with these dimensions, outermost first.
    pub fn new(dtype: DType, dims: impl Into<Vec<usize>>) -> Self {
        Self { dtype, dims: dims.into() }
    }

    /// A rank-zero array.
    pub fn scalar(dtype: DType) -> Self {
        Self { dtype, dims: Vec::new() }
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Number of elements; one for a scalar, saturating at `usize::MAX`.
    pub fn elements(&self) -> usize {
        self.dims.iter().fold(1, |product: usize, &dim| product.saturating_mul(dim))
    }

    /// Bytes in host memory, saturating at `usize::MAX`.
    pub fn bytes(&self) -> usize {
        self.elements().saturating_mul(self.dtype.bytes())
    }

    /// The same dimensions with another element type.
    pub fn with_dtype(&self, dtype: DType) -> Self {
        Self { dtype, dims: self.dims.clone() }
    }
}

impl fmt::Display for ArrayShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.dtype)?;
        for (i, dim) in self.dims.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{dim}")?;
        }
        f.write_str("]")
    }
}

/// The shape of an HLO value: an array or a tuple of shapes.
///
/// ```
/// use hloom::base::{ArrayShape, DType, Shape};
///
/// let ids = ArrayShape::new(DType::S32, [8, 2048]);
/// let state = Shape::Tuple(vec![ids.clone().into(), Shape::scalar(DType::F32)]);
/// assert_eq!(state.to_string(), "(s32[8,2048], f32[])");
/// assert_eq!(state.bytes(), ids.bytes() + 4);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// A dense array.
    Array(ArrayShape),
    /// An ordered collection of values.
    Tuple(Vec<Shape>),
}

impl Shape {
    /// An array of `dtype` with these dimensions, outermost first.
    pub fn array(dtype: DType, dims: impl Into<Vec<usize>>) -> Self {
        Self::Array(ArrayShape::new(dtype, dims))
    }

    /// A rank-zero array.
    pub fn scalar(dtype: DType) -> Self {
        Self::Array(ArrayShape::scalar(dtype))
    }

    /// The array shape, or `None` for a tuple.
    pub fn as_array(&self) -> Option<&ArrayShape> {
        match self {
            Self::Array(array) => Some(array),
            Self::Tuple(_) => None,
        }
    }

    /// The element shapes of a tuple, or `None` for an array.
    pub fn as_tuple(&self) -> Option<&[Shape]> {
        match self {
            Self::Array(_) => None,
            Self::Tuple(elements) => Some(elements),
        }
    }

    /// Number of arrays and tuples in it, itself included.
    pub fn num_subshapes(&self) -> usize {
        match self {
            Self::Array(_) => 1,
            Self::Tuple(elements) => 1 + elements.iter().map(Shape::num_subshapes).sum::<usize>(),
        }
    }

    /// Whether any array in it has a floating-point type.
    pub fn holds_float(&self) -> bool {
        match self {
            Self::Array(array) => array.dtype.is_float(),
            Self::Tuple(elements) => elements.iter().any(Shape::holds_float),
        }
    }

    /// Bytes of all its arrays in host memory.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Array(array) => array.bytes(),
            Self::Tuple(elements) => elements.iter().map(Shape::bytes).fold(0, usize::saturating_add),
        }
    }
}

impl From<ArrayShape> for Shape {
    fn from(array: ArrayShape) -> Self {
        Self::Array(array)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Array(array) => array.fmt(f),
            Self::Tuple(elements) => {
                f.write_str("(")?;
                for (i, element) in elements.iter().enumerate() {
                    let comma = if i == 0 { "" } else { ", " };
                    write!(f, "{comma}{element}")?;
                }
                f.write_str(")")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_print_as_hlo_does() {
        let array = Shape::array(DType::F32, [8, 4]);
        assert_eq!(array.to_string(), "f32[8,4]");
        let tuple = Shape::Tuple(vec![array, Shape::scalar(DType::Pred)]);
        assert_eq!(tuple.to_string(), "(f32[8,4], pred[])");
        assert_eq!(tuple.bytes(), 129);
    }
}
