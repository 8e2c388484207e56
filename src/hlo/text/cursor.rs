//! One token of look-ahead, and the small phrases of the grammar: names, numbers, lists, shapes, literals.

use super::{
    lex::{HloLexer, HloToken, HloTokenKind, Position},
    value::read_element,
    word::{dict_length, row_major, unescape},
};
use crate::{
    base::{ArrayShape, DType, Diagnostic, Literal, Location, MemorySpace, Shape, nearest},
    hlo::limits::{MAX_DIMS, MAX_TUPLE_NESTING},
};

/// Something wrong at a location of the text.
#[derive(Debug)]
pub(super) struct Mistake {
    pub at: Position,
    item: Option<String>,
    message: String,
    hint: Option<String>,
}

impl Mistake {
    pub fn new(at: Position, message: impl Into<String>) -> Self {
        Self { at, item: None, message: message.into(), hint: None }
    }

    /// The same mistake, in the instruction or computation of this name.
    pub fn on(self, item: &str) -> Self {
        Self { item: Some(item.to_owned()), ..self }
    }

    /// The same mistake with what works instead.
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The same mistake with the name that was probably meant.
    pub fn meant(self, name: Option<&str>) -> Self {
        Self { hint: name.map(|name| format!("did you mean `{name}`?")), ..self }
    }

    pub fn diagnostic(self, file: &str) -> Diagnostic {
        let Self { at, item, message, hint } = self;
        let location = Location { file: file.to_owned(), line: Some(at.line), column: Some(at.column), item };
        Diagnostic { hint, ..Diagnostic::error(location, message) }
    }
}

pub(super) struct TokenCursor<'a> {
    text: &'a str,
    lexer: HloLexer<'a>,
    token: HloToken<'a>,
}

impl<'a> TokenCursor<'a> {
    pub fn new(text: &'a str) -> Self {
        let mut lexer = HloLexer::new(text);
        let token = lexer.next();
        Self { text, lexer, token }
    }

    /// The token at hand.
    pub fn token(&self) -> HloToken<'a> {
        self.token
    }

    pub fn kind(&self) -> HloTokenKind<'a> {
        self.token.kind
    }

    pub fn at(&self) -> Position {
        self.token.at
    }

    pub fn advance(&mut self) {
        self.token = self.lexer.next();
    }

    /// That something else than `expected` stands here.
    pub fn unexpected(&self, expected: &str) -> Mistake {
        let found = match self.kind() {
            HloTokenKind::Word(text) | HloTokenKind::Number(text) => format!("`{text}`"),
            HloTokenKind::Str(text) => format!("\"{text}\""),
            HloTokenKind::Mark(mark) => format!("`{mark}`"),
            HloTokenKind::Open(what) => format!("a {what} that is not closed"),
            HloTokenKind::End => "the end of the text".to_owned(),
        };
        Mistake::new(self.at(), format!("expected {expected}, found {found}"))
    }

    pub fn accept(&mut self, mark: char) -> bool {
        let found = self.kind() == HloTokenKind::Mark(mark);
        if found {
            self.advance();
        }
        found
    }

    pub fn expect(&mut self, mark: char) -> Result<(), Mistake> {
        if self.accept(mark) { Ok(()) } else { Err(self.unexpected(&format!("`{mark}`"))) }
    }

    /// Takes the word, unless it is marked as a name by `%`.
    pub fn accept_word(&mut self, word: &str) -> bool {
        let found =
            self.kind() == HloTokenKind::Word(word) && self.token.end - self.token.start == word.len();
        if found {
            self.advance();
        }
        found
    }

    pub fn keyword(&mut self, word: &str) -> Result<(), Mistake> {
        if self.accept_word(word) { Ok(()) } else { Err(self.unexpected(&format!("`{word}`"))) }
    }

    /// A name; `what` says of what.
    pub fn name(&mut self, what: &str) -> Result<&'a str, Mistake> {
        let HloTokenKind::Word(name) = self.kind() else { return Err(self.unexpected(what)) };
        self.advance();
        Ok(name)
    }

    /// `name=`
    pub fn attr_name(&mut self) -> Result<&'a str, Mistake> {
        let name = self.name("an attribute")?;
        self.expect('=')?;
        Ok(name)
    }

    /// A count, a position or a dimension.
    pub fn int(&mut self) -> Result<usize, Mistake> {
        let what = "a non-negative integer";
        let HloTokenKind::Number(text) = self.kind() else { return Err(self.unexpected(what)) };
        let value = text.parse::<i64>().ok().and_then(|value| usize::try_from(value).ok());
        let value = value.ok_or_else(|| self.unexpected(what))?;
        self.advance();
        Ok(value)
    }

    /// `{0,1}`
    pub fn ints(&mut self) -> Result<Vec<usize>, Mistake> {
        self.ints_in('{', '}')
    }

    pub fn ints_in(&mut self, open: char, close: char) -> Result<Vec<usize>, Mistake> {
        let mut values = Vec::new();
        self.list(open, close, |cursor| {
            values.push(cursor.int()?);
            Ok(())
        })?;
        Ok(values)
    }

    pub fn string(&mut self) -> Result<String, Mistake> {
        let HloTokenKind::Str(text) = self.kind() else {
            return Err(self.unexpected("a string in double quotes"));
        };
        let value = unescape(text).map_err(|message| Mistake::new(self.at(), message))?;
        self.advance();
        Ok(value)
    }

    /// Entries between `open` and `close`, with commas between them.
    pub fn list(
        &mut self,
        open: char,
        close: char,
        mut entry: impl FnMut(&mut Self) -> Result<(), Mistake>,
    ) -> Result<(), Mistake> {
        self.expect(open)?;
        if self.accept(close) {
            return Ok(());
        }
        loop {
            entry(self)?;
            if self.accept(close) {
                return Ok(());
            }
            if !self.accept(',') {
                return Err(self.unexpected(&format!("`,` or `{close}`")));
            }
        }
    }

    /// The raw text of a group in braces, brackets or parentheses, which it goes past.
    pub fn skip_group(&mut self) -> Result<&'a str, Mistake> {
        let (start, at) = (self.token.start, self.at());
        let mut depth = 0_usize;
        loop {
            match self.kind() {
                HloTokenKind::Mark('{' | '(' | '[') => depth += 1,
                HloTokenKind::Mark('}' | ')' | ']') => depth = depth.saturating_sub(1),
                HloTokenKind::End | HloTokenKind::Open(_) => {
                    return Err(Mistake::new(at, "the group that opens here is not closed"));
                }
                HloTokenKind::Word(_)
                | HloTokenKind::Number(_)
                | HloTokenKind::Str(_)
                | HloTokenKind::Mark(_) => {}
            }
            let end = self.token.end;
            self.advance();
            if depth == 0 {
                return Ok(self.text.get(start..end).unwrap_or_default());
            }
        }
    }

    /// The raw text of a group in braces, in which only double quotes mean something.
    pub fn dict(&mut self) -> Result<&'a str, Mistake> {
        let text = self.text.get(self.token.start..).unwrap_or_default();
        let Some(length) = dict_length(text) else {
            return Err(self.unexpected("a string or a group in braces that is closed"));
        };
        self.lexer.skip(length - 1);
        self.advance();
        Ok(text.get(..length).unwrap_or_default())
    }

    /// Past the value of an attribute that says nothing here: up to a comma or the end of the line.
    pub fn skip_value(&mut self) -> Result<(), Mistake> {
        let ends = |cursor: &Self| {
            cursor.token.leads_line
                || matches!(cursor.kind(), HloTokenKind::End | HloTokenKind::Mark(',' | '}' | ')' | ']'))
        };
        if ends(self) {
            return Err(self.unexpected("a value"));
        }
        while !ends(self) {
            self.skip_group()?;
        }
        Ok(())
    }

    pub fn skip_line(&mut self) {
        self.advance();
        while !self.token.leads_line && self.kind() != HloTokenKind::End {
            self.advance();
        }
    }

    /// Past a broken instruction: to a line that starts with a name or closes the computation.
    pub fn skip_instr(&mut self) {
        let starts = |token: HloToken<'_>| {
            token.leads_line && matches!(token.kind, HloTokenKind::Word(_) | HloTokenKind::Mark('}'))
                || token.kind == HloTokenKind::End
        };
        while !starts(self.token) {
            self.advance();
        }
    }

    /// `f32[2,3]{1,0}` or a tuple of shapes.
    pub fn shape(&mut self) -> Result<Shape, Mistake> {
        self.nested_shape(0)
    }

    /// A shape in the layout of the entry, where an array may lie on the host: the memory.
    pub fn memory(&mut self) -> Result<MemorySpace, Mistake> {
        match self.kind() {
            HloTokenKind::Mark('(') => self.shape().map(|_| MemorySpace::Device),
            _ => self.array_shape(MemorySpace::ALL).map(|(_, memory)| memory),
        }
    }

    fn nested_shape(&mut self, depth: usize) -> Result<Shape, Mistake> {
        if self.kind() != HloTokenKind::Mark('(') {
            return self.array_shape(&[MemorySpace::Device]).map(|(array, _)| Shape::Array(array));
        }
        if depth == MAX_TUPLE_NESTING {
            return Err(Mistake::new(
                self.at(),
                format!("expected at most {MAX_TUPLE_NESTING} tuples in each other"),
            ));
        }
        let mut elements = Vec::new();
        self.list('(', ')', |cursor| {
            elements.push(cursor.nested_shape(depth + 1)?);
            Ok(())
        })?;
        Ok(Shape::Tuple(elements))
    }

    /// An array that lies in one of `memories`, and which one that is.
    fn array_shape(&mut self, memories: &[MemorySpace]) -> Result<(ArrayShape, MemorySpace), Mistake> {
        let at = self.at();
        let word = self.name("a shape")?;
        let dtype = word.parse::<DType>().map_err(|unknown| {
            Mistake::new(at, unknown.to_string()).meant(nearest(word, DType::ALL.iter().map(|t| t.name())))
        })?;
        let mut dims = Vec::new();
        self.list('[', ']', |cursor| {
            if cursor.kind() == HloTokenKind::Mark('<') {
                return Err(Mistake::new(
                    cursor.at(),
                    "only sizes known when the module is built are supported",
                ));
            }
            if dims.len() == MAX_DIMS {
                return Err(Mistake::new(cursor.at(), format!("expected at most {MAX_DIMS} dimensions")));
            }
            dims.push(cursor.int()?);
            Ok(())
        })?;
        let memory = self.layout(dims.len(), memories)?;
        Ok((ArrayShape { dtype, dims }, memory))
    }

    /// A layout, if one stands here: not a brace that opens the body of a computation.
    fn layout(&mut self, rank: usize, memories: &[MemorySpace]) -> Result<MemorySpace, Mistake> {
        let inner = self.text.get(self.token.end..).unwrap_or_default();
        let opens_layout = inner.starts_with(|c: char| c.is_ascii_digit() || matches!(c, ':' | '}'));
        if self.kind() != HloTokenKind::Mark('{') || !opens_layout {
            return Ok(MemorySpace::Device);
        }
        let at = self.at();
        let layout = self.skip_group()?;
        let found = memories.iter().copied().find(|&memory| layout == row_major(rank, memory));
        found.ok_or_else(|| {
            Mistake::new(at, format!("only row-major device layouts are supported, found {layout}"))
        })
    }

    /// The shape before an operand's name, where one is written.
    pub fn operand_shape(&mut self) -> Result<Option<Shape>, Mistake> {
        let before_bracket = self.text.as_bytes().get(self.token.end) == Some(&b'[');
        match self.kind() {
            HloTokenKind::Mark('(') => self.shape().map(Some),
            HloTokenKind::Word(_) if before_bracket => self.shape().map(Some),
            _ => Ok(None),
        }
    }

    /// The elements of a constant of this shape.
    pub fn literal(&mut self, shape: &Shape) -> Result<Literal, Mistake> {
        let Some(array) = shape.as_array() else {
            return Err(Mistake::new(
                self.at(),
                format!("expected an array, found a constant of shape {shape}"),
            ));
        };
        let mut bytes = Vec::new();
        self.elements(array.dtype, &array.dims, &mut bytes)?;
        Ok(Literal::from_bytes(array.clone(), bytes))
    }

    fn elements(&mut self, dtype: DType, dims: &[usize], bytes: &mut Vec<u8>) -> Result<(), Mistake> {
        let Some((&size, inner)) = dims.split_first() else {
            let (HloTokenKind::Word(text) | HloTokenKind::Number(text)) = self.kind() else {
                return Err(self.unexpected("an element"));
            };
            read_element(bytes, dtype, text).map_err(|message| Mistake::new(self.at(), message))?;
            self.advance();
            return Ok(());
        };
        let at = self.at();
        let mut found = 0;
        self.list('{', '}', |cursor| {
            if cursor.kind() == HloTokenKind::Mark('.') {
                let cut =
                    Mistake::new(cursor.at(), "expected elements, found the mark of a constant left out");
                return Err(cut.hint("print the module with its large constants"));
            }
            found += 1;
            cursor.elements(dtype, inner, bytes)
        })?;
        if found != size {
            return Err(Mistake::new(at, format!("expected {size} entries in these braces, found {found}")));
        }
        Ok(())
    }
}
