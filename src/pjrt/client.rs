#![allow(unsafe_code)]

use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{
    buffer::{Buffer, HostArray},
    call::{Table, slice, text},
    device::Device,
    error::PjrtError,
    executable::LoadedExecutable,
    handle::Owned,
    options::{self, CompileOptions, NamedValue, PjrtProgram},
    plugin::Plugin,
    sys::{self, CStruct, Call},
};
use crate::base::MemorySpace;

/// A plugin at work on this process's devices. Clones share it; buffers and executables keep it alive.
#[derive(Clone)]
pub struct Client {
    pub(super) shared: Arc<Shared>,
}

/// What buffers and executables keep alive.
pub(super) struct Shared {
    raw: Owned<sys::Client>,
    devices: Vec<Device>,
    handles: Vec<DeviceHandle>,
    platform: String,
    platform_version: String,
    live_buffers: AtomicUsize,
}

struct DeviceHandle(NonNull<sys::Device>);

// SAFETY: a device belongs to its client and, like it, may be used from any thread.
unsafe impl Send for DeviceHandle {}
// SAFETY: as above.
unsafe impl Sync for DeviceHandle {}

impl Client {
    /// Starts the plugin's client, with options such as `cpu_device_count` of the CPU plugin.
    ///
    /// # Errors
    /// If the plugin refuses, for lack of a device say.
    pub fn create(plugin: Arc<Plugin>, options: &[(&str, NamedValue)]) -> Result<Self, PjrtError> {
        let table = plugin.table();
        let encoded = options::encode(options);
        let args = sys::ClientCreateArgs {
            create_options: encoded.as_ptr(),
            num_options: encoded.len(),
            ..CStruct::new()
        };
        // SAFETY: the options live until the call returns.
        let args = unsafe { table.call(args) }?;
        // SAFETY: the client is new, and ours.
        let raw = unsafe { Owned::new(&plugin, sys::ClientCreateArgs::CALL, args.client) }?;
        let client = raw.raw();
        // SAFETY: the client is alive, and the texts it gives, which are copied here, live as long.
        let (platform, platform_version) = unsafe {
            let name = table.call(sys::ClientPlatformNameArgs { client, ..CStruct::new() })?;
            let version = table.call(sys::ClientPlatformVersionArgs { client, ..CStruct::new() })?;
            (
                text(name.platform_name, name.platform_name_size),
                text(version.platform_version, version.platform_version_size),
            )
        };
        let (devices, handles) = addressable_devices(table, &raw)?;
        let live_buffers = AtomicUsize::new(0);
        let shared = Shared { raw, devices, handles, platform, platform_version, live_buffers };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The plugin it runs on.
    pub fn plugin(&self) -> &Arc<Plugin> {
        self.shared.plugin()
    }

    /// The platform's name, such as `cpu`, `cuda`, `rocm` or `tpu`.
    pub fn platform(&self) -> &str {
        &self.shared.platform
    }

    /// The platform's version, in the plugin's words.
    pub fn platform_version(&self) -> &str {
        &self.shared.platform_version
    }

    /// The devices that this process drives.
    pub fn devices(&self) -> &[Device] {
        &self.shared.devices
    }

    /// Compiles a program and loads it onto the first `num_partitions` devices.
    ///
    /// # Errors
    /// If the plugin refuses the program. A plugin may abort the process on a module that no verifier saw.
    pub fn compile(
        &self,
        program: PjrtProgram<'_>,
        options: &CompileOptions,
    ) -> Result<LoadedExecutable, PjrtError> {
        let options = options.to_bytes()?;
        let program = program.to_c();
        let args = sys::ClientCompileArgs {
            client: self.shared.raw(),
            program: &program,
            compile_options: options.as_ptr().cast(),
            compile_options_size: options.len(),
            ..CStruct::new()
        };
        // SAFETY: the client is alive; program and options live until the call returns. The executable it
        // gives is ours.
        unsafe {
            let args = self.shared.table().call(args)?;
            LoadedExecutable::new(&self.shared, sys::ClientCompileArgs::CALL, args.executable)
        }
    }

    /// Loads what [`Executable::serialize`](super::Executable::serialize) gave, on the same plugin and kind of
    /// devices.
    ///
    /// # Errors
    /// If the plugin does not take the bytes.
    pub fn deserialize(&self, bytes: &[u8]) -> Result<LoadedExecutable, PjrtError> {
        let args = sys::ExecutableDeserializeAndLoadArgs {
            client: self.shared.raw(),
            serialized_executable: bytes.as_ptr().cast(),
            serialized_executable_size: bytes.len(),
            ..CStruct::new()
        };
        // SAFETY: the client is alive, the bytes live until the call returns, and the executable is ours.
        unsafe {
            let args = self.shared.table().call(args)?;
            let call = sys::ExecutableDeserializeAndLoadArgs::CALL;
            LoadedExecutable::new(&self.shared, call, args.loaded_executable)
        }
    }

    /// Copies one row-major array to a device and waits until it is there.
    ///
    /// # Errors
    /// If the bytes do not fit the shape, the device is not ours, or the plugin fails.
    pub fn upload(&self, array: HostArray<'_>) -> Result<Buffer, PjrtError> {
        Buffer::upload(&self.shared, array)?.finish()
    }

    /// Copies several arrays, all under way at once, and waits for all.
    ///
    /// # Errors
    /// As for [`Client::upload`], the first of them.
    pub fn upload_all(&self, arrays: &[HostArray<'_>]) -> Result<Vec<Buffer>, PjrtError> {
        let uploads: Vec<_> =
            arrays.iter().map(|&array| Buffer::upload(&self.shared, array)).collect::<Result<_, _>>()?;
        uploads.into_iter().map(|upload| upload.finish()).collect()
    }

    /// How many buffers of this client are alive; a loop that leaks shows here.
    pub fn live_buffers(&self) -> usize {
        self.shared.live_buffers.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("platform", &self.shared.platform)
            .field("devices", &self.shared.devices.len())
            .finish()
    }
}

impl Shared {
    pub fn raw(&self) -> *mut sys::Client {
        self.raw.raw()
    }

    pub fn plugin(&self) -> &Arc<Plugin> {
        self.raw.plugin()
    }

    pub fn table(&self) -> Table {
        self.plugin().table()
    }

    /// The handle of a device by its id; it lives as long as the client.
    pub fn device(&self, id: i32) -> Result<*mut sys::Device, PjrtError> {
        let mut known = self.devices.iter().zip(&self.handles);
        match known.find(|(device, _)| device.id == id) {
            Some((_, handle)) => Ok(handle.0.as_ptr()),
            None => {
                let known = self.devices.iter().map(|device| device.id).collect();
                Err(PjrtError::UnknownDevice { id, known })
            }
        }
    }

    /// The handle of a memory of a device, or null for the one that it takes by itself. On the CPU that is the host's.
    pub fn memory(&self, device: i32, memory: MemorySpace) -> Result<*mut sys::Memory, PjrtError> {
        if memory == MemorySpace::Device {
            return Ok(ptr::null_mut());
        }
        let args = sys::DeviceAddressableMemoriesArgs { device: self.device(device)?, ..CStruct::new() };
        let mut known = Vec::new();
        // SAFETY: the device is alive, and its memories and the names of their kinds live as long.
        unsafe {
            let args = self.table().call(args)?;
            for &handle in slice(args.memories, args.num_memories) {
                let args = self.table().call(sys::MemoryKindArgs { memory: handle, ..CStruct::new() })?;
                let kind = text(args.kind, args.kind_size);
                if kind == memory.kind() {
                    return Ok(handle);
                }
                known.push(kind);
            }
        }
        match self.platform.as_str() {
            "cpu" => Ok(ptr::null_mut()),
            _ => Err(PjrtError::NoMemory { device, expected: memory.kind(), known }),
        }
    }
}

/// A claim on the client that counts as one live buffer.
pub(super) struct Counted(Arc<Shared>);

impl Counted {
    pub fn new(shared: &Arc<Shared>) -> Self {
        shared.live_buffers.fetch_add(1, Ordering::Relaxed);
        Self(shared.clone())
    }

    pub fn shared(&self) -> &Arc<Shared> {
        &self.0
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.live_buffers.fetch_sub(1, Ordering::Relaxed);
    }
}

fn addressable_devices(
    table: Table,
    client: &Owned<sys::Client>,
) -> Result<(Vec<Device>, Vec<DeviceHandle>), PjrtError> {
    let args = sys::ClientAddressableDevicesArgs { client: client.raw(), ..CStruct::new() };
    // SAFETY: the client is alive; the list and the devices in it live as long.
    unsafe {
        let args = table.call(args)?;
        let null = || PjrtError::Malformed {
            call: sys::ClientAddressableDevicesArgs::CALL,
            what: "a null device".into(),
        };
        let handles = slice(args.addressable_devices, args.num_addressable_devices)
            .iter()
            .map(|&device| NonNull::new(device).map(DeviceHandle).ok_or_else(null))
            .collect::<Result<Vec<_>, _>>()?;
        let devices = handles
            .iter()
            .map(|device| Device::describe(table, Device::description_of(table, device.0.as_ptr())?))
            .collect::<Result<Vec<_>, _>>()?;
        Ok((devices, handles))
    }
}
