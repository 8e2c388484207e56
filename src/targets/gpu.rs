use std::fmt::Write;

use super::read::Section;

macro_rules! gpu_info {
    ($( $(#[$doc:meta])* $field:ident, )*) => {
        /// What a GPU's compiler wants to know of it: the fields of XLA's `GpuDeviceInfoProto`, by their names.
        #[derive(Clone, Debug, PartialEq)]
        pub struct GpuInfo {
            /// The instruction set: the compute capability for NVIDIA, `9.0a` say; the architecture with its
            /// features for AMD, `gfx942:sramecc+:xnack-` say.
            pub architecture: String,
            /// The clock's highest rate, in GHz.
            pub clock_rate_ghz: f64,
            $( $(#[$doc])* pub $field: u64, )*
        }

        impl GpuInfo {
            pub(super) fn read(section: &mut Section<'_, '_>) -> Option<Self> {
                // Each field is read before one that is missing ends it, so that all problems show.
                let architecture = section.plain_text("architecture");
                let clock_rate_ghz = section.positive_float("clock_rate_ghz");
                $( let $field = section.positive(stringify!($field)); )*
                Some(Self { architecture: architecture?, clock_rate_ghz: clock_rate_ghz?, $( $field: $field?, )* })
            }

            /// The fields that are plain numbers, in text form.
            fn numbers(&self, text: &mut String) {
                $( let _ = writeln!(text, "  {}: {}", stringify!($field), self.$field); )*
            }
        }
    };
}

gpu_info! {
    /// Compute units, or streaming multiprocessors.
    core_count,
    /// Lanes that do a floating-point operation each clock, in each core.
    fpus_per_core,
    /// Threads that run in step.
    threads_per_warp,
    /// The most threads of a block.
    threads_per_block_limit,
    /// The most threads that a core holds.
    threads_per_core_limit,
    /// The most blocks along x.
    block_dim_limit_x,
    /// The most blocks along y.
    block_dim_limit_y,
    /// The most blocks along z.
    block_dim_limit_z,
    /// Registers of 32 bits that a core has.
    registers_per_core_limit,
    /// Registers of 32 bits that a block may have.
    registers_per_block_limit,
    /// Bytes of shared memory (LDS) that a core has.
    shared_memory_per_core,
    /// Bytes of shared memory that a block may have.
    shared_memory_per_block,
    /// Bytes of shared memory that a block may have where it asks for more.
    shared_memory_per_block_optin,
    /// Bytes of the level-2 cache.
    l2_cache_size,
}

/// The maker of a GPU, as far as its text form goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Maker {
    Nvidia,
    Amd,
}

/// What is known of a GPU beside [`GpuInfo`].
pub(super) struct Product<'a> {
    pub name: &'a str,
    pub memory_bytes: u64,
    pub memory_bandwidth: u64,
}

/// The text form of XLA's `GpuTargetConfigProto`, the plugins' option `target_config`.
pub(super) fn target_config(maker: Maker, info: &GpuInfo, product: &Product<'_>) -> String {
    let mut text = String::from("gpu_device_info {\n");
    info.numbers(&mut text);
    let architecture = &info.architecture;
    let capability = match maker {
        Maker::Amd => format!("rocm_compute_capability {{ gcn_arch_name: \"{architecture}\" }}"),
        Maker::Nvidia => {
            let (major, minor, extension) = compute_capability(architecture).unwrap_or_default();
            let extension = if extension { " feature_extension: ACCELERATED_FEATURES" } else { "" };
            format!("cuda_compute_capability {{ major: {major} minor: {minor}{extension} }}")
        }
    };
    let (platform, dnn) = match maker {
        Maker::Amd => ("ROCM", "dnn_version_info {}"),
        Maker::Nvidia => ("CUDA", "dnn_version_info { major: 9 minor: 10 }"),
    };
    // Writing to a text cannot fail.
    let _ = write!(
        text,
        "  clock_rate_ghz: {}\n  memory_bandwidth: {}\n  device_memory_size: {}\n  {capability}\n}}\n\
         platform_name: \"{platform}\"\n{dnn}\ndevice_description_str: \"{}\"\n",
        info.clock_rate_ghz, product.memory_bandwidth, product.memory_bytes, product.name,
    );
    text
}

/// Major and minor number of a compute capability, and whether it has the `a` of an architecture's own features.
pub(super) fn compute_capability(text: &str) -> Option<(u8, u8, bool)> {
    let (major, minor) = text.split_once('.')?;
    let (minor, extension) = minor.strip_suffix('a').map_or((minor, false), |minor| (minor, true));
    Some((major.parse().ok()?, minor.parse().ok()?, extension))
}
