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

/// A plugin's client for the devices of this process. Clones share it; buffers and executables keep it alive.
#[derive(Clone)]
pub struct Client {
    state: Arc<ClientState>,
}

impl Client {
    /// Starts the plugin's client, with options such as `cpu_device_count` of the CPU plugin.
    ///
    /// # Errors
    /// [`PjrtError::Failed`] if the plugin cannot start it, for example without a device.
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

    /// Its plugin.
    pub fn plugin(&self) -> &Arc<Plugin> {
        self.state.plugin()
    }

    /// The platform's name, such as `cpu`, `cuda`, `rocm` or `tpu`.
    pub fn platform(&self) -> &str {
        self.state.platform()
    }

    /// The platform's version, as the plugin reports it.
    pub fn platform_version(&self) -> &str {
        self.state.platform_version()
    }

    /// The devices of this process.
    pub fn devices(&self) -> &[Device] {
        self.state.devices()
    }

    /// Compiles a program and loads it onto the first `num_partitions` devices.
    ///
    /// # Errors
    /// If the plugin rejects the program. A plugin may abort the process on a module that was not verified.
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
        // SAFETY: the client is alive; program and options live until the call returns. The
        // returned executable is ours.
        unsafe {
            let args = self.state.table().call(args)?;
            LoadedExecutable::new(&self.state, sys::ClientCompileArgs::CALL, args.executable)
        }
    }

    /// Loads the bytes of [`Executable::serialize`](super::Executable::serialize), of the same plugin and device kind.
    ///
    /// # Errors
    /// If the plugin rejects the bytes.
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

    /// Copies a row-major array to a device and waits for the transfer.
    ///
    /// # Errors
    /// If the number of bytes does not match the shape, the client has no such device, or the plugin fails.
    pub fn upload(&self, array: HostArray<'_>) -> Result<Buffer, PjrtError> {
        Buffer::upload(&self.state, array)?.finish()
    }

    /// Copies several arrays at the same time and waits for all transfers.
    ///
    /// # Errors
    /// The first error of [`Client::upload`].
    pub fn upload_all(&self, arrays: &[HostArray<'_>]) -> Result<Vec<Buffer>, PjrtError> {
        let uploads: Vec<_> =
            arrays.iter().map(|&array| Buffer::upload(&self.state, array)).collect::<Result<_, _>>()?;
        uploads.into_iter().map(|upload| upload.finish()).collect()
    }

    /// Number of buffers of this client that exist, to detect leaks.
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
