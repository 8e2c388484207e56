#![allow(unsafe_code)]

use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{
    call::{Table, slice, text},
    device::Device,
    error::PjrtError,
    handle::Owned,
    plugin::Plugin,
    sys::{self, CStruct, Call},
};
use crate::base::MemorySpace;

/// State that [`Client`](super::Client), buffers and executables share and keep alive.
pub(super) struct ClientState {
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

impl ClientState {
    /// Reads the devices and the platform of a new client.
    pub(super) fn new(raw: Owned<sys::Client>) -> Result<Self, PjrtError> {
        let (client, table) = (raw.raw(), raw.plugin().table());
        // SAFETY: `raw` keeps the client alive. The names belong to it and are copied here.
        let (platform, platform_version) = unsafe {
            let name = table.call(sys::ClientPlatformNameArgs { client, ..CStruct::new() })?;
            let version = table.call(sys::ClientPlatformVersionArgs { client, ..CStruct::new() })?;
            (
                text(name.platform_name, name.platform_name_size),
                text(version.platform_version, version.platform_version_size),
            )
        };
        let (devices, handles) = addressable_devices(table, &raw)?;
        Ok(Self { raw, devices, handles, platform, platform_version, live_buffers: AtomicUsize::new(0) })
    }

    /// The devices of this process.
    pub(super) fn devices(&self) -> &[Device] {
        &self.devices
    }

    pub(super) fn platform(&self) -> &str {
        &self.platform
    }

    pub(super) fn platform_version(&self) -> &str {
        &self.platform_version
    }

    /// Number of buffers that exist.
    pub(super) fn live_buffers(&self) -> usize {
        self.live_buffers.load(Ordering::Relaxed)
    }

    pub(super) fn raw(&self) -> *mut sys::Client {
        self.raw.raw()
    }

    pub(super) fn plugin(&self) -> &Arc<Plugin> {
        self.raw.plugin()
    }

    pub(super) fn table(&self) -> Table {
        self.plugin().table()
    }

    /// The handle of a device by its id; it lives as long as the client.
    pub(super) fn device(&self, id: i32) -> Result<*mut sys::Device, PjrtError> {
        let mut known = self.devices.iter().zip(&self.handles);
        match known.find(|(device, _)| device.id == id) {
            Some((_, handle)) => Ok(handle.0.as_ptr()),
            None => {
                let known = self.devices.iter().map(|device| device.id).collect();
                Err(PjrtError::UnknownDevice { id, known })
            }
        }
    }

    /// The handle of a memory of a device, or null for the device's default memory. On the CPU, that is host memory.
    pub(super) fn memory(&self, device: i32, memory: MemorySpace) -> Result<*mut sys::Memory, PjrtError> {
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

/// Reference to the client that is counted as one live buffer.
pub(super) struct LiveBuffer(Arc<ClientState>);

impl LiveBuffer {
    pub(super) fn new(state: &Arc<ClientState>) -> Self {
        state.live_buffers.fetch_add(1, Ordering::Relaxed);
        Self(state.clone())
    }

    pub(super) fn state(&self) -> &Arc<ClientState> {
        &self.0
    }
}

impl Drop for LiveBuffer {
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
