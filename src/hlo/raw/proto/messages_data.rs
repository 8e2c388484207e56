//! The messages of `xla_data.proto` that instructions and modules contain.

use std::collections::BTreeMap;

use super::describe::messages;

messages! {
    /// A shape. A tuple has `tuple_shapes`; a buffer has one of them.
    ShapeProto {
        element_type: i32 = 2 [int32];
        dimensions: Vec<i64> = 3 [int64, repeated];
        is_dynamic_dimension: Vec<bool> = 6 [bool, repeated];
        tuple_shapes: Vec<ShapeProto> = 4 [message, repeated];
        layout: Option<LayoutProto> = 5 [message, optional];
    }

    /// How an array is laid out in memory.
    LayoutProto {
        minor_to_major: Vec<i64> = 1 [int64, repeated];
        dim_level_types: Vec<i32> = 9 [int32, repeated];
        dim_unique: Vec<bool> = 13 [bool, repeated];
        dim_ordered: Vec<bool> = 14 [bool, repeated];
        tiles: Vec<TileProto> = 6 [message, repeated];
        tail_padding_alignment_in_elements: i64 = 16 [int64];
        element_size_in_bits: i64 = 7 [int64];
        memory_space: i64 = 8 [int64];
        index_primitive_type: i32 = 11 [int32];
        pointer_primitive_type: i32 = 12 [int32];
        physical_shape: Option<Box<ShapeProto>> = 10 [message, optional, boxed];
        dynamic_shape_metadata_prefix_bytes: i64 = 15 [int64];
        split_configs: Vec<SplitConfigProto> = 17 [message, repeated];
    }

    /// Sizes of a tile, major to minor.
    TileProto {
        dimensions: Vec<i64> = 1 [int64, repeated];
    }

    /// Where a dimension is split between memories.
    SplitConfigProto {
        dimension: i64 = 1 [int64];
        split_indices: Vec<i64> = 2 [int64, repeated];
    }

    /// Where an instruction comes from.
    OpMetadata {
        op_type: String = 1 [string];
        op_name: String = 2 [string];
        source_file: String = 3 [string];
        source_line: i32 = 4 [int32];
        source_end_line: i32 = 17 [int32];
        source_column: i32 = 18 [int32];
        source_end_column: i32 = 19 [int32];
        profile_type: Vec<i32> = 5 [int32, repeated];
        size_of_generated_code_in_bytes: i64 = 8 [int64];
        size_of_memory_working_set_in_bytes: i64 = 9 [int64];
        profile_info: Option<OpProfileInfo> = 10 [message, optional];
        deduplicated_name: String = 12 [string];
        stack_frame_id: i32 = 15 [int32];
        scheduling_name: String = 16 [string];
        metadata_payload: Option<Payload> = 20 [message, optional];
    }

    /// Where a profile of an instruction came from.
    OpProfileInfo {
        profile_type: Vec<i32> = 1 [int32, repeated];
        relative_speedup: f64 = 2 [double];
        profile_source: i32 = 3 [int32];
        compilation_event: i32 = 4 [int32];
        profile_generation_strategy: i32 = 5 [int32];
    }

    /// Bytes, or the index of bytes in `HloModuleProto.payloads`.
    Payload {
        value: Option<Vec<u8>> = 1 [bytes = "vec", optional];
        id: Option<i64> = 2 [int64, optional];
    }

    /// The elements of a constant, in the order of its layout. Which field holds them depends on the element type.
    LiteralProto {
        shape: Option<ShapeProto> = 1 [message, optional];
        preds: Vec<bool> = 2 [bool, repeated];
        s1s: Vec<u8> = 30 [bytes = "vec"];
        s2s: Vec<u8> = 26 [bytes = "vec"];
        s4s: Vec<u8> = 21 [bytes = "vec"];
        s8s: Vec<u8> = 15 [bytes = "vec"];
        u1s: Vec<u8> = 31 [bytes = "vec"];
        u2s: Vec<u8> = 27 [bytes = "vec"];
        u4s: Vec<u8> = 22 [bytes = "vec"];
        u8s: Vec<u8> = 3 [bytes = "vec"];
        s32s: Vec<i32> = 4 [int32, repeated];
        s64s: Vec<i64> = 5 [int64, repeated];
        u32s: Vec<u32> = 6 [uint32, repeated];
        u64s: Vec<u64> = 7 [uint64, repeated];
        f32s: Vec<f32> = 8 [float, repeated];
        f64s: Vec<f64> = 9 [double, repeated];
        c64s: Vec<f32> = 12 [float, repeated];
        c128s: Vec<f64> = 18 [double, repeated];
        tuple_literals: Vec<LiteralProto> = 10 [message, repeated];
        f16s: Vec<u8> = 11 [bytes = "vec"];
        bf16s: Vec<u8> = 13 [bytes = "vec"];
        u16s: Vec<u8> = 16 [bytes = "vec"];
        s16s: Vec<u8> = 17 [bytes = "vec"];
        f4e2m1fns: Vec<u8> = 32 [bytes = "vec"];
        f8e3m4s: Vec<u8> = 29 [bytes = "vec"];
        f8e4m3b11fnuzs: Vec<u8> = 23 [bytes = "vec"];
        f8e4m3fns: Vec<u8> = 20 [bytes = "vec"];
        f8e4m3fnuzs: Vec<u8> = 25 [bytes = "vec"];
        f8e4m3s: Vec<u8> = 28 [bytes = "vec"];
        f8e5m2fnuzs: Vec<u8> = 24 [bytes = "vec"];
        f8e5m2s: Vec<u8> = 19 [bytes = "vec"];
        f8e8m0fnus: Vec<u8> = 33 [bytes = "vec"];
        f6e3m2fns: Vec<u8> = 35 [bytes = "vec"];
        f6e2m3fns: Vec<u8> = 36 [bytes = "vec"];
        sparse_indices: Vec<i64> = 14 [int64, repeated];
        dynamic_sizes: Vec<i32> = 34 [int32, repeated];
    }

    /// A window that moves over an array.
    Window {
        dimensions: Vec<WindowDimension> = 1 [message, repeated];
    }

    /// One dimension of a window.
    WindowDimension {
        size: i64 = 1 [int64];
        stride: i64 = 2 [int64];
        padding_low: i64 = 3 [int64];
        padding_high: i64 = 4 [int64];
        window_dilation: i64 = 5 [int64];
        base_dilation: i64 = 6 [int64];
        window_reversal: bool = 7 [bool];
    }

    /// Which dimensions of the arrays of a convolution have which meaning.
    ConvolutionDimensionNumbers {
        input_batch_dimension: i64 = 7 [int64];
        input_feature_dimension: i64 = 8 [int64];
        input_spatial_dimensions: Vec<i64> = 11 [int64, repeated];
        kernel_input_feature_dimension: i64 = 3 [int64];
        kernel_output_feature_dimension: i64 = 4 [int64];
        kernel_spatial_dimensions: Vec<i64> = 6 [int64, repeated];
        output_batch_dimension: i64 = 9 [int64];
        output_feature_dimension: i64 = 10 [int64];
        output_spatial_dimensions: Vec<i64> = 12 [int64, repeated];
    }

    /// Padding of each dimension.
    PaddingConfig {
        dimensions: Vec<PaddingConfigDimension> = 1 [message, repeated];
    }

    /// Padding of one dimension.
    PaddingConfigDimension {
        edge_padding_low: i64 = 1 [int64];
        edge_padding_high: i64 = 2 [int64];
        interior_padding: i64 = 3 [int64];
    }

    /// Batch and contracting dimensions of a dot.
    DotDimensionNumbers {
        lhs_contracting_dimensions: Vec<i64> = 1 [int64, repeated];
        rhs_contracting_dimensions: Vec<i64> = 2 [int64, repeated];
        lhs_batch_dimensions: Vec<i64> = 3 [int64, repeated];
        rhs_batch_dimensions: Vec<i64> = 4 [int64, repeated];
    }

    /// Dimensions of a dot of groups.
    RaggedDotDimensionNumbers {
        dot_dimension_numbers: Option<DotDimensionNumbers> = 1 [message, optional];
        lhs_ragged_dimensions: Vec<i64> = 2 [int64, repeated];
        rhs_group_dimensions: Vec<i64> = 3 [int64, repeated];
    }

    /// Dimensions of a gather.
    GatherDimensionNumbers {
        offset_dims: Vec<i64> = 1 [int64, repeated];
        collapsed_slice_dims: Vec<i64> = 2 [int64, repeated];
        start_index_map: Vec<i64> = 3 [int64, repeated];
        index_vector_dim: i64 = 4 [int64];
        operand_batching_dims: Vec<i64> = 5 [int64, repeated];
        start_indices_batching_dims: Vec<i64> = 6 [int64, repeated];
    }

    /// How a value is distributed over devices.
    OpSharding {
        kind: i32 = 1 [int32];
        tile_shape: Option<Box<ShapeProto>> = 2 [message, optional, boxed];
        tile_assignment_dimensions: Vec<i64> = 3 [int64, repeated];
        tile_assignment_devices: Vec<i64> = 4 [int64, repeated];
        tuple_shardings: Vec<OpSharding> = 5 [message, repeated];
        replicate_on_last_tile_dim: bool = 6 [bool];
        metadata: Vec<OpMetadata> = 7 [message, repeated];
        last_tile_dims: Vec<i32> = 8 [int32, repeated];
        iota_reshape_dims: Vec<i64> = 9 [int64, repeated];
        iota_transpose_perm: Vec<i32> = 10 [int32, repeated];
        is_shard_group: bool = 11 [bool];
        shard_group_id: i64 = 12 [int64];
        shard_group_type: i32 = 13 [int32];
        named_sharding: Option<Box<NamedShardingProto>> = 14 [message, optional, boxed];
    }

    /// A sharding by the names of mesh axes.
    NamedShardingProto {
        mesh: Option<MeshProto> = 2 [message, optional];
        dim_shardings: Vec<DimensionSharding> = 3 [message, repeated];
        replicated_axes: Vec<AxisRefProto> = 4 [message, repeated];
        unreduced_axes: Vec<AxisRefProto> = 5 [message, repeated];
        manual_axes: Vec<AxisRefProto> = 7 [message, repeated];
        metadata: Vec<OpMetadata> = 6 [message, repeated];
    }

    /// A mesh of devices.
    MeshProto {
        axes: Vec<MeshAxis> = 1 [message, repeated];
        device_ids: Vec<i64> = 2 [int64, repeated];
        iota_transform: Option<IotaTransform> = 3 [message, optional];
    }

    /// An axis of a mesh.
    MeshAxis {
        name: String = 1 [string];
        size: i64 = 2 [int64];
    }

    /// Device numbers: counted up in some dimensions, then transposed.
    IotaTransform {
        reshape_dims: Vec<i64> = 1 [int64, repeated];
        transpose_perm: Vec<i64> = 2 [int64, repeated];
    }

    /// The axes along which one dimension is sharded.
    DimensionSharding {
        axes: Vec<AxisRefProto> = 1 [message, repeated];
        is_closed: bool = 2 [bool];
    }

    /// An axis of a mesh, or a part of it.
    AxisRefProto {
        mesh_axis_index: i64 = 1 [int64];
        sub_axis_info: Option<SubAxis> = 2 [message, optional];
    }

    /// A part of an axis.
    SubAxis {
        pre_size: i64 = 1 [int64];
        size: i64 = 2 [int64];
    }

    /// Devices that communicate.
    ReplicaGroup {
        replica_ids: Vec<i64> = 1 [int64, repeated];
    }

    /// Dimensions of a scatter.
    ScatterDimensionNumbers {
        update_window_dims: Vec<i64> = 1 [int64, repeated];
        inserted_window_dims: Vec<i64> = 2 [int64, repeated];
        scatter_dims_to_operand_dims: Vec<i64> = 3 [int64, repeated];
        index_vector_dim: i64 = 4 [int64];
        input_batching_dims: Vec<i64> = 5 [int64, repeated];
        scatter_indices_batching_dims: Vec<i64> = 6 [int64, repeated];
    }

    /// Precision of the operands, and the algorithm, of a product.
    PrecisionConfig {
        operand_precision: Vec<i32> = 1 [int32, repeated];
        algorithm: i32 = 2 [int32];
    }

    /// A sender and a receiver.
    SourceTarget {
        source: i64 = 1 [int64];
        target: i64 = 2 [int64];
    }

    /// Options of a triangular solve.
    TriangularSolveOptions {
        left_side: bool = 1 [bool];
        lower: bool = 2 [bool];
        unit_diagonal: bool = 3 [bool];
        transpose_a: i32 = 4 [int32];
    }

    /// Options of a Cholesky factorization.
    CholeskyOptions {
        lower: bool = 1 [bool];
    }

    /// Whether each leaf of a parameter is the same on all replicas.
    ParameterReplication {
        replicated_at_leaf_buffers: Vec<bool> = 1 [bool, repeated];
    }

    /// An element of the output that shares the buffer of an operand.
    OutputOperandAliasing {
        output_shape_index: Vec<i64> = 1 [int64, repeated];
        operand_index: i64 = 2 [int64];
        operand_shape_index: Vec<i64> = 3 [int64, repeated];
    }

    /// Attributes that XLA hands on.
    FrontendAttributes {
        map: BTreeMap<String, String> = 1 [btree_map = "string, string"];
    }

    /// Statistics that a viewer shows.
    StatisticsViz {
        stat_index_to_visualize: i64 = 1 [int64];
        statistics: Vec<Statistic> = 2 [message, repeated];
    }

    /// A named number.
    Statistic {
        stat_name: String = 1 [string];
        stat_val: f64 = 2 [double];
    }

    /// Groups of devices, listed.
    CollectiveDeviceListProto {
        replica_groups: Vec<ReplicaGroup> = 1 [message, repeated];
    }

    /// Groups of devices, counted up.
    IotaReplicaGroupListProto {
        num_replica_groups: i64 = 1 [int64];
        num_devices_per_group: i64 = 2 [int64];
        iota_reshape_dims: Vec<i64> = 3 [int64, repeated];
        iota_transpose_perm: Vec<i32> = 4 [int32, repeated];
    }

    /// Groups of devices, by mesh axes.
    MeshAxesReplicaGroupListProto {
        mesh: Option<MeshProto> = 1 [message, optional];
        axes: Vec<AxisRefProto> = 2 [message, repeated];
    }

    /// Which values of the program before optimization an instruction computes.
    OriginalValueProto {
        elements: Vec<OriginalValueElementProto> = 1 [message, repeated];
        is_synthetic_call: bool = 2 [bool];
    }

    /// The origin of one leaf.
    OriginalValueElementProto {
        shape_index: Vec<i64> = 1 [int64, repeated];
        original_array: Option<OriginalArrayProto> = 2 [message, optional];
    }

    /// A leaf of the value of an instruction.
    OriginalArrayProto {
        instruction_name: String = 1 [string];
        shape_index: Vec<i64> = 2 [int64, repeated];
    }

    /// How exact a function has to be.
    ResultAccuracy {
        mode: Option<i32> = 1 [int32, optional];
        tolerance: Option<Tolerance> = 2 [message, optional];
    }

    /// Largest errors.
    Tolerance {
        atol: f64 = 1 [double];
        rtol: f64 = 2 [double];
        ulps: i64 = 3 [int64];
    }

    /// Sparsity of the operands of a product.
    SparsityConfig {
        lhs: Option<TensorSparsityConfig> = 1 [message, optional];
        rhs: Option<TensorSparsityConfig> = 2 [message, optional];
    }

    /// Sparsity of one operand.
    TensorSparsityConfig {
        num_non_zero: i64 = 1 [int64];
        block_size: i64 = 2 [int64];
        dimension: i64 = 3 [int64];
        stride: i64 = 4 [int64];
    }

    /// Shapes of parameters and result.
    ProgramShapeProto {
        parameters: Vec<ShapeProto> = 1 [message, repeated];
        result: Option<ShapeProto> = 2 [message, optional];
        parameter_names: Vec<String> = 3 [string, repeated];
    }

    /// The devices of each partition.
    DeviceAssignmentProto {
        replica_count: i32 = 1 [int32];
        computation_count: i32 = 2 [int32];
        computation_devices: Vec<ComputationDevice> = 3 [message, repeated];
    }

    /// The devices of one partition.
    ComputationDevice {
        replica_device_ids: Vec<i64> = 1 [int64, repeated];
    }
}
