//! What XLA demands of a module beyond the form of its parts: how its header and its computations go together.

use rustc_hash::FxHashSet;

use super::{
    access,
    attr::AttrName,
    cursor::SyntaxError,
    module::{Attr, CompId, Computation, references},
    opcode::Opcode,
    shape::{Shape, ShapeId, ShapeTable},
};

/// Checks a module whose computations are known.
pub(super) fn check(
    text: &str,
    attrs: &[Attr],
    shapes: &ShapeTable,
    computations: &[Computation],
    entry: CompId,
) -> Result<(), SyntaxError> {
    let aliases = attrs.iter().filter(|attr| attr.name == Some(AttrName::InputOutputAlias));
    for attr in aliases {
        let aliases = &text[attr.value.range()];
        let result = computations[entry.index()].result();
        if let Some(unknown) = unknown_result(aliases, shapes, result) {
            let result = shapes.text(result);
            let message = format!("unknown result {unknown} in an alias: the result is {result}");
            return Err(SyntaxError::new(attr.value.start(), message));
        }
    }
    async_computations(computations)
}

/// The first index of a result that has an alias and that the entry computation does not return.
fn unknown_result<'t>(aliases: &'t str, shapes: &ShapeTable, result: ShapeId) -> Option<&'t str> {
    // `{0}: (1, {}, may-alias`
    let entries = aliases.split(')').filter_map(|entry| entry.split_once(':'));
    let mut indices = entries.filter_map(|(index, _)| index.rfind('{').map(|at| index[at..].trim()));
    indices.find(|index| {
        let path = access::ints(&index.replace(",}", "}")).unwrap_or_default();
        let element = |shape: ShapeId, element: i64| match shapes.get(shape) {
            Shape::Tuple(elements) => elements.get(usize::try_from(element).ok()?).copied(),
            _ => None,
        };
        path.into_iter().try_fold(result, element).is_none()
    })
}

/// A computation belongs to one async operation.
fn async_computations(computations: &[Computation]) -> Result<(), SyntaxError> {
    let mut called = FxHashSet::default();
    for computation in computations {
        for instr in computation.instrs.iter().filter(|instr| instr.opcode == Opcode::AsyncStart) {
            for (_, callee) in references(&computation.callees, instr.attr_range()) {
                if !called.insert(callee) {
                    let message = "expected a computation that no other async operation calls, found one that is called twice";
                    return Err(SyntaxError::new(instr.name.start(), message));
                }
            }
        }
    }
    Ok(())
}
