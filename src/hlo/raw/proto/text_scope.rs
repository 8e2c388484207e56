//! What the text of an instruction refers to.

use prost::bytes::Bytes;
use rustc_hash::FxHashMap;

use crate::base::Diagnostic;

/// `PrimitiveType.PRED`.
const PRED: i32 = 1;

/// An instruction, as those of the same computation refer to it.
pub(super) struct InstrName {
    pub name: String,
    pub element_type: i32,
    /// The computation that it starts, waits for or asks after, if its text leaves that out.
    pub wrapped: Option<i64>,
}

/// A computation, as instructions refer to it.
pub(super) struct CompName {
    pub name: String,
    pub thread: String,
    /// The one instruction beside the parameters, which are its operands in order.
    pub only: Option<Bytes>,
}

/// What the text of an instruction refers to.
pub(super) struct Scope<'p> {
    pub computations: &'p FxHashMap<i64, CompName>,
    pub instrs: FxHashMap<i64, InstrName>,
    pub payloads: &'p [Vec<u8>],
}

impl Scope<'_> {
    pub(super) fn name(&self, id: i64) -> Result<&str, Diagnostic> {
        let found = self.instrs.get(&id);
        found.map(|instr| instr.name.as_str()).ok_or_else(|| format!("unknown instruction id {id}").into())
    }

    pub(super) fn computation_name(&self, id: i64) -> Result<&str, Diagnostic> {
        let found = self.computations.get(&id);
        found.map(|found| found.name.as_str()).ok_or_else(|| format!("unknown computation id {id}").into())
    }

    pub(super) fn is_pred(&self, id: Option<&i64>) -> bool {
        id.and_then(|id| self.instrs.get(id)).is_some_and(|instr| instr.element_type == PRED)
    }
}
