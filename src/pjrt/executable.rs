#![allow(unsafe_code)]

use std::ffi::c_char;
use std::fmt;
use std::ptr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    buffer::Buffer,
    call::{Table, bytes, slice, text},
    client_state::ClientState,
    device::Device,
    error::PjrtError,
    handle::{DeviceEvent, Owned},
    sys::{self, CStruct, Call},
};

/// An argument of an execution.
#[derive(Debug)]
pub enum Arg<'a> {
    /// A buffer that the program only reads.
    Keep(&'a Buffer),
    /// A donated buffer: a result may reuse its memory, as the module's input-output aliasing specifies.
    Donate(Buffer),
}

/// Memory of a compiled program, in bytes for each device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryStats {
    /// Machine code.
    pub generated_code: i64,
    /// Arguments.
    pub arguments: i64,
    /// Results, including those that alias arguments.
    pub outputs: i64,
    /// Results that alias arguments.
    pub aliased: i64,
    /// Intermediate values.
    pub temporaries: i64,
    /// Host memory for machine code.
    pub host_generated_code: i64,
    /// Host memory for arguments.
    pub host_arguments: i64,
    /// Host memory for results.
    pub host_outputs: i64,
    /// Host memory of results that alias arguments.
    pub host_aliased: i64,
    /// Host memory for intermediate values.
    pub host_temporaries: i64,
    /// Peak use, including arguments in host memory.
    pub peak: i64,
    /// Total allocation in device memory; `None` for plugins before API 0.104, which do not report it.
    pub total_allocation: Option<i64>,
}

/// A compiled program that can be inspected and serialized.
pub struct Executable {
    raw: Owned<sys::Executable>,
    // Keeps the topology alive for a program compiled without a client.
    _topology: Option<Arc<Owned<sys::TopologyDescription>>>,
}

impl Executable {
    pub(super) fn new(
        raw: Owned<sys::Executable>,
        topology: Option<Arc<Owned<sys::TopologyDescription>>>,
    ) -> Self {
        Self { raw, _topology: topology }
    }

    /// The module's name.
    ///
    /// # Errors
    /// If the call fails.
    pub fn name(&self) -> Result<String, PjrtError> {
        // SAFETY: the executable is alive and owns the text.
        unsafe {
            let args = sys::ExecutableNameArgs { executable: self.raw.raw(), ..CStruct::new() };
            let args = self.table().call(args)?;
            Ok(text(args.executable_name, args.executable_name_size))
        }
    }

    /// Number of results of an execution on each device.
    ///
    /// # Errors
    /// If the call fails.
    pub fn num_outputs(&self) -> Result<usize, PjrtError> {
        let args = sys::ExecutableNumOutputsArgs { executable: self.raw.raw(), ..CStruct::new() };
        // SAFETY: the executable is alive.
        unsafe { Ok(self.table().call(args)?.num_outputs) }
    }

    /// The compiler's memory statistics.
    ///
    /// # Errors
    /// If the plugin does not provide them.
    pub fn memory(&self) -> Result<MemoryStats, PjrtError> {
        let args = sys::ExecutableGetCompiledMemoryStatsArgs {
            executable: self.raw.raw(),
            // An older plugin does not know this field and leaves it unchanged.
            total_allocation_bytes: i64::MIN,
            ..CStruct::new()
        };
        // SAFETY: the executable is alive.
        let stats = unsafe { self.table().call(args) }?;
        let total = stats.total_allocation_bytes;
        Ok(MemoryStats {
            generated_code: stats.generated_code_size_in_bytes,
            arguments: stats.argument_size_in_bytes,
            outputs: stats.output_size_in_bytes,
            aliased: stats.alias_size_in_bytes,
            temporaries: stats.temp_size_in_bytes,
            host_generated_code: stats.host_generated_code_size_in_bytes,
            host_arguments: stats.host_argument_size_in_bytes,
            host_outputs: stats.host_output_size_in_bytes,
            host_aliased: stats.host_alias_size_in_bytes,
            host_temporaries: stats.host_temp_size_in_bytes,
            peak: stats.peak_memory_in_bytes,
            total_allocation: (total != i64::MIN).then_some(total),
        })
    }

    /// The name of its format and the program after all compiler passes. The format is usually `hlo_with_config`, a proto
    /// whose first field is the `HloModuleProto`.
    ///
    /// # Errors
    /// If the plugin does not provide it.
    pub fn optimized_program(&self) -> Result<(String, Vec<u8>), PjrtError> {
        let mut program: sys::Program = CStruct::new();
        let args = || sys::ExecutableOptimizedProgramArgs { executable: self.raw.raw(), ..CStruct::new() };
        // SAFETY: the executable is alive. The first call only queries the size; the second one writes into a
        // vector of that size. The format's name is the plugin's constant.
        unsafe {
            self.table().call(sys::ExecutableOptimizedProgramArgs { program: &mut program, ..args() })?;
            let mut code = vec![0u8; program.code_size];
            program.code = code.as_mut_ptr().cast::<c_char>();
            self.table().call(sys::ExecutableOptimizedProgramArgs { program: &mut program, ..args() })?;
            code.truncate(program.code_size);
            Ok((text(program.format, program.format_size), code))
        }
    }

    /// The serialized executable, which [`Client::deserialize`](super::Client::deserialize) of the same plugin loads.
    ///
    /// # Errors
    /// If the plugin does not support it.
    pub fn serialize(&self) -> Result<Vec<u8>, PjrtError> {
        let args = sys::ExecutableSerializeArgs { executable: self.raw.raw(), ..CStruct::new() };
        // SAFETY: the executable is alive; the bytes are copied before the deleter, which is called once, frees
        // them.
        unsafe {
            let args = self.table().call(args)?;
            let copy = bytes(args.serialized_bytes, args.serialized_bytes_size);
            if let Some(delete) = args.serialized_executable_deleter {
                delete(args.serialized_executable);
            }
            Ok(copy)
        }
    }

    fn table(&self) -> Table {
        self.raw.plugin().table()
    }
}

impl fmt::Debug for Executable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executable").field("name", &self.name().ok()).finish()
    }
}

/// A compiled program on the devices of a client, ready to run.
pub struct LoadedExecutable {
    raw: Owned<sys::LoadedExecutable>,
    info: Executable,
    num_outputs: usize,
    devices: Vec<i32>,
    // Declared last, so that the client outlives the executable.
    client: Arc<ClientState>,
}

impl LoadedExecutable {
    /// # Safety
    /// As for [`Owned::new`]; `raw` is of `client`.
    pub(super) unsafe fn new(
        client: &Arc<ClientState>,
        call: &'static str,
        raw: *mut sys::LoadedExecutable,
    ) -> Result<Self, PjrtError> {
        let table = client.table();
        // SAFETY: the caller vouches for `raw`, which is alive from here on; the returned executable is
        // ours, and its devices live as long as the client.
        unsafe {
            let raw = Owned::new(client.plugin(), call, raw)?;
            let loaded = raw.raw();
            let args = sys::LoadedExecutableGetExecutableArgs { loaded_executable: loaded, ..CStruct::new() };
            let call = sys::LoadedExecutableGetExecutableArgs::CALL;
            let info = Owned::new(client.plugin(), call, table.call(args)?.executable)?;
            let info = Executable::new(info, None);
            let args = sys::LoadedExecutableAddressableDevicesArgs { executable: loaded, ..CStruct::new() };
            let args = table.call(args)?;
            let devices = slice(args.addressable_devices, args.num_addressable_devices)
                .iter()
                .map(|&device| Device::id_of(table, device))
                .collect::<Result<_, _>>()?;
            Ok(Self { num_outputs: info.num_outputs()?, raw, info, devices, client: client.clone() })
        }
    }

    /// The compiled program.
    pub fn executable(&self) -> &Executable {
        &self.info
    }

    /// Ids of its devices, in the order of the argument lists.
    pub fn device_ids(&self) -> &[i32] {
        &self.devices
    }

    /// Runs the program once on every device and waits for all of them. `args` has one list per device with all arguments
    /// in the module's order; the same arguments are donated on every device. Returns one list of results per device.
    /// Donated buffers are consumed, also if the run fails.
    ///
    /// # Errors
    /// If the lists do not match the devices or each other, or if the plugin fails on a device.
    pub fn execute(&self, args: Vec<Vec<Arg<'_>>>) -> Result<Vec<Vec<Buffer>>, PjrtError> {
        let kept = self.check(&args)?;
        let inputs: Vec<Vec<*mut sys::Buffer>> =
            args.iter().map(|list| list.iter().map(Arg::raw).collect()).collect();
        let input_lists: Vec<*const *mut sys::Buffer> = inputs.iter().map(Vec::as_ptr).collect();
        let mut outputs = vec![vec![ptr::null_mut::<sys::Buffer>(); self.num_outputs]; self.devices.len()];
        let output_lists: Vec<*mut *mut sys::Buffer> =
            outputs.iter_mut().map(|list| list.as_mut_ptr()).collect();
        let mut events = vec![ptr::null_mut::<sys::Event>(); self.devices.len()];
        let mut options = sys::ExecuteOptions {
            non_donatable_input_indices: kept.as_ptr(),
            num_non_donatable_input_indices: kept.len(),
            ..CStruct::new()
        };
        let call = sys::LoadedExecutableExecuteArgs {
            executable: self.raw.raw(),
            options: &mut options,
            argument_lists: input_lists.as_ptr(),
            num_devices: self.devices.len(),
            num_args: inputs.first().map_or(0, Vec::len),
            output_lists: output_lists.as_ptr(),
            device_complete_events: events.as_mut_ptr(),
            ..CStruct::new()
        };
        // SAFETY: executable and argument buffers are alive, since `args` owns or borrows them until after the
        // events; lists have the lengths given, and live until the call returns.
        unsafe { self.client.table().call(call) }?;
        self.collect(outputs, events)
    }

    /// The indices of the arguments that are not donated, which must be the same in all lists.
    fn check(&self, args: &[Vec<Arg<'_>>]) -> Result<Vec<i64>, PjrtError> {
        if args.len() != self.devices.len() {
            return Err(PjrtError::DeviceCount { expected: self.devices.len(), found: args.len() });
        }
        let kept = |list: &Vec<Arg<'_>>| -> Vec<bool> {
            list.iter().map(|arg| matches!(arg, Arg::Keep(_))).collect()
        };
        let first = args.first().map(kept).unwrap_or_default();
        for (device, list) in args.iter().enumerate() {
            if kept(list) != first {
                return Err(PjrtError::UnevenArguments { device });
            }
            if list.iter().any(|arg| !Arc::ptr_eq(arg.buffer().client(), &self.client)) {
                return Err(PjrtError::ForeignBuffer);
            }
        }
        Ok((0..).zip(first).filter_map(|(index, kept)| kept.then_some(index)).collect())
    }

    /// Takes ownership of the results of an execution and waits for them.
    fn collect(
        &self,
        outputs: Vec<Vec<*mut sys::Buffer>>,
        events: Vec<*mut sys::Event>,
    ) -> Result<Vec<Vec<Buffer>>, PjrtError> {
        let call = sys::LoadedExecutableExecuteArgs::CALL;
        // Every pointer is taken and every event awaited before an error is returned, so that nothing leaks or is still
        // running.
        let finished: Vec<Result<(), PjrtError>> = events
            .into_iter()
            // SAFETY: the plugin returned the event, and it is ours.
            .map(|event| unsafe { DeviceEvent::new(self.client.plugin(), call, event) }?.wait())
            .collect();
        let adopt = |raw| {
            // SAFETY: the plugin returned the buffer, and it is ours.
            unsafe { Buffer::adopt(&self.client, call, raw) }
        };
        let outputs: Vec<Vec<Result<Buffer, PjrtError>>> =
            outputs.into_iter().map(|list| list.into_iter().map(adopt).collect()).collect();
        finished.into_iter().collect::<Result<(), _>>()?;
        outputs.into_iter().map(|list| list.into_iter().collect()).collect()
    }
}

impl fmt::Debug for LoadedExecutable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadedExecutable")
            .field("executable", &self.info)
            .field("devices", &self.devices)
            .finish()
    }
}

impl Arg<'_> {
    fn buffer(&self) -> &Buffer {
        match self {
            Self::Keep(buffer) => buffer,
            Self::Donate(buffer) => buffer,
        }
    }

    fn raw(&self) -> *mut sys::Buffer {
        self.buffer().raw()
    }
}
