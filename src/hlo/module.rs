use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use super::{Annotations, Attrs, Opcode, Sharding};
use crate::base::Shape;

macro_rules! ids {
    ($( $(#[$doc:meta])* $name:ident, $prefix:literal; )*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $name {
            /// The id at a position of its arena.
            ///
            /// # Panics
            /// Past `u32::MAX`, which no arena reaches.
            pub fn new(index: usize) -> Self {
                Self(u32::try_from(index).expect("an arena holds fewer than 2^32 entries"))
            }

            /// The position in its arena.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    )* };
}

ids! {
    /// Position of an instruction inside one computation.
    InstrId, "%";
    /// Position of a computation inside one module.
    CompId, "@";
}

/// One operation of a computation.
#[derive(Clone, Debug, PartialEq)]
pub struct Instr {
    /// Unique in its computation.
    pub name: String,
    /// What it computes.
    pub opcode: Opcode,
    /// The shape of its value.
    pub shape: Shape,
    /// Earlier instructions of the same computation.
    pub operands: Vec<InstrId>,
    /// The payload that [`Opcode::attrs_kind`] asks for.
    pub attrs: Attrs,
    /// Where its value shall lie; partitioners choose where nothing is said.
    pub sharding: Option<Sharding>,
    /// Settings for passes and partitioners, by name.
    pub frontend_attributes: BTreeMap<String, String>,
}

impl Instr {
    /// An instruction without annotations.
    pub fn new(name: String, opcode: Opcode, shape: Shape, operands: Vec<InstrId>, attrs: Attrs) -> Self {
        Self { name, opcode, shape, operands, attrs, sharding: None, frontend_attributes: BTreeMap::new() }
    }
}

/// A function from parameters to the value of its root.
#[derive(Clone, Debug, PartialEq)]
pub struct Computation {
    /// Unique in its module.
    pub name: String,
    /// In topological order.
    pub instrs: Vec<Instr>,
    /// The instruction whose value is the result.
    pub root: InstrId,
}

impl Computation {
    /// The instruction with this id.
    ///
    /// # Panics
    /// If the id is of another, larger computation.
    pub fn instr(&self, id: InstrId) -> &Instr {
        &self.instrs[id.index()]
    }

    /// The shape of the result.
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

    /// The operation, if all this computation does is to apply one to its two parameters in order.
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

/// An output that reuses the memory of an argument: the argument is donated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Alias {
    /// Which element of the entry's result tuple.
    pub output: usize,
    /// Which parameter of the entry.
    pub parameter: usize,
}

/// A whole program: computations, one of which is the entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    /// Shown in dumps and profiles.
    pub name: String,
    /// In an order in which each calls only earlier ones.
    pub computations: Vec<Computation>,
    /// Where execution starts.
    pub entry: CompId,
    /// Donated arguments.
    pub aliases: Vec<Alias>,
    /// Parameters of the entry that lie in the host's memory, by number. What is computed with is placed on the device
    /// first, as [`Value::placed`](super::Value::placed) does: else a TPU's compiler refuses, and a GPU reads every element
    /// from the host whenever it is used.
    pub host_parameters: BTreeSet<usize>,
    /// Settings for passes and partitioners, by name.
    pub frontend_attributes: BTreeMap<String, String>,
    /// Notes of other layers on instructions; no part of HLO.
    pub annotations: Annotations,
}

impl Module {
    /// The computation with this id.
    ///
    /// # Panics
    /// If the id is of another, larger module.
    pub fn computation(&self, id: CompId) -> &Computation {
        &self.computations[id.index()]
    }

    /// Where execution starts.
    pub fn entry(&self) -> &Computation {
        self.computation(self.entry)
    }
}
