use super::{Instr, OpMetadata, Opcode};

/// What the metadata of an instruction under construction is made of.
pub(super) enum Origin {
    /// It was built in this scope, the path of which is the `op_name`.
    Scope(OpMetadata),
    /// Its metadata was set.
    Set(OpMetadata),
}

impl Origin {
    pub(super) fn metadata(self, instr: &Instr) -> OpMetadata {
        match (self, instr.opcode) {
            (Self::Set(metadata), _) | (Self::Scope(metadata), Opcode::Call) => metadata,
            (Self::Scope(_), Opcode::Parameter) => OpMetadata::default(),
            (Self::Scope(scope), _) => scope.nested(instr.base_name()),
        }
    }
}
