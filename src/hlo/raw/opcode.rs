//! The opcodes of HLO, with their operands and attributes.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use super::attr::AttrName::{self, *};

macro_rules! opcodes {
    ($( $variant:ident = $name:literal, $operands:expr, [$($required:ident),*], [$($optional:ident),*]; )*) => {
        /// An opcode of HLO: all that XLA has.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)]
        pub enum Opcode { $( $variant, )* }

        impl Opcode {
            /// Every opcode, in alphabetical order of the names.
            pub const ALL: &[Opcode] = &[$( Opcode::$variant, )*];

            const ROWS: &[Row] = &[$( Row {
                name: $name,
                operands: $operands,
                required: &[$($required),*],
                optional: &[$($optional),*],
            }, )*];
        }
    };
}

/// What the text of an instruction with an opcode consists of.
struct Row {
    name: &'static str,
    operands: Operands,
    required: &'static [AttrName],
    optional: &'static [AttrName],
}

/// The number of operands of an opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operands {
    /// This many.
    Exactly(usize),
    /// This many or more.
    AtLeast(usize),
    /// An even number: arrays and as many initial values.
    Pairs,
    /// An odd number: inputs, indices, and as many updates as inputs.
    OddNumber,
    /// A literal or a number in place of operands.
    Payload,
}

use Operands::{AtLeast, Exactly, OddNumber, Pairs, Payload};

impl Opcode {
    const fn row(self) -> &'static Row {
        &Self::ROWS[self as usize]
    }

    /// The spelling in HLO text.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// The number of operands.
    pub const fn operands(self) -> Operands {
        self.row().operands
    }

    /// Attributes without which the opcode has no meaning.
    pub const fn required(self) -> &'static [AttrName] {
        self.row().required
    }

    /// Whether an instruction with this opcode may have the attribute.
    pub fn allows(self, attr: AttrName) -> bool {
        attr.is_common() || self.row().required.contains(&attr) || self.row().optional.contains(&attr)
    }

    /// The opcode with this spelling.
    pub fn from_name(name: &str) -> Option<Self> {
        static BY_NAME: LazyLock<FxHashMap<&str, Opcode>> =
            LazyLock::new(|| Opcode::ALL.iter().map(|&opcode| (opcode.name(), opcode)).collect());
        BY_NAME.get(name).copied()
    }
}

opcodes! {
    Abs = "abs", Exactly(1), [], [];
    Acos = "acos", Exactly(1), [], [ResultAccuracy];
    Acosh = "acosh", Exactly(1), [], [ResultAccuracy];
    Add = "add", Exactly(2), [], [];
    AddDependency = "add-dependency", Exactly(2), [], [];
    AfterAll = "after-all", AtLeast(0), [], [];
    AllGather = "all-gather", AtLeast(0), [Dimensions], [ReplicaGroups, ChannelId, ConstrainLayout, UseGlobalDeviceIds];
    AllGatherDone = "all-gather-done", Exactly(1), [], [];
    AllGatherStart = "all-gather-start", AtLeast(0), [Dimensions],
        [ReplicaGroups, ChannelId, ConstrainLayout, UseGlobalDeviceIds, OutputToOperandAliasing];
    AllReduce = "all-reduce", AtLeast(0), [ToApply], [ReplicaGroups, ChannelId, ConstrainLayout, UseGlobalDeviceIds, Mode];
    AllReduceDone = "all-reduce-done", Exactly(1), [], [];
    AllReduceStart = "all-reduce-start", AtLeast(0), [ToApply],
        [ReplicaGroups, ChannelId, ConstrainLayout, UseGlobalDeviceIds, Mode, OutputToOperandAliasing];
    AllToAll = "all-to-all", AtLeast(0), [], [ReplicaGroups, ChannelId, Dimensions, ConstrainLayout];
    And = "and", Exactly(2), [], [];
    Asin = "asin", Exactly(1), [], [ResultAccuracy];
    Asinh = "asinh", Exactly(1), [], [ResultAccuracy];
    AsyncDone = "async-done", Exactly(1), [], [AsyncExecutionThread, Calls];
    AsyncStart = "async-start", AtLeast(0), [Calls], [AsyncExecutionThread, OutputToOperandAliasing];
    AsyncUpdate = "async-update", Exactly(1), [], [AsyncExecutionThread, Calls];
    Atan2 = "atan2", Exactly(2), [], [];
    Atanh = "atanh", Exactly(1), [], [ResultAccuracy];
    BatchNormGrad = "batch-norm-grad", Exactly(5), [Epsilon, FeatureIndex], [];
    BatchNormInference = "batch-norm-inference", Exactly(5), [Epsilon, FeatureIndex], [];
    BatchNormTraining = "batch-norm-training", Exactly(3), [Epsilon, FeatureIndex], [];
    Bitcast = "bitcast", Exactly(1), [], [];
    BitcastConvert = "bitcast-convert", Exactly(1), [], [];
    Broadcast = "broadcast", Exactly(1), [], [Dimensions];
    Call = "call", AtLeast(0), [ToApply], [IsComposite];
    Cbrt = "cbrt", Exactly(1), [], [ResultAccuracy];
    Ceil = "ceil", Exactly(1), [], [];
    Cholesky = "cholesky", Exactly(1), [], [Lower];
    Clamp = "clamp", Exactly(3), [], [];
    CollectiveBroadcast = "collective-broadcast", AtLeast(0), [], [ReplicaGroups, ChannelId];
    CollectivePermute = "collective-permute", AtLeast(0), [SourceTargetPairs], [ChannelId, SliceSizes];
    CollectivePermuteDone = "collective-permute-done", Exactly(1), [], [];
    CollectivePermuteStart = "collective-permute-start", AtLeast(0), [SourceTargetPairs],
        [ChannelId, SliceSizes, OutputToOperandAliasing];
    Compare = "compare", Exactly(2), [Direction], [Type];
    Complex = "complex", Exactly(2), [], [];
    Concatenate = "concatenate", AtLeast(0), [Dimensions], [];
    Conditional = "conditional", AtLeast(1), [], [TrueComputation, FalseComputation, BranchComputations];
    Constant = "constant", Payload, [], [];
    Convert = "convert", Exactly(1), [], [];
    Convolution = "convolution", Exactly(2), [DimLabels],
        [Window, FeatureGroupCount, BatchGroupCount, ConvolutionKind, OperandPrecision, SparsityConfig];
    Copy = "copy", Exactly(1), [], [];
    CopyDone = "copy-done", Exactly(1), [], [];
    CopyStart = "copy-start", Exactly(1), [], [CrossProgramPrefetchIndex];
    Cosine = "cosine", Exactly(1), [], [ResultAccuracy];
    Cosh = "cosh", Exactly(1), [], [ResultAccuracy];
    CountLeadingZeros = "count-leading-zeros", Exactly(1), [], [];
    CustomCall = "custom-call", AtLeast(0), [CustomCallTarget],
        [Window, DimLabels, FeatureGroupCount, BatchGroupCount, OperandLayoutConstraints, CustomCallHasSideEffect, ToApply,
         CalledComputations, OutputToOperandAliasing, PaddingType, Literal, OperandPrecision, Schedule, ApiVersion];
    Divide = "divide", Exactly(2), [], [];
    Domain = "domain", Exactly(1), [Domain], [];
    Dot = "dot", AtLeast(2), [],
        [LhsContractingDims, RhsContractingDims, LhsBatchDims, RhsBatchDims, OperandPrecision, Algorithm, SparsityConfig];
    DynamicReshape = "dynamic-reshape", AtLeast(1), [], [];
    DynamicSlice = "dynamic-slice", AtLeast(1), [DynamicSliceSizes], [];
    DynamicUpdateSlice = "dynamic-update-slice", AtLeast(2), [], [];
    Erf = "erf", Exactly(1), [], [ResultAccuracy];
    Exponential = "exponential", Exactly(1), [], [ResultAccuracy];
    ExponentialMinusOne = "exponential-minus-one", Exactly(1), [], [ResultAccuracy];
    Fft = "fft", Exactly(1), [FftType, FftLength], [];
    Floor = "floor", Exactly(1), [], [];
    Fusion = "fusion", AtLeast(0), [Calls, Kind], [OutputToOperandAliasing];
    Gather = "gather", Exactly(2), [OffsetDims, CollapsedSliceDims, StartIndexMap, IndexVectorDim, SliceSizes],
        [IndicesAreSorted, OperandBatchingDims, StartIndicesBatchingDims];
    GetDimensionSize = "get-dimension-size", Exactly(1), [Dimensions], [];
    GetTupleElement = "get-tuple-element", Exactly(1), [Index], [];
    Imag = "imag", Exactly(1), [], [];
    Infeed = "infeed", Exactly(1), [], [InfeedConfig];
    Iota = "iota", Exactly(0), [IotaDimension], [];
    IsFinite = "is-finite", Exactly(1), [], [];
    Log = "log", Exactly(1), [], [ResultAccuracy];
    LogPlusOne = "log-plus-one", Exactly(1), [], [ResultAccuracy];
    Logistic = "logistic", Exactly(1), [], [ResultAccuracy];
    Map = "map", AtLeast(0), [ToApply], [Dimensions];
    Maximum = "maximum", Exactly(2), [], [];
    Minimum = "minimum", Exactly(2), [], [];
    Mulhi = "mulhi", Exactly(2), [], [];
    Multiply = "multiply", Exactly(2), [], [];
    Negate = "negate", Exactly(1), [], [];
    Not = "not", Exactly(1), [], [];
    OptBarrier = "opt-barrier", Exactly(1), [], [];
    Or = "or", Exactly(2), [], [];
    Outfeed = "outfeed", Exactly(2), [], [OutfeedConfig, OutfeedShape];
    Pad = "pad", Exactly(2), [Padding], [];
    Parameter = "parameter", Payload, [], [];
    PartitionId = "partition-id", Exactly(0), [], [];
    Popcnt = "popcnt", Exactly(1), [], [];
    Power = "power", Exactly(2), [], [];
    RaggedAllToAll = "ragged-all-to-all", AtLeast(0), [], [ReplicaGroups, ChannelId, Dimensions];
    RaggedDot = "ragged-dot", Exactly(3), [],
        [LhsContractingDims, RhsContractingDims, LhsBatchDims, RhsBatchDims, LhsRaggedDims, RhsGroupDims, OperandPrecision];
    Real = "real", Exactly(1), [], [];
    Recv = "recv", Exactly(1), [], [ChannelId, IsHostTransfer];
    RecvDone = "recv-done", Exactly(1), [], [ChannelId, IsHostTransfer];
    Reduce = "reduce", Pairs, [ToApply, Dimensions], [];
    ReducePrecision = "reduce-precision", Exactly(1), [ExponentBits, MantissaBits], [];
    ReduceScatter = "reduce-scatter", AtLeast(0), [ToApply, Dimensions],
        [ReplicaGroups, ChannelId, ConstrainLayout, UseGlobalDeviceIds, Mode];
    ReduceWindow = "reduce-window", Pairs, [ToApply], [Window];
    Remainder = "remainder", Exactly(2), [], [];
    ReplicaId = "replica-id", Exactly(0), [], [];
    Reshape = "reshape", Exactly(1), [], [InferredDimension];
    Reverse = "reverse", Exactly(1), [Dimensions], [];
    Rng = "rng", AtLeast(0), [Distribution], [];
    RngBitGenerator = "rng-bit-generator", AtLeast(1), [Algorithm], [];
    RngGetAndUpdateState = "rng-get-and-update-state", Exactly(0), [Delta], [];
    RoundNearestAfz = "round-nearest-afz", Exactly(1), [], [];
    RoundNearestEven = "round-nearest-even", Exactly(1), [], [];
    Rsqrt = "rsqrt", Exactly(1), [], [ResultAccuracy];
    ScaledDot = "scaled-dot", Exactly(4), [],
        [LhsContractingDims, RhsContractingDims, LhsBatchDims, RhsBatchDims, OperandPrecision, Algorithm];
    Scan = "scan", AtLeast(0), [ToApply, Dimensions, NumCarries], [IsReverse, IsAssociative];
    Scatter = "scatter", OddNumber, [UpdateWindowDims, InsertedWindowDims, ScatterDimsToOperandDims, IndexVectorDim, ToApply],
        [IndicesAreSorted, UniqueIndices, InputBatchingDims, ScatterIndicesBatchingDims];
    Select = "select", Exactly(3), [], [];
    SelectAndScatter = "select-and-scatter", Exactly(3), [Select, Scatter], [Window];
    Send = "send", Exactly(2), [], [ChannelId, IsHostTransfer];
    SendDone = "send-done", Exactly(1), [], [ChannelId, IsHostTransfer];
    SetDimensionSize = "set-dimension-size", Exactly(2), [Dimensions], [];
    ShiftLeft = "shift-left", Exactly(2), [], [];
    ShiftRightArithmetic = "shift-right-arithmetic", Exactly(2), [], [];
    ShiftRightLogical = "shift-right-logical", Exactly(2), [], [];
    Sign = "sign", Exactly(1), [], [];
    Sine = "sine", Exactly(1), [], [ResultAccuracy];
    Sinh = "sinh", Exactly(1), [], [ResultAccuracy];
    Slice = "slice", Exactly(1), [Slice], [];
    Sort = "sort", AtLeast(0), [Dimensions, ToApply], [IsStable];
    Sqrt = "sqrt", Exactly(1), [], [ResultAccuracy];
    StochasticConvert = "stochastic-convert", Exactly(2), [], [];
    Subtract = "subtract", Exactly(2), [], [];
    Tan = "tan", Exactly(1), [], [ResultAccuracy];
    Tanh = "tanh", Exactly(1), [], [ResultAccuracy];
    Topk = "topk", Exactly(1), [K], [Largest];
    Transpose = "transpose", Exactly(1), [Dimensions], [];
    TriangularSolve = "triangular-solve", Exactly(2), [], [LeftSide, Lower, UnitDiagonal, TransposeA];
    Tuple = "tuple", AtLeast(0), [], [];
    While = "while", Exactly(1), [Condition, Body], [];
    Xor = "xor", Exactly(2), [], [];
}
