use super::{Target, TargetError};
use crate::{
    mesh::{Loaded, Plan, Problems},
    step::{Workload, tensors},
};

/// The devices that a step runs on, and the mesh config that lays its tensors on them; one device needs none.
#[derive(Clone, Debug)]
pub struct Devices {
    target: Target,
    mesh: Option<Loaded>,
}

impl Devices {
    /// A target and a mesh config. Without a target, the CPU with as many devices as the config's axes make.
    ///
    /// # Errors
    /// If there are several devices and no mesh config: all of them would do the same work.
    pub fn new(target: Option<Target>, mesh: Option<Loaded>) -> Result<Self, TargetError> {
        let target = match (target, &mesh) {
            (Some(target), _) => target,
            (None, Some(loaded)) => Target::cpu(loaded.config.written_devices())?,
            (None, None) => Target::default(),
        };
        match mesh {
            None if target.devices() > 1 => Err(TargetError::NoMesh(target)),
            mesh => Ok(Self { target, mesh }),
        }
    }

    /// The target.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Into how many parts the mesh splits a batch.
    pub fn batch_parts(&self) -> usize {
        self.mesh.as_ref().map_or(1, |mesh| mesh.batch_parts(self.target.devices()))
    }

    /// How the tensors of a workload lie; `None` on a single device without a mesh config.
    ///
    /// # Errors
    /// Everything that is wrong with the mesh config, be it in itself or for this workload.
    pub fn plan(&self, workload: Workload<'_>) -> Result<Option<Plan>, Problems> {
        let plan = |mesh: &Loaded| mesh.plan(&tensors(workload), self.target.devices());
        self.mesh.as_ref().map(plan).transpose()
    }
}
