use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::{
    gpu::{self, GpuInfo, GpuProduct},
    platform::Platform,
    read::{DeviceError, DeviceFile, Section},
    shape::{self, TargetShape},
};
use crate::{
    base::{Diagnostics, read_text},
    pjrt::{NamedValue, OptionValue, PjrtError, Plugin, Topology},
};

/// A device model: its memory and rates, and the properties that its compiler reads.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceSpec {
    /// Name in commands, such as `mi300x`.
    pub name: String,
    /// The vendor's product name.
    pub product: String,
    /// Bytes of memory available to a program; `None` where the device is the host itself.
    pub memory_bytes: Option<u64>,
    /// Memory bandwidth in bytes per second.
    pub memory_bandwidth: u64,
    /// Peak rate of dense bfloat16 matrix products, in floating-point operations per second.
    pub peak_bf16: u64,
    /// Properties that the compiler of the device's platform reads.
    pub hardware: Hardware,
    /// Debug options passed to the compiler.
    pub flags: BTreeMap<String, OptionValue>,
}

/// Properties of a device that its compiler reads, by platform.
#[derive(Clone, Debug, PartialEq)]
pub enum Hardware {
    /// None: the plugin compiles for the processor that it runs on.
    Cpu,
    /// An NVIDIA GPU.
    Cuda(GpuInfo),
    /// An AMD GPU.
    Rocm(GpuInfo),
    /// A TPU.
    Tpu(TpuInfo),
}

/// Properties of a TPU generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TpuInfo {
    /// The generation's name in libtpu's topology names.
    pub generation: String,
    /// libtpu's configuration of a chip; `megacore` makes one device of a chip's two cores.
    pub chip_config_name: Option<String>,
    /// Devices that libtpu makes of a chip.
    pub devices_per_chip: usize,
    /// Largest number of chips of a host.
    pub chips_per_host: usize,
    /// Links along a dimension close into a ring only where its size is a multiple of this; `None` leaves the choice
    /// to libtpu.
    pub wrap_multiple: Option<u64>,
    /// Whether rings also need every other dimension to be such a multiple.
    pub wrap_together: bool,
    /// Available topologies in chips, such as `2x4` or `4x4x4`, smallest first.
    pub topologies: Vec<String>,
}

impl DeviceSpec {
    /// Reads a device file, as [`DeviceSpec::parse`] does its text.
    ///
    /// # Errors
    /// [`DeviceError::Open`] if the file cannot be read, else those of [`DeviceSpec::parse`].
    pub fn load(path: &Path) -> Result<Self, DeviceError> {
        let open = |source| DeviceError::Open { path: path.to_owned(), source };
        let text = read_text(path, "a device in TOML").map_err(open)?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Reads the text of a device file. `file` is a name or a path: diagnostics begin with it, and its last component
    /// without `.toml` names the device.
    ///
    /// # Errors
    /// [`DeviceError::Invalid`] with every invalid, missing or unknown key and its line.
    ///
    /// # Examples
    /// ```
    /// use hloom::targets::{DeviceSpec, Target, TargetShape};
    ///
    /// let text = r#"
    ///     product = "Workstation"
    ///     platform = "cpu"
    ///     memory_bandwidth = 80_000_000_000
    ///     peak_bf16 = 2_000_000_000_000
    /// "#;
    /// let device = DeviceSpec::parse(text, "workstation.toml")?;
    /// let shape = TargetShape::of(&device, "4")?;
    /// let target = Target::new(device, shape);
    /// assert_eq!(target.to_string(), "workstation:4");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn parse(text: &str, file: &str) -> Result<Self, DeviceError> {
        let name = Path::new(file).file_name().map_or("".into(), |name| name.to_string_lossy());
        let name = name.strip_suffix(".toml").unwrap_or(&name);
        let mut diagnostics = Diagnostics::default();
        let source = DeviceFile::new(file, text);
        let table = source.parse(&mut diagnostics);
        let mut top = Section::top(&source, &table, &mut diagnostics);
        let spec = Self::read(name, &mut top);
        top.finish();
        // Tables are read one after the other, and unknown keys of each are reported at its end.
        diagnostics.0.sort_by_key(|diagnostic| diagnostic.location.line.unwrap_or(usize::MAX));
        match spec {
            Some(spec) if diagnostics.0.is_empty() => Ok(spec),
            _ => Err(DeviceError::Invalid(diagnostics)),
        }
    }

    fn read(name: &str, top: &mut Section<'_, '_>) -> Option<Self> {
        let product = top.plain_text("product");
        let platform = top.required::<Platform>("platform", "\"cpu\", \"cuda\", \"rocm\" or \"tpu\"");
        let memory_bandwidth = top.positive("memory_bandwidth");
        let peak_bf16 = top.positive("peak_bf16");
        let flags = top.map("flags", "a string, true or false, or a number").into_iter().collect();
        let Some(platform) = platform else {
            top.leave(&["memory_bytes", "gpu", "tpu"]);
            return None;
        };
        let memory_bytes = match platform {
            Platform::Cpu => Some(None),
            Platform::Cuda | Platform::Rocm | Platform::Tpu => top.positive("memory_bytes").map(Some),
        };
        let hardware = match platform {
            Platform::Cpu => Some(Hardware::Cpu),
            Platform::Cuda => table(top, "gpu", GpuInfo::read_cuda).map(Hardware::Cuda),
            Platform::Rocm => table(top, "gpu", GpuInfo::read_rocm).map(Hardware::Rocm),
            Platform::Tpu => table(top, "tpu", TpuInfo::read).map(Hardware::Tpu),
        };
        Some(Self {
            name: name.to_owned(),
            product: product?,
            memory_bytes: memory_bytes?,
            memory_bandwidth: memory_bandwidth?,
            peak_bf16: peak_bf16?,
            hardware: hardware?,
            flags,
        })
    }

    /// The platform whose plugin compiles for the device.
    pub fn platform(&self) -> Platform {
        match self.hardware {
            Hardware::Cpu => Platform::Cpu,
            Hardware::Cuda(_) => Platform::Cuda,
            Hardware::Rocm(_) => Platform::Rocm,
            Hardware::Tpu(_) => Platform::Tpu,
        }
    }

    /// Name and create options of the plugin's topology of such devices; `None` for the CPU, whose plugin has no
    /// topologies.
    pub fn topology_options(&self, shape: &TargetShape) -> Option<(String, Vec<(&'static str, NamedValue)>)> {
        match &self.hardware {
            Hardware::Cpu => None,
            Hardware::Cuda(info) | Hardware::Rocm(info) => {
                let product = GpuProduct {
                    name: &self.product,
                    memory_bytes: self.memory_bytes,
                    memory_bandwidth: self.memory_bandwidth,
                };
                let config = gpu::target_config(info, &product);
                let partitions = format!("1x{}x{}", shape.hosts(), shape.devices() / shape.hosts());
                let options = [
                    ("target_config", NamedValue::String(config)),
                    ("topology", NamedValue::String(partitions)),
                ];
                Some((String::new(), options.into()))
            }
            Hardware::Tpu(info) => Some((format!("{}:{shape}", info.generation), info.options(shape))),
        }
    }

    /// The plugin's topology of such devices, to compile for devices that are not present; `None` for the CPU.
    ///
    /// # Errors
    /// If the plugin is for another platform, or rejects the options.
    pub fn topology(&self, plugin: &Arc<Plugin>, shape: &TargetShape) -> Result<Option<Topology>, PjrtError> {
        let options = self.topology_options(shape);
        options.map(|(name, options)| Topology::create(plugin, &name, &options)).transpose()
    }
}

impl TpuInfo {
    fn read(section: &mut Section<'_, '_>) -> Option<Self> {
        const EXPECTED: &str = "a list of topologies such as \"2x4\", at least one";
        let generation = section.plain_text("generation");
        let chip_config_name = section.optional_plain_text("chip_config_name");
        let devices_per_chip = section.positive("devices_per_chip");
        let chips_per_host = section.positive("chips_per_host");
        let wrap_multiple = section.optional_positive("wrap_multiple");
        let wrap_together = section.optional("wrap_together", "true or false");
        let topologies = section.required::<Vec<String>>("topologies", EXPECTED).and_then(|list| {
            let is_valid = !list.is_empty() && list.iter().all(|topology| shape::product(topology).is_some());
            section.checked("topologies", is_valid.then_some(list), EXPECTED)
        });
        Some(Self {
            generation: generation?,
            chip_config_name,
            devices_per_chip: devices_per_chip?.try_into().ok()?,
            chips_per_host: chips_per_host?.try_into().ok()?,
            wrap_multiple,
            wrap_together: wrap_together.unwrap_or(false),
            topologies: topologies?,
        })
    }

    /// Whether the links along each dimension of a topology close into a ring.
    pub fn wraps(&self, shape: &TargetShape) -> Vec<bool> {
        let multiple = |size: &u64| self.wrap_multiple.is_some_and(|multiple| size.is_multiple_of(multiple));
        let sizes = shape.dims();
        let all = sizes.iter().all(multiple);
        sizes.iter().map(|size| if self.wrap_together { all } else { multiple(size) }).collect()
    }

    /// Create options of the plugin's topology.
    fn options(&self, shape: &TargetShape) -> Vec<(&'static str, NamedValue)> {
        let mut options = vec![];
        if let Some(name) = &self.chip_config_name {
            options.push(("chip_config_name", NamedValue::String(name.clone())));
        }
        if self.wrap_multiple.is_some() {
            let mut wraps: Vec<i64> = self.wraps(shape).into_iter().map(i64::from).collect();
            // libtpu expects three dimensions.
            wraps.resize(3, 0);
            options.push(("wrap", NamedValue::Int64List(wraps)));
        }
        options
    }
}

/// Reads a required table.
fn table<T>(
    top: &mut Section<'_, '_>,
    name: &'static str,
    read: impl FnOnce(&mut Section<'_, '_>) -> Option<T>,
) -> Option<T> {
    top.has_table(name).then(|| top.section(name, read)).flatten()
}
