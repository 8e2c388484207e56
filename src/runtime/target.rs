use std::{fmt, str::FromStr};

use crate::{base::nearest, pjrt::NamedValue};

/// The platforms a plugin can be installed for, with the package that brings it.
const PLATFORMS: &[&str] = &["cpu", "cuda", "rocm", "tpu"];

/// Which devices a program runs on: `cpu`, `cpu:8`, `cuda`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    platform: &'static str,
    devices: usize,
}

/// A target that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// No platform has this name.
    #[error("unknown target: {0}")]
    Unknown(String),
    /// What follows the colon is no number of devices.
    #[error("expected a number of devices after `{platform}:`, found: {found}")]
    Devices {
        /// What stands before the colon.
        platform: String,
        /// What stands after it.
        found: String,
    },
    /// Several devices, and nothing says what each is to do.
    #[error("{0} has several devices, and no mesh config says what each holds")]
    NoMesh(Target),
}

impl TargetError {
    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown(name) => {
                let platform = name.split(':').next().unwrap_or_default();
                Some(match nearest(platform, PLATFORMS.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("targets are: {}", PLATFORMS.join(", ")),
                })
            }
            Self::Devices { platform, .. } => Some(format!("for example `{platform}:8`")),
            Self::NoMesh(target) => Some(format!(
                "give one with --mesh, such as mesh-configs/fsdp8.toml for eight devices, or `--target {}`",
                target.platform
            )),
        }
    }
}

impl Target {
    /// The platform: `cpu`, `cuda`, `rocm` or `tpu`.
    pub fn platform(&self) -> &'static str {
        self.platform
    }

    /// How many devices.
    pub fn devices(&self) -> usize {
        self.devices
    }

    /// The CPU as several devices.
    ///
    /// # Errors
    /// If there are none, or more than a process can drive.
    pub fn cpu(devices: usize) -> Result<Self, TargetError> {
        format!("cpu:{devices}").parse()
    }

    /// What its plugin is told when its client starts.
    pub fn client_options(&self) -> Vec<(&'static str, NamedValue)> {
        match self.platform {
            "cpu" => vec![("cpu_device_count", NamedValue::Int64(self.devices as i64))],
            _ => vec![],
        }
    }
}

impl Default for Target {
    fn default() -> Self {
        Self { platform: "cpu", devices: 1 }
    }
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let (name, count) = text.split_once(':').unwrap_or((text, "1"));
        let platform = PLATFORMS.iter().find(|platform| **platform == name);
        let platform = platform.ok_or_else(|| TargetError::Unknown(text.to_owned()))?;
        match count.parse() {
            Ok(devices @ 1..=4096) => Ok(Self { platform, devices }),
            _ => Err(TargetError::Devices { platform: name.to_owned(), found: count.to_owned() }),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.platform, self.devices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_parse_and_print() {
        assert_eq!("cpu:8".parse::<Target>().unwrap().to_string(), "cpu:8");
        assert_eq!("cuda".parse::<Target>().unwrap().to_string(), "cuda:1");
    }

    #[test]
    fn bad_targets_are_explained() {
        let error = "cqu:2".parse::<Target>().unwrap_err();
        assert_eq!(error.to_string(), "unknown target: cqu:2");
        assert_eq!(error.hint().unwrap(), "did you mean `cpu`?");
        let error = "cpu:none".parse::<Target>().unwrap_err();
        assert_eq!(error.to_string(), "expected a number of devices after `cpu:`, found: none");
        assert_eq!(error.hint().unwrap(), "for example `cpu:8`");
    }
}
