use std::fmt;

use super::{DeviceSpec, Hardware, TargetError, TpuInfo};

/// Largest number of devices of a target.
const MAX_DEVICES: usize = 1 << 16;

/// Number and arrangement of a target's devices: `8` on one host, `4x8` for four hosts of eight, or a TPU topology such
/// as `2x4`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetShape {
    text: String,
    hosts: usize,
    devices: usize,
}

impl TargetShape {
    /// Number of hosts, at least one; all have the same number of devices.
    pub fn hosts(&self) -> usize {
        self.hosts
    }

    /// Number of devices of all hosts, at least one.
    pub fn devices(&self) -> usize {
        self.devices
    }

    /// Sizes along each dimension.
    pub(super) fn dims(&self) -> Vec<u64> {
        self.text.split('x').filter_map(|size| size.parse().ok()).collect()
    }

    /// A single device.
    pub(super) fn one() -> Self {
        Self { text: "1".into(), hosts: 1, devices: 1 }
    }

    /// Parses a number of devices of one host.
    pub(super) fn one_host(text: &str) -> Option<Self> {
        let devices = product(text).filter(|_| !text.contains('x'))?;
        Some(Self { text: text.to_owned(), hosts: 1, devices })
    }

    /// Parses `text` for a device model.
    ///
    /// # Errors
    /// [`TargetError::Shape`] if it is no shape of such devices, [`TargetError::Topology`] if a TPU generation has no
    /// such topology.
    pub fn of(device: &DeviceSpec, text: &str) -> Result<Self, TargetError> {
        let invalid =
            |expected| TargetError::Shape { device: device.name.clone(), expected, found: text.to_owned() };
        match &device.hardware {
            Hardware::Cpu => Self::one_host(text).ok_or_else(|| invalid("a number of devices")),
            Hardware::Cuda(_) | Hardware::Rocm(_) => Self::one_host(text)
                .or_else(|| {
                    let (hosts, _) = text.split_once('x').filter(|(_, each)| !each.contains('x'))?;
                    let devices = product(text)?;
                    Some(Self { text: text.to_owned(), hosts: product(hosts)?, devices })
                })
                .ok_or_else(|| invalid("a number of devices, or hosts x devices")),
            Hardware::Tpu(info) => Self::topology(info, text).ok_or_else(|| {
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

    fn topology(info: &TpuInfo, text: &str) -> Option<Self> {
        let chips = info.topologies.iter().find(|name| *name == text).and_then(|name| product(name))?;
        let devices = chips.checked_mul(info.devices_per_chip)?;
        Some(Self { text: text.to_owned(), hosts: chips.div_ceil(info.chips_per_host), devices })
    }
}

impl fmt::Display for TargetShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// The product of sizes such as `2x4`; `None` if one is zero or no number, or the product exceeds [`MAX_DEVICES`].
pub(super) fn product(text: &str) -> Option<usize> {
    let size = |size: &str| size.bytes().all(|b| b.is_ascii_digit()).then(|| size.parse().ok()).flatten();
    let sizes = text.split('x').map(|text| size(text).filter(|&size: &usize| size > 0));
    sizes.reduce(|a, b| a?.checked_mul(b?)).flatten().filter(|&count| count <= MAX_DEVICES)
}
