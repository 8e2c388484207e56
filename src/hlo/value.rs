//! Operations on values.

use std::ops::{Add, Div, Mul, Neg, Sub};

use super::{
    Annotation, Attrs, ComparisonDirection, DotDims, GatherDims, OpMetadata, Opcode, PadDim, ScatterDims,
    Sharding, SliceDim, Value, memory,
};
use crate::base::{ArrayShape, DType, MemorySpace, Shape};

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
        /// `exp(x)`.
        exp = Exponential;
        /// `exp(x) - 1`.
        exp_minus_one = ExponentialMinusOne;
        /// Natural logarithm.
        log = Log;
        /// `1 / (1 + exp(-x))`.
        logistic = Logistic;
        /// `1 / sqrt(x)`.
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
        /// Elementwise maximum.
        max = Maximum;
        /// Elementwise minimum.
        min = Minimum;
        /// `x` to the power of `other`.
        pow = Power;
        /// Logical or bitwise and.
        and = And;
    }

    /// The shape of the value.
    pub fn shape(self) -> Shape {
        self.builder.shape_of(self.id)
    }

    /// The shape of an array. For a tuple it is `pred[0]`, with which shape inference fails at the next use.
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

    /// Names the instruction. A number keeps the name unique.
    pub fn named(self, name: &str) -> Self {
        self.builder.rename(self.id, name);
        self
    }

    /// Sets the sharding of the value.
    pub fn with_sharding(self, sharding: Sharding) -> Self {
        self.builder.set_sharding(self.id, sharding);
        self
    }

    /// The same value with an annotation on its instruction, unless the last one there is equal.
    pub fn annotate(self, annotation: Annotation) -> Self {
        self.builder.annotate(self.id, annotation);
        self
    }

    /// Sets the metadata of the instruction, in place of that of its scope and name.
    pub fn with_metadata(self, metadata: OpMetadata) -> Self {
        self.builder.set_metadata(self.id, metadata);
        self
    }

    /// Records an error about the value's instruction, with which the construction of its computation fails.
    #[track_caller]
    pub fn reject(self, message: String) -> Self {
        self.builder.reject(self.id, message);
        self
    }

    /// Sets a frontend attribute of the instruction.
    pub fn with_frontend_attribute(self, key: &str, value: impl Into<String>) -> Self {
        self.builder.set_frontend_attribute(self.id, key, value.into());
        self
    }

    /// Moves an array to a memory space.
    ///
    /// A stack is in host memory if each slice is moved to the host directly before the `dynamic_update_slice` that
    /// writes it, and to the device directly after the `dynamic_slice` that reads it; compilers propagate the memory
    /// space from these through tuples and loops. TPUs support stacks of matrices and higher ranks, but not of vectors,
    /// whose layers share tiles.
    #[track_caller]
    pub fn to_memory_space(self, memory: MemorySpace) -> Self {
        let moved = self.builder.custom_call(memory::placement(), &[self], self.shape());
        moved.with_frontend_attribute(memory::BUFFER_PLACEMENT, memory.kind())
    }

    /// Converts to another element type; no instruction is added if the value has it already.
    #[track_caller]
    pub fn convert(self, dtype: DType) -> Self {
        let shape = self.array();
        if shape.dtype == dtype {
            return self;
        }
        self.builder.push(Opcode::Convert, &[self], Attrs::Plain, Some(shape.with_dtype(dtype).into()))
    }

    /// Compares elementwise; the result is `pred`.
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

    /// Reshapes; no instruction is added if the value has these sizes already.
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

    /// Reverses the listed dimensions.
    #[track_caller]
    pub fn reverse(self, dims: &[usize]) -> Self {
        self.builder.push(Opcode::Reverse, &[self], Attrs::Dims(dims.to_vec()), None)
    }

    /// Slices with static bounds, one range for each dimension.
    #[track_caller]
    pub fn slice(self, ranges: &[SliceDim]) -> Self {
        self.builder.push(Opcode::Slice, &[self], Attrs::Slice(ranges.to_vec()), None)
    }

    /// Slices `sizes` indices from `starts` on.
    #[track_caller]
    pub fn dynamic_slice(self, starts: &[Self], sizes: &[usize]) -> Self {
        let operands = [&[self], starts].concat();
        self.builder.push(Opcode::DynamicSlice, &operands, Attrs::DynamicSlice(sizes.to_vec()), None)
    }

    /// Replaces the slice at `starts` with `update`.
    #[track_caller]
    pub fn dynamic_update_slice(self, update: Self, starts: &[Self]) -> Self {
        let operands = [&[self, update], starts].concat();
        self.builder.push(Opcode::DynamicUpdateSlice, &operands, Attrs::Plain, None)
    }

    /// Pads with `value` at the edges and between elements.
    #[track_caller]
    pub fn pad(self, value: Self, edges: &[PadDim]) -> Self {
        self.builder.push(Opcode::Pad, &[self, value], Attrs::Pad(edges.to_vec()), None)
    }

    /// Reduces `dims` with an associative binary `opcode` and the initial value `init`.
    #[track_caller]
    pub fn reduce(self, opcode: Opcode, init: f64, dims: &[usize]) -> Self {
        let dtype = self.dtype();
        let to_apply = self.builder.module().reducer(opcode, dtype);
        let init = self.builder.scalar(dtype, init);
        let attrs = Attrs::Reduce { dims: dims.to_vec(), to_apply };
        self.builder.push(Opcode::Reduce, &[self, init], attrs, None)
    }

    /// Sums over `dims`; no instruction is added if there are none.
    #[track_caller]
    pub fn sum(self, dims: &[usize]) -> Self {
        if dims.is_empty() { self } else { self.reduce(Opcode::Add, 0.0, dims) }
    }

    /// General dot product with accumulation and result in `dtype`.
    #[track_caller]
    pub fn dot_in(self, other: Self, dims: DotDims, dtype: DType) -> Self {
        let shape = Shape::scalar(dtype);
        self.builder.push(Opcode::Dot, &[self, other], Attrs::Dot(dims), Some(shape))
    }

    /// General dot product in the element type of the operands.
    #[track_caller]
    pub fn dot(self, other: Self, dims: DotDims) -> Self {
        self.dot_in(other, dims, self.dtype())
    }

    /// Gathers slices at the start indices `indices`.
    #[track_caller]
    pub fn gather(self, indices: Self, dims: GatherDims) -> Self {
        self.builder.push(Opcode::Gather, &[self, indices], Attrs::Gather(dims), None)
    }

    /// Adds `updates` to slices at the start indices `indices`.
    #[track_caller]
    pub fn scatter_add(self, indices: Self, updates: Self, dims: ScatterDims) -> Self {
        let to_apply = self.builder.module().reducer(Opcode::Add, self.dtype());
        let attrs = Attrs::Scatter { dims, to_apply };
        self.builder.push(Opcode::Scatter, &[self, indices, updates], attrs, None)
    }

    /// Concatenates with `others` along `dim`.
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

    /// All elements of a tuple. An array has none.
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
