#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use super::args::*;

/// The oldest minor version of the API that hloom takes; the tests run a plugin of just this one.
pub(crate) const MIN_MINOR: i32 = 81;

/// An argument structure, with the place of its call in the table.
///
/// # Safety
/// The slot holds a nullable pointer to a function that takes the structure and returns a nullable `PJRT_Error`.
pub(crate) unsafe trait Call: CStruct {
    /// The call's name in the header.
    const CALL: &'static str;
    /// Where its slot begins in [`Api`].
    const SLOT: usize;
}

/// `PJRT_Api_Version`.
#[repr(C)]
#[allow(missing_docs)]
#[derive(Clone, Copy)]
pub(crate) struct Version {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub major_version: c_int,
    pub minor_version: c_int,
}

/// A call that hloom does not use; it only keeps its place.
type Unused = Option<unsafe extern "C" fn()>;

macro_rules! table {
    ($( $kind:ident $name:ident $(($args:ident))?; )*) => {
        /// `PJRT_Api` as of version 0.81; a plugin's own table may be shorter or longer. The slots keep the
        /// header's names, without `PJRT_`.
        #[repr(C)]
        #[allow(missing_docs, non_snake_case)]
        pub(crate) struct Api {
            pub struct_size: usize,
            pub extension_start: *mut c_void,
            pub pjrt_api_version: Version,
            $( pub $name: slot_type!($kind $($args)?), )*
        }

        $( implement!($kind $name $($args)?); )*

        /// The slots with their offsets, for the comparison with the header.
        #[cfg(test)]
        pub const SLOTS: &[(&str, usize)] = &[$( (stringify!($name), std::mem::offset_of!(Api, $name)), )*];
    };
}

macro_rules! slot_type {
    (unused) => { Unused };
    (free $args:ident) => { Option<unsafe extern "C" fn(*mut $args)> };
    (call $args:ident) => { Option<unsafe extern "C" fn(*mut $args) -> *mut Error> };
}

macro_rules! implement {
    (call $name:ident $args:ident) => {
        // SAFETY: the slot's type is the one that `slot_type` gives to a `call`.
        unsafe impl Call for $args {
            const CALL: &'static str = concat!("PJRT_", stringify!($name));
            const SLOT: usize = std::mem::offset_of!(Api, $name);
        }
    };
    ($kind:ident $name:ident $($args:ident)?) => {};
}

table! {
    free Error_Destroy(ErrorDestroyArgs);
    free Error_Message(ErrorMessageArgs);
    call Error_GetCode(ErrorGetCodeArgs);
    call Plugin_Initialize(PluginInitializeArgs);
    call Plugin_Attributes(PluginAttributesArgs);
    call Event_Destroy(EventDestroyArgs);
    unused Event_IsReady;
    unused Event_Error;
    call Event_Await(EventAwaitArgs);
    unused Event_OnReady;
    call Client_Create(ClientCreateArgs);
    call Client_Destroy(ClientDestroyArgs);
    call Client_PlatformName(ClientPlatformNameArgs);
    unused Client_ProcessIndex;
    call Client_PlatformVersion(ClientPlatformVersionArgs);
    unused Client_Devices;
    call Client_AddressableDevices(ClientAddressableDevicesArgs);
    unused Client_LookupDevice;
    unused Client_LookupAddressableDevice;
    unused Client_AddressableMemories;
    call Client_Compile(ClientCompileArgs);
    unused Client_DefaultDeviceAssignment;
    call Client_BufferFromHostBuffer(ClientBufferFromHostBufferArgs);
    call DeviceDescription_Id(DeviceDescriptionIdArgs);
    call DeviceDescription_ProcessIndex(DeviceDescriptionProcessIndexArgs);
    call DeviceDescription_Attributes(DeviceDescriptionAttributesArgs);
    call DeviceDescription_Kind(DeviceDescriptionKindArgs);
    call DeviceDescription_DebugString(DeviceDescriptionDebugStringArgs);
    unused DeviceDescription_ToString;
    call Device_GetDescription(DeviceGetDescriptionArgs);
    unused Device_IsAddressable;
    unused Device_LocalHardwareId;
    call Device_AddressableMemories(DeviceAddressableMemoriesArgs);
    unused Device_DefaultMemory;
    unused Device_MemoryStats;
    unused Memory_Id;
    call Memory_Kind(MemoryKindArgs);
    unused Memory_DebugString;
    unused Memory_ToString;
    unused Memory_AddressableByDevices;
    call Executable_Destroy(ExecutableDestroyArgs);
    call Executable_Name(ExecutableNameArgs);
    unused Executable_NumReplicas;
    unused Executable_NumPartitions;
    call Executable_NumOutputs(ExecutableNumOutputsArgs);
    unused Executable_SizeOfGeneratedCodeInBytes;
    unused Executable_GetCostAnalysis;
    unused Executable_OutputMemoryKinds;
    call Executable_OptimizedProgram(ExecutableOptimizedProgramArgs);
    call Executable_Serialize(ExecutableSerializeArgs);
    call LoadedExecutable_Destroy(LoadedExecutableDestroyArgs);
    call LoadedExecutable_GetExecutable(LoadedExecutableGetExecutableArgs);
    call LoadedExecutable_AddressableDevices(LoadedExecutableAddressableDevicesArgs);
    unused LoadedExecutable_Delete;
    unused LoadedExecutable_IsDeleted;
    call LoadedExecutable_Execute(LoadedExecutableExecuteArgs);
    call Executable_DeserializeAndLoad(ExecutableDeserializeAndLoadArgs);
    unused LoadedExecutable_Fingerprint;
    call Buffer_Destroy(BufferDestroyArgs);
    call Buffer_ElementType(BufferElementTypeArgs);
    call Buffer_Dimensions(BufferDimensionsArgs);
    unused Buffer_UnpaddedDimensions;
    unused Buffer_DynamicDimensionIndices;
    unused Buffer_GetMemoryLayout;
    call Buffer_OnDeviceSizeInBytes(BufferOnDeviceSizeInBytesArgs);
    call Buffer_Device(BufferDeviceArgs);
    unused Buffer_Memory;
    unused Buffer_Delete;
    unused Buffer_IsDeleted;
    unused Buffer_CopyToDevice;
    call Buffer_ToHostBuffer(BufferToHostBufferArgs);
    unused Buffer_IsOnCpu;
    call Buffer_ReadyEvent(BufferReadyEventArgs);
    unused Buffer_UnsafePointer;
    unused Buffer_IncreaseExternalReferenceCount;
    unused Buffer_DecreaseExternalReferenceCount;
    unused Buffer_OpaqueDeviceMemoryDataPointer;
    unused CopyToDeviceStream_Destroy;
    unused CopyToDeviceStream_AddChunk;
    unused CopyToDeviceStream_TotalBytes;
    unused CopyToDeviceStream_GranuleSize;
    unused CopyToDeviceStream_CurrentBytes;
    call TopologyDescription_Create(TopologyDescriptionCreateArgs);
    call TopologyDescription_Destroy(TopologyDescriptionDestroyArgs);
    call TopologyDescription_PlatformName(TopologyDescriptionPlatformNameArgs);
    unused TopologyDescription_PlatformVersion;
    call TopologyDescription_GetDeviceDescriptions(TopologyDescriptionGetDeviceDescriptionsArgs);
    unused TopologyDescription_Serialize;
    unused TopologyDescription_Attributes;
    call Compile(CompileArgs);
    unused Executable_OutputElementTypes;
    unused Executable_OutputDimensions;
    unused Buffer_CopyToMemory;
    unused Client_CreateViewOfDeviceBuffer;
    unused Executable_Fingerprint;
    unused Client_TopologyDescription;
    call Executable_GetCompiledMemoryStats(ExecutableGetCompiledMemoryStatsArgs);
    unused Memory_Kind_Id;
    unused ExecuteContext_Create;
    unused ExecuteContext_Destroy;
    unused Buffer_CopyRawToHost;
    unused AsyncHostToDeviceTransferManager_Destroy;
    unused AsyncHostToDeviceTransferManager_TransferData;
    unused Client_CreateBuffersForAsyncHostToDevice;
    unused AsyncHostToDeviceTransferManager_RetrieveBuffer;
    unused AsyncHostToDeviceTransferManager_Device;
    unused AsyncHostToDeviceTransferManager_BufferCount;
    unused AsyncHostToDeviceTransferManager_BufferSize;
    unused AsyncHostToDeviceTransferManager_SetBufferError;
    unused AsyncHostToDeviceTransferManager_AddMetadata;
    unused Client_DmaMap;
    unused Client_DmaUnmap;
    unused Client_CreateUninitializedBuffer;
    unused Client_UpdateGlobalProcessInfo;
    unused TopologyDescription_Deserialize;
    unused Client_CreateAliasBuffer;
    unused Client_FulfillAliasBuffer;
    unused LoadedExecutable_GetDeviceAssignment;
}
