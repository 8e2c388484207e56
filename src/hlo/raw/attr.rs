//! The attributes of instructions and modules, with the form of their values.

use super::{
    cursor::{Cursor, Parsed},
    value::{self, Form},
    words,
};

macro_rules! attributes {
    ($( $variant:ident = $name:literal, $form:expr; )*) => {
        /// The name of an attribute of an instruction, a computation or a module.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)]
        pub enum AttrName { $( $variant, )* }

        impl AttrName {
            /// Every attribute name.
            pub const ALL: &[AttrName] = &[$( AttrName::$variant, )*];

            /// The spelling in HLO text.
            pub const fn name(self) -> &'static str {
                match self { $( Self::$variant => $name, )* }
            }

            pub(super) const fn form(self) -> Form {
                match self { $( Self::$variant => $form, )* }
            }

            /// The attribute with this spelling.
            #[allow(non_upper_case_globals)]
            pub(super) fn from_name(name: &[u8]) -> Option<Self> {
                $( const $variant: &[u8] = $name.as_bytes(); )*
                match name {
                    $( $variant => Some(Self::$variant), )*
                    _ => None,
                }
            }
        }
    };
}

const DIRECTIONS: Form = Form::OneOf(&["EQ", "NE", "GE", "GT", "LE", "LT"]);
const COMPARISONS: Form = Form::OneOf(&["FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"]);
const FUSIONS: Form = Form::OneOf(&["kLoop", "kInput", "kOutput", "kCustom"]);
const GROUP_MODES: Form =
    Form::OneOf(&["cross_replica", "cross_partition", "cross_replica_and_partition", "flattened_id"]);
/// A text leaves out the first version, which is none.
const VERSIONS: Form = Form::OneOf(words::API_VERSIONS.split_at(1).1);

attributes! {
    // Of every instruction.
    Sharding = "sharding", Form::Sharding;
    FrontendAttributes = "frontend_attributes", Form::Dictionary;
    Statistics = "statistics", Form::Statistics;
    ParameterReplication = "parameter_replication", Form::Bools;
    ControlPredecessors = "control-predecessors", Form::Instructions;
    Origin = "origin", Form::Origin;
    Metadata = "metadata", Form::Metadata;
    BackendConfig = "backend_config", Form::TextOrJson;

    // Called computations.
    ToApply = "to_apply", Form::Computation;
    Calls = "calls", Form::Computation;
    Condition = "condition", Form::Computation;
    Body = "body", Form::Computation;
    TrueComputation = "true_computation", Form::Computation;
    FalseComputation = "false_computation", Form::Computation;
    BranchComputations = "branch_computations", Form::Computations;
    CalledComputations = "called_computations", Form::Computations;
    Select = "select", Form::Computation;
    Scatter = "scatter", Form::Computation;

    // Of single opcodes and families of them.
    Algorithm = "algorithm", Form::Algorithm;
    ApiVersion = "api_version", VERSIONS;
    AsyncExecutionThread = "async_execution_thread", Form::Text;
    BatchGroupCount = "batch_group_count", Form::Int;
    ChannelId = "channel_id", Form::Int;
    CollapsedSliceDims = "collapsed_slice_dims", Form::Ints;
    ConstrainLayout = "constrain_layout", Form::Bool;
    ConvolutionKind = "convolution_kind", Form::OneOf(words::CONVOLUTION_KINDS);
    CrossProgramPrefetchIndex = "cross_program_prefetch_index", Form::Int;
    CustomCallHasSideEffect = "custom_call_has_side_effect", Form::Bool;
    CustomCallTarget = "custom_call_target", Form::Text;
    Delta = "delta", Form::Int;
    DimLabels = "dim_labels", Form::DimLabels;
    Dimensions = "dimensions", Form::Ints;
    Direction = "direction", DIRECTIONS;
    Distribution = "distribution", Form::OneOfAnyCase(words::DISTRIBUTIONS);
    Domain = "domain", Form::Domain;
    DynamicSliceSizes = "dynamic_slice_sizes", Form::Ints;
    Epsilon = "epsilon", Form::Float;
    ExponentBits = "exponent_bits", Form::Int;
    FeatureGroupCount = "feature_group_count", Form::Int;
    FeatureIndex = "feature_index", Form::Int;
    FftLength = "fft_length", Form::Ints;
    FftType = "fft_type", Form::OneOf(words::FFT_TYPES);
    Index = "index", Form::Int;
    IndexVectorDim = "index_vector_dim", Form::Int;
    IndicesAreSorted = "indices_are_sorted", Form::Bool;
    InferredDimension = "inferred_dimension", Form::Int;
    InfeedConfig = "infeed_config", Form::Text;
    InputBatchingDims = "input_batching_dims", Form::Ints;
    InsertedWindowDims = "inserted_window_dims", Form::Ints;
    IotaDimension = "iota_dimension", Form::Int;
    IsAssociative = "is_associative", Form::Bool;
    IsComposite = "is_composite", Form::Bool;
    IsHostTransfer = "is_host_transfer", Form::Bool;
    IsReverse = "is_reverse", Form::Bool;
    IsStable = "is_stable", Form::Bool;
    K = "k", Form::Int;
    Kind = "kind", FUSIONS;
    Largest = "largest", Form::Bool;
    LeftSide = "left_side", Form::Bool;
    LhsBatchDims = "lhs_batch_dims", Form::Ints;
    LhsContractingDims = "lhs_contracting_dims", Form::Ints;
    LhsRaggedDims = "lhs_ragged_dims", Form::Ints;
    Literal = "literal", Form::Literal;
    Lower = "lower", Form::Bool;
    MantissaBits = "mantissa_bits", Form::Int;
    Mode = "mode", GROUP_MODES;
    NumCarries = "num_carries", Form::Int;
    OffsetDims = "offset_dims", Form::Ints;
    OperandBatchingDims = "operand_batching_dims", Form::Ints;
    OperandLayoutConstraints = "operand_layout_constraints", Form::Shapes;
    OperandPrecision = "operand_precision", Form::Precisions;
    OutfeedConfig = "outfeed_config", Form::Text;
    OutfeedShape = "outfeed_shape", Form::Shape;
    OutputToOperandAliasing = "output_to_operand_aliasing", Form::Aliases;
    Padding = "padding", Form::Padding;
    PaddingType = "padding_type", Form::OneOf(words::PADDING_TYPES);
    ReplicaGroups = "replica_groups", Form::ReplicaGroups;
    ResultAccuracy = "result_accuracy", Form::ResultAccuracy;
    RhsBatchDims = "rhs_batch_dims", Form::Ints;
    RhsContractingDims = "rhs_contracting_dims", Form::Ints;
    RhsGroupDims = "rhs_group_dims", Form::Ints;
    ScatterDimsToOperandDims = "scatter_dims_to_operand_dims", Form::Ints;
    ScatterIndicesBatchingDims = "scatter_indices_batching_dims", Form::Ints;
    Schedule = "schedule", Form::OneOf(words::SCHEDULES);
    Slice = "slice", Form::SliceRanges;
    SliceSizes = "slice_sizes", Form::IntLists;
    SourceTargetPairs = "source_target_pairs", Form::IntLists;
    SparsityConfig = "sparsity_config", Form::Sparsity;
    StartIndexMap = "start_index_map", Form::Ints;
    StartIndicesBatchingDims = "start_indices_batching_dims", Form::Ints;
    TransposeA = "transpose_a", Form::OneOf(words::TRANSPOSES);
    Type = "type", COMPARISONS;
    UniqueIndices = "unique_indices", Form::Bool;
    UnitDiagonal = "unit_diagonal", Form::Bool;
    UpdateWindowDims = "update_window_dims", Form::Ints;
    UseGlobalDeviceIds = "use_global_device_ids", Form::Bool;
    Window = "window", Form::Window;

    // Of modules.
    IsScheduled = "is_scheduled", Form::Bool;
    ReplicaCount = "replica_count", Form::Int;
    NumPartitions = "num_partitions", Form::Int;
    InputOutputAlias = "input_output_alias", Form::Aliases;
    BufferDonor = "buffer_donor", Form::Donors;
    AliasPassthroughParams = "alias_passthrough_params", Form::Bool;
    EntryComputationLayout = "entry_computation_layout", Form::Signature;
    AllowSpmdShardingPropagationToParameters = "allow_spmd_sharding_propagation_to_parameters", Form::Bools;
    AllowSpmdShardingPropagationToOutput = "allow_spmd_sharding_propagation_to_output", Form::Bools;
    OriginRecoveryTable = "origin_recovery_table", Form::Group;

    // Of computations.
    ExecutionThread = "execution_thread", Form::Text;
}

impl AttrName {
    /// Whether every instruction may have it.
    pub(super) fn is_common(self) -> bool {
        (self as usize) <= Self::BackendConfig as usize
    }

    /// Whether a module may have it.
    pub(super) fn is_of_module(self) -> bool {
        (Self::IsScheduled as usize..=Self::OriginRecoveryTable as usize).contains(&(self as usize))
            || self == Self::FrontendAttributes
    }

    /// Whether it names computations that the instruction calls.
    pub fn is_call(self) -> bool {
        matches!(self.form(), Form::Computation | Form::Computations)
    }

    /// Skips a value of this attribute, which is not a reference, and checks its form.
    pub(super) fn skip_value(self, cursor: &mut Cursor<'_>) -> Parsed<()> {
        value::skip(self.form(), cursor)
    }
}
