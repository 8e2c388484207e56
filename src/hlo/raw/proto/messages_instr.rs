//! `HloInstructionProto`: one message for all opcodes.

use super::{describe::messages, messages_data::*};

messages! {
    /// An instruction.
    HloInstructionProto {
        name: String = 1 [string];
        opcode: String = 2 [string];
        shape: Option<Box<ShapeProto>> = 3 [message, optional, boxed];
        metadata: Option<Box<OpMetadata>> = 7 [message, optional, boxed];
        literal: Option<Box<LiteralProto>> = 8 [message, optional, boxed];
        parameter_number: i64 = 9 [int64];
        fusion_kind: String = 11 [string];
        tuple_index: i64 = 13 [int64];
        dimensions: Vec<i64> = 14 [int64, repeated];
        window: Option<Box<Window>> = 15 [message, optional, boxed];
        convolution_dimension_numbers: Option<Box<ConvolutionDimensionNumbers>> = 16 [message, optional, boxed];
        feature_group_count: i64 = 50 [int64];
        batch_group_count: i64 = 58 [int64];
        slice_dimensions: Vec<SliceDimensions> = 17 [message, repeated];
        exponent_bits: i32 = 18 [int32];
        mantissa_bits: i32 = 19 [int32];
        dynamic_slice_sizes: Vec<i64> = 20 [int64, repeated];
        padding_config: Option<Box<PaddingConfig>> = 21 [message, optional, boxed];
        outfeed_config: Vec<u8> = 22 [bytes = "vec"];
        distribution: i32 = 23 [int32];
        epsilon: f32 = 24 [float];
        feature_index: i64 = 25 [int64];
        channel_id: i64 = 26 [int64];
        infeed_config: Vec<u8> = 27 [bytes = "vec"];
        custom_call_target: String = 28 [string];
        outfeed_shape: Option<Box<ShapeProto>> = 29 [message, optional, boxed];
        dot_dimension_numbers: Option<Box<DotDimensionNumbers>> = 30 [message, optional, boxed];
        ragged_dot_dimension_numbers: Option<Box<RaggedDotDimensionNumbers>> = 90 [message, optional, boxed];
        fft_type: i32 = 31 [int32];
        fft_length: Vec<i64> = 32 [int64, repeated];
        comparison_direction: String = 63 [string];
        gather_dimension_numbers: Option<Box<GatherDimensionNumbers>> = 33 [message, optional, boxed];
        gather_slice_sizes: Vec<i64> = 34 [int64, repeated];
        id: i64 = 35 [int64];
        operand_ids: Vec<i64> = 36 [int64, repeated];
        control_predecessor_ids: Vec<i64> = 37 [int64, repeated];
        called_computation_ids: Vec<i64> = 38 [int64, repeated];
        sharding: Option<Box<OpSharding>> = 40 [message, optional, boxed];
        backend_config: Vec<u8> = 43 [bytes = "vec"];
        backend_config_payload: Option<Box<Payload>> = 99 [message, optional, boxed];
        replica_groups: Vec<ReplicaGroup> = 49 [message, repeated];
        all_reduce_id: i64 = 45 [int64];
        use_global_device_ids: bool = 71 [bool];
        is_host_transfer: bool = 47 [bool];
        is_stable: bool = 60 [bool];
        scatter_dimension_numbers: Option<Box<ScatterDimensionNumbers>> = 48 [message, optional, boxed];
        precision_config: Option<Box<PrecisionConfig>> = 51 [message, optional, boxed];
        source_target_pairs: Vec<SourceTarget> = 52 [message, repeated];
        domain_entry_sharding: Option<Box<OpSharding>> = 54 [message, optional, boxed];
        domain_exit_sharding: Option<Box<OpSharding>> = 55 [message, optional, boxed];
        constrain_layout: bool = 56 [bool];
        operand_shapes_with_layout: Vec<ShapeProto> = 57 [message, repeated];
        triangular_solve_options: Option<Box<TriangularSolveOptions>> = 59 [message, optional, boxed];
        cholesky_options: Option<Box<CholeskyOptions>> = 62 [message, optional, boxed];
        parameter_replication: Option<Box<ParameterReplication>> = 61 [message, optional, boxed];
        custom_call_has_side_effect: bool = 65 [bool];
        output_operand_aliasing: Vec<OutputOperandAliasing> = 74 [message, repeated];
        custom_call_schedule: i32 = 76 [int32];
        delta: i64 = 66 [int64];
        indices_are_sorted: bool = 67 [bool];
        frontend_attributes: Option<Box<FrontendAttributes>> = 68 [message, optional, boxed];
        unique_indices: bool = 69 [bool];
        rng_algorithm: i32 = 70 [int32];
        comparison_type: String = 72 [string];
        is_cross_program_prefetch: bool = 73 [bool];
        cross_program_prefetch_index: Option<i32> = 80 [int32, optional];
        padding_type: i32 = 75 [int32];
        custom_call_api_version: i32 = 77 [int32];
        async_execution_thread: String = 79 [string];
        k: i64 = 81 [int64];
        largest: bool = 85 [bool];
        statistics_viz: Option<Box<StatisticsViz>> = 82 [message, optional, boxed];
        collective_device_list: Option<Box<CollectiveDeviceListProto>> = 87 [message, optional, boxed];
        iota_collective_device_list: Option<Box<IotaReplicaGroupListProto>> = 92 [message, optional, boxed];
        mesh_axes_replica_group_list: Option<Box<MeshAxesReplicaGroupListProto>> = 93 [message, optional, boxed];
        original_value: Option<Box<OriginalValueProto>> = 88 [message, optional, boxed];
        is_composite: bool = 89 [bool];
        result_accuracy: Option<Box<ResultAccuracy>> = 91 [message, optional, boxed];
        is_reverse: bool = 94 [bool];
        num_carries: i64 = 95 [int64];
        is_associative: i32 = 96 [int32];
        conv_kind: i32 = 97 [int32];
        sparsity_config: Option<Box<SparsityConfig>> = 98 [message, optional, boxed];
    }

    /// The range of a slice along one dimension.
    SliceDimensions {
        start: i64 = 1 [int64];
        limit: i64 = 2 [int64];
        stride: i64 = 3 [int64];
    }
}
