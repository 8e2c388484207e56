use std::{any::Any, fmt, sync::Arc};

use super::{
    CompId, InstrId,
    side_table::{self, SideTable},
};

trait Payload: Any + fmt::Debug + Send + Sync {
    fn equals(&self, other: &dyn Any) -> bool;
}

impl<T: Any + PartialEq + fmt::Debug + Send + Sync> Payload for T {
    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<T>().is_some_and(|other| self == other)
    }
}

/// A value that another layer attaches to an instruction. It is not part of HLO: only the layer that knows its type reads it.
#[derive(Clone)]
pub struct Annotation(Arc<dyn Payload>);

impl Annotation {
    /// An annotation of any type.
    pub fn new(payload: impl Any + PartialEq + fmt::Debug + Send + Sync) -> Self {
        Self(Arc::new(payload))
    }

    /// The payload, if it has the type `T`.
    pub fn downcast_ref<T: Any>(&self) -> Option<&T> {
        self.as_any().downcast_ref()
    }

    fn as_any(&self) -> &dyn Any {
        &*self.0
    }
}

impl PartialEq for Annotation {
    fn eq(&self, other: &Self) -> bool {
        self.0.equals(other.as_any())
    }
}

impl fmt::Debug for Annotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The annotations of the instructions of a module, in the order in which they were attached.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Annotations(SideTable<Vec<Annotation>>);

impl Annotations {
    /// Attaches an annotation after those that the instruction has.
    pub fn push(&mut self, computation: CompId, instr: InstrId, annotation: Annotation) {
        self.0.entry((computation, instr)).or_default().push(annotation);
    }

    /// All annotations of an instruction.
    pub fn get(&self, computation: CompId, instr: InstrId) -> &[Annotation] {
        self.0.get(&(computation, instr)).map_or(&[], Vec::as_slice)
    }

    /// The annotations of an instruction that have the type `T`.
    pub fn of<T: Any>(&self, computation: CompId, instr: InstrId) -> impl Iterator<Item = &T> {
        self.get(computation, instr).iter().filter_map(Annotation::downcast_ref)
    }

    /// Copies the annotations of the instructions of `from` to the instructions of `to` with the same ids.
    pub(super) fn copy(&mut self, from: CompId, to: CompId) {
        side_table::copy(&mut self.0, from, to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_are_read_by_type_and_compared_by_value() {
        let (computation, instr) = (CompId::new(0), InstrId::new(0));
        let mut annotations = Annotations::default();
        for annotation in [Annotation::new("a"), Annotation::new(1_u8), Annotation::new("b")] {
            annotations.push(computation, instr, annotation);
        }
        assert_eq!(annotations.of::<&str>(computation, instr).collect::<Vec<_>>(), [&"a", &"b"]);
        assert_eq!(annotations.of::<u8>(computation, InstrId::new(1)).count(), 0);
        assert_eq!(annotations.get(computation, instr)[1], Annotation::new(1_u8));
        assert_ne!(annotations.get(computation, instr)[1], Annotation::new(1_u16));
        annotations.copy(computation, CompId::new(1));
        assert_eq!(annotations.of::<u8>(CompId::new(1), instr).collect::<Vec<_>>(), [&1]);
    }
}
