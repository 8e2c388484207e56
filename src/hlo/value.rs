use std::ops::{Add, Div, Mul, Neg, Sub};

use super::{
    Annotation, Attrs, Builder, ComparisonDirection, DotDims, GatherDims, InstrId, Opcode, PadDim,
    ScatterDims, Sharding, SliceDim, memory,
};
use crate::base::{ArrayShape, DType, MemorySpace, Shape};

/// The value of one instruction of a computation under construction.
#[derive(Clone, Copy)]
pub struct Value<'b> {
    pub(super) builder: &'b Builder<'b>,
    pub(super) id: InstrId,
}

macro_rules! unary {
    ($( $(#[$doc:meta])* $method:ident = $opcode:ident; )*) => { $(
        $(#[$doc])*
        #[track_caller]
        pub fn $method(self) -> Self {
            self.builder.push(Opcode::$opcode, &[self], Attrs::Plain, None)
        }
    )* };
}

macro_rules! binary {
    ($( $(#[$doc:meta])* $method:ident = $opcode:ident; )*) => { $(
        $(#[$doc])*
        #[track_caller]
        pub fn $method(self, other: Self) -> Self {
            self.builder.push(Opcode::$opcode, &[self, other], Attrs::Plain, None)
        }
    )* };
}

impl<'b> Value<'b> {
    unary! {
        /// Cosine, in radians.
        cos = Cosine;
        /// e to the power of.
        exp = Exponential;
        /// e to the power of, less one.
        exp_minus_one = ExponentialMinusOne;
        /// Natural logarithm.
        log = Log;
        /// 1 / (1 + exp(-x)).
        logistic = Logistic;
        /// 1 / sqrt(x).
        rsqrt = Rsqrt;
        /// -1, 0 or 1.
        sign = Sign;
        /// Sine, in radians.
        sin = Sine;
        /// Square root.
        sqrt = Sqrt;
        /// Hyperbolic tangent.
        tanh = Tanh;
    }

    binary! {
        /// The larger of two, element by element.
        max = Maximum;
        /// The smaller of two, element by element.
        min = Minimum;
        /// The first to the power of the second.
        pow = Power;
        /// Logical or bitwise and.
        and = And;
    }

    /// The instruction.
    pub fn id(self) -> InstrId {
        self.id
    }

    /// The computation under construction.
    pub fn builder(self) -> &'b Builder<'b> {
        self.builder
    }

    /// The shape, of an array or a tuple.
    pub fn shape(self) -> Shape {
        self.builder.shape_of(self.id)
    }

    /// The shape of an array; that of an empty tuple is `pred[0]`, which no operation accepts.
    pub fn array(self) -> ArrayShape {
        match self.shape() {
            Shape::Array(array) => array,
            Shape::Tuple(_) => ArrayShape::new(DType::Pred, [0]),
        }
    }

    /// The sizes of an array.
    pub fn dims(self) -> Vec<usize> {
        self.array().dims
    }

    /// The element type of an array.
    pub fn dtype(self) -> DType {
        self.array().dtype
    }

    /// The same value under a telling name; a number keeps it unique.
    pub fn named(self, name: &str) -> Self {
        self.builder.rename(self.id, name);
        self
    }

    /// The same value, said to lie as `sharding` says.
    pub fn with_sharding(self, sharding: Sharding) -> Self {
        self.builder.set_sharding(self.id, sharding);
        self
    }

    /// The same value with an annotation on its instruction, unless the last one there is equal.
    pub fn annotate(self, annotation: Annotation) -> Self {
        self.builder.annotate(self.id, annotation);
        self
    }

    /// The same value; the construction of its computation fails with this message about its instruction.
    #[track_caller]
    pub fn reject(self, message: String) -> Self {
        self.builder.reject(self.id, message);
        self
    }

    /// The same value with a frontend attribute set on its instruction.
    pub fn with_frontend_attribute(self, key: &str, value: impl Into<String>) -> Self {
        self.builder.set_frontend_attribute(self.id, key, value.into());
        self
    }

    /// The same array in a memory. A stack lies on the host when every slice that is written into it is placed there right
    /// before `dynamic_update_slice`, and every slice that is read of it is placed on the device right after
    /// `dynamic_slice`: from these, compilers follow it through tuples and loops to where it is made. A TPU takes stacks of
    /// matrices and more, not of vectors, whose layers share tiles.
    #[track_caller]
    pub fn to_memory_space(self, memory: MemorySpace) -> Self {
        let placed = self.builder.custom_call(memory::placement(), &[self], self.shape());
        placed.with_frontend_attribute(memory::BUFFER_PLACEMENT, memory.kind())
    }

    /// The same numbers in another element type; itself if that is the type it has.
    #[track_caller]
    pub fn convert(self, dtype: DType) -> Self {
        let shape = self.array();
        if shape.dtype == dtype {
            return self;
        }
        self.builder.push(Opcode::Convert, &[self], Attrs::Plain, Some(shape.with_dtype(dtype).into()))
    }

    /// Compares element by element, giving booleans.
    #[track_caller]
    pub fn compare(self, comparison: ComparisonDirection, other: Self) -> Self {
        self.builder.push(Opcode::Compare, &[self, other], Attrs::Compare(comparison), None)
    }

    /// Where `self` is true, elements of `on_true`, else of `on_false`.
    #[track_caller]
    pub fn select(self, on_true: Self, on_false: Self) -> Self {
        self.builder.push(Opcode::Select, &[self, on_true, on_false], Attrs::Plain, None)
    }

    /// Repeats into an array of sizes `dims`, where dimension `i` becomes dimension `mapping[i]`.
    #[track_caller]
    pub fn broadcast(self, dims: &[usize], mapping: &[usize]) -> Self {
        if self.dims() == dims && mapping.iter().enumerate().all(|(i, &dim)| i == dim) {
            return self;
        }
        let shape = Shape::array(self.dtype(), dims);
        self.builder.push(Opcode::Broadcast, &[self], Attrs::Dims(mapping.to_vec()), Some(shape))
    }

    /// The same elements under other sizes; itself if those are the sizes it has.
    #[track_caller]
    pub fn reshape(self, dims: &[usize]) -> Self {
        if self.dims() == dims {
            return self;
        }
        self.builder.push(Opcode::Reshape, &[self], Attrs::Plain, Some(Shape::array(self.dtype(), dims)))
    }

    /// Permutes dimensions: dimension `i` of the result is dimension `permutation[i]`.
    #[track_caller]
    pub fn transpose(self, permutation: &[usize]) -> Self {
        if permutation.iter().enumerate().all(|(i, &dim)| i == dim) {
            return self;
        }
        self.builder.push(Opcode::Transpose, &[self], Attrs::Dims(permutation.to_vec()), None)
    }

    /// Turns the listed dimensions around.
    #[track_caller]
    pub fn reverse(self, dims: &[usize]) -> Self {
        self.builder.push(Opcode::Reverse, &[self], Attrs::Dims(dims.to_vec()), None)
    }

    /// A box with fixed bounds, one range per dimension.
    #[track_caller]
    pub fn slice(self, ranges: &[SliceDim]) -> Self {
        self.builder.push(Opcode::Slice, &[self], Attrs::Slice(ranges.to_vec()), None)
    }

    /// A box of sizes `sizes` whose corner is at `starts`.
    #[track_caller]
    pub fn dynamic_slice(self, starts: &[Self], sizes: &[usize]) -> Self {
        let operands = [&[self], starts].concat();
        self.builder.push(Opcode::DynamicSlice, &operands, Attrs::DynamicSlice(sizes.to_vec()), None)
    }

    /// The same array with the box at `starts` replaced by `update`.
    #[track_caller]
    pub fn dynamic_update_slice(self, update: Self, starts: &[Self]) -> Self {
        let operands = [&[self, update], starts].concat();
        self.builder.push(Opcode::DynamicUpdateSlice, &operands, Attrs::Plain, None)
    }

    /// Adds `value` at the edges and between elements.
    #[track_caller]
    pub fn pad(self, value: Self, edges: &[PadDim]) -> Self {
        self.builder.push(Opcode::Pad, &[self, value], Attrs::Pad(edges.to_vec()), None)
    }

    /// Folds `dims` away with `opcode` (an associative binary one), starting at `init`.
    #[track_caller]
    pub fn reduce(self, opcode: Opcode, init: f64, dims: &[usize]) -> Self {
        let dtype = self.dtype();
        let to_apply = self.builder.module().reducer(opcode, dtype);
        let init = self.builder.scalar(dtype, init);
        let attrs = Attrs::Reduce { dims: dims.to_vec(), to_apply };
        self.builder.push(Opcode::Reduce, &[self, init], attrs, None)
    }

    /// The sum over `dims`; itself if there are none.
    #[track_caller]
    pub fn sum(self, dims: &[usize]) -> Self {
        if dims.is_empty() { self } else { self.reduce(Opcode::Add, 0.0, dims) }
    }

    /// General contraction; sums are kept in `dtype`.
    #[track_caller]
    pub fn dot_in(self, other: Self, dims: DotDims, dtype: DType) -> Self {
        let shape = Shape::scalar(dtype);
        self.builder.push(Opcode::Dot, &[self, other], Attrs::Dot(dims), Some(shape))
    }

    /// General contraction in the element type of the operands.
    #[track_caller]
    pub fn dot(self, other: Self, dims: DotDims) -> Self {
        self.dot_in(other, dims, self.dtype())
    }

    /// Collects slices at the starts that `indices` holds.
    #[track_caller]
    pub fn gather(self, indices: Self, dims: GatherDims) -> Self {
        self.builder.push(Opcode::Gather, &[self, indices], Attrs::Gather(dims), None)
    }

    /// Adds `updates` to slices at the starts that `indices` holds.
    #[track_caller]
    pub fn scatter_add(self, indices: Self, updates: Self, dims: ScatterDims) -> Self {
        let to_apply = self.builder.module().reducer(Opcode::Add, self.dtype());
        let attrs = Attrs::Scatter { dims, to_apply };
        self.builder.push(Opcode::Scatter, &[self, indices, updates], attrs, None)
    }

    /// Joins with `others` along `dim`.
    #[track_caller]
    pub fn concatenate(self, others: &[Self], dim: usize) -> Self {
        let operands = [&[self], others].concat();
        self.builder.push(Opcode::Concatenate, &operands, Attrs::Dims(vec![dim]), None)
    }

    /// One element of a tuple.
    #[track_caller]
    pub fn get(self, index: usize) -> Self {
        self.builder.push(Opcode::GetTupleElement, &[self], Attrs::TupleIndex(index), None)
    }

    /// All elements of a tuple; none of an array.
    #[track_caller]
    pub fn elements(self) -> Vec<Self> {
        let count = self.shape().as_tuple().map_or(0, <[Shape]>::len);
        (0..count).map(|index| self.get(index)).collect()
    }
}

macro_rules! operators {
    ($( $trait:ident, $method:ident, $opcode:ident; )*) => { $(
        impl<'b> $trait for Value<'b> {
            type Output = Value<'b>;

            #[track_caller]
            fn $method(self, other: Self) -> Self {
                self.builder.push(Opcode::$opcode, &[self, other], Attrs::Plain, None)
            }
        }

        impl<'b> $trait<f64> for Value<'b> {
            type Output = Value<'b>;

            #[track_caller]
            fn $method(self, number: f64) -> Self {
                let other = self.builder.full(self.array(), number);
                self.builder.push(Opcode::$opcode, &[self, other], Attrs::Plain, None)
            }
        }
    )* };
}

operators! {
    Add, add, Add;
    Sub, sub, Subtract;
    Mul, mul, Multiply;
    Div, div, Divide;
}

impl Neg for Value<'_> {
    type Output = Self;

    #[track_caller]
    fn neg(self) -> Self {
        self.builder.push(Opcode::Negate, &[self], Attrs::Plain, None)
    }
}
