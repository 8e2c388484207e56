use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use super::{
    Annotations, Attrs, MetadataTable, Opcode, Sharding,
    ids::{CompId, InstrId},
};
use crate::base::Shape;

/// An instruction of a computation.
#[derive(Clone, Debug, PartialEq)]
pub struct Instr {
    /// Unique in its computation.
    pub name: String,
    /// The operation.
    pub opcode: Opcode,
    /// The result shape.
    pub shape: Shape,
    /// Earlier instructions of the same computation.
    pub operands: Vec<InstrId>,
    /// The attributes, of the kind [`Opcode::attrs_kind`].
    pub attrs: Attrs,
    /// The sharding of the result; if it is `None`, the partitioner chooses one.
    pub sharding: Option<Sharding>,
    /// Settings for passes and partitioners, by name.
    pub frontend_attributes: BTreeMap<String, String>,
}

impl Instr {
    /// Creates an instruction without annotations.
    pub fn new(name: String, opcode: Opcode, shape: Shape, operands: Vec<InstrId>, attrs: Attrs) -> Self {
        Self { name, opcode, shape, operands, attrs, sharding: None, frontend_attributes: BTreeMap::new() }
    }

    /// The name without the number that made it unique.
    pub fn base_name(&self) -> &str {
        match self.name.rsplit_once('.') {
            Some((base, number)) if number.bytes().all(|c| c.is_ascii_digit()) => base,
            _ => &self.name,
        }
    }
}

/// A function from parameters to the result of its root instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Computation {
    /// Unique in its module.
    pub name: String,
    /// In topological order.
    pub instrs: Vec<Instr>,
    /// The instruction whose result is that of the computation.
    pub root: InstrId,
}

impl Computation {
    /// The instruction with this id.
    ///
    /// # Panics
    /// If the id is out of range.
    pub fn instr(&self, id: InstrId) -> &Instr {
        &self.instrs[id.index()]
    }

    /// The result shape.
    pub fn result(&self) -> &Shape {
        &self.instr(self.root).shape
    }

    /// Ids and instructions, in topological order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (InstrId, &Instr)> {
        self.instrs.iter().enumerate().map(|(i, instr)| (InstrId::new(i), instr))
    }

    /// The parameters, in the order of their numbers.
    pub fn parameters(&self) -> Vec<InstrId> {
        let mut found: Vec<(usize, InstrId)> = self
            .iter()
            .filter_map(|(id, instr)| match instr.attrs {
                Attrs::Parameter(number) => Some((number, id)),
                _ => None,
            })
            .collect();
        found.sort_unstable();
        found.into_iter().map(|(_, id)| id).collect()
    }

    /// The opcode, if the computation applies a single one to its two parameters in order.
    pub fn reducer_opcode(&self) -> Option<Opcode> {
        let parameters = self.parameters();
        let root = self.instr(self.root);
        (self.instrs.len() == 3 && parameters.len() == 2 && root.operands == parameters)
            .then_some(root.opcode)
    }

    /// The shapes of the parameters, in the order of their numbers.
    pub fn parameter_shapes(&self) -> Vec<&Shape> {
        self.parameters().into_iter().map(|id| &self.instr(id).shape).collect()
    }
}

/// An input-output alias: an output that reuses the buffer of a donated argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Alias {
    /// The index in the result tuple of the entry.
    pub output: usize,
    /// The parameter number in the entry.
    pub parameter: usize,
}

impl fmt::Display for Alias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "alias of output {} to parameter {}", self.output, self.parameter)
    }
}

/// An HLO module: computations, one of which is the entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    /// The name in dumps and profiles.
    pub name: String,
    /// In topological order: each calls only earlier ones.
    pub computations: Vec<Computation>,
    /// The computation that is executed.
    pub entry: CompId,
    /// Donated arguments and the outputs that reuse their buffers.
    pub aliases: Vec<Alias>,
    /// The numbers of the entry parameters in host memory. A value must be moved to device memory, with
    /// [`Value::to_memory_space`](super::Value::to_memory_space), before it is computed with: otherwise TPU compilers
    /// fail, and GPUs read elements from the host at each use.
    pub host_parameters: BTreeSet<usize>,
    /// Settings for passes and partitioners, by name.
    pub frontend_attributes: BTreeMap<String, String>,
    /// Where instructions come from.
    pub metadata: MetadataTable,
    /// Values that other layers attach to instructions; not part of HLO.
    pub annotations: Annotations,
}

impl Module {
    /// The computation with this id.
    ///
    /// # Panics
    /// If the id is out of range.
    pub fn computation(&self, id: CompId) -> &Computation {
        &self.computations[id.index()]
    }

    /// The computation that is executed.
    pub fn entry(&self) -> &Computation {
        self.computation(self.entry)
    }
}
