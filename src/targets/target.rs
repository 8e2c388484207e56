use std::fmt;
use std::path::Path;
use std::str::FromStr;

use super::{DeviceError, DeviceSpec, Platform, TargetShape, devices};
use crate::{
    base::{Setting, nearest},
    pjrt::{CompileOptions, NamedValue, PjrtError, Plugin},
    targets::cuda_toolkit,
};

/// What a program is compiled for: `mi300x:4x8`, `v5e:2x4`, a user's `my.toml:8`; or the devices that the plugin
/// of a platform finds here: `cuda:2`.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    name: String,
    platform: Platform,
    device: Option<DeviceSpec>,
    shape: TargetShape,
    memory: GpuMemory,
}

/// How a client takes the memory of GPUs; what is left out is up to the plugin.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GpuMemory {
    /// The most of it, from above 0 to 1.
    pub fraction: Option<f32>,
    /// Whether all of that is taken at the start.
    pub preallocate: Option<bool>,
}

/// A target that cannot be.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// No device and no platform has this name.
    #[error("unknown target: {0}")]
    Unknown(String),
    /// What follows the colon is nothing for such devices.
    #[error("expected {expected} after `{device}:`, found: {found}")]
    Shape {
        /// What stands before the colon.
        device: String,
        /// What may stand after it.
        expected: &'static str,
        /// What stands after it.
        found: String,
    },
    /// TPUs of this generation are not put together so.
    #[error("no such topology of {device}: {found}")]
    Topology {
        /// What stands before the colon.
        device: String,
        /// What stands after it.
        found: String,
        /// The topologies of as many devices.
        same_size: Vec<String>,
        /// All topologies.
        known: Vec<String>,
    },
    /// A TPU without a topology.
    #[error("expected a topology after `{device}`, found none")]
    NoTopology {
        /// The device.
        device: String,
        /// All topologies.
        known: Vec<String>,
    },
    /// Only the plugins of GPUs can be told how to take memory.
    #[error("expected GPUs for a share of their memory, found: {0}")]
    NoGpuMemory(String),
    /// More or less than there is.
    #[error("expected a share of memory from above 0 to 1, found: {0}")]
    MemoryFraction(f32),
    /// The device file is wrong.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl TargetError {
    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        let listed = |device: &str, names: &[String]| {
            names.iter().map(|name| format!("{device}:{name}")).collect::<Vec<_>>().join(", ")
        };
        match self {
            Self::Unknown(text) => {
                let name = text.split(':').next().unwrap_or_default().to_lowercase();
                Some(match nearest(&name, names()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => {
                        let known: Vec<&str> = names().collect();
                        format!("targets are: {}, or the file of a device, NAME.toml", known.join(", "))
                    }
                })
            }
            Self::Shape { device, expected, .. } if expected.contains("hosts") => {
                Some(format!("for example `{device}:8`, or `{device}:4x8` for four hosts of eight"))
            }
            Self::Shape { device, .. } => Some(format!("for example `{device}:8`")),
            Self::Topology { device, same_size, known, .. } => {
                let names = if same_size.is_empty() { known } else { same_size };
                Some(format!("there is {}", listed(device, names)))
            }
            Self::NoTopology { device, known } => Some(format!("there is {}", listed(device, known))),
            Self::NoGpuMemory(_) => {
                Some(format!("leave out {} and {}", Setting::MemoryFraction, Setting::Preallocate))
            }
            Self::MemoryFraction(_) => Some(format!("for example {}", Setting::MemoryFraction.with(0.9))),
            Self::Device(_) => None,
        }
    }
}

impl Target {
    /// Devices of a kind.
    pub fn new(device: DeviceSpec, shape: TargetShape) -> Self {
        Self {
            name: device.name.clone(),
            platform: device.platform(),
            device: Some(device),
            shape,
            memory: GpuMemory::default(),
        }
    }

    /// The same devices, whose memory a client takes as told.
    ///
    /// # Errors
    /// If they are no GPUs, or there is no such share.
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

    /// Whose plugin compiles for it.
    pub fn platform(&self) -> Platform {
        self.platform
    }

    /// The kind of devices; nothing where they are those that the plugin finds here.
    pub fn device(&self) -> Option<&DeviceSpec> {
        self.device.as_ref()
    }

    /// How many devices, and how they stand.
    pub fn shape(&self) -> &TargetShape {
        &self.shape
    }

    /// Devices of all hosts, at least one.
    pub fn devices(&self) -> usize {
        self.shape.devices()
    }

    /// The options to compile with: as many partitions as there are devices, and the flags of the device's file.
    pub fn compile_options(&self) -> CompileOptions {
        let mut options = CompileOptions::for_devices(self.shape.devices());
        options.overrides = self.device.as_ref().map(|device| device.flags.clone()).unwrap_or_default();
        options
    }

    /// The same for a plugin of this process, with what it needs to find on this machine.
    ///
    /// # Errors
    /// If a part of the CUDA toolkit is missing: the plugin would end the process.
    pub fn compile_options_on(&self, plugin: &Plugin) -> Result<CompileOptions, PjrtError> {
        match self.platform {
            Platform::Cuda => cuda_toolkit::locate(plugin.path(), self.compile_options()),
            Platform::Cpu | Platform::Rocm | Platform::Tpu => Ok(self.compile_options()),
        }
    }

    /// What the plugin's client is told when it starts, to run on these devices.
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

/// One device of the CPU.
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

    /// Reads `NAME`, `NAME:SHAPE` or `FILE.toml:SHAPE`. Without a shape it is one device.
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
            (None, super::Hardware::Tpu(info)) => {
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

/// Every name that a target can begin with.
fn names() -> impl Iterator<Item = &'static str> {
    let platforms = Platform::ALL.iter().map(|platform| platform.name());
    let devices = devices().iter().map(|device| device.name.as_str());
    devices.chain(platforms.filter(|name| *name != Platform::Cpu.name()))
}
