//! How a module says which of its values lie in the host's memory.
//!
//! A custom call on a value inside says where the value is to go, and compilers follow it through slices, updates, tuples
//! and loops to whatever else must lie there. Of a parameter the module itself speaks, in two places, since compilers read
//! one or the other: a frontend attribute with a number for each parameter (TPUs, and every client), and the layout of the
//! entry (GPUs, compiled for ahead of time).

use std::collections::{BTreeMap, BTreeSet};

use super::{CustomCall, Module, SideEffect};
use crate::base::MemorySpace;

/// The custom call that moves its operand into the memory that [`BUFFER_PLACEMENT`] names.
const PLACEMENT: &str = "annotate_device_placement";

/// The frontend attribute of that call: PJRT's name of a kind of memory.
pub(super) const BUFFER_PLACEMENT: &str = "_xla_buffer_placement";

/// The frontend attribute of a module that holds the memory space of each parameter, with `;` between them.
pub(super) const ARG_MEMORY_SPACES: &str = "arg_memory_spaces";

/// The call with that target. It counts as a side effect, or compilers would take it for a call without use.
pub(super) fn placement() -> CustomCall {
    let (target, backend_config) = (PLACEMENT.to_owned(), String::new());
    CustomCall { target, side_effect: SideEffect::Present, backend_config }
}

impl Module {
    /// The memory of a parameter of the entry.
    pub fn parameter_memory(&self, number: usize) -> MemorySpace {
        if self.host_parameters.contains(&number) { MemorySpace::Host } else { MemorySpace::Device }
    }

    /// The frontend attributes that it has in text and protos, the one that speaks of parameters among them.
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

/// Takes what speaks of parameters out of written attributes: the parameters that lie on the host.
///
/// # Errors
/// If it names another memory. XLA would abort on what is no number.
pub(super) fn take_host_parameters(
    attributes: &mut BTreeMap<String, String>,
) -> Result<BTreeSet<usize>, String> {
    let spaces = attributes.remove(ARG_MEMORY_SPACES).unwrap_or_default();
    let mut host = BTreeSet::new();
    for (number, space) in spaces.split(';').filter(|space| !space.is_empty()).enumerate() {
        let known = MemorySpace::ALL.iter().find(|memory| memory.space().to_string() == space);
        match known {
            Some(MemorySpace::Host) => drop(host.insert(number)),
            Some(MemorySpace::Device) => {}
            None => {
                return Err(format!("expected memory spaces 0 and 5 in {ARG_MEMORY_SPACES}, found {space}"));
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

    /// A sum of an array on the host and one on the device.
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
    fn text_says_where_parameters_lie_and_values_go() {
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
    fn what_cannot_lie_on_the_host_is_named() {
        check_refused(sum(&[2]), "m: expected an array as the parameter 2, which lies on the host");
        let aliases = vec![Alias { output: 0, parameter: 1 }];
        check_refused(
            Module { aliases, ..sum(&[1]) },
            "m: Alias { output: 0, parameter: 1 } donates a parameter that lies on the host to a result on the device",
        );
        let mut listed = sum(&[]);
        listed.frontend_attributes.insert(ARG_MEMORY_SPACES.into(), "0;5".into());
        check_refused(listed, "m: expected parameters on the host to be listed, found arg_memory_spaces");
        let text = text::print(&verified()).replace("0;5", "0;x");
        assert_eq!(
            text::parse(&text, "m.hlo").unwrap_err().to_string(),
            "m.hlo:1:115: expected memory spaces 0 and 5 in arg_memory_spaces, found x"
        );
    }
}
