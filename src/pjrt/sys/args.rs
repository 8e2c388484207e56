#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};

/// A structure that begins with `struct_size` and `extension_start` and whose zeroed memory is a valid value.
///
/// # Safety
/// The type is `repr(C)`, starts with a `usize`, and holds only numbers, booleans and nullable pointers.
pub(crate) unsafe trait CStruct: Sized {
    /// The size to announce: the end of the last field, without the padding after it, as the header does.
    const STRUCT_SIZE: usize;
    /// The name in the header.
    #[cfg(test)]
    const NAME: &'static str;
    /// Name, offset and size of each field, in order.
    #[cfg(test)]
    const FIELDS: &'static [(&'static str, usize, usize)];

    /// All zeros, but for the announced size.
    fn new() -> Self {
        // SAFETY: the trait's contract says that all zeros are a valid value, and that a `usize` comes first.
        unsafe {
            let mut value = std::mem::MaybeUninit::<Self>::zeroed();
            value.as_mut_ptr().cast::<usize>().write(Self::STRUCT_SIZE);
            value.assume_init()
        }
    }
}

macro_rules! structs {
    ($( $name:ident = $c_name:literal { $( $field:ident: $type:ty, )* } )*) => {
        $(
            #[doc = concat!("`", $c_name, "`.")]
            #[repr(C)]
            #[allow(missing_docs)]
            #[derive(Clone, Copy)]
            pub(crate) struct $name {
                pub struct_size: usize,
                pub extension_start: *mut c_void,
                $( pub $field: $type, )*
            }

            // SAFETY: `repr(C)`, a `usize` first, and the table below names only numbers, booleans, pointers
            // and structures of these.
            unsafe impl CStruct for $name {
                const STRUCT_SIZE: usize = {
                    let ends = [
                        2 * size_of::<usize>(),
                        $( std::mem::offset_of!($name, $field) + size_of::<$type>(), )*
                    ];
                    ends[ends.len() - 1]
                };
                #[cfg(test)]
                const NAME: &'static str = $c_name;
                #[cfg(test)]
                const FIELDS: &'static [(&'static str, usize, usize)] = &[
                    ("struct_size", 0, size_of::<usize>()),
                    ("extension_start", size_of::<usize>(), size_of::<usize>()),
                    $( (stringify!($field), std::mem::offset_of!($name, $field), size_of::<$type>()), )*
                ];
            }
        )*

        /// Every structure with its announced size and fields, for the comparison with the header.
        #[cfg(test)]
        #[allow(clippy::type_complexity)]
        pub const STRUCTS: &[(&str, usize, &[(&str, usize, usize)])] =
            &[$( ($name::NAME, $name::STRUCT_SIZE, $name::FIELDS), )*];
    };
}

macro_rules! opaque {
    ($( $name:ident )*) => {
        $(
            #[doc = concat!("`PJRT_", stringify!($name), "`, known only to the plugin.")]
            #[repr(C)]
            pub(crate) struct $name {
                _private: [u8; 0],
            }
        )*
    };
}

opaque! {
    Error Event Client Device DeviceDescription Memory Buffer Executable LoadedExecutable SerializedExecutable
    TopologyDescription
}

/// `PJRT_NamedValue`'s union; `type_` of the structure says which member holds.
#[repr(C)]
#[allow(missing_docs)]
#[derive(Clone, Copy)]
pub(crate) union NamedValueUnion {
    pub string: *const c_char,
    pub int64: i64,
    pub int64_list: *const i64,
    pub float: f32,
    pub bool: bool,
}

/// `PJRT_NamedValue_Type`.
#[allow(missing_docs)]
pub(crate) mod named_value_type {
    pub(crate) const STRING: i32 = 0;
    pub(crate) const INT64: i32 = 1;
    pub(crate) const INT64_LIST: i32 = 2;
    pub(crate) const FLOAT: i32 = 3;
    pub(crate) const BOOL: i32 = 4;
}

/// `PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes`: the plugin reads the host bytes until the
/// event `done_with_host_buffer` is ready.
pub(crate) const IMMUTABLE_UNTIL_TRANSFER_COMPLETES: i32 = 1;

structs! {
    NamedValue = "PJRT_NamedValue" {
        name: *const c_char, name_size: usize, type_: i32, value: NamedValueUnion, value_size: usize,
    }
    ErrorDestroyArgs = "PJRT_Error_Destroy_Args" { error: *mut Error, }
    ErrorMessageArgs = "PJRT_Error_Message_Args" {
        error: *const Error, message: *const c_char, message_size: usize,
    }
    ErrorGetCodeArgs = "PJRT_Error_GetCode_Args" { error: *const Error, code: i32, }
    PluginInitializeArgs = "PJRT_Plugin_Initialize_Args" {}
    PluginAttributesArgs = "PJRT_Plugin_Attributes_Args" {
        attributes: *const NamedValue, num_attributes: usize,
    }
    EventDestroyArgs = "PJRT_Event_Destroy_Args" { event: *mut Event, }
    EventAwaitArgs = "PJRT_Event_Await_Args" { event: *mut Event, }
    ClientCreateArgs = "PJRT_Client_Create_Args" {
        create_options: *const NamedValue, num_options: usize,
        kv_get_callback: *mut c_void, kv_get_user_arg: *mut c_void,
        kv_put_callback: *mut c_void, kv_put_user_arg: *mut c_void,
        client: *mut Client,
        kv_try_get_callback: *mut c_void, kv_try_get_user_arg: *mut c_void,
    }
    ClientDestroyArgs = "PJRT_Client_Destroy_Args" { client: *mut Client, }
    ClientPlatformNameArgs = "PJRT_Client_PlatformName_Args" {
        client: *mut Client, platform_name: *const c_char, platform_name_size: usize,
    }
    ClientPlatformVersionArgs = "PJRT_Client_PlatformVersion_Args" {
        client: *mut Client, platform_version: *const c_char, platform_version_size: usize,
    }
    ClientAddressableDevicesArgs = "PJRT_Client_AddressableDevices_Args" {
        client: *mut Client, addressable_devices: *const *mut Device, num_addressable_devices: usize,
    }
    Program = "PJRT_Program" {
        code: *mut c_char, code_size: usize, format: *const c_char, format_size: usize,
    }
    ClientCompileArgs = "PJRT_Client_Compile_Args" {
        client: *mut Client, program: *const Program,
        compile_options: *const c_char, compile_options_size: usize,
        executable: *mut LoadedExecutable,
    }
    ClientBufferFromHostBufferArgs = "PJRT_Client_BufferFromHostBuffer_Args" {
        client: *mut Client, data: *const c_void, type_: i32, dims: *const i64, num_dims: usize,
        byte_strides: *const i64, num_byte_strides: usize, host_buffer_semantics: i32,
        device: *mut Device, memory: *mut Memory, device_layout: *mut MemoryLayout,
        done_with_host_buffer: *mut Event, buffer: *mut Buffer,
    }
    DeviceDescriptionIdArgs = "PJRT_DeviceDescription_Id_Args" {
        device_description: *mut DeviceDescription, id: c_int,
    }
    DeviceDescriptionProcessIndexArgs = "PJRT_DeviceDescription_ProcessIndex_Args" {
        device_description: *mut DeviceDescription, process_index: c_int,
    }
    DeviceDescriptionAttributesArgs = "PJRT_DeviceDescription_Attributes_Args" {
        device_description: *mut DeviceDescription, num_attributes: usize, attributes: *const NamedValue,
    }
    DeviceDescriptionKindArgs = "PJRT_DeviceDescription_Kind_Args" {
        device_description: *mut DeviceDescription, device_kind: *const c_char, device_kind_size: usize,
    }
    DeviceDescriptionDebugStringArgs = "PJRT_DeviceDescription_DebugString_Args" {
        device_description: *mut DeviceDescription, debug_string: *const c_char, debug_string_size: usize,
    }
    DeviceGetDescriptionArgs = "PJRT_Device_GetDescription_Args" {
        device: *mut Device, device_description: *mut DeviceDescription,
    }
    DeviceAddressableMemoriesArgs = "PJRT_Device_AddressableMemories_Args" {
        device: *mut Device, memories: *const *mut Memory, num_memories: usize,
    }
    MemoryKindArgs = "PJRT_Memory_Kind_Args" { memory: *mut Memory, kind: *const c_char, kind_size: usize, }
    ExecutableDestroyArgs = "PJRT_Executable_Destroy_Args" { executable: *mut Executable, }
    ExecutableNameArgs = "PJRT_Executable_Name_Args" {
        executable: *mut Executable, executable_name: *const c_char, executable_name_size: usize,
    }
    ExecutableNumOutputsArgs = "PJRT_Executable_NumOutputs_Args" {
        executable: *mut Executable, num_outputs: usize,
    }
    ExecutableOptimizedProgramArgs = "PJRT_Executable_OptimizedProgram_Args" {
        executable: *mut Executable, program: *mut Program,
    }
    ExecutableSerializeArgs = "PJRT_Executable_Serialize_Args" {
        executable: *const Executable, serialized_bytes: *const c_char, serialized_bytes_size: usize,
        serialized_executable: *mut SerializedExecutable,
        serialized_executable_deleter: Option<unsafe extern "C" fn(*mut SerializedExecutable)>,
    }
    ExecutableGetCompiledMemoryStatsArgs = "PJRT_Executable_GetCompiledMemoryStats_Args" {
        executable: *mut Executable,
        generated_code_size_in_bytes: i64, argument_size_in_bytes: i64, output_size_in_bytes: i64,
        alias_size_in_bytes: i64, temp_size_in_bytes: i64,
        host_generated_code_size_in_bytes: i64, host_argument_size_in_bytes: i64,
        host_output_size_in_bytes: i64, host_alias_size_in_bytes: i64, host_temp_size_in_bytes: i64,
        peak_memory_in_bytes: i64,
        total_size_in_bytes: i64, total_allocation_bytes: i64, indefinite_allocations: i64,
        peak_unpadded_heap_bytes: i64,
    }
    LoadedExecutableDestroyArgs = "PJRT_LoadedExecutable_Destroy_Args" { executable: *mut LoadedExecutable, }
    LoadedExecutableGetExecutableArgs = "PJRT_LoadedExecutable_GetExecutable_Args" {
        loaded_executable: *mut LoadedExecutable, executable: *mut Executable,
    }
    LoadedExecutableAddressableDevicesArgs = "PJRT_LoadedExecutable_AddressableDevices_Args" {
        executable: *mut LoadedExecutable,
        addressable_devices: *const *mut Device, num_addressable_devices: usize,
    }
    ExecuteOptions = "PJRT_ExecuteOptions" {
        send_callbacks: *mut c_void, recv_callbacks: *mut c_void, num_send_ops: usize, num_recv_ops: usize,
        launch_id: c_int, non_donatable_input_indices: *const i64, num_non_donatable_input_indices: usize,
        context: *mut c_void, call_location: *const c_char,
        num_tasks: usize, task_ids: *mut c_int, incarnation_ids: *mut i64,
    }
    LoadedExecutableExecuteArgs = "PJRT_LoadedExecutable_Execute_Args" {
        executable: *mut LoadedExecutable, options: *mut ExecuteOptions,
        argument_lists: *const *const *mut Buffer, num_devices: usize, num_args: usize,
        output_lists: *const *mut *mut Buffer, device_complete_events: *mut *mut Event,
        execute_device: *mut Device,
    }
    ExecutableDeserializeAndLoadArgs = "PJRT_Executable_DeserializeAndLoad_Args" {
        client: *mut Client, serialized_executable: *const c_char, serialized_executable_size: usize,
        loaded_executable: *mut LoadedExecutable,
        overridden_serialized_compile_options: *const c_char,
        overridden_serialized_compile_options_size: usize,
    }
    BufferDestroyArgs = "PJRT_Buffer_Destroy_Args" { buffer: *mut Buffer, }
    BufferElementTypeArgs = "PJRT_Buffer_ElementType_Args" { buffer: *mut Buffer, type_: i32, }
    BufferDimensionsArgs = "PJRT_Buffer_Dimensions_Args" {
        buffer: *mut Buffer, dims: *const i64, num_dims: usize,
    }
    BufferOnDeviceSizeInBytesArgs = "PJRT_Buffer_OnDeviceSizeInBytes_Args" {
        buffer: *mut Buffer, on_device_size_in_bytes: usize,
    }
    BufferDeviceArgs = "PJRT_Buffer_Device_Args" { buffer: *mut Buffer, device: *mut Device, }
    BufferReadyEventArgs = "PJRT_Buffer_ReadyEvent_Args" { buffer: *mut Buffer, event: *mut Event, }
    BufferToHostBufferArgs = "PJRT_Buffer_ToHostBuffer_Args" {
        src: *mut Buffer, host_layout: *mut MemoryLayout, dst: *mut c_void, dst_size: usize,
        event: *mut Event,
    }
    MemoryLayoutTiled = "PJRT_Buffer_MemoryLayout_Tiled" {
        minor_to_major: *const i64, minor_to_major_size: usize,
        tile_dims: *const i64, tile_dim_sizes: *const usize, num_tiles: usize,
    }
    // The union of a tiled layout (type 0, the only one in use and the larger one) and byte strides.
    MemoryLayout = "PJRT_Buffer_MemoryLayout" { tiled: MemoryLayoutTiled, type_: i32, }
    TopologyDescriptionCreateArgs = "PJRT_TopologyDescription_Create_Args" {
        topology_name: *const c_char, topology_name_size: usize,
        create_options: *const NamedValue, num_options: usize, topology: *mut TopologyDescription,
    }
    TopologyDescriptionDestroyArgs = "PJRT_TopologyDescription_Destroy_Args" {
        topology: *mut TopologyDescription,
    }
    TopologyDescriptionPlatformNameArgs = "PJRT_TopologyDescription_PlatformName_Args" {
        topology: *const TopologyDescription, platform_name: *const c_char, platform_name_size: usize,
    }
    TopologyDescriptionGetDeviceDescriptionsArgs = "PJRT_TopologyDescription_GetDeviceDescriptions_Args" {
        topology: *const TopologyDescription,
        descriptions: *const *mut DeviceDescription, num_descriptions: usize,
    }
    CompileArgs = "PJRT_Compile_Args" {
        topology: *const TopologyDescription, program: *const Program,
        compile_options: *const c_char, compile_options_size: usize,
        client: *mut Client, executable: *mut Executable,
    }
}
