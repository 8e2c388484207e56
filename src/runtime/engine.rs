use std::{collections::BTreeMap, sync::Arc};

use super::{RuntimeError, Target};
use crate::{
    base::{ArrayShape, Literal},
    hlo::proto,
    pjrt::{
        Arg, Buffer, Client, CompileOptions, HostArray, LoadedExecutable, Plugin, Program, ProgramFormat,
    },
    step::{Role, Slot, StepProgram},
};

/// What lives on the device between two runs, by role.
#[derive(Debug, Default)]
pub struct State {
    buffers: BTreeMap<Role, Buffer>,
}

/// What one run gives besides the new state.
pub type Results = BTreeMap<Role, Literal>;

/// A plugin's client for one target.
#[derive(Debug)]
pub struct Engine {
    client: Client,
    device: i32,
}

/// A program ready to run.
#[derive(Debug)]
pub struct Compiled {
    program: StepProgram,
    executable: LoadedExecutable,
}

impl State {
    /// Puts a value under its role, in place of the one before.
    pub fn insert(&mut self, role: Role, buffer: Buffer) {
        self.buffers.insert(role, buffer);
    }

    /// Drops the value of a role, if there is one.
    pub fn remove(&mut self, role: Role) {
        self.buffers.remove(&role);
    }

    /// The value of a role.
    ///
    /// # Errors
    /// If there is none.
    pub fn get(&self, role: Role) -> Result<&Buffer, RuntimeError> {
        self.buffers.get(&role).ok_or(RuntimeError::Missing { role })
    }

    /// The value of a role, copied to the host.
    ///
    /// # Errors
    /// If there is none, or the copy fails.
    pub fn download(&self, role: Role) -> Result<Literal, RuntimeError> {
        Ok(self.get(role)?.to_literal()?)
    }

    /// Bytes on the device.
    ///
    /// # Errors
    /// If the plugin does not say.
    pub fn bytes_on_device(&self) -> Result<usize, RuntimeError> {
        self.buffers.values().try_fold(0, |sum, buffer| Ok(sum + buffer.bytes_on_device()?))
    }
}

impl Engine {
    /// Starts the plugin's client.
    ///
    /// # Errors
    /// If the plugin refuses, or drives no device.
    pub fn start(plugin: Arc<Plugin>, target: &Target) -> Result<Self, RuntimeError> {
        let client = Client::create(plugin, &target.client_options())?;
        let no_device = || RuntimeError::NoDevice { platform: target.platform().to_owned() };
        let device = client.devices().first().ok_or_else(no_device)?.id;
        Ok(Self { client, device })
    }

    /// The client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Compiles a program.
    ///
    /// # Errors
    /// If the plugin refuses it.
    pub fn compile(&self, program: StepProgram) -> Result<Compiled, RuntimeError> {
        let bytes = proto::encode(&program.module);
        let source = Program { format: ProgramFormat::Hlo, bytes: &bytes };
        let executable = self.client.compile(source, &CompileOptions::for_devices(1))?;
        Ok(Compiled { program, executable })
    }

    /// Copies a value to the device.
    ///
    /// # Errors
    /// If the plugin fails.
    pub fn upload(&self, literal: &Literal) -> Result<Buffer, RuntimeError> {
        self.upload_bytes(literal.bytes(), literal.shape())
    }

    /// Copies row-major bytes to the device.
    ///
    /// # Errors
    /// If they are not as many as the shape says, or the plugin fails.
    pub fn upload_bytes(&self, bytes: &[u8], shape: &ArrayShape) -> Result<Buffer, RuntimeError> {
        Ok(self.client.upload(HostArray { bytes, shape, device: self.device })?)
    }

    /// Runs a program. Arguments come from `inputs` where it has their role, else from `state`; those that the program
    /// donates are taken out of the state, and the results of their roles put in their place.
    ///
    /// # Errors
    /// If an argument is missing or the plugin fails; donated state is gone in the latter case.
    pub fn run(
        &self,
        compiled: &Compiled,
        state: &mut State,
        inputs: &[(Role, Literal)],
    ) -> Result<Results, RuntimeError> {
        let Compiled { program, executable } = compiled;
        let uploaded: BTreeMap<Role, Buffer> = inputs
            .iter()
            .map(|(role, literal)| Ok((*role, self.upload(literal)?)))
            .collect::<Result<_, RuntimeError>>()?;
        for Slot { role, .. } in &program.inputs {
            if !uploaded.contains_key(role) {
                state.get(*role)?;
            }
        }
        let donated: BTreeMap<Role, Buffer> = program
            .inputs
            .iter()
            .filter(|slot| program.is_donated(slot.role))
            .filter_map(|slot| Some((slot.role, state.buffers.remove(&slot.role)?)))
            .collect();
        let arguments = gather(program, donated, &uploaded, state)?;
        let outputs = executable.execute(vec![arguments])?.pop().unwrap_or_default();
        if outputs.len() != program.outputs.len() {
            let (expected, found) = (program.outputs.len(), outputs.len());
            return Err(RuntimeError::Results { expected, found });
        }
        let mut results = Results::new();
        for (slot, buffer) in program.outputs.iter().zip(outputs) {
            let taken = program.inputs.iter().any(|input| input.role == slot.role);
            if taken {
                state.insert(slot.role, buffer);
            } else {
                results.insert(slot.role, buffer.to_literal()?);
            }
        }
        Ok(results)
    }
}

impl Compiled {
    /// What it was compiled from.
    pub fn program(&self) -> &StepProgram {
        &self.program
    }

    /// What the plugin made of it.
    pub fn executable(&self) -> &LoadedExecutable {
        &self.executable
    }
}

fn gather<'a>(
    program: &StepProgram,
    mut donated: BTreeMap<Role, Buffer>,
    uploaded: &'a BTreeMap<Role, Buffer>,
    state: &'a State,
) -> Result<Vec<Arg<'a>>, RuntimeError> {
    let argument = |slot: &Slot| match (donated.remove(&slot.role), uploaded.get(&slot.role)) {
        (Some(buffer), _) => Ok(Arg::Donate(buffer)),
        (None, Some(buffer)) => Ok(Arg::Keep(buffer)),
        (None, None) => Ok(Arg::Keep(state.get(slot.role)?)),
    };
    program.inputs.iter().map(argument).collect()
}
