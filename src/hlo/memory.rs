//! Marks values that are in host memory.
//!
//! A custom call moves a value to a memory space, and compilers propagate the space through slices, updates, tuples and
//! loops. The memory spaces of entry parameters are written on the module, in two places, since compilers read one or
//! the other: a frontend attribute with a number for each parameter (TPU, and every client), and the entry computation
//! layout (GPU, compiled ahead of time).

use std::collections::{BTreeMap, BTreeSet};

use super::{CustomCall, Module, SideEffect};
use crate::base::{Diagnostic, MemorySpace};

/// The target of the custom call that moves its operand to the memory space in [`BUFFER_PLACEMENT`].
const PLACEMENT: &str = "annotate_device_placement";

/// The frontend attribute of that call: PJRT's name of a memory kind.
pub(super) const BUFFER_PLACEMENT: &str = "_xla_buffer_placement";

/// The module's frontend attribute with the memory space of each entry parameter, separated by `;`.
pub(super) const ARG_MEMORY_SPACES: &str = "arg_memory_spaces";

/// The custom call that moves its operand. It has a side effect so that compilers do not remove it.
pub(super) fn placement() -> CustomCall {
    let (target, backend_config) = (PLACEMENT.to_owned(), String::new());
    CustomCall { target, side_effect: SideEffect::Present, backend_config }
}

impl Module {
    /// The memory space of an entry parameter.
    pub fn parameter_memory(&self, number: usize) -> MemorySpace {
        if self.host_parameters.contains(&number) { MemorySpace::Host } else { MemorySpace::Device }
    }

    /// The frontend attributes in text and protos, which include the memory spaces of parameters.
    pub(super) fn written_attributes(&self) -> BTreeMap<String, String> {
        let mut attributes = self.frontend_attributes.clone();
        if !self.host_parameters.is_empty() {
            let count = self.computations.get(self.entry.index()).map_or(0, |entry| entry.parameters().len());
            let spaces = (0..count).map(|number| self.parameter_memory(number).space().to_string());
            attributes.insert(ARG_MEMORY_SPACES.to_owned(), spaces.collect::<Vec<_>>().join(";"));
        }
        attributes
    }
}

/// Removes the memory spaces of parameters from frontend attributes, and returns the parameters in host memory.
///
/// # Errors
/// A memory space other than 0 and 5. XLA aborts on text that is not a number.
pub(super) fn take_host_parameters(
    attributes: &mut BTreeMap<String, String>,
) -> Result<BTreeSet<usize>, Diagnostic> {
    let spaces = attributes.remove(ARG_MEMORY_SPACES).unwrap_or_default();
    let mut host = BTreeSet::new();
    for (number, space) in spaces.split(';').filter(|space| !space.is_empty()).enumerate() {
        let known = MemorySpace::ALL.iter().find(|memory| memory.space().to_string() == space);
        match known {
            Some(MemorySpace::Host) => drop(host.insert(number)),
            Some(MemorySpace::Device) => {}
            None => {
                let expected = format!("expected memory space 0 or 5 in {ARG_MEMORY_SPACES}");
                return Err(format!("{expected}, found {space}").into());
            }
        }
    }
    Ok(host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        base::{ArrayShape, DType},
        hlo::{Alias, ModuleBuilder, Verified, text, verify},
    };

    /// A sum of an array in host memory and one in device memory.
    fn sum(host_parameters: &[usize]) -> Module {
        let builder = ModuleBuilder::new();
        let entry = builder.define("f", |b| {
            let [x, y] = ["x", "y"].map(|name| b.parameter(name, ArrayShape::new(DType::F32, [2, 3])));
            b.tuple(&[x + y.to_memory_space(MemorySpace::Device)])
        });
        let module = builder.finish("m", entry.unwrap(), vec![]);
        Module { host_parameters: host_parameters.iter().copied().collect(), ..module }
    }

    fn verified() -> Verified {
        verify(sum(&[1])).unwrap()
    }

    #[track_caller]
    fn check_refused(module: Module, expect: &str) {
        assert_eq!(verify(module).unwrap_err().to_string(), expect);
    }

    #[test]
    fn text_has_the_memory_spaces_of_parameters_and_values() {
        let text = text::print(&verified());
        let header = "HloModule m, entry_computation_layout={(f32[2,3]{1,0}, f32[2,3]{1,0:S(5)})->(f32[2,3]{1,0})}, \
                      frontend_attributes={arg_memory_spaces=\"0;5\"}";
        assert_eq!(text.lines().next(), Some(header));
        let call = "custom-call(y.1), custom_call_target=\"annotate_device_placement\", \
                    custom_call_has_side_effect=true, frontend_attributes={_xla_buffer_placement=\"device\"}";
        assert!(text.contains(call), "{text}");
        assert_eq!(text::parse(&text, "m.hlo").unwrap(), sum(&[1]));
        // Either of the two places is enough.
        let (layout, attribute) = header.split_once(", front").unwrap();
        for left_out in [format!(", front{attribute}"), layout.replace("HloModule m", "")] {
            assert_eq!(text::parse(&text.replace(&left_out, ""), "m.hlo").unwrap(), sum(&[1]));
        }
    }

    #[test]
    fn invalid_host_parameters_are_reported() {
        check_refused(sum(&[2]), "m: expected an array as host parameter 2, found none");
        let aliases = vec![Alias { output: 0, parameter: 1 }];
        check_refused(
            Module { aliases, ..sum(&[1]) },
            "m: alias of output 0 to parameter 1 donates a parameter in host memory to a result in device memory",
        );
        let mut listed = sum(&[]);
        listed.frontend_attributes.insert(ARG_MEMORY_SPACES.into(), "0;5".into());
        check_refused(
            listed,
            "m: unexpected frontend attribute arg_memory_spaces: expected host_parameters instead",
        );
        let text = text::print(&verified()).replace("0;5", "0;x");
        assert_eq!(
            text::parse(&text, "m.hlo").unwrap_err().to_string(),
            "m.hlo:1:115: expected memory space 0 or 5 in arg_memory_spaces, found x"
        );
    }
}
