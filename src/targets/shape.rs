use std::fmt;

use super::{DeviceSpec, Hardware, TargetError, TpuInfo};

/// The most devices that a target may have.
const MAX_DEVICES: usize = 1 << 16;

/// How many devices there are and how they stand: `8`, hosts x devices as in `4x8`, or a TPU's topology as in
/// `2x4`. It is made for one kind of device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetShape {
    text: String,
    hosts: usize,
    devices: usize,
}

impl TargetShape {
    /// Hosts, at least one; they have equally many devices.
    pub fn hosts(&self) -> usize {
        self.hosts
    }

    /// Devices of all hosts, at least one.
    pub fn devices(&self) -> usize {
        self.devices
    }

    /// One device.
    pub(super) fn one() -> Self {
        Self { text: "1".into(), hosts: 1, devices: 1 }
    }

    /// A number of devices of one host.
    pub(super) fn one_host(text: &str) -> Option<Self> {
        let devices = product(text).filter(|_| !text.contains('x'))?;
        Some(Self { text: text.to_owned(), hosts: 1, devices })
    }

    /// `text` for devices of a kind.
    ///
    /// # Errors
    /// If it is no shape, or one that such devices do not come in.
    pub fn of(device: &DeviceSpec, text: &str) -> Result<Self, TargetError> {
        let wrong =
            |expected| TargetError::Shape { device: device.name.clone(), expected, found: text.to_owned() };
        match &device.hardware {
            Hardware::Cpu => Self::one_host(text).ok_or_else(|| wrong("a number of devices")),
            Hardware::Cuda(_) | Hardware::Rocm(_) => Self::one_host(text)
                .or_else(|| {
                    let (hosts, _) = text.split_once('x').filter(|(_, each)| !each.contains('x'))?;
                    let devices = product(text)?;
                    Some(Self { text: text.to_owned(), hosts: product(hosts)?, devices })
                })
                .ok_or_else(|| wrong("a number of devices, or hosts x devices")),
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

/// The product of sizes such as `2x4`, each above zero, if it is not too large.
pub(super) fn product(text: &str) -> Option<usize> {
    let size = |size: &str| size.bytes().all(|b| b.is_ascii_digit()).then(|| size.parse().ok()).flatten();
    let sizes = text.split('x').map(|text| size(text).filter(|&size: &usize| size > 0));
    sizes.reduce(|a, b| a?.checked_mul(b?)).flatten().filter(|&count| count <= MAX_DEVICES)
}
