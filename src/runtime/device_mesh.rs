use crate::{
    base::{Diagnostics, Setting},
    mesh::{Loaded, Plan},
    step::{Workload, tensors},
    targets::{Target, TargetError},
};

/// The devices that a step runs on, and the mesh config that lays its tensors on them; one device needs none.
#[derive(Clone, Debug)]
pub struct DeviceMesh {
    target: Target,
    mesh: Option<Loaded>,
}

/// DeviceMesh that a step cannot run on.
#[derive(Debug, thiserror::Error)]
pub enum DeviceMeshError {
    /// There are no such devices.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// Several devices, and nothing says what each is to do.
    #[error("{0} has several devices, and no mesh config says what each holds")]
    NoMesh(Box<Target>),
}

impl DeviceMeshError {
    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Target(error) => error.hint(),
            Self::NoMesh(target) => {
                let mesh = format!(
                    "set one with {}, such as mesh-configs/fsdp8.toml for eight devices",
                    Setting::Mesh
                );
                let text = target.to_string();
                Some(match text.rsplit_once(':') {
                    Some((one, _)) if one.parse::<Target>().is_ok() => {
                        format!("{mesh}, or {}", Setting::Target.with(one))
                    }
                    _ => mesh,
                })
            }
        }
    }
}

impl DeviceMesh {
    /// A target and a mesh config. Without a target, the CPU with as many devices as the config's axes make.
    ///
    /// # Errors
    /// If there are several devices and no mesh config: all of them would do the same work.
    pub fn new(target: Option<Target>, mesh: Option<Loaded>) -> Result<Self, DeviceMeshError> {
        let target = match (target, &mesh) {
            (Some(target), _) => target,
            (None, Some(loaded)) => format!("cpu:{}", loaded.config.written_devices()).parse()?,
            (None, None) => Target::default(),
        };
        match mesh {
            None if target.devices() > 1 => Err(DeviceMeshError::NoMesh(target.into())),
            mesh => Ok(Self { target, mesh }),
        }
    }

    /// The target.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Into how many parts the mesh splits a batch.
    pub fn batch_shards(&self) -> usize {
        self.mesh.as_ref().map_or(1, |mesh| mesh.batch_shards(self.target.devices()))
    }

    /// Number that the rows of a batch must be a multiple of, see [`Loaded::batch_multiple`].
    pub fn batch_multiple(&self) -> usize {
        self.mesh.as_ref().map_or(1, |mesh| mesh.batch_multiple(self.target.devices()))
    }

    /// How the tensors of a workload lie; `None` on a single device without a mesh config.
    ///
    /// # Errors
    /// Everything that is wrong with the mesh config, be it in itself or for this workload.
    pub fn plan(&self, workload: Workload<'_>) -> Result<Option<Plan>, Diagnostics> {
        let plan = |mesh: &Loaded| mesh.plan(&tensors(workload), self.target.devices());
        self.mesh.as_ref().map(plan).transpose()
    }
}
