//! Where instructions come from: XLA's `OpMetadata`, which its profilers, dumps and error messages show.
//!
//! The `op_name` of an instruction is a path, as in JAX: the scopes in which it was built, then its own name.
//!
//! ```
//! # use hloom::{base::{ArrayShape, DType}, hlo::{ModuleBuilder, InstrId}};
//! let module = ModuleBuilder::new();
//! let entry = module.define("f", |b| {
//!     let x = b.parameter("x", ArrayShape::new(DType::F32, [2]));
//!     b.named_scope("mlp", || b.named_scope("act", || x.logistic() * x))
//! })?;
//! let module = module.finish("m", entry, vec![]);
//! let op_name = |index| module.metadata.get(entry, InstrId::new(index)).map(|found| &*found.op_name);
//! assert_eq!([op_name(0), op_name(1), op_name(2)], [None, Some("mlp/act/logistic"), Some("mlp/act/multiply")]);
//! # Ok::<(), hloom::base::Diagnostics>(())
//! ```
//!
//! - A `call` has the path of its scopes alone, and the paths in the called computation start there: compilers put the
//!   `op_name` of a call in front of those in its callee when they inline it.
//! - The paths in a loop's body and condition go on from the scopes of the loop.
//! - Parameters have no metadata, except where it is set with [`Value::with_metadata`](super::Value::with_metadata):
//!   compilers replace them with arguments. The reducers that the builder adds have none either.

use std::sync::Arc;

use super::{
    CompId, InstrId,
    side_table::{self, SideTable},
};

/// The origin of an instruction. A string that is empty, and line zero, are not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpMetadata {
    /// The name of the operation in the framework that built it.
    pub op_type: Arc<str>,
    /// The path of scopes and the name of the operation.
    pub op_name: Arc<str>,
    /// The file with the source of the operation.
    pub source_file: Arc<str>,
    /// The line in that file, counted from one.
    pub source_line: u32,
}

impl OpMetadata {
    /// The same origin, with `name` after the path.
    pub fn nested(&self, name: &str) -> Self {
        Self { op_name: joined(&self.op_name, name), ..self.clone() }
    }

    /// The same origin, with `scope` before the path.
    pub fn inside(&self, scope: &str) -> Self {
        Self { op_name: joined(scope, &self.op_name), ..self.clone() }
    }
}

/// One path after the other.
pub(super) fn joined(path: &str, name: &str) -> Arc<str> {
    match (path, name) {
        ("", only) | (only, "") => only.into(),
        _ => [path, "/", name].concat().into(),
    }
}

/// The metadata of the instructions of a module that have any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetadataTable(SideTable<OpMetadata>);

impl MetadataTable {
    /// The metadata of an instruction.
    pub fn get(&self, computation: CompId, instr: InstrId) -> Option<&OpMetadata> {
        self.0.get(&(computation, instr))
    }

    /// Sets the metadata of an instruction.
    pub fn set(&mut self, computation: CompId, instr: InstrId, metadata: OpMetadata) {
        if metadata == OpMetadata::default() {
            self.0.remove(&(computation, instr));
        } else {
            self.0.insert((computation, instr), metadata);
        }
    }

    /// Gives the instructions of `to` what those of `from` with the same ids have.
    pub(super) fn copy(&mut self, from: CompId, to: CompId) {
        side_table::copy(&mut self.0, from, to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        base::{ArrayShape, DType, Diagnostics},
        hlo::{Iteration, Module, ModuleBuilder},
    };

    /// The `op_name`s of a computation, or its name and the instruction without one.
    fn op_names(module: &Module, computation: &str) -> Vec<String> {
        let index = module.computations.iter().position(|c| c.name == computation).unwrap();
        let names = module.computations[index].iter().map(|(id, instr)| {
            let found = module.metadata.get(CompId::new(index), id);
            found.map_or_else(|| format!("no name: {}", instr.name), |found| found.op_name.to_string())
        });
        names.collect()
    }

    fn array(size: usize) -> ArrayShape {
        ArrayShape::new(DType::F32, [size])
    }

    #[test]
    fn scopes_nest_and_a_root_scope_starts_over() {
        let module = ModuleBuilder::new();
        let entry = module.define("f", |b| {
            let x = b
                .parameter("x", array(2))
                .with_metadata(OpMetadata { op_name: "x".into(), ..OpMetadata::default() });
            let y = b.named_scope("a", || b.named_scope("b", || x.exp()).log().named("loss"));
            let z = b.named_scope("a", || b.root_scope("c/d", || y.sin()));
            z.cos()
        });
        let module = module.finish("m", entry.unwrap(), vec![]);
        assert_eq!(op_names(&module, "f"), ["x", "a/b/exponential", "a/loss", "c/d/sine", "cosine"]);
    }

    #[test]
    fn a_call_is_a_scope_and_a_loop_continues_its_scopes() {
        let module = ModuleBuilder::new();
        let callee = module.define("callee", |b| b.parameter("x", array(2)).exp()).unwrap();
        let entry = module.define("f", |b| {
            let x = b.parameter("x", array(2));
            b.named_scope("layers", || {
                b.fori_loop("loop", 3, x, vec![x], |Iteration { b, carry, .. }| {
                    Ok::<_, Diagnostics>(b.named_scope("layer", || b.call(callee, &[carry])))
                })
                .unwrap()
            })
        });
        let module = module.finish("m", entry.unwrap(), vec![]);
        assert_eq!(op_names(&module, "callee"), ["no name: x.0", "exponential"]);
        let body = op_names(&module, "loop.body");
        assert!(body.contains(&"layers/layer".to_owned()), "{body:?}");
        assert_eq!(op_names(&module, "loop.condition").last().unwrap(), "layers/compare");
        let entry = op_names(&module, "f");
        assert!(entry[1..].iter().all(|name| name.starts_with("layers/")), "{entry:?}");
        let inlined = module.inlined_op_names();
        assert!(inlined.iter().any(|found| &*found.path == "layers/layer/exponential"), "{inlined:?}");
    }

    #[test]
    fn metadata_is_copied_by_id() {
        let (from, to, instr) = (CompId::new(0), CompId::new(1), InstrId::new(3));
        let mut table = MetadataTable::default();
        let metadata = OpMetadata { source_file: "f.hlo".into(), source_line: 7, ..OpMetadata::default() };
        table.set(from, instr, metadata.clone());
        table.copy(from, to);
        assert_eq!(table.get(to, instr), Some(&metadata));
        table.set(to, instr, OpMetadata::default());
        assert_eq!(table.get(to, instr), None);
    }
}
