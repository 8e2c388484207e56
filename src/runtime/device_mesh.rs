use crate::{
    base::{Diagnostics, Setting},
    mesh::{Loaded, Plan},
    step::{Workload, tensors},
    targets::{Target, TargetError},
};

/// The devices that a step runs on, and the mesh config that shards its tensors; a single device needs none.
///
/// # Examples
/// ```
/// use hloom::runtime::{DeviceMesh, DeviceMeshError};
///
/// let one = DeviceMesh::new(None, None)?;
/// assert_eq!((one.target().to_string().as_str(), one.batch_shards()), ("cpu:1", 1));
///
/// let error = DeviceMesh::new(Some("mi300x:8".parse()?), None).unwrap_err();
/// assert_eq!(error.to_string(), "expected a mesh config for the devices of mi300x:8, found none");
/// # Ok::<(), DeviceMeshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct DeviceMesh {
    target: Target,
    mesh: Option<Loaded>,
}

/// Invalid combination of target and mesh config.
#[derive(Debug, thiserror::Error)]
pub enum DeviceMeshError {
    /// Invalid target.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// Several devices without a mesh config.
    #[error("expected a mesh config for the devices of {0}, found none")]
    NoMesh(Box<Target>),
}

impl DeviceMeshError {
    /// A hint for the user.
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
    /// Combines a target with a mesh config. The default target is the CPU with the number of devices of the config's axes.
    ///
    /// # Errors
    /// [`DeviceMeshError::NoMesh`] for several devices without a mesh config, which would all do the same work.
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

    /// Number of shards of a batch.
    pub fn batch_shards(&self) -> usize {
        self.mesh.as_ref().map_or(1, |mesh| mesh.batch_shards(self.target.devices()))
    }

    /// Number that the rows of a batch must be a multiple of, see [`Loaded::batch_multiple`].
    pub fn batch_multiple(&self) -> usize {
        self.mesh.as_ref().map_or(1, |mesh| mesh.batch_multiple(self.target.devices()))
    }

    /// Shardings of the tensors of a workload; `None` on a single device without a mesh config.
    ///
    /// # Errors
    /// All problems of the mesh config, in itself and for this workload.
    pub fn plan(&self, workload: Workload<'_>) -> Result<Option<Plan>, Diagnostics> {
        let plan = |mesh: &Loaded| mesh.plan(&tensors(workload), self.target.devices());
        self.mesh.as_ref().map(plan).transpose()
    }
}
