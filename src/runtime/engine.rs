use std::{collections::BTreeMap, ops::Range, sync::Arc};

use super::{DeviceState, RuntimeError, Sharded, encode};
use crate::{
    base::{ArrayShape, ArrayWindow, Literal, at_origin, copy_window},
    mesh::{Plan, explain_warnings},
    pjrt::{Arg, Buffer, Client, CompileOptions, LoadedExecutable, PjrtProgram, Plugin, ProgramFormat},
    runtime::plugin_log::capture_warnings,
    step::{Role, Slot, StepProgram},
    targets::Target,
};

/// Results of a run, apart from the new state.
pub type StepResults = BTreeMap<Role, Literal>;

/// A plugin's client for the devices of one target.
#[derive(Debug)]
pub struct Engine {
    client: Client,
    devices: Vec<i32>,
    options: CompileOptions,
    format: ProgramFormat,
}

/// A compiled program, loaded on the devices.
#[derive(Debug)]
pub struct CompiledStep {
    program: StepProgram,
    executable: LoadedExecutable,
    warnings: Vec<String>,
}

impl Engine {
    /// Starts the plugin's client, which gets programs in `format`.
    ///
    /// # Errors
    /// If the plugin fails, or finds fewer devices than the target has.
    pub fn start(plugin: Arc<Plugin>, target: &Target, format: ProgramFormat) -> Result<Self, RuntimeError> {
        let options = target.compile_options_on(&plugin)?;
        let client = Client::create(plugin, &target.client_options())?;
        let all = client.devices();
        if all.len() < target.devices() {
            let (platform, expected, found) = (target.platform(), target.devices(), all.len());
            return Err(RuntimeError::Devices { platform, expected, found });
        }
        let devices = all.iter().take(target.devices()).map(|device| device.id).collect();
        Ok(Self { client, devices, options, format })
    }

    /// The client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Compiles a program for all devices, partitioned as `mesh` specifies.
    ///
    /// # Errors
    /// If the plugin rejects it, or if it has no form in StableHLO.
    pub fn compile(&self, program: StepProgram, mesh: Option<&Plan>) -> Result<CompiledStep, RuntimeError> {
        let partitioner = mesh.map(|plan| plan.partitioner).unwrap_or_default();
        let bytes = encode(&program.module, self.format, partitioner)?;
        let source = PjrtProgram { format: self.format, bytes: &bytes };
        // Partitions must have the device order of the shards, whatever order the plugin would choose.
        let devices = self.devices.clone();
        let options = CompileOptions { partitioner, devices, ..self.options.clone() };
        let (executable, warnings) = capture_warnings(|| self.client.compile(source, &options));
        let warnings = explain_warnings(warnings, program.module.module(), mesh);
        self.ready(program, executable?, warnings)
    }

    /// Loads an executable that this plugin compiled from the program, for these devices.
    ///
    /// # Errors
    /// If the plugin rejects the bytes.
    pub fn load(&self, program: StepProgram, executable: &[u8]) -> Result<CompiledStep, RuntimeError> {
        self.ready(program, self.client.deserialize(executable)?, vec![])
    }

    /// Checks that the partitions are on the devices of the shards.
    fn ready(
        &self,
        program: StepProgram,
        executable: LoadedExecutable,
        warnings: Vec<String>,
    ) -> Result<CompiledStep, RuntimeError> {
        if executable.device_ids() != self.devices {
            let (expected, found) = (self.devices.clone(), executable.device_ids().to_vec());
            return Err(RuntimeError::DeviceOrder { expected, found });
        }
        Ok(CompiledStep { program, executable, warnings })
    }

    /// Copies a value to the devices, shard by shard; `read` writes a window of the value, row-major, into a buffer of that
    /// size.
    ///
    /// # Errors
    /// Those of `read`, or if the plugin fails.
    pub fn place(
        &self,
        slot: &Slot,
        read: impl FnMut(&[Range<usize>], &mut [u8]) -> Result<(), RuntimeError>,
    ) -> Result<Sharded, RuntimeError> {
        Sharded::place(&self.client, &self.devices, slot, read)
    }

    /// Copies a host array to the devices.
    ///
    /// # Errors
    /// [`RuntimeError::Shape`] if it has another shape than the slot, or if the plugin fails.
    pub fn upload(&self, slot: &Slot, literal: &Literal) -> Result<Sharded, RuntimeError> {
        let shape = slot.shape();
        if *literal.shape() != shape {
            let found = literal.shape().clone();
            return Err(RuntimeError::Shape { role: slot.role, expected: shape, found });
        }
        self.place(slot, |window, bytes| {
            let part = ArrayShape::new(shape.dtype, window.iter().map(Range::len).collect::<Vec<_>>());
            let from = ArrayWindow { dims: &shape.dims, ranges: window };
            let origin = at_origin(window);
            let to = ArrayWindow { dims: &part.dims, ranges: &origin };
            copy_window(literal.bytes(), from, bytes, to, shape.dtype.bytes());
            Ok(())
        })
    }

    /// Runs a program. An argument comes from `inputs` if its role is among them, else from `state`. Donated arguments are
    /// removed from the state, and results with the role of an argument are put there; the others are returned.
    ///
    /// # Errors
    /// If an argument is missing, or the plugin fails; in the latter case donated state is lost.
    pub fn run(
        &self,
        compiled: &CompiledStep,
        state: &mut DeviceState,
        inputs: &[(Role, &Literal)],
    ) -> Result<StepResults, RuntimeError> {
        let CompiledStep { program, executable, .. } = compiled;
        let mut uploaded: BTreeMap<Role, Sharded> = BTreeMap::new();
        for slot in &program.inputs {
            match inputs.iter().find(|(role, _)| *role == slot.role) {
                Some((role, literal)) => drop(uploaded.insert(*role, self.upload(slot, literal)?)),
                None => drop(state.get(slot.role)?),
            }
        }
        let arguments = gather(program, &uploaded, state, self.devices.len())?;
        let outputs = executable.execute(arguments)?;
        let mut results = StepResults::new();
        for (slot, shards) in program.outputs.iter().zip(by_output(outputs, program.outputs.len())?) {
            let value = Sharded::adopt(slot, shards)?;
            let taken = program.inputs.iter().any(|input| input.role == slot.role);
            if taken {
                state.insert(slot.role, value);
            } else {
                results.insert(slot.role, value.to_literal()?);
            }
        }
        Ok(results)
    }
}

impl CompiledStep {
    /// The program before compilation.
    pub fn program(&self) -> &StepProgram {
        &self.program
    }

    /// The compiler's warnings.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The executable.
    pub fn executable(&self) -> &LoadedExecutable {
        &self.executable
    }
}

/// One list of arguments per device. Donated arguments are removed from `state`.
fn gather<'a>(
    program: &StepProgram,
    uploaded: &'a BTreeMap<Role, Sharded>,
    state: &'a mut DeviceState,
    devices: usize,
) -> Result<Vec<Vec<Arg<'a>>>, RuntimeError> {
    let mut donated: BTreeMap<Role, Sharded> = program
        .inputs
        .iter()
        .filter(|slot| program.is_donated(slot.role))
        .filter_map(|slot| Some((slot.role, state.remove(slot.role)?)))
        .collect();
    let state: &'a DeviceState = state;
    let mut lists: Vec<Vec<Arg<'a>>> = (0..devices).map(|_| vec![]).collect();
    for Slot { role, .. } in &program.inputs {
        if let Some(value) = donated.remove(role) {
            let shards = value.into_shards().into_iter().map(Arg::Donate);
            lists.iter_mut().zip(shards).for_each(|(list, shard)| list.push(shard));
        } else {
            let value = uploaded.get(role).map_or_else(|| state.get(*role), Ok)?;
            let shards = value.shards().iter().map(Arg::Keep);
            lists.iter_mut().zip(shards).for_each(|(list, shard)| list.push(shard));
        }
    }
    Ok(lists)
}

/// The shards of each result, from the results of each device.
fn by_output(devices: Vec<Vec<Buffer>>, expected: usize) -> Result<Vec<Vec<Buffer>>, RuntimeError> {
    let mut outputs: Vec<Vec<Buffer>> = (0..expected).map(|_| vec![]).collect();
    for results in devices {
        if results.len() != expected {
            return Err(RuntimeError::Results { expected, found: results.len() });
        }
        outputs.iter_mut().zip(results).for_each(|(output, shard)| output.push(shard));
    }
    Ok(outputs)
}
