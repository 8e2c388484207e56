use std::sync::LazyLock;

use super::device::DeviceSpec;

macro_rules! built_in {
    ($( $name:literal ),*) => {
        pub(super) const FILES: &[(&str, &str)] = &[$( ($name, include_str!(concat!($name, ".toml"))) ),*];
    };
}

built_in!(
    "cpu", "mi300x", "mi325x", "mi355x", "mi300a", "mi250x", "h100", "h200", "b200", "b300", "gb200",
    "a100-40", "a100-80", "l40s", "a6000", "rtx4090", "rtx3090", "v4", "v5e", "v5p", "v6e", "tpu7x"
);

/// The built-in device models.
///
/// # Panics
/// If a built-in file is invalid; a test reads them all.
pub fn devices() -> &'static [DeviceSpec] {
    static DEVICES: LazyLock<Vec<DeviceSpec>> = LazyLock::new(|| {
        let parse = |&(name, text): &(&str, &str)| {
            DeviceSpec::parse(text, &format!("{name}.toml")).unwrap_or_else(|error| panic!("{error}"))
        };
        FILES.iter().map(parse).collect()
    });
    &DEVICES
}
