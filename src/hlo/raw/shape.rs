//! Shapes with layouts, as HLO text writes them, each distinct one stored once.

use std::{fmt, fmt::Write};

use rustc_hash::FxHashMap;

use super::{
    cursor::{Cursor, Parsed, SyntaxError},
    primitive::PrimitiveType,
};
use crate::hlo::limits::{MAX_DIMS, MAX_TUPLE_NESTING};

/// A shape of a [`ShapeTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShapeId(u32);

impl ShapeId {
    pub(super) fn new(index: usize) -> Self {
        Self(u32::try_from(index).expect("a text has fewer shapes than bytes"))
    }

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `f32[8,<=16]{1,0:T(8,128)}`; also `token[]` and `opaque[]`.
    Array(Array),
    /// `(f32[], s32[2])`
    Tuple(Vec<ShapeId>),
    /// `b(f32[4])`: memory that instructions write in place.
    Buffer(ShapeId),
}

/// The shape of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// Element type.
    pub element: PrimitiveType,
    /// Dimensions, major to minor.
    pub dims: Vec<Dimension>,
    /// Layout, where the text has one.
    pub layout: Option<Layout>,
}

/// The size of a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// `8`
    Static(u64),
    /// `<=8`: at most this size, which is known when the program runs.
    Bounded(u64),
    /// `?`: any size.
    Unbounded,
}

impl Dimension {
    /// The size, or its bound; `None` if it has none.
    pub fn bound(self) -> Option<u64> {
        match self {
            Self::Static(size) | Self::Bounded(size) => Some(size),
            Self::Unbounded => None,
        }
    }
}

/// A layout: `{1,0:T(8,128)(2,1)E(4)S(1)}`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Dimensions, minor to major.
    pub minor_to_major: Vec<u32>,
    /// Tiles, outermost first, from `T(8,128)(2,1)`; [`Layout::COMBINE`] stands for `*`.
    pub tiles: Vec<Vec<i64>>,
    /// `S(1)`: the memory space; 0 is the default one of the device.
    pub memory_space: i64,
    /// `E(4)`: bits of an element in memory; 0 where the element type decides.
    pub element_bits: i64,
    /// Everything after the colon in front of and after these, in the order of the text, without blanks.
    pub properties: String,
}

impl Layout {
    /// The size `*` in a tile: the dimension is combined with the next more minor one.
    pub const COMBINE: i64 = i64::MIN;
}

impl Array {
    /// Bytes of the elements without padding; `None` if a dimension has no bound or the size overflows.
    pub fn dense_bytes(&self) -> Option<u64> {
        let bits = self.layout.as_ref().map_or(0, |layout| layout.element_bits);
        let bits = u64::try_from(bits).ok().filter(|&bits| bits > 0).unwrap_or(self.element.bits());
        let mut elements = 1_u64;
        for dim in &self.dims {
            elements = elements.checked_mul(dim.bound()?)?;
        }
        Some(elements.checked_mul(bits)?.div_ceil(8))
    }
}

/// The shapes of a module, each once.
#[derive(Clone, Debug, Default)]
pub struct ShapeTable {
    shapes: Vec<Shape>,
    /// The canonical text of each shape, and from it the shape.
    texts: Vec<Box<str>>,
    ids: FxHashMap<Box<str>, ShapeId>,
}

impl ShapeTable {
    /// The shape with this id.
    pub fn get(&self, id: ShapeId) -> &Shape {
        &self.shapes[id.index()]
    }

    /// The canonical text of a shape, as XLA prints it.
    pub fn text(&self, id: ShapeId) -> &str {
        &self.texts[id.index()]
    }

    /// The number of distinct shapes.
    pub fn len(&self) -> usize {
        self.shapes.len()
    }

    /// Whether there are no shapes.
    pub fn is_empty(&self) -> bool {
        self.shapes.is_empty()
    }

    /// The id of a shape, whose elements are in this table.
    pub(super) fn intern(&mut self, shape: Shape) -> ShapeId {
        let text = self.print(&shape);
        if let Some(&id) = self.ids.get(text.as_str()) {
            return id;
        }
        let id = ShapeId::new(self.shapes.len());
        let text = text.into_boxed_str();
        self.ids.insert(text.clone(), id);
        self.texts.push(text);
        self.shapes.push(shape);
        id
    }

    /// Adds the shapes of another table. Returns the id here of each shape there.
    pub(super) fn merge(&mut self, other: ShapeTable) -> Vec<ShapeId> {
        let mut ids: Vec<ShapeId> = Vec::with_capacity(other.shapes.len());
        for shape in other.shapes {
            let here = match shape {
                Shape::Array(array) => Shape::Array(array),
                Shape::Tuple(elements) => Shape::Tuple(elements.iter().map(|id| ids[id.index()]).collect()),
                Shape::Buffer(inner) => Shape::Buffer(ids[inner.index()]),
            };
            ids.push(self.intern(here));
        }
        ids
    }

    /// Whether two shapes differ in layouts and dynamic dimensions only.
    pub(super) fn compatible(&self, a: ShapeId, b: ShapeId) -> bool {
        if a == b {
            return true;
        }
        match (self.get(a), self.get(b)) {
            (Shape::Array(a), Shape::Array(b)) => {
                let dims = |array: &Array| array.dims.iter().map(|dim| dim.bound()).collect::<Vec<_>>();
                a.element == b.element && dims(a) == dims(b)
            }
            (Shape::Tuple(a), Shape::Tuple(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(&a, &b)| self.compatible(a, b))
            }
            (&Shape::Buffer(a), &Shape::Buffer(b)) => self.compatible(a, b),
            _ => false,
        }
    }

    fn print(&self, shape: &Shape) -> String {
        match shape {
            Shape::Array(array) => array.to_string(),
            Shape::Buffer(inner) => format!("b({})", self.text(*inner)),
            Shape::Tuple(elements) => {
                let mut text = String::from("(");
                for (index, &element) in elements.iter().enumerate() {
                    text.push_str(if index == 0 { "" } else { ", " });
                    text.push_str(self.text(element));
                }
                text.push(')');
                text
            }
        }
    }
}

impl fmt::Display for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.element.name())?;
        for (index, dim) in self.dims.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { "," })?;
            match dim {
                Dimension::Static(size) => write!(f, "{size}")?,
                Dimension::Bounded(size) => write!(f, "<={size}")?,
                Dimension::Unbounded => f.write_char('?')?,
            }
        }
        f.write_char(']')?;
        let Some(layout) = &self.layout else { return Ok(()) };
        if layout.minor_to_major.is_empty() && layout.properties.is_empty() {
            return Ok(());
        }
        f.write_char('{')?;
        for (index, dim) in layout.minor_to_major.iter().enumerate() {
            write!(f, "{}{dim}", if index == 0 { "" } else { "," })?;
        }
        let colon = if layout.properties.is_empty() { "" } else { ":" };
        write!(f, "{colon}{}}}", layout.properties)
    }
}

/// Reads shapes into a table.
pub(super) struct ShapeReader<'t> {
    pub table: ShapeTable,
    /// The shape of each text that was read. Most texts repeat.
    read: FxHashMap<&'t [u8], ShapeId>,
}

impl<'t> ShapeReader<'t> {
    pub(super) fn new() -> Self {
        Self { table: ShapeTable::default(), read: FxHashMap::default() }
    }

    /// Whether a shape begins here, rather than a name or an opcode.
    pub(super) fn begins(cursor: &Cursor<'t>) -> bool {
        match cursor.peek() {
            b'(' => true,
            b'b' if cursor.peek_at(1) == b'(' => true,
            _ => {
                let word = cursor.peek_word();
                !word.is_empty() && cursor.peek_at(word.len()) == b'['
            }
        }
    }

    /// A shape.
    pub(super) fn read(&mut self, cursor: &mut Cursor<'t>) -> Parsed<ShapeId> {
        cursor.skip_blank()?;
        let start = cursor.at();
        if let Some(text) = spelling(cursor)
            && let Some(&id) = self.read.get(text)
        {
            cursor.advance(text.len());
            return Ok(id);
        }
        let id = self.nested(cursor, 0)?;
        self.read.insert(cursor.bytes(start..cursor.at()), id);
        Ok(id)
    }

    /// A shape at another place of the text.
    pub(super) fn read_at(&mut self, cursor: &Cursor<'t>, at: usize) -> Parsed<ShapeId> {
        let mut there = *cursor;
        there.set(at);
        self.read(&mut there)
    }

    fn nested(&mut self, cursor: &mut Cursor<'t>, depth: usize) -> Parsed<ShapeId> {
        if depth > MAX_TUPLE_NESTING {
            let message = format!("expected at most {MAX_TUPLE_NESTING} nested tuples, found more");
            return Err(SyntaxError::new(cursor.at(), message));
        }
        cursor.skip_blank()?;
        let shape = match cursor.peek() {
            b'(' => {
                cursor.advance(1);
                let mut elements = Vec::new();
                if !cursor.accept(b')')? {
                    elements.push(self.nested(cursor, depth + 1)?);
                    while cursor.accept(b',')? {
                        elements.push(self.nested(cursor, depth + 1)?);
                    }
                    cursor.expect(b')')?;
                }
                Shape::Tuple(elements)
            }
            b'b' if cursor.peek_at(1) == b'(' => {
                cursor.advance(2);
                cursor.skip_blank()?;
                let at = *cursor;
                let inner = self.nested(cursor, depth + 1)?;
                if !matches!(self.table.get(inner), Shape::Array(_)) {
                    return Err(at.unexpected("the shape of an array, which a buffer holds"));
                }
                cursor.expect(b')')?;
                Shape::Buffer(inner)
            }
            _ => Shape::Array(array(cursor)?),
        };
        Ok(self.table.intern(shape))
    }
}

/// The text of the shape here, if it is spelled without blanks outside of tuples and its end is clear.
fn spelling<'t>(cursor: &Cursor<'t>) -> Option<&'t [u8]> {
    let mut end = *cursor;
    if end.peek() == b'(' {
        end.skip_group().ok()?;
        return Some(cursor.bytes(cursor.at()..end.at()));
    }
    end.advance(end.peek_word().len());
    if end.peek() != b'[' {
        return None;
    }
    end.skip_group().ok()?;
    if end.peek() == b'{' && (end.peek_at(1).is_ascii_digit() || end.peek_at(1) == b':') {
        end.skip_group().ok()?;
    } else if end.peek() == b' ' {
        // A layout may follow a blank, or the body of a computation.
        let mut next = end;
        next.skip_blank().ok()?;
        if next.peek() == b'{' {
            return None;
        }
    }
    Some(cursor.bytes(cursor.at()..end.at()))
}

fn array(cursor: &mut Cursor<'_>) -> Parsed<Array> {
    let at = cursor.at();
    let word = cursor.peek_word();
    let Some(element) = PrimitiveType::from_name(word) else {
        let error = cursor.unexpected("an element type");
        let names = PrimitiveType::ALL.iter().map(|element| element.name());
        let word = String::from_utf8_lossy(word);
        return Err(error.suggest(&word, names));
    };
    cursor.advance(word.len());
    cursor.expect(b'[')?;
    let mut dims = Vec::new();
    if !cursor.accept(b']')? {
        loop {
            if dims.len() == MAX_DIMS {
                let message = format!("expected at most {MAX_DIMS} dimensions, found more");
                return Err(SyntaxError::new(at, message));
            }
            dims.push(dimension(cursor)?);
            if !cursor.accept(b',')? {
                break;
            }
        }
        cursor.expect(b']')?;
    }
    let layout = layout_begins(cursor)?.then(|| layout(cursor, dims.len())).transpose()?;
    Ok(Array { element, dims, layout })
}

fn dimension(cursor: &mut Cursor<'_>) -> Parsed<Dimension> {
    if cursor.accept(b'?')? {
        return Ok(Dimension::Unbounded);
    }
    let bounded = cursor.peek() == b'<' && cursor.peek_at(1) == b'=';
    cursor.advance(if bounded { 2 } else { 0 });
    let what = "a dimension: a non-negative integer, `<=` and a bound, or `?`";
    cursor.skip_blank()?;
    let at = *cursor;
    let size = cursor.int(what)?;
    match u64::try_from(size).ok().filter(|&size| size <= i64::MAX as u64) {
        Some(size) if bounded => Ok(Dimension::Bounded(size)),
        Some(size) => Ok(Dimension::Static(size)),
        None => Err(at.unexpected(what)),
    }
}

/// Whether the brace here opens a layout rather than the body of a computation.
fn layout_begins(cursor: &Cursor<'_>) -> Parsed<bool> {
    let mut next = *cursor;
    if !next.accept(b'{')? {
        return Ok(false);
    }
    next.skip_blank()?;
    Ok(next.peek().is_ascii_digit() || next.peek() == b':')
}

fn layout(cursor: &mut Cursor<'_>, rank: usize) -> Parsed<Layout> {
    let at = cursor.at();
    let mut layout = Layout::default();
    cursor.expect(b'{')?;
    cursor.skip_blank()?;
    while cursor.peek().is_ascii_digit() {
        let dim_at = *cursor;
        let dim = cursor.int("a dimension")?;
        let dim = u32::try_from(dim).ok().filter(|&dim| (dim as usize) < rank);
        let what = format!("a dimension below {rank}");
        let dim = dim.ok_or_else(|| dim_at.unexpected(&what))?;
        if layout.minor_to_major.contains(&dim) {
            return Err(SyntaxError::new(dim_at.at(), format!("duplicate dimension in a layout: {dim}")));
        }
        layout.minor_to_major.push(dim);
        if !cursor.accept(b',')? {
            break;
        }
        cursor.skip_blank()?;
    }
    if layout.minor_to_major.len() != rank {
        let found = layout.minor_to_major.len();
        return Err(SyntaxError::new(at, format!("expected a layout of {rank} dimensions, found {found}")));
    }
    if cursor.accept(b':')? {
        properties(cursor, &mut layout)?;
    }
    cursor.expect(b'}')?;
    Ok(layout)
}

/// Reads `T(8,128)(2,1)E(4)S(1)` and the other properties of a layout, in XLA's order.
fn properties(cursor: &mut Cursor<'_>, layout: &mut Layout) -> Parsed<()> {
    const ORDER: &[&[u8]] = &[b"D", b"T", b"L", b"#", b"*", b"E", b"S", b"SC", b"P", b"M"];
    let mut next = 0;
    loop {
        cursor.skip_blank()?;
        let name = match cursor.peek() {
            mark @ (b'#' | b'*') => {
                if mark == b'#' {
                    b"#".as_slice()
                } else {
                    b"*"
                }
            }
            _ => cursor.peek_word(),
        };
        let Some(position) = ORDER.iter().position(|property| *property == name) else { return Ok(()) };
        if position < next {
            return Err(cursor.unexpected("`}`, or layout properties in the order `D T L # * E S SC P M`"));
        }
        next = position + 1;
        layout.properties.push_str(&String::from_utf8_lossy(name));
        cursor.advance(name.len());
        cursor.skip_blank()?;
        if cursor.peek() != b'(' {
            return Err(cursor.unexpected("`(`"));
        }
        let repeats = matches!(name, b"T" | b"SC");
        while cursor.peek() == b'(' {
            let start = cursor.at();
            cursor.skip_group()?;
            let group = cursor.bytes(start..cursor.at());
            let text = String::from_utf8_lossy(group);
            let text: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
            let integer = || text[1..text.len() - 1].parse::<i64>().ok();
            let expected = |what: &str| SyntaxError::new(start, format!("expected {what}, found `{text}`"));
            match name {
                b"T" => layout.tiles.push(tile(&text).ok_or_else(|| expected("a tile such as `(8,128)`"))?),
                b"S" => {
                    layout.memory_space = integer().ok_or_else(|| expected("a memory space such as `(1)`"))?
                }
                b"E" => layout.element_bits = integer().ok_or_else(|| expected("bits such as `(4)`"))?,
                b"D" if !text[1..text.len() - 1].split(',').all(is_level) => {
                    return Err(expected("levels such as `(D,C)`"));
                }
                b"SC" if !text.contains(':') => {
                    return Err(expected("a dimension and where it is split, such as `(1:4,8)`"));
                }
                b"P" if !layout.properties.starts_with('D') => {
                    return Err(SyntaxError::new(
                        start,
                        "expected a physical shape after levels `D(...)` only",
                    ));
                }
                b"L" | b"M" => drop(integer().ok_or_else(|| expected("an integer such as `(1)`"))?),
                _ => {}
            }
            layout.properties.push_str(&text);
            cursor.skip_blank()?;
            if !repeats {
                break;
            }
        }
    }
}

/// How a dimension of a sparse array is stored: dense, compressed, singleton, or loosely compressed; `+` for entries that are not
/// unique, `~` for those that are not sorted.
fn is_level(text: &str) -> bool {
    matches!(text.trim_end_matches('~').trim_end_matches('+'), "D" | "C" | "S" | "H")
}

/// `(8,128)` or `(*,128)`.
fn tile(text: &str) -> Option<Vec<i64>> {
    let inner = &text[1..text.len() - 1];
    if inner.is_empty() {
        return Some(vec![]);
    }
    inner.split(',').map(|size| if size == "*" { Some(Layout::COMBINE) } else { size.parse().ok() }).collect()
}
