use std::fmt::Write;

use super::read::Section;

/// Versions of CUDA and cuDNN that the installed plugin is built for, as the GPU's host would report them.
const CUDA_VERSIONS: &[(&str, &str)] = &[
    ("driver_version", "13.0.0"),
    ("runtime_version", "13.2.0"),
    ("compile_time_toolkit_version", "13.2.0"),
    ("dnn_version", "9.23.0"),
];

/// Numbers of XLA's `PrimitiveType`, the keys of `rate_infos`.
const F16: u8 = 10;
const F32: u8 = 11;
const BF16: u8 = 16;

macro_rules! gpu_info {
    ($( $(#[$doc:meta])* $field:ident, )*) => {
        /// Properties of a GPU that its compiler reads. Fields have the names of XLA's `GpuDeviceInfoProto`.
        #[derive(Clone, Debug, PartialEq)]
        pub struct GpuInfo {
            /// The name that the driver reports; without it the compiler gets the product's name.
            pub name: Option<String>,
            /// Instruction set, the key `architecture`: the compute capability of NVIDIA GPUs, such as `9.0a`; the
            /// architecture and its features of AMD GPUs, such as `gfx942:sramecc+:xnack-`.
            pub(super) capability: ComputeCapability,
            /// Boost clock in GHz.
            pub clock_rate_ghz: f64,
            $( $(#[$doc])* pub $field: u64, )*
            /// Links to other GPUs of the host: NVLinks, or peers that xGMI connects.
            pub interconnect_links: Option<u64>,
            /// Bytes per second between the GPU and its host, one way.
            pub pcie_bandwidth: Option<u64>,
            /// Tensor or matrix cores.
            pub matrix_units: Option<MatrixUnits>,
        }

        impl GpuInfo {
            /// Reads an NVIDIA GPU.
            pub(super) fn read_cuda(section: &mut Section<'_, '_>) -> Option<Self> {
                let capability = ComputeCapability::read_cuda(section);
                Self::read(section, capability)
            }

            /// Reads an AMD GPU.
            pub(super) fn read_rocm(section: &mut Section<'_, '_>) -> Option<Self> {
                let capability = ComputeCapability::read_rocm(section);
                Self::read(section, capability)
            }

            fn read(section: &mut Section<'_, '_>, capability: Option<ComputeCapability>) -> Option<Self> {
                // All fields are read before a missing one ends the function, so that all problems are reported.
                let name = section.optional_plain_text("name");
                let clock_rate_ghz = section.positive_float("clock_rate_ghz");
                $( let $field = section.positive(stringify!($field)); )*
                let interconnect_links = section.optional_positive("interconnect_links");
                let pcie_bandwidth = section.optional_positive("pcie_bandwidth");
                let matrix_units = section.section("matrix_units", MatrixUnits::read);
                Some(Self {
                    name,
                    capability: capability?,
                    clock_rate_ghz: clock_rate_ghz?,
                    $( $field: $field?, )*
                    interconnect_links,
                    pcie_bandwidth,
                    matrix_units,
                })
            }

            /// The required whole numbers in protobuf's text format, one a line.
            fn write_numbers(&self, text: &mut String) {
                $( line(text, stringify!($field), self.$field); )*
            }
        }
    };
}

gpu_info! {
    /// Streaming multiprocessors (NVIDIA) or compute units (AMD).
    core_count,
    /// Floating-point lanes of a core.
    fpus_per_core,
    /// Threads of a warp (NVIDIA) or wavefront (AMD).
    threads_per_warp,
    /// Largest number of threads in a block.
    threads_per_block_limit,
    /// Largest number of threads resident in a core.
    threads_per_core_limit,
    /// Largest number of blocks along x.
    block_dim_limit_x,
    /// Largest number of blocks along y.
    block_dim_limit_y,
    /// Largest number of blocks along z.
    block_dim_limit_z,
    /// 32-bit registers of a core.
    registers_per_core_limit,
    /// Largest number of 32-bit registers of a block.
    registers_per_block_limit,
    /// Bytes of shared memory (LDS on AMD) of a core.
    shared_memory_per_core,
    /// Bytes of shared memory that a block can use by default.
    shared_memory_per_block,
    /// Bytes of shared memory that a block can use after opting in.
    shared_memory_per_block_optin,
    /// Bytes of the level-2 cache.
    l2_cache_size,
}

/// Matrix-product units of a GPU (tensor cores, matrix cores).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MatrixUnits {
    /// Clock in GHz under matrix products.
    pub clock_rate_ghz: f64,
    /// Units of a core.
    pub units_per_core: u64,
    /// Fused multiply-adds of a unit and clock, 16-bit floats.
    pub f16_ops_per_clock: u64,
    /// Fused multiply-adds of a unit and clock, 32-bit floats (TF32 on NVIDIA GPUs).
    pub f32_ops_per_clock: u64,
}

impl MatrixUnits {
    fn read(section: &mut Section<'_, '_>) -> Option<Self> {
        let clock_rate_ghz = section.positive_float("clock_rate_ghz");
        let units_per_core = section.positive("units_per_core");
        let f16_ops_per_clock = section.positive("f16_ops_per_clock");
        let f32_ops_per_clock = section.positive("f32_ops_per_clock");
        Some(Self {
            clock_rate_ghz: clock_rate_ghz?,
            units_per_core: units_per_core?,
            f16_ops_per_clock: f16_ops_per_clock?,
            f32_ops_per_clock: f32_ops_per_clock?,
        })
    }

    /// XLA's `ExecutionUnitDescriptionProto` in text format.
    fn write(&self, text: &mut String) {
        text.push_str("  matrix_unit_description {\n");
        let Self { clock_rate_ghz, units_per_core, f16_ops_per_clock, f32_ops_per_clock } = self;
        for (key, ops) in [(F16, f16_ops_per_clock), (F32, f32_ops_per_clock), (BF16, f16_ops_per_clock)] {
            let _ = writeln!(
                text,
                "    rate_infos {{ key: {key} value {{ clock_rate_ghz: {clock_rate_ghz} \
                 units_per_core: {units_per_core} ops_per_clock: {ops} }} }}"
            );
        }
        text.push_str("  }\n");
    }
}

/// Instruction set of a GPU as its compiler reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ComputeCapability {
    /// Version, and whether kernels use features of this architecture alone (the suffix `a`).
    Cuda { major: u8, minor: u8, accelerated: bool },
    /// LLVM's name of the architecture with its features.
    Rocm(String),
}

impl ComputeCapability {
    /// `9.0` or `9.0a`.
    fn cuda(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once('.')?;
        let (minor, accelerated) = minor.strip_suffix('a').map_or((minor, false), |minor| (minor, true));
        Some(Self::Cuda { major: major.parse().ok()?, minor: minor.parse().ok()?, accelerated })
    }

    fn read_cuda(section: &mut Section<'_, '_>) -> Option<Self> {
        let capability = Self::cuda(&section.plain_text("architecture")?);
        section.checked("architecture", capability, "a compute capability such as \"9.0\" or \"9.0a\"")
    }

    fn read_rocm(section: &mut Section<'_, '_>) -> Option<Self> {
        section.plain_text("architecture").map(Self::Rocm)
    }
}

/// What a target config states beside [`GpuInfo`].
pub(super) struct GpuProduct<'a> {
    pub name: &'a str,
    pub memory_bytes: Option<u64>,
    pub memory_bandwidth: u64,
}

/// XLA's `GpuTargetConfigProto` in text format, the value of the plugins' option `target_config`.
pub(super) fn target_config(info: &GpuInfo, product: &GpuProduct<'_>) -> String {
    let name = info.name.as_deref().unwrap_or(product.name);
    let mut text = String::from("gpu_device_info {\n");
    info.write_numbers(&mut text);
    line(&mut text, "clock_rate_ghz", info.clock_rate_ghz);
    line(&mut text, "memory_bandwidth", product.memory_bandwidth);
    if let Some(bytes) = product.memory_bytes {
        line(&mut text, "device_memory_size", bytes);
    }
    quoted(&mut text, "name", name);
    let (capability, platform, versions) = match &info.capability {
        ComputeCapability::Rocm(architecture) => {
            let capability = format!("rocm_compute_capability {{ gcn_arch_name: \"{architecture}\" }}");
            (capability, "ROCM", &[][..])
        }
        ComputeCapability::Cuda { major, minor, accelerated } => {
            let extension = if *accelerated { " feature_extension: ACCELERATED_FEATURES" } else { "" };
            let capability =
                format!("cuda_compute_capability {{ major: {major} minor: {minor}{extension} }}");
            (capability, "CUDA", CUDA_VERSIONS)
        }
    };
    let _ = writeln!(text, "  {capability}");
    if let Some(bandwidth) = info.pcie_bandwidth {
        line(&mut text, "pcie_bandwidth", bandwidth);
    }
    if let Some(links) = info.interconnect_links {
        let _ = writeln!(text, "  device_interconnect_info {{ active_links: {links} }}");
    }
    if let Some(units) = &info.matrix_units {
        units.write(&mut text);
    }
    for (field, version) in versions {
        quoted(&mut text, field, version);
    }
    // The compiler takes the device's name from the description, where there is one.
    let _ = write!(text, "}}\nplatform_name: \"{platform}\"\ndevice_description_str: \"{name}\"\n");
    text
}

/// Appends a field of `gpu_device_info`. Writing to a `String` cannot fail.
fn line(text: &mut String, field: &str, value: impl std::fmt::Display) {
    let _ = writeln!(text, "  {field}: {value}");
}

fn quoted(text: &mut String, field: &str, value: &str) {
    let _ = writeln!(text, "  {field}: \"{value}\"");
}
