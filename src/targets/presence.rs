//! Signs of devices on this machine, found without their plugin or driver.

use std::fmt;
use std::fs;
use std::path::Path;

use super::Platform;
use crate::base::{Setting, command};

/// How a sign on the PCI bus begins.
const PCI: &str = "PCI device of vendor ";

/// Signs of a platform's devices on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presence {
    /// Whose devices.
    pub platform: Platform,
    /// The signs that were found.
    pub found: Vec<String>,
    /// Those that were looked for and not found.
    pub missing: Vec<String>,
}

/// Where a device shows.
#[derive(Clone, Copy, Debug)]
enum Sign {
    /// A device file whose name begins so.
    File(&'static str),
    /// A device file that is named by a number in this folder.
    Numbered(&'static str),
    /// A device on the PCI bus of this maker.
    Pci(&'static str),
    /// An environment variable, which tells the plugin of devices.
    Variable(&'static str),
}

/// Looks for the devices of a platform under the root of a file system. Nothing is known of the CPU, which is always there, and
/// of other systems than Linux.
pub(crate) fn look(platform: Platform, root: &Path, variables: &[String]) -> Option<Presence> {
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
    /// Whether a program cannot use such a device: neither a device file nor a variable tells of one.
    pub fn is_missing(&self) -> bool {
        self.found.iter().all(|sign| sign.starts_with(PCI))
    }

    /// What the user can do where it is missing.
    pub fn hint(&self) -> String {
        let (driver, target) = match self.platform {
            Platform::Cpu => ("", "cpu:8"),
            Platform::Cuda => ("NVIDIA's driver, which makes /dev/nvidiactl", "h100:8"),
            Platform::Rocm => ("the driver amdgpu, which makes /dev/kfd", "mi300x:8"),
            Platform::Tpu => ("the TPU's driver, which makes /dev/accel0 or /dev/vfio/0", "v5e:2x4"),
        };
        let compile = command("compile", &[(Setting::Target, target)]);
        let compile = format!("{compile} needs no device");
        match self.found.is_empty() {
            true => format!("run this on a machine that has one; {compile}"),
            false => format!("load {driver}, and pass it into the container if this is one; {compile}"),
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
                names(&bus).iter().any(|device| is_computing(&bus.join(device), vendor))
            }
            Self::Variable(name) => variables.iter().any(|known| known == name),
        }
    }
}

/// Whether a PCI device is of this maker and computes. Makers of GPUs and TPUs also make bridges, disks and network cards.
fn is_computing(device: &Path, vendor: &str) -> bool {
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

    /// Looks for devices on a machine with some files, and PCI devices by vendor and class.
    fn look_at(platform: Platform, files: &[&str], devices: &[(&str, &str)]) -> Presence {
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
        look(platform, root.path(), &[]).unwrap()
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn devices_are_found_where_their_drivers_show_them() {
        let check = |platform, file: &str| assert!(!look_at(platform, &[file], &[]).is_missing(), "{file}");
        check(Platform::Cuda, "dev/nvidia0");
        check(Platform::Cuda, "dev/dxg");
        check(Platform::Rocm, "dev/kfd");
        check(Platform::Tpu, "dev/accel0");
        check(Platform::Tpu, "dev/vfio/0");
        let check = |platform, file: &str| assert!(look_at(platform, &[file], &[]).is_missing(), "{file}");
        check(Platform::Cuda, "dev/kfd");
        check(Platform::Rocm, "dev/nvidia0");
        // The control file of VFIO is there without any device.
        check(Platform::Tpu, "dev/vfio/vfio");
        let variables = ["TPU_NAME".to_owned()];
        assert!(!look(Platform::Tpu, Path::new("/nowhere"), &variables).unwrap().is_missing());
        assert_eq!(look(Platform::Cpu, Path::new("/"), &[]), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_device_without_a_driver_is_told_from_none() {
        let check = |platform, devices: &[(&str, &str)], expect: &str, hint: &str| {
            let found = look_at(platform, &["dev/null"], devices);
            assert!(found.is_missing());
            assert_eq!(found.to_string(), expect);
            assert!(found.hint().starts_with(hint), "{}", found.hint());
        };
        check(
            Platform::Cuda,
            &[("0x8086", "0x060000"), ("0x10de", "0x030200")],
            "a PCI device of vendor 0x10de, but no /dev/nvidia*, no /dev/nvhost-*, no /dev/dxg*",
            "load NVIDIA's driver, which makes /dev/nvidiactl",
        );
        // A network card of Google's cloud is no TPU.
        check(
            Platform::Tpu,
            &[("0x1ae0", "0x020000")],
            "no /dev/accel*, no /dev/vfio/[0-9]*, no PCI device of vendor 0x1ae0, no $TPU_NAME, no $TPU_ACCELERATOR_TYPE, \
             no $TPU_WORKER_HOSTNAMES",
            "run this on a machine that has one; command `compile target=v5e:2x4` needs no device",
        );
    }
}
