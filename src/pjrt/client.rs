#![allow(unsafe_code)]

use std::fmt;
use std::sync::Arc;

use super::{
    buffer::{Buffer, HostArray},
    client_state::ClientState,
    device::Device,
    error::PjrtError,
    executable::LoadedExecutable,
    handle::Owned,
    options::{self, CompileOptions, NamedValue, PjrtProgram},
    plugin::Plugin,
    sys::{self, CStruct, Call},
};

/// A plugin at work on this process's devices. Clones share it; buffers and executables keep it alive.
#[derive(Clone)]
pub struct Client {
    state: Arc<ClientState>,
}

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
        Ok(Self { state: Arc::new(ClientState::new(raw)?) })
    }

    /// The plugin it runs on.
    pub fn plugin(&self) -> &Arc<Plugin> {
        self.state.plugin()
    }

    /// The platform's name, such as `cpu`, `cuda`, `rocm` or `tpu`.
    pub fn platform(&self) -> &str {
        self.state.platform()
    }

    /// The platform's version, in the plugin's words.
    pub fn platform_version(&self) -> &str {
        self.state.platform_version()
    }

    /// The devices that this process drives.
    pub fn devices(&self) -> &[Device] {
        self.state.devices()
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
            client: self.state.raw(),
            program: &program,
            compile_options: options.as_ptr().cast(),
            compile_options_size: options.len(),
            ..CStruct::new()
        };
        // SAFETY: the client is alive; program and options live until the call returns. The executable it
        // gives is ours.
        unsafe {
            let args = self.state.table().call(args)?;
            LoadedExecutable::new(&self.state, sys::ClientCompileArgs::CALL, args.executable)
        }
    }

    /// Loads what [`Executable::serialize`](super::Executable::serialize) gave, on the same plugin and kind of
    /// devices.
    ///
    /// # Errors
    /// If the plugin does not take the bytes.
    pub fn deserialize(&self, bytes: &[u8]) -> Result<LoadedExecutable, PjrtError> {
        let args = sys::ExecutableDeserializeAndLoadArgs {
            client: self.state.raw(),
            serialized_executable: bytes.as_ptr().cast(),
            serialized_executable_size: bytes.len(),
            ..CStruct::new()
        };
        // SAFETY: the client is alive, the bytes live until the call returns, and the executable is ours.
        unsafe {
            let args = self.state.table().call(args)?;
            let call = sys::ExecutableDeserializeAndLoadArgs::CALL;
            LoadedExecutable::new(&self.state, call, args.loaded_executable)
        }
    }

    /// Copies one row-major array to a device and waits until it is there.
    ///
    /// # Errors
    /// If the bytes do not fit the shape, the device is not ours, or the plugin fails.
    pub fn upload(&self, array: HostArray<'_>) -> Result<Buffer, PjrtError> {
        Buffer::upload(&self.state, array)?.finish()
    }

    /// Copies several arrays, all under way at once, and waits for all.
    ///
    /// # Errors
    /// As for [`Client::upload`], the first of them.
    pub fn upload_all(&self, arrays: &[HostArray<'_>]) -> Result<Vec<Buffer>, PjrtError> {
        let uploads: Vec<_> =
            arrays.iter().map(|&array| Buffer::upload(&self.state, array)).collect::<Result<_, _>>()?;
        uploads.into_iter().map(|upload| upload.finish()).collect()
    }

    /// How many buffers of this client are alive; a loop that leaks shows here.
    pub fn live_buffers(&self) -> usize {
        self.state.live_buffers()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("platform", &self.state.platform())
            .field("devices", &self.state.devices().len())
            .finish()
    }
}
