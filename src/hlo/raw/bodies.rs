//! The computations that one thread reads.

use rustc_hash::FxHashMap;

use super::{
    body::Body,
    cursor::{Cursor, SyntaxError},
    module::Computation,
    shape::{ShapeReader, ShapeTable},
    task::{Callee, Outline, References, Task},
};

/// The computations that one task has read. Their shapes are those of a table of its own.
pub(super) struct Bodies {
    pub(super) computations: Vec<(Computation, References)>,
    pub(super) shapes: ShapeTable,
    pub(super) errors: Vec<SyntaxError>,
}

/// Reads the instructions of some computations. The first error of each ends that one only.
pub(super) fn read(text: &str, outlines: &[Outline]) -> Bodies {
    let mut task = Task { shapes: ShapeReader::new(), roots: FxHashMap::default(), inline: vec![] };
    let mut computations = Vec::with_capacity(outlines.len());
    let mut errors = Vec::new();
    for outline in outlines {
        let cursor = Cursor::new(text, outline.body.start, outline.body.end);
        let read = Body::new(cursor, &mut task, 0).instructions(outline);
        let mut found = std::mem::take(&mut task.inline);
        match read {
            Ok((computation, references)) => {
                if let Some(name) = outline.name {
                    let root = computation.instrs[computation.root].shape;
                    task.roots.insert(&text.as_bytes()[name.range()], root);
                }
                found.push((computation, references));
                for (position, (_, references)) in found.iter_mut().enumerate() {
                    for (_, callee) in references {
                        if let Callee::Inline(index) = callee {
                            *index = position - *index;
                        }
                    }
                }
                computations.append(&mut found);
            }
            Err(error) => errors.push(error),
        }
    }
    Bodies { computations, shapes: task.shapes.table, errors }
}
