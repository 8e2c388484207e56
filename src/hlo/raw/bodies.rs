//! The computations that one thread reads.

use super::{
    body::Body,
    cursor::{Cursor, SyntaxError},
    module::Computation,
    shape::ShapeTable,
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
    let mut task = Task::new();
    let mut errors = Vec::new();
    for outline in outlines {
        let cursor = Cursor::new(text, outline.body.start, outline.body.end);
        let read = Body::new(cursor, &mut task, 0).instructions(outline);
        let mut found = std::mem::take(&mut task.known.inline);
        match read {
            Ok((computation, references)) => {
                found.push((computation, references));
                for (position, (_, references)) in found.iter_mut().enumerate() {
                    for (_, callee) in references {
                        if let Callee::Inline(index) = callee {
                            *index = position - *index;
                        }
                    }
                }
                task.known.done.append(&mut found);
                if let Some(name) = outline.name {
                    task.known.names.insert(&text.as_bytes()[name.range()], task.known.done.len() - 1);
                }
            }
            Err(error) => errors.push(error),
        }
    }
    Bodies { computations: task.known.done, shapes: task.shapes.table, errors }
}
