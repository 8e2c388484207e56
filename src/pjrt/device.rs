#![allow(unsafe_code)]

use std::collections::BTreeMap;

use super::{
    call::{Table, text},
    error::PjrtError,
    options::{self, NamedValue},
    sys::{self, CStruct},
};

/// A device of a client or of a topology.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// Id, unique among all processes.
    pub id: i32,
    /// Device kind, such as `cpu` or `TPU v5 lite`.
    pub kind: String,
    /// Description by the plugin.
    pub debug: String,
    /// Process (host) that the device is attached to.
    pub process_index: i32,
    /// Other attributes.
    pub attributes: BTreeMap<String, NamedValue>,
}

impl Device {
    /// Bytes of memory available to a program, if the plugin reports it.
    pub fn memory_limit(&self) -> Option<u64> {
        match self.attributes.get("device_memory_bytes_limit") {
            Some(NamedValue::Int64(bytes)) => u64::try_from(*bytes).ok(),
            _ => None,
        }
    }

    /// # Safety
    /// `device_description` is alive.
    pub(super) unsafe fn describe(
        table: Table,
        device_description: *mut sys::DeviceDescription,
    ) -> Result<Self, PjrtError> {
        // SAFETY: the description is alive, and so are the texts it owns, which are copied here.
        unsafe {
            let id = table.call(sys::DeviceDescriptionIdArgs { device_description, ..CStruct::new() })?.id;
            let process_index = table
                .call(sys::DeviceDescriptionProcessIndexArgs { device_description, ..CStruct::new() })?
                .process_index;
            let kind = table.call(sys::DeviceDescriptionKindArgs { device_description, ..CStruct::new() })?;
            let debug =
                table.call(sys::DeviceDescriptionDebugStringArgs { device_description, ..CStruct::new() })?;
            let attributes =
                table.call(sys::DeviceDescriptionAttributesArgs { device_description, ..CStruct::new() })?;
            Ok(Self {
                id,
                kind: text(kind.device_kind, kind.device_kind_size),
                debug: text(debug.debug_string, debug.debug_string_size),
                process_index,
                attributes: options::decode(attributes.attributes, attributes.num_attributes),
            })
        }
    }

    /// The id of a client's device.
    ///
    /// # Safety
    /// `device` is alive.
    pub(super) unsafe fn id_of(table: Table, device: *mut sys::Device) -> Result<i32, PjrtError> {
        // SAFETY: the device is alive, and its description lives as long.
        unsafe {
            let device_description = Self::description_of(table, device)?;
            Ok(table.call(sys::DeviceDescriptionIdArgs { device_description, ..CStruct::new() })?.id)
        }
    }

    /// # Safety
    /// `device` is alive; the description lives as long.
    pub(super) unsafe fn description_of(
        table: Table,
        device: *mut sys::Device,
    ) -> Result<*mut sys::DeviceDescription, PjrtError> {
        // SAFETY: the device is alive.
        unsafe {
            Ok(table.call(sys::DeviceGetDescriptionArgs { device, ..CStruct::new() })?.device_description)
        }
    }
}
