//! `HloModuleProto` and the files that hold one.
//!
//! Field numbers and types are those of `hlo.proto`, `xla_data.proto` and `xla.proto` of XLA as of jaxlib 0.10.2.

use std::collections::BTreeMap;

use prost::bytes::Bytes;

use super::{
    describe::messages,
    messages_data::{
        DeviceAssignmentProto, FrontendAttributes, OpSharding, OriginalArrayProto, ProgramShapeProto,
    },
    messages_instr::HloInstructionProto,
};

messages! {
    /// A module with what compiling it found.
    HloProto {
        hlo_module: Option<HloModuleProto> = 1 [message, optional];
        buffer_assignment: Bytes = 3 [bytes = "bytes"];
    }

    /// A module. Its computations are encoded [`HloComputationProto`]s, so that one at a time is decoded.
    HloModuleProto {
        name: String = 1 [string];
        entry_computation_name: String = 2 [string];
        entry_computation_id: i64 = 6 [int64];
        computations: Vec<Bytes> = 3 [bytes = "bytes", repeated] of HloComputationProto;
        host_program_shape: Option<ProgramShapeProto> = 4 [message, optional];
        id: i64 = 5 [int64];
        pjrt_id: Option<i64> = 23 [int64, optional];
        schedule: Option<HloScheduleProto> = 7 [message, optional];
        input_output_alias: Option<HloInputOutputAliasProto> = 8 [message, optional];
        payloads: Vec<Vec<u8>> = 22 [bytes = "vec", repeated];
        buffer_donor: Option<HloBufferDonorProto> = 18 [message, optional];
        cross_program_prefetches: Vec<CrossProgramPrefetch> = 10 [message, repeated];
        is_dynamic: bool = 11 [bool];
        spmd_output_sharding: Option<OpSharding> = 12 [message, optional];
        spmd_parameters_shardings: Vec<OpSharding> = 14 [message, repeated];
        use_auto_spmd_partitioning: bool = 16 [bool];
        profile_info: Vec<ModuleProfileInfo> = 13 [message, repeated];
        device_assignment: Option<DeviceAssignmentProto> = 15 [message, optional];
        stack_frame_index: Option<StackFrameIndexProto> = 17 [message, optional];
        frontend_attributes: Option<FrontendAttributes> = 19 [message, optional];
        original_value_recovery_table: Option<OriginalValueRecoveryTableProto> = 20 [message, optional];
        device_type: String = 21 [string];
    }

    /// A computation. Its instructions are encoded [`HloInstructionProto`]s.
    HloComputationProto {
        name: String = 1 [string];
        instructions: Vec<Bytes> = 2 [bytes = "bytes", repeated] of HloInstructionProto;
        program_shape: Option<ProgramShapeProto> = 4 [message, optional];
        id: i64 = 5 [int64];
        root_id: i64 = 6 [int64];
        is_fusion_computation: bool = 7 [bool];
        execution_thread: String = 8 [string];
    }

    /// The order in which the instructions of each computation run, by id of the computation.
    HloScheduleProto {
        sequences: BTreeMap<i64, InstructionSequence> = 1 [btree_map = "int64, message"];
    }

    /// Ids of instructions in the order in which they run.
    InstructionSequence {
        instruction_ids: Vec<i64> = 1 [int64, repeated];
    }

    /// Which outputs share a buffer with which parameters.
    HloInputOutputAliasProto {
        entries: Vec<AliasEntryProto> = 1 [message, repeated];
    }

    /// An output that shares the buffer of a parameter. `kind`: 1 it may, 2 it must.
    AliasEntryProto {
        output_shape_index: Vec<i64> = 1 [int64, repeated];
        parameter_number: i64 = 2 [int64];
        parameter_shape_index: Vec<i64> = 3 [int64, repeated];
        kind: i32 = 4 [int32];
    }

    /// Parameters whose buffers any output may take.
    HloBufferDonorProto {
        entries: Vec<BufferDonorEntryProto> = 1 [message, repeated];
    }

    /// A parameter, or an element of it.
    BufferDonorEntryProto {
        parameter_number: i64 = 1 [int64];
        parameter_shape_index: Vec<i64> = 2 [int64, repeated];
    }

    /// A parameter that an earlier program loads.
    CrossProgramPrefetch {
        parameter: i64 = 1 [int64];
        index: Vec<i64> = 2 [int64, repeated];
        offset: i64 = 3 [int64];
    }

    /// Where a profile of the module came from.
    ModuleProfileInfo {
        profile_type: i32 = 1 [int32];
        relative_speedup: f64 = 2 [double];
        profile_source: i32 = 3 [int32];
        compilation_event: i32 = 4 [int32];
        fingerprint: String = 5 [string];
        profile_generation_strategy: i32 = 6 [int32];
        original_changelist: i64 = 7 [int64];
        changelist: i64 = 8 [int64];
    }

    /// The tables of source locations to which `stack_frame_id` refers. Ids count from one.
    StackFrameIndexProto {
        file_names: Vec<String> = 1 [string, repeated];
        function_names: Vec<String> = 2 [string, repeated];
        file_locations: Vec<FileLocationProto> = 3 [message, repeated];
        stack_frames: Vec<StackFrameProto> = 4 [message, repeated];
    }

    /// A range of lines and columns of a file.
    FileLocationProto {
        file_name_id: i32 = 1 [int32];
        function_name_id: i32 = 2 [int32];
        line: i32 = 3 [int32];
        end_line: i32 = 5 [int32];
        column: i32 = 4 [int32];
        end_column: i32 = 6 [int32];
    }

    /// A location and the frame that called it.
    StackFrameProto {
        file_location_id: i32 = 1 [int32];
        parent_frame_id: i32 = 2 [int32];
    }

    /// How values of the program before optimization follow from those that are left.
    OriginalValueRecoveryTableProto {
        entries: Vec<RecoveryEntry> = 1 [message, repeated];
    }

    /// A value that was replaced, its replacement, and the module that computes the one from the other.
    RecoveryEntry {
        old_original_array: Option<OriginalArrayProto> = 1 [message, optional];
        new_original_array: Option<OriginalArrayProto> = 2 [message, optional];
        recovery_module: Option<Box<HloModuleProto>> = 3 [message, optional, boxed];
    }

    /// A module with the settings it was compiled with.
    HloModuleProtoWithConfig {
        hlo_module: Option<HloModuleProto> = 1 [message, optional];
        config: Option<HloModuleConfigProto> = 2 [message, optional];
    }

    /// Settings of a module. Messages of which HLO text has nothing stay encoded.
    HloModuleConfigProto {
        entry_computation_layout: Option<ProgramShapeProto> = 1 [message, optional];
        seed: u64 = 2 [uint64];
        launch_id: i32 = 3 [int32];
        replica_count: i64 = 4 [int64];
        num_partitions: i64 = 5 [int64];
        param_requires_broadcast_via_collectives: Vec<bool> = 6 [bool, repeated];
        use_spmd_partitioning: bool = 7 [bool];
        use_auto_spmd_partitioning: bool = 8 [bool];
        auto_spmd_partitioning_mesh_shape: Vec<i64> = 9 [int64, repeated];
        auto_spmd_partitioning_mesh_ids: Vec<i64> = 10 [int64, repeated];
        exec_time_optimization_effort: f32 = 36 [float];
        memory_fitting_effort: f32 = 37 [float];
        optimization_level: i32 = 39 [int32];
        memory_fitting_level: i32 = 40 [int32];
        deduplicate_hlo: bool = 11 [bool];
        intra_op_parallelism_threads: i64 = 12 [int64];
        device_type: String = 13 [string];
        debug_options: Bytes = 14 [bytes = "bytes"];
        static_device_assignment: Bytes = 15 [bytes = "bytes"];
        pre_simulation_device_assignment: Bytes = 35 [bytes = "bytes"];
        allow_separate_sharding_programs: bool = 30 [bool];
        shardable_value_update_pairs: Vec<Bytes> = 16 [bytes = "bytes", repeated];
        alias_passthrough_params: bool = 17 [bool];
        content_aware_computation_sorting: bool = 18 [bool];
        fusion_config_collection: i32 = 19 [int32];
        fusion_config: Vec<Bytes> = 20 [bytes = "bytes", repeated];
        dot_config: Vec<Bytes> = 21 [bytes = "bytes", repeated];
        layout_config: Vec<Bytes> = 22 [bytes = "bytes", repeated];
        memory_space_assignment_config: Vec<u64> = 23 [uint64, repeated];
        phase_ordering_config: Vec<Bytes> = 24 [bytes = "bytes", repeated];
        phase_index: i32 = 25 [int32];
        allow_spmd_sharding_propagation_to_parameters: Vec<bool> = 33 [bool, repeated];
        allow_spmd_sharding_propagation_to_output: Vec<bool> = 27 [bool, repeated];
        analysis_allowance_map: Vec<Bytes> = 28 [bytes = "bytes", repeated];
        matrix_unit_operand_precision: i32 = 29 [int32];
        fdo_profile: Vec<u8> = 31 [bytes = "vec"];
        device_memory_size: i64 = 32 [int64];
        use_shardy_partitioner: bool = 34 [bool];
        sharding_config: Bytes = 38 [bytes = "bytes"];
        schedule_config: Bytes = 41 [bytes = "bytes"];
        partition_size: i64 = 42 [int64];
    }


    /// A module before it was optimized, with the arguments of each partition.
    HloUnoptimizedSnapshot {
        hlo_module: Option<HloModuleProto> = 1 [message, optional];
        partitions: Vec<Bytes> = 2 [bytes = "bytes", repeated];
        version: i32 = 3 [int32];
    }

    /// A module that ran, with its arguments and its result.
    HloSnapshot {
        hlo: Option<HloProto> = 1 [message, optional];
        arguments: Vec<Bytes> = 2 [bytes = "bytes", repeated];
        result: Bytes = 3 [bytes = "bytes"];
        execution_platform: String = 4 [string];
    }
}
