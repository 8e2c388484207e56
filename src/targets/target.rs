use std::fmt;
use std::path::Path;
use std::str::FromStr;

use super::{
    builtin::devices,
    cuda_toolkit::{self, CudaToolkitError},
    device::{DeviceSpec, Hardware, TpuInfo},
    platform::Platform,
    read::DeviceError,
    shape::{TargetShape, product},
};
use crate::{
    base::{Setting, did_you_mean},
    pjrt::{CompileOptions, NamedValue, Plugin},
};

/// Devices that a program is compiled for: a device model and a shape, as in `mi300x:4x8`, `v5e:2x4` or `my.toml:8`; or
/// devices that a platform's plugin finds on this machine, as in `cuda:2`.
///
/// # Examples
/// ```
/// use hloom::targets::{Platform, Target};
///
/// let target: Target = "v5p:4x4x4".parse()?;
/// assert_eq!(target.platform(), Platform::Tpu);
/// assert_eq!((target.shape().hosts(), target.devices()), (16, 64));
///
/// let error = "mi300:8".parse::<Target>().unwrap_err();
/// assert_eq!(error.to_string(), "unknown target: mi300:8");
/// assert_eq!(error.hint().as_deref(), Some("did you mean `mi300x`?"));
/// # Ok::<(), hloom::targets::TargetError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    name: String,
    platform: Platform,
    device: Option<DeviceSpec>,
    shape: TargetShape,
    memory: GpuMemory,
}

/// How a client allocates GPU memory; the plugin decides what is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GpuMemory {
    /// Largest fraction of the memory, above 0 and at most 1.
    pub fraction: Option<f32>,
    /// Whether the client allocates that fraction when it starts.
    pub preallocate: Option<bool>,
}

/// An invalid target.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// No device model and no platform has this name.
    #[error("unknown target: {0}")]
    Unknown(String),
    /// The text after the colon is no shape of such devices.
    #[error("expected {expected} after `{device}:`, found: {found}")]
    Shape {
        /// The text before the colon.
        device: String,
        /// Valid forms.
        expected: &'static str,
        /// The text after the colon.
        found: String,
    },
    /// The TPU generation has no such topology.
    #[error("unknown topology of {device}: {found}")]
    Topology {
        /// The text before the colon.
        device: String,
        /// The text after the colon.
        found: String,
        /// Topologies with the same number of chips.
        same_size: Vec<String>,
        /// All topologies.
        known: Vec<String>,
    },
    /// No topology given for a TPU.
    #[error("expected a topology after `{device}`, found none")]
    NoTopology {
        /// The device.
        device: String,
        /// All topologies.
        known: Vec<String>,
    },
    /// Memory options for devices other than GPUs.
    #[error("memory options apply to GPUs only, found: {0}")]
    NoGpuMemory(String),
    /// A fraction outside the valid range.
    #[error("expected a fraction of memory above 0 and at most 1, found: {0}")]
    MemoryFraction(f32),
    /// An invalid device file.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl TargetError {
    /// A hint for the user.
    pub fn hint(&self) -> Option<String> {
        let listed = |device: &str, names: &[String]| {
            names.iter().map(|name| format!("{device}:{name}")).collect::<Vec<_>>().join(", ")
        };
        match self {
            Self::Unknown(text) => {
                let name = text.split(':').next().unwrap_or(text).to_lowercase();
                let known = names().chain(["a device file NAME.toml"]);
                Some(did_you_mean(&name, known, "targets"))
            }
            Self::Shape { device, expected, .. } if expected.contains("hosts") => {
                Some(format!("for example `{device}:8`, or `{device}:4x8` for four hosts of eight"))
            }
            Self::Shape { device, .. } => Some(format!("for example `{device}:8`")),
            Self::Topology { device, same_size, known, .. } => Some(match same_size.is_empty() {
                true => format!("topologies: {}", listed(device, known)),
                false => format!("topologies of that size: {}", listed(device, same_size)),
            }),
            Self::NoTopology { device, known } => Some(format!("topologies: {}", listed(device, known))),
            Self::NoGpuMemory(_) => {
                Some(format!("leave out {} and {}", Setting::MemoryFraction, Setting::Preallocate))
            }
            Self::MemoryFraction(_) => Some(format!("for example {}", Setting::MemoryFraction.with(0.9))),
            Self::Device(_) => None,
        }
    }
}

impl TargetShape {
    /// Parses the text after the colon of a target, for a device model.
    ///
    /// # Errors
    /// [`TargetError::Shape`] if it is no shape of such devices, [`TargetError::Topology`] if a TPU generation has no
    /// such topology.
    pub fn of(device: &DeviceSpec, text: &str) -> Result<Self, TargetError> {
        let invalid =
            |expected| TargetError::Shape { device: device.name.clone(), expected, found: text.to_owned() };
        match &device.hardware {
            Hardware::Cpu => Self::one_host(text).ok_or_else(|| invalid("a number of devices")),
            Hardware::Cuda(_) | Hardware::Rocm(_) => {
                Self::hosts_of_devices(text).ok_or_else(|| invalid("a number of devices, or hosts x devices"))
            }
            Hardware::Tpu(info) => Self::known_topology(info, text).ok_or_else(|| {
                let wanted = product(text);
                let fits = |name: &&String| wanted.is_some() && product(name) == wanted;
                TargetError::Topology {
                    device: device.name.clone(),
                    found: text.to_owned(),
                    same_size: info.topologies.iter().filter(fits).cloned().collect(),
                    known: info.topologies.clone(),
                }
            }),
        }
    }

    fn known_topology(info: &TpuInfo, text: &str) -> Option<Self> {
        let name = info.topologies.iter().find(|name| *name == text)?;
        Self::topology(name, info.devices_per_chip, info.chips_per_host)
    }
}

impl Target {
    /// Devices of one model.
    pub fn new(device: DeviceSpec, shape: TargetShape) -> Self {
        Self {
            name: device.name.clone(),
            platform: device.platform(),
            device: Some(device),
            shape,
            memory: GpuMemory::default(),
        }
    }

    /// Sets how a client allocates the devices' memory.
    ///
    /// # Errors
    /// [`TargetError::NoGpuMemory`] if the devices are no GPUs, [`TargetError::MemoryFraction`] if the fraction is not
    /// above 0 and at most 1.
    pub fn with_memory(self, memory: GpuMemory) -> Result<Self, TargetError> {
        let is_gpu = matches!(self.platform, Platform::Cuda | Platform::Rocm);
        match memory.fraction {
            _ if memory == GpuMemory::default() => Ok(self),
            _ if !is_gpu => Err(TargetError::NoGpuMemory(self.to_string())),
            Some(fraction) if !(fraction > 0.0 && fraction <= 1.0) => {
                Err(TargetError::MemoryFraction(fraction))
            }
            _ => Ok(Self { memory, ..self }),
        }
    }

    /// The platform whose plugin compiles for the target.
    pub fn platform(&self) -> Platform {
        self.platform
    }

    /// The device model; `None` for devices that the plugin finds on this machine.
    pub fn device(&self) -> Option<&DeviceSpec> {
        self.device.as_ref()
    }

    /// Number and arrangement of the devices.
    pub fn shape(&self) -> &TargetShape {
        &self.shape
    }

    /// Number of devices of all hosts, at least one.
    pub fn devices(&self) -> usize {
        self.shape.devices()
    }

    /// Compile options: one partition a device, and the flags of the device file.
    pub fn compile_options(&self) -> CompileOptions {
        let mut options = CompileOptions::for_devices(self.shape.devices());
        options.overrides = self.device.as_ref().map(|device| device.flags.clone()).unwrap_or_default();
        options
    }

    /// [`Self::compile_options`] for a plugin in this process, with the location of the CUDA toolkit where it needs one.
    ///
    /// # Errors
    /// If a part of the toolkit is missing: the plugin would end the process.
    pub fn compile_options_on(&self, plugin: &Plugin) -> Result<CompileOptions, CudaToolkitError> {
        match self.platform {
            Platform::Cuda => cuda_toolkit::locate(plugin.path(), self.compile_options()),
            Platform::Cpu | Platform::Rocm | Platform::Tpu => Ok(self.compile_options()),
        }
    }

    /// Create options of the plugin's client for these devices.
    pub fn client_options(&self) -> Vec<(&'static str, NamedValue)> {
        match self.platform {
            Platform::Cpu => vec![("cpu_device_count", NamedValue::Int64(self.shape.devices() as i64))],
            Platform::Cuda | Platform::Rocm => {
                let GpuMemory { fraction, preallocate } = self.memory;
                let fraction = fraction.map(|fraction| ("memory_fraction", NamedValue::Float(fraction)));
                let preallocate = preallocate.map(|truth| ("preallocate", NamedValue::Bool(truth)));
                fraction.into_iter().chain(preallocate).collect()
            }
            Platform::Tpu => vec![],
        }
    }
}

/// A single CPU device.
impl Default for Target {
    fn default() -> Self {
        let device = devices().iter().find(|device| device.platform() == Platform::Cpu).cloned();
        let shape = TargetShape::one();
        let (name, memory) = (Platform::Cpu.name().to_owned(), GpuMemory::default());
        Self { name, platform: Platform::Cpu, device, shape, memory }
    }
}

impl FromStr for Target {
    type Err = TargetError;

    /// Parses `NAME`, `NAME:SHAPE` or `FILE.toml:SHAPE`. The default shape is one device; TPUs have no default.
    fn from_str(text: &str) -> Result<Self, TargetError> {
        let (name, shape) = match text.rsplit_once(':') {
            Some((name, shape)) if !text.ends_with(".toml") => (name, Some(shape)),
            _ => (text, None),
        };
        if let Some(platform) = Platform::ALL.iter().copied().find(|platform| platform.name() == name)
            && platform != Platform::Cpu
        {
            let found = shape.unwrap_or("1");
            let shape = TargetShape::one_host(found).ok_or_else(|| TargetError::Shape {
                device: name.to_owned(),
                expected: "a number of devices",
                found: found.to_owned(),
            })?;
            let (name, memory) = (name.to_owned(), GpuMemory::default());
            return Ok(Self { name, platform, device: None, shape, memory });
        }
        let device = if name.ends_with(".toml") {
            DeviceSpec::load(Path::new(name))?
        } else {
            let known = devices().iter().find(|device| device.name == name);
            known.cloned().ok_or_else(|| TargetError::Unknown(text.to_owned()))?
        };
        let shape = match (shape, &device.hardware) {
            (Some(shape), _) => TargetShape::of(&device, shape)?,
            (None, Hardware::Tpu(info)) => {
                let known = info.topologies.clone();
                return Err(TargetError::NoTopology { device: device.name, known });
            }
            (None, _) => TargetShape::of(&device, "1")?,
        };
        Ok(Self::new(device, shape))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.shape)
    }
}

/// Every name that a target can start with.
fn names() -> impl Iterator<Item = &'static str> + Clone {
    let platforms = Platform::ALL.iter().map(|platform| platform.name());
    let devices = devices().iter().map(|device| device.name.as_str());
    devices.chain(platforms.filter(|name| *name != Platform::Cpu.name()))
}
