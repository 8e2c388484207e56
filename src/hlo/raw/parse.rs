//! The text of a module: its header, the tables of source locations, and where its computations begin and end.

use rayon::prelude::*;
use rustc_hash::FxHashMap;

use super::{
    attr::AttrName,
    bodies::{self, Bodies},
    check_module,
    cursor::{Cursor, Parsed, SyntaxError},
    module::{Attr, CompId, Computation, FileLocation, Module, StackFrames, location},
    shape::{ShapeReader, ShapeTable},
    span::{MAX_TEXT, Span},
    task::{Callee, Outline, SINGLE},
    value,
};
use crate::base::{Diagnostic, Diagnostics, LineIndex, Location};

/// Bytes of computations that one task reads. Smaller ones would intern the same shapes too often.
const BYTES_PER_TASK: usize = 1 << 20;

/// Reads a module from HLO text: a module with or without its header, or a single instruction. `file` names the text in
/// errors.
///
/// # Errors
/// The first error of each computation, with line and column: bytes that are not of the grammar, an unknown opcode, an
/// attribute that the opcode does not have or lacks, a name that is not defined before its use.
pub fn parse(text: impl Into<String>, file: &str) -> Result<Module, Diagnostics> {
    let text = text.into();
    if text.len() > MAX_TEXT {
        let message = format!("expected at most {MAX_TEXT} bytes, found {}", text.len());
        return Err(
            Diagnostic::error(Location { file: file.to_owned(), ..Location::default() }, message).into()
        );
    }
    let parts = read(&text).map_err(|errors| {
        let lines = LineIndex::new(&text);
        let found = errors.into_iter().map(|error| {
            let diagnostic = Diagnostic::error(location(file, &text, &lines, error.at), error.message);
            Diagnostic { hint: error.hint, ..diagnostic }
        });
        Diagnostics(found.collect())
    })?;
    let Parts { name, attrs, frames, shapes, computations, entry } = parts;
    Ok(Module { text, file: file.to_owned(), name, attrs, frames, shapes, computations, entry })
}

/// A module without its text.
struct Parts {
    name: Box<str>,
    attrs: Vec<Attr>,
    frames: StackFrames,
    shapes: ShapeTable,
    computations: Vec<Computation>,
    entry: CompId,
}

fn read(text: &str) -> Result<Parts, Vec<SyntaxError>> {
    let mut cursor = Cursor::new(text, 0, text.len());
    let (name, attrs, frames) = header(&mut cursor).map_err(|error| vec![error])?;
    let mut outlines = if name.is_none() && is_instruction(&cursor) {
        let body = cursor.at()..text.len();
        vec![Outline { name: None, result: None, body, thread: None, is_entry: true }]
    } else {
        outlines(&mut cursor).map_err(|error| vec![error])?
    };
    let entry = entry(&outlines).map_err(|error| vec![error])?;
    outlines[entry].is_entry = true;
    let name = match (name, outlines[entry].name) {
        (Some(name), _) => text[name.range()].to_owned(),
        (None, Some(entry)) => format!("module_{}", &text[entry.range()]),
        (None, None) => SINGLE.to_owned(),
    };
    let (computations, shapes, entry) = bodies(text, &outlines)?;
    check_module::check(text, &attrs, &shapes, &computations, entry).map_err(|error| vec![error])?;
    Ok(Parts { name: name.into_boxed_str(), attrs, frames, shapes, computations, entry })
}

/// Whether an instruction begins here rather than a computation: a shape, or a name and `=`.
fn is_instruction(cursor: &Cursor<'_>) -> bool {
    let mut next = *cursor;
    if next.skip_blank().is_err() {
        return false;
    }
    if ShapeReader::begins(&next) || next.peek_word() == b"ROOT" {
        return true;
    }
    next.name("").is_ok() && next.accept(b'=').unwrap_or(false)
}

/// `HloModule name, attributes` and the tables. A text may begin with its first computation.
fn header(cursor: &mut Cursor<'_>) -> Parsed<(Option<Span>, Vec<Attr>, StackFrames)> {
    let mut attrs = Vec::new();
    let mut name = None;
    if cursor.accept_word(b"HloModule")? {
        name = Some(cursor.name("the name of the module")?);
        while cursor.accept(b',')? {
            attrs.push(header_attr(cursor, &attrs)?);
        }
    }
    Ok((name, attrs, stack_frames(cursor)?))
}

fn header_attr(cursor: &mut Cursor<'_>, seen: &[Attr]) -> Parsed<Attr> {
    let spelling = cursor.attribute_name("an attribute of the module")?;
    let text = cursor.bytes(spelling.range());
    let name = AttrName::from_name(text);
    if seen.iter().any(|attr| cursor.bytes(attr.spelling.range()) == text) {
        let message = format!("duplicate attribute `{}`", String::from_utf8_lossy(text));
        return Err(SyntaxError::new(spelling.start(), message));
    }
    if name.is_some_and(|name| !name.is_of_module()) {
        let message = format!(
            "unexpected attribute `{}`: a module has no such attribute",
            String::from_utf8_lossy(text)
        );
        return Err(SyntaxError::new(spelling.start(), message));
    }
    cursor.skip_blank()?;
    let start = cursor.at();
    match name {
        Some(name) => name.skip_value(cursor)?,
        None => value::skip_unknown(cursor)?,
    }
    Ok(Attr { name, spelling, value: Span::new(start, cursor.at() - start) })
}

/// `FileNames`, `FunctionNames`, `FileLocations` and `StackFrames`, in this order or not at all.
fn stack_frames(cursor: &mut Cursor<'_>) -> Parsed<StackFrames> {
    let mut tables = StackFrames::default();
    cursor.skip_blank()?;
    let start = cursor.at();
    if !cursor.accept_word(b"FileNames")? {
        return Ok(tables);
    }
    let strings = |cursor: &mut Cursor<'_>| -> Parsed<Vec<Span>> {
        let mut found = Vec::new();
        while row(cursor)? {
            found.push(cursor.string()?);
        }
        Ok(found)
    };
    let heading = |cursor: &mut Cursor<'_>, word: &str| -> Parsed<()> {
        let found = cursor.accept_word(word.as_bytes())?;
        if found { Ok(()) } else { Err(cursor.unexpected(&format!("`{word}`"))) }
    };
    tables.files = strings(cursor)?;
    heading(cursor, "FunctionNames")?;
    tables.functions = strings(cursor)?;
    heading(cursor, "FileLocations")?;
    while row(cursor)? {
        let fields = fields(
            cursor,
            &["file_name_id", "function_name_id", "line", "end_line", "column", "end_column"],
        )?;
        tables.locations.push(FileLocation { file: fields[0], function: fields[1], line: fields[2] });
    }
    heading(cursor, "StackFrames")?;
    while row(cursor)? {
        let fields = fields(cursor, &["file_location_id", "parent_frame_id"])?;
        // XLA writes the parent's id plus one.
        tables.frames.push((fields[0], fields[1].saturating_sub(1)));
    }
    tables.text = Span::new(start, cursor.at() - start);
    let len = cursor.bytes(tables.text.range()).trim_ascii_end().len();
    tables.text = Span::new(start, len);
    Ok(tables)
}

/// Takes the number in front of a row, if there is one.
fn row(cursor: &mut Cursor<'_>) -> Parsed<bool> {
    cursor.skip_blank()?;
    let found = cursor.peek().is_ascii_digit();
    if found {
        cursor.int("a row number")?;
    }
    Ok(found)
}

/// `{file_location_id=1 parent_frame_id=2}`, with or without commas
fn fields(cursor: &mut Cursor<'_>, names: &[&str]) -> Parsed<Vec<u32>> {
    let mut values = vec![None; names.len()];
    let start = *cursor;
    cursor.expect(b'{')?;
    while !cursor.accept(b'}')? {
        cursor.accept(b',')?;
        cursor.skip_blank()?;
        let at = *cursor;
        let word = cursor.word("a field")?;
        let word = cursor.bytes(word.range());
        let field = names.iter().position(|name| name.as_bytes() == word);
        let field = field.ok_or_else(|| at.unexpected(&format!("one of {}", names.join(", "))))?;
        cursor.expect(b'=')?;
        values[field] = u32::try_from(cursor.int("an integer")?).ok();
    }
    let values: Option<Vec<u32>> = values.into_iter().collect();
    values.ok_or_else(|| start.unexpected(&format!("the fields {}", names.join(", "))))
}

/// The computations of the text, without their instructions. A text of one instruction has one, which is the whole of it.
fn outlines(cursor: &mut Cursor<'_>) -> Parsed<Vec<Outline>> {
    let mut found = Vec::new();
    cursor.skip_blank()?;
    while !cursor.is_end() {
        found.push(outline(cursor)?);
        cursor.skip_blank()?;
    }
    if found.is_empty() { Err(cursor.unexpected("a computation")) } else { Ok(found) }
}

fn outline(cursor: &mut Cursor<'_>) -> Parsed<Outline> {
    let is_entry = cursor.accept_word(b"ENTRY")?;
    let name = cursor.name("the name of a computation")?;
    cursor.skip_blank()?;
    let mut result = None;
    if cursor.peek() == b'(' {
        parameters(cursor)?;
        cursor.expect_arrow()?;
        cursor.skip_blank()?;
        result = Some(cursor.at());
        ShapeReader::new().read(cursor)?;
    }
    cursor.skip_blank()?;
    if cursor.peek() != b'{' {
        return Err(cursor.unexpected("`{` and the instructions of a computation"));
    }
    let start = cursor.at() + 1;
    cursor.skip_body()?;
    let body = start..cursor.at() - 1;
    let mut thread = None;
    while cursor.accept(b',')? {
        let at = *cursor;
        if !cursor.accept_word(AttrName::ExecutionThread.name().as_bytes())? || thread.is_some() {
            return Err(at.unexpected("`execution_thread` once"));
        }
        cursor.expect(b'=')?;
        thread = Some(cursor.string()?);
    }
    Ok(Outline { name: Some(name), result, body, thread, is_entry })
}

/// `(a: f32[2], b: (s32[], f32[]))`
fn parameters(cursor: &mut Cursor<'_>) -> Parsed<()> {
    cursor.expect(b'(')?;
    if cursor.accept(b')')? {
        return Ok(());
    }
    let mut shapes = ShapeReader::new();
    loop {
        cursor.skip_blank()?;
        let at = *cursor;
        cursor.name("the name of a parameter")?;
        if at.peek() == b'%' && cursor.peek() == b':' {
            return Err(cursor.unexpected("a shape").with_hint("write the name of a parameter without `%`"));
        }
        shapes.read(cursor)?;
        if !cursor.accept(b',')? {
            return cursor.expect(b')');
        }
    }
}

/// The index of the computation that is marked `ENTRY`, or of the last one.
fn entry(outlines: &[Outline]) -> Parsed<usize> {
    let mut marked = outlines.iter().enumerate().filter(|(_, outline)| outline.is_entry);
    let first = marked.next();
    if let Some((_, second)) = marked.next() {
        let at = second.name.map_or(0, Span::start);
        return Err(SyntaxError::new(at, "expected one ENTRY computation, found a second"));
    }
    Ok(first.map_or(outlines.len() - 1, |(index, _)| index))
}

/// Reads the instructions of all computations, in parallel, and joins what the tasks found.
fn bodies(
    text: &str,
    outlines: &[Outline],
) -> Result<(Vec<Computation>, ShapeTable, CompId), Vec<SyntaxError>> {
    let mut tasks: Vec<&[Outline]> = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (index, outline) in outlines.iter().enumerate() {
        bytes += outline.body.len();
        if bytes >= BYTES_PER_TASK {
            tasks.push(&outlines[start..=index]);
            (start, bytes) = (index + 1, 0);
        }
    }
    tasks.push(&outlines[start..]);
    let read: Vec<Bodies> = tasks.par_iter().map(|task| bodies::read(text, task)).collect();
    // A shape that is left out may follow from a computation of another task.
    let failed = tasks.len() > 1 && read.iter().any(|bodies| !bodies.errors.is_empty());
    join(text, outlines, if failed { vec![bodies::read(text, outlines)] } else { read })
}

/// One list of computations, with one table of shapes, and references to computations resolved.
fn join(
    text: &str,
    outlines: &[Outline],
    read: Vec<Bodies>,
) -> Result<(Vec<Computation>, ShapeTable, CompId), Vec<SyntaxError>> {
    let mut errors: Vec<SyntaxError> = Vec::new();
    let mut shapes = ShapeTable::default();
    let mut computations: Vec<Computation> = Vec::with_capacity(outlines.len());
    let mut ids: FxHashMap<&[u8], CompId> = FxHashMap::default();
    let marked = outlines.iter().find(|outline| outline.is_entry).and_then(|outline| outline.name);
    let mut entry = CompId::new(0);
    for task in read {
        errors.extend(task.errors);
        let here = shapes.merge(task.shapes);
        for (mut computation, references) in task.computations {
            for instr in &mut computation.instrs {
                instr.shape = here[instr.shape.index()];
            }
            let id = CompId::new(computations.len());
            for (attr, callee) in references {
                let callee = match callee {
                    Callee::Inline(distance) => Ok(CompId::new(id.index() - distance)),
                    Callee::Named(span) => {
                        let name = &text.as_bytes()[span.range()];
                        ids.get(name).copied().ok_or_else(|| unknown(&ids, name, span))
                    }
                };
                match callee {
                    Ok(callee) => computation.callees.push((attr, callee)),
                    Err(error) => errors.push(error),
                }
            }
            if !computation.name.is_empty() {
                let name = &text.as_bytes()[computation.name.range()];
                if ids.insert(name, id).is_some() {
                    let message = format!("duplicate computation: {}", String::from_utf8_lossy(name));
                    errors.push(SyntaxError::new(computation.name.start(), message));
                }
            }
            if marked.is_none_or(|name| name == computation.name) {
                entry = id;
            }
            computations.push(computation);
        }
    }
    name_rest(&mut computations, &ids);
    if errors.is_empty() {
        return Ok((computations, shapes, entry));
    }
    errors.sort_by_key(|error| error.at);
    Err(errors)
}

/// Names the computations that have no name, as XLA does: `_`, `_.1`, and so on.
fn name_rest(computations: &mut [Computation], ids: &FxHashMap<&[u8], CompId>) {
    let mut names =
        std::iter::once(SINGLE.to_owned()).chain((1..).map(|number| format!("{SINGLE}.{number}")));
    for computation in computations.iter_mut().filter(|computation| computation.name.is_empty()) {
        if let Some(name) = names.find(|name| !ids.contains_key(name.as_bytes())) {
            computation.name = computation.add_text(&name);
        }
    }
}

/// The error of a computation that is not defined before its use.
fn unknown(ids: &FxHashMap<&[u8], CompId>, name: &[u8], span: Span) -> SyntaxError {
    let name = String::from_utf8_lossy(name);
    let known: Vec<_> = ids.keys().map(|name| String::from_utf8_lossy(name)).collect();
    let error = SyntaxError::new(
        span.start(),
        format!("computation `{name}` is unknown or used before it is defined"),
    );
    error.suggest(&name, known.iter().map(|name| name.as_ref()))
}
