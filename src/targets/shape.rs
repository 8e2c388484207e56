use std::fmt;

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

    /// Parses a number of devices of one host, or hosts x devices.
    pub(super) fn hosts_of_devices(text: &str) -> Option<Self> {
        Self::one_host(text).or_else(|| {
            let (hosts, _) = text.split_once('x').filter(|(_, each)| !each.contains('x'))?;
            Some(Self { text: text.to_owned(), hosts: product(hosts)?, devices: product(text)? })
        })
    }

    /// A topology in chips, such as `2x4`.
    pub(super) fn topology(text: &str, devices_per_chip: usize, chips_per_host: usize) -> Option<Self> {
        let chips = product(text)?;
        let devices = chips.checked_mul(devices_per_chip)?;
        Some(Self { text: text.to_owned(), hosts: chips.div_ceil(chips_per_host), devices })
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
