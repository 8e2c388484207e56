use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::{
    Platform, TargetShape,
    gpu::{self, GpuInfo, Maker, Product},
    read::{DeviceError, Section, Source},
    shape,
};
use crate::{
    base::{Diagnostics, read_text},
    pjrt::{NamedValue, OptionValue, PjrtError, Plugin, Topology},
};

/// A kind of device: what it can hold and do, and what its plugin wants to know to compile for it.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceSpec {
    /// The name in commands, `mi300x` say.
    pub name: String,
    /// The maker's name of the product.
    pub product: String,
    /// Memory in bytes that a program may count on; nothing where the device is the host itself.
    pub memory_bytes: Option<u64>,
    /// Bytes per second between the device and its memory.
    pub memory_bandwidth: u64,
    /// Floating-point operations per second of bfloat16 matrix products, at most, without sparsity.
    pub peak_bf16: u64,
    /// What else its plugin wants to know.
    pub hardware: Hardware,
    /// Debug options that its compiler is given.
    pub flags: BTreeMap<String, OptionValue>,
}

/// What a plugin wants to know of a device.
#[derive(Clone, Debug, PartialEq)]
pub enum Hardware {
    /// Nothing; the plugin compiles for the processor that it runs on.
    Cpu,
    /// A GPU of NVIDIA.
    Cuda(GpuInfo),
    /// A GPU of AMD.
    Rocm(GpuInfo),
    /// A TPU.
    Tpu(TpuInfo),
}

/// How TPUs can be put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TpuInfo {
    /// The generation, as the plugin names it in front of a topology.
    pub generation: String,
    /// How many devices the plugin makes of a chip.
    pub devices_per_chip: usize,
    /// The most chips that one host drives.
    pub chips_per_host: usize,
    /// The chips that there are together, as `2x4` or `4x4x4`, smallest first.
    pub topologies: Vec<String>,
}

impl DeviceSpec {
    /// Reads a device file; its name is that of the device.
    ///
    /// # Errors
    /// If it cannot be read, or says what cannot be: then with all problems, each with its line.
    pub fn load(path: &Path) -> Result<Self, DeviceError> {
        let open = |source| DeviceError::Open { path: path.to_owned(), source };
        let text = read_text(path, "a device in TOML").map_err(open)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Self::parse(&name, &path.display().to_string(), &text)
    }

    /// Reads the text of a device file; `file` is what problems call it.
    pub(super) fn parse(name: &str, file: &str, text: &str) -> Result<Self, DeviceError> {
        let mut diagnostics = Diagnostics::default();
        let source = Source::new(file, text);
        let table = source.parse(&mut diagnostics);
        let mut top = Section::top(&source, &table, &mut diagnostics);
        let spec = Self::read(name, &mut top);
        top.finish();
        // Tables are read one after the other, with what they lack at their ends.
        diagnostics.0.sort_by_key(|diagnostic| diagnostic.location.line.unwrap_or(usize::MAX));
        match spec {
            Some(spec) if diagnostics.0.is_empty() => Ok(spec),
            _ => Err(DeviceError::Wrong(diagnostics)),
        }
    }

    fn read(name: &str, top: &mut Section<'_, '_>) -> Option<Self> {
        let product = top.plain_text("product");
        let platform = top.required::<Platform>("platform", "\"cpu\", \"cuda\", \"rocm\" or \"tpu\"");
        let memory_bandwidth = top.positive("memory_bandwidth");
        let peak_bf16 = top.positive("peak_bf16");
        let flags = top.map("flags", "a text, a truth value or a number").into_iter().collect();
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
            Platform::Cuda => table(top, "gpu", nvidia).map(Hardware::Cuda),
            Platform::Rocm => table(top, "gpu", GpuInfo::read).map(Hardware::Rocm),
            Platform::Tpu => table(top, "tpu", tpu).map(Hardware::Tpu),
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

    /// Whose plugin compiles for it.
    pub fn platform(&self) -> Platform {
        match self.hardware {
            Hardware::Cpu => Platform::Cpu,
            Hardware::Cuda(_) => Platform::Cuda,
            Hardware::Rocm(_) => Platform::Rocm,
            Hardware::Tpu(_) => Platform::Tpu,
        }
    }

    /// The name and the options by which its plugin makes a topology of such devices; nothing for the CPU, whose
    /// plugin knows no topologies.
    pub fn topology_options(&self, shape: &TargetShape) -> Option<(String, Vec<(&'static str, NamedValue)>)> {
        let gpu = |maker, info| {
            let product = Product {
                name: &self.product,
                memory_bytes: self.memory_bytes.unwrap_or_default(),
                memory_bandwidth: self.memory_bandwidth,
            };
            let config = gpu::target_config(maker, info, &product);
            let hosts = format!("1x{}x{}", shape.hosts(), shape.devices() / shape.hosts());
            let options =
                [("target_config", NamedValue::String(config)), ("topology", NamedValue::String(hosts))];
            (String::new(), options.into())
        };
        match &self.hardware {
            Hardware::Cpu => None,
            Hardware::Cuda(info) => Some(gpu(Maker::Nvidia, info)),
            Hardware::Rocm(info) => Some(gpu(Maker::Amd, info)),
            Hardware::Tpu(info) => Some((format!("{}:{shape}", info.generation), vec![])),
        }
    }

    /// The plugin's topology of such devices, to compile for where they are not present; nothing for the CPU.
    ///
    /// # Errors
    /// If the plugin is that of another platform, or does not know such devices.
    pub fn topology(&self, plugin: &Arc<Plugin>, shape: &TargetShape) -> Result<Option<Topology>, PjrtError> {
        let options = self.topology_options(shape);
        options.map(|(name, options)| Topology::create(plugin, &name, &options)).transpose()
    }
}

/// Reads a table that must be there.
fn table<T>(
    top: &mut Section<'_, '_>,
    name: &'static str,
    read: impl FnOnce(&mut Section<'_, '_>) -> Option<T>,
) -> Option<T> {
    top.has_table(name).then(|| top.section(name, read)).flatten()
}

fn nvidia(section: &mut Section<'_, '_>) -> Option<GpuInfo> {
    let info = GpuInfo::read(section);
    if let Some(info) = &info {
        let capability = gpu::compute_capability(&info.architecture);
        section.checked("architecture", capability, "a compute capability such as \"9.0\" or \"9.0a\"");
    }
    info
}

fn tpu(section: &mut Section<'_, '_>) -> Option<TpuInfo> {
    const EXPECTED: &str = "a list of topologies such as \"2x4\", at least one";
    let generation = section.plain_text("generation");
    let devices_per_chip = section.positive("devices_per_chip");
    let chips_per_host = section.positive("chips_per_host");
    let topologies = section.required::<Vec<String>>("topologies", EXPECTED).and_then(|list| {
        let is_right = !list.is_empty() && list.iter().all(|topology| shape::product(topology).is_some());
        section.checked("topologies", is_right.then_some(list), EXPECTED)
    });
    Some(TpuInfo {
        generation: generation?,
        devices_per_chip: devices_per_chip?.try_into().ok()?,
        chips_per_host: chips_per_host?.try_into().ok()?,
        topologies: topologies?,
    })
}
