#![allow(unsafe_code)]

use std::fmt;
use std::sync::Arc;

use super::{
    call::{Table, slice, text},
    device::Device,
    error::PjrtError,
    executable::Executable,
    handle::Owned,
    options::{self, CompileOptions, NamedValue, PjrtProgram},
    plugin::Plugin,
    sys::{self, CStruct, Call},
};

/// Description of devices to compile for, which need not be present. The plugins for GPUs and TPUs support it.
pub struct Topology {
    raw: Arc<Owned<sys::TopologyDescription>>,
    devices: Vec<Device>,
    platform: String,
}

impl Topology {
    /// Creates a topology: for TPUs from a name such as `v5e:2x4`, for GPUs from the options `target_config` and
    /// `topology`.
    ///
    /// # Errors
    /// If the plugin does not support such devices.
    pub fn create(
        plugin: &Arc<Plugin>,
        name: &str,
        options: &[(&str, NamedValue)],
    ) -> Result<Self, PjrtError> {
        let table = plugin.table();
        let encoded = options::encode(options);
        let args = sys::TopologyDescriptionCreateArgs {
            topology_name: name.as_ptr().cast(),
            topology_name_size: name.len(),
            create_options: encoded.as_ptr(),
            num_options: encoded.len(),
            ..CStruct::new()
        };
        // SAFETY: name and options live until the call returns. The topology is new and ours; it owns the
        // descriptions and texts, which are copied here.
        unsafe {
            let args = table.call(args)?;
            let raw = Owned::new(plugin, sys::TopologyDescriptionCreateArgs::CALL, args.topology)?;
            let topology = raw.raw().cast_const();
            let args = sys::TopologyDescriptionPlatformNameArgs { topology, ..CStruct::new() };
            let args = table.call(args)?;
            let platform = text(args.platform_name, args.platform_name_size);
            let args = sys::TopologyDescriptionGetDeviceDescriptionsArgs { topology, ..CStruct::new() };
            let args = table.call(args)?;
            let devices = slice(args.descriptions, args.num_descriptions)
                .iter()
                .map(|&description| Device::describe(table, description))
                .collect::<Result<_, _>>()?;
            Ok(Self { raw: Arc::new(raw), devices, platform })
        }
    }

    /// The devices of all hosts.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// The platform's name, such as `tpu`.
    pub fn platform(&self) -> &str {
        &self.platform
    }

    /// Compiles a program for these devices, without using any.
    ///
    /// # Errors
    /// If the plugin rejects the program. It may also abort the process; the compile worker isolates that.
    pub fn compile_ahead(
        &self,
        program: PjrtProgram<'_>,
        options: &CompileOptions,
    ) -> Result<Executable, PjrtError> {
        let options = options.to_bytes()?;
        let program = program.to_c();
        let args = sys::CompileArgs {
            topology: self.raw.raw(),
            program: &program,
            compile_options: options.as_ptr().cast(),
            compile_options_size: options.len(),
            ..CStruct::new()
        };
        // SAFETY: the topology is alive; program and options live until the call returns. The executable is
        // ours.
        unsafe {
            let args = self.table().call(args)?;
            let raw = Owned::new(self.raw.plugin(), sys::CompileArgs::CALL, args.executable)?;
            Ok(Executable::new(raw, Some(self.raw.clone())))
        }
    }

    fn table(&self) -> Table {
        self.raw.plugin().table()
    }
}

impl fmt::Debug for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Topology")
            .field("platform", &self.platform)
            .field("devices", &self.devices.len())
            .finish()
    }
}
