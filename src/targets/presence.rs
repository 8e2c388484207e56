//! Detection of devices on this machine without their plugin: device files, PCI IDs, environment variables.

use std::fmt;
use std::fs;
use std::path::Path;

use super::platform::Platform;
use crate::base::{Setting, command};

/// Start of a PCI sign's text.
const PCI: &str = "PCI device of vendor ";

/// Signs of a platform's devices on this machine: device files, PCI devices, environment variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presence {
    /// The devices' platform.
    pub platform: Platform,
    /// Signs present.
    pub found: Vec<String>,
    /// Signs absent.
    pub missing: Vec<String>,
}

/// A sign of a device.
#[derive(Clone, Copy, Debug)]
enum Sign {
    /// A file in `/dev` whose name starts with this.
    File(&'static str),
    /// A file named by a number in this folder of `/dev`.
    Numbered(&'static str),
    /// A PCI device of this vendor ID.
    Pci(&'static str),
    /// An environment variable by which the plugin finds devices.
    Variable(&'static str),
}

/// Detects devices of a platform under the file system root `root`, given the names of the process's environment variables.
/// `None` for the CPU, and on systems other than Linux.
pub(crate) fn detect(platform: Platform, root: &Path, variables: &[String]) -> Option<Presence> {
    if cfg!(not(target_os = "linux")) || platform == Platform::Cpu {
        return None;
    }
    let (found, missing): (Vec<&Sign>, Vec<&Sign>) =
        signs(platform).iter().partition(|sign| sign.shows(root, variables));
    let texts = |signs: Vec<&Sign>| signs.into_iter().map(Sign::to_string).collect();
    Some(Presence { platform, found: texts(found), missing: texts(missing) })
}

fn signs(platform: Platform) -> &'static [Sign] {
    match platform {
        Platform::Cpu => &[],
        Platform::Cuda => {
            &[Sign::File("nvidia"), Sign::File("nvhost-"), Sign::File("dxg"), Sign::Pci("10de")]
        }
        Platform::Rocm => &[Sign::File("kfd"), Sign::File("dxg"), Sign::Pci("1002")],
        Platform::Tpu => &[
            Sign::File("accel"),
            Sign::Numbered("vfio"),
            Sign::Pci("1ae0"),
            Sign::Variable("TPU_NAME"),
            Sign::Variable("TPU_ACCELERATOR_TYPE"),
            Sign::Variable("TPU_WORKER_HOSTNAMES"),
        ],
    }
}

impl Presence {
    /// Whether no device is usable: neither a device file nor a variable is present. A PCI device alone lacks its driver.
    pub fn is_missing(&self) -> bool {
        self.found.iter().all(|sign| sign.starts_with(PCI))
    }

    /// What the user can do where it is missing.
    pub fn hint(&self) -> String {
        let (driver, target) = match self.platform {
            Platform::Cpu => ("", "cpu:8"),
            Platform::Cuda => ("the NVIDIA driver, which creates /dev/nvidiactl", "h100:8"),
            Platform::Rocm => ("the amdgpu driver, which creates /dev/kfd", "mi300x:8"),
            Platform::Tpu => ("the TPU driver, which creates /dev/accel0 or /dev/vfio/0", "v5e:2x4"),
        };
        let compile = command("compile", &[(Setting::Target, target)]);
        let compile = format!("{compile} needs no device");
        match self.found.is_empty() {
            true => format!("run this on a machine that has one; {compile}"),
            false => format!("load {driver}, and pass the file into the container if this is one; {compile}"),
        }
    }
}

impl fmt::Display for Presence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.found.is_empty() {
            write!(f, "a {}, but ", self.found.join(", a "))?;
        }
        write!(f, "no {}", self.missing.join(", no "))
    }
}

impl Sign {
    fn shows(&self, root: &Path, variables: &[String]) -> bool {
        match self {
            Self::File(prefix) => names(&root.join("dev")).iter().any(|name| name.starts_with(prefix)),
            Self::Numbered(folder) => names(&root.join("dev").join(folder))
                .iter()
                .any(|name| name.chars().all(|c| c.is_ascii_digit())),
            Self::Pci(vendor) => {
                let bus = root.join("sys/bus/pci/devices");
                names(&bus).iter().any(|device| is_accelerator(&bus.join(device), vendor))
            }
            Self::Variable(name) => variables.iter().any(|known| known == name),
        }
    }
}

/// Whether a PCI device is an accelerator of this vendor, rather than one of its bridges, disks or network cards.
fn is_accelerator(device: &Path, vendor: &str) -> bool {
    const STORAGE_NETWORK_MEDIA_BRIDGE: &[&str] = &["01", "02", "04", "06", "0c"];
    let read = |name: &str| {
        let text = fs::read_to_string(device.join(name)).unwrap_or_default();
        text.trim().trim_start_matches("0x").to_owned()
    };
    let class = read("class");
    read("vendor") == vendor && !STORAGE_NETWORK_MEDIA_BRIDGE.iter().any(|other| class.starts_with(other))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

impl fmt::Display for Sign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(prefix) => write!(f, "/dev/{prefix}*"),
            Self::Numbered(folder) => write!(f, "/dev/{folder}/[0-9]*"),
            Self::Pci(vendor) => write!(f, "{PCI}0x{vendor}"),
            Self::Variable(name) => write!(f, "${name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Detects devices on a machine with these files, and PCI devices by vendor and class.
    fn detect_with(platform: Platform, files: &[&str], devices: &[(&str, &str)]) -> Presence {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        files.iter().for_each(|file| write(file, ""));
        for (number, (vendor, class)) in devices.iter().enumerate() {
            write(&format!("sys/bus/pci/devices/{number}/vendor"), &format!("{vendor}\n"));
            write(&format!("sys/bus/pci/devices/{number}/class"), &format!("{class}\n"));
        }
        detect(platform, root.path(), &[]).unwrap()
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn devices_are_detected_by_their_device_files() {
        let check =
            |platform, file: &str| assert!(!detect_with(platform, &[file], &[]).is_missing(), "{file}");
        check(Platform::Cuda, "dev/nvidia0");
        check(Platform::Cuda, "dev/dxg");
        check(Platform::Rocm, "dev/kfd");
        check(Platform::Tpu, "dev/accel0");
        check(Platform::Tpu, "dev/vfio/0");
        let check =
            |platform, file: &str| assert!(detect_with(platform, &[file], &[]).is_missing(), "{file}");
        check(Platform::Cuda, "dev/kfd");
        check(Platform::Rocm, "dev/nvidia0");
        // VFIO's control file exists without any device.
        check(Platform::Tpu, "dev/vfio/vfio");
        let variables = ["TPU_NAME".to_owned()];
        assert!(!detect(Platform::Tpu, Path::new("/nowhere"), &variables).unwrap().is_missing());
        assert_eq!(detect(Platform::Cpu, Path::new("/"), &[]), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_device_without_a_driver_is_distinguished_from_none() {
        let check = |platform, devices: &[(&str, &str)], expect: &str, hint: &str| {
            let found = detect_with(platform, &["dev/null"], devices);
            assert!(found.is_missing());
            assert_eq!(found.to_string(), expect);
            assert!(found.hint().starts_with(hint), "{}", found.hint());
        };
        check(
            Platform::Cuda,
            &[("0x8086", "0x060000"), ("0x10de", "0x030200")],
            "a PCI device of vendor 0x10de, but no /dev/nvidia*, no /dev/nvhost-*, no /dev/dxg*",
            "load the NVIDIA driver, which creates /dev/nvidiactl",
        );
        // Google's virtual network card has the vendor ID of TPUs.
        check(
            Platform::Tpu,
            &[("0x1ae0", "0x020000")],
            "no /dev/accel*, no /dev/vfio/[0-9]*, no PCI device of vendor 0x1ae0, no $TPU_NAME, no $TPU_ACCELERATOR_TYPE, \
             no $TPU_WORKER_HOSTNAMES",
            "run this on a machine that has one; command `compile target=v5e:2x4` needs no device",
        );
    }
}
