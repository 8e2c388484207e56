use std::fmt;

use super::parsed::Parsed;
use crate::{
    base::{DType, Setting},
    targets::Platform,
};

/// The element type of weights and activations in a step, and the reason for it.
///
/// ```
/// use hloom::{app::ComputeType, base::DType, targets::Platform};
///
/// let own = Some(DType::BF16);
/// assert_eq!(ComputeType::new(None, own, &[Platform::Rocm]).dtype, DType::BF16);
/// assert_eq!(ComputeType::new(None, own, &[Platform::Cpu]).dtype, DType::F32);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComputeType {
    /// The type.
    pub dtype: DType,
    reason: Reason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// The user requested it.
    Requested,
    /// The model's config names it.
    Model,
    /// The model's config names float16, whose range gradients leave.
    ModelInFloat16,
    /// The model's config names no type.
    Unnamed,
    /// CPUs have no faster type.
    Cpu,
}

impl ComputeType {
    /// The requested type, else float32 where every target is a CPU, else the model's own. `platforms` are those of the
    /// targets; a command that needs no device may have none.
    pub fn new(requested: Option<&Parsed<DType>>, model: Option<DType>, platforms: &[Platform]) -> Self {
        let only_cpus = !platforms.is_empty() && platforms.iter().all(|platform| *platform == Platform::Cpu);
        let (dtype, reason) = match (requested, model) {
            (Some(requested), _) => (requested.0, Reason::Requested),
            (None, _) if only_cpus => (DType::F32, Reason::Cpu),
            (None, None) => (DType::F32, Reason::Unnamed),
            (None, Some(DType::F16)) => (DType::BF16, Reason::ModelInFloat16),
            (None, Some(own)) => (own, Reason::Model),
        };
        Self { dtype, reason }
    }

    /// A notice for the user; none if the type was requested.
    pub fn notice(&self) -> Option<String> {
        (self.reason != Reason::Requested).then(|| format!("computing in {self}"))
    }
}

impl fmt::Display for ComputeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.dtype {
            DType::F32 => "float32",
            DType::BF16 => "bfloat16",
            other => other.name(),
        };
        let reason = match self.reason {
            Reason::Requested => return f.write_str(name),
            Reason::Model => "the model's own type",
            Reason::ModelInFloat16 => "the model's own type is float16, which steps do not compute in",
            Reason::Unnamed => {
                let half = Setting::Dtype.with("bfloat16");
                return write!(f, "{name} (the model's config names no type; {half} needs half the memory)");
            }
            Reason::Cpu => "the default on CPUs",
        };
        write!(f, "{name} ({reason})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_decides_except_on_cpus() {
        let check = |requested: Option<DType>, model, platforms: &[Platform], expect: &str| {
            let found = ComputeType::new(requested.map(Parsed).as_ref(), model, platforms);
            assert_eq!(found.to_string(), expect);
        };
        let (cpu, rocm) = (Platform::Cpu, Platform::Rocm);
        let bf16 = Some(DType::BF16);
        check(None, bf16, &[rocm], "bfloat16 (the model's own type)");
        check(None, bf16, &[cpu], "float32 (the default on CPUs)");
        check(None, bf16, &[cpu, rocm], "bfloat16 (the model's own type)");
        check(None, bf16, &[], "bfloat16 (the model's own type)");
        check(None, Some(DType::F32), &[rocm], "float32 (the model's own type)");
        check(Some(DType::F32), bf16, &[rocm], "float32");
        check(bf16, None, &[cpu], "bfloat16");
        check(
            None,
            Some(DType::F16),
            &[rocm],
            "bfloat16 (the model's own type is float16, which steps do not compute in)",
        );
        check(
            None,
            None,
            &[rocm],
            "float32 (the model's config names no type; setting `dtype = bfloat16` needs half the memory)",
        );
        assert_eq!(ComputeType::new(Some(&Parsed(DType::F32)), None, &[]).notice(), None);
    }
}
