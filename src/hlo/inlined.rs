use std::sync::Arc;

use super::{Attrs, CompId, Instr, InstrId, Module, metadata::joined};

/// An instruction, and its `op_name` once compilers have inlined every call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InlinedOpName {
    /// The computation of the instruction.
    pub computation: CompId,
    /// The instruction.
    pub instr: InstrId,
    /// The paths of the calls around it, and its own.
    pub path: Arc<str>,
}

impl Module {
    /// The instructions of the entry, and of the calls and loops in it, once for each path by which they are called. Nested
    /// calls multiply these paths, so it is for modules of our own.
    pub fn inlined_op_names(&self) -> Vec<InlinedOpName> {
        let mut found = Vec::new();
        self.inlined_into(&mut found, self.entry, "");
        found
    }

    fn inlined_into(&self, found: &mut Vec<InlinedOpName>, computation: CompId, calls: &str) {
        for (instr, Instr { attrs, .. }) in self.computation(computation).iter() {
            let op_name = self.metadata.get(computation, instr).map_or("", |metadata| &metadata.op_name);
            let path = joined(calls, op_name);
            match *attrs {
                Attrs::Call(callee) => self.inlined_into(found, callee, &path),
                Attrs::While { condition, body } => {
                    self.inlined_into(found, condition, calls);
                    self.inlined_into(found, body, calls);
                }
                _ => {}
            }
            found.push(InlinedOpName { computation, instr, path });
        }
    }
}
