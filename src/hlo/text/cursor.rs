//! A token stream with one token of look-ahead, and the small phrases of the grammar: names, numbers, lists, shapes and
//! literals.

use super::{
    lex::{HloLexer, HloToken, HloTokenKind, Position},
    value::read_element,
    word::{dict_length, row_major, unescape},
};
use crate::{
    base::{ArrayShape, DType, Diagnostic, Literal, MemorySpace, Shape, did_you_mean},
    hlo::{
        OpMetadata,
        limits::{MAX_DIMS, MAX_TUPLE_NESTING},
    },
};

pub(super) struct TokenCursor<'a> {
    text: &'a str,
    lexer: HloLexer<'a>,
    token: HloToken<'a>,
}

impl<'a> TokenCursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let mut lexer = HloLexer::new(text);
        let token = lexer.next();
        Self { text, lexer, token }
    }

    /// The current token.
    pub(super) fn token(&self) -> HloToken<'a> {
        self.token
    }

    pub(super) fn kind(&self) -> HloTokenKind<'a> {
        self.token.kind
    }

    pub(super) fn at(&self) -> Position {
        self.token.at
    }

    pub(super) fn advance(&mut self) {
        self.token = self.lexer.next();
    }

    /// The error of a current token other than `expected`.
    pub(super) fn unexpected(&self, expected: &str) -> Diagnostic {
        let found = match self.kind() {
            HloTokenKind::Word(text) | HloTokenKind::Number(text) => format!("`{text}`"),
            HloTokenKind::Str(text) => format!("\"{text}\""),
            HloTokenKind::Mark(mark) => format!("`{mark}`"),
            HloTokenKind::Unclosed(what) => format!("an unclosed {what}"),
            HloTokenKind::End => "the end of the text".to_owned(),
        };
        self.at().error(format!("expected {expected}, found {found}"))
    }

    pub(super) fn accept(&mut self, mark: char) -> bool {
        let found = self.kind() == HloTokenKind::Mark(mark);
        if found {
            self.advance();
        }
        found
    }

    pub(super) fn expect(&mut self, mark: char) -> Result<(), Diagnostic> {
        if self.accept(mark) { Ok(()) } else { Err(self.unexpected(&format!("`{mark}`"))) }
    }

    /// Takes the word, unless a `%` marks it as a name.
    pub(super) fn accept_word(&mut self, word: &str) -> bool {
        let found =
            self.kind() == HloTokenKind::Word(word) && self.token.end - self.token.start == word.len();
        if found {
            self.advance();
        }
        found
    }

    pub(super) fn keyword(&mut self, word: &str) -> Result<(), Diagnostic> {
        if self.accept_word(word) { Ok(()) } else { Err(self.unexpected(&format!("`{word}`"))) }
    }

    /// A name of `what`.
    pub(super) fn name(&mut self, what: &str) -> Result<&'a str, Diagnostic> {
        let HloTokenKind::Word(name) = self.kind() else { return Err(self.unexpected(what)) };
        self.advance();
        Ok(name)
    }

    /// `name=`
    pub(super) fn attr_name(&mut self) -> Result<&'a str, Diagnostic> {
        let name = self.name("an attribute")?;
        self.expect('=')?;
        Ok(name)
    }

    /// A count, a position or a dimension.
    pub(super) fn int(&mut self) -> Result<usize, Diagnostic> {
        let what = "a non-negative integer";
        let HloTokenKind::Number(text) = self.kind() else { return Err(self.unexpected(what)) };
        let value = text.parse::<i64>().ok().and_then(|value| usize::try_from(value).ok());
        let value = value.ok_or_else(|| self.unexpected(what))?;
        self.advance();
        Ok(value)
    }

    /// `{0,1}`
    pub(super) fn ints(&mut self) -> Result<Vec<usize>, Diagnostic> {
        self.ints_in('{', '}')
    }

    pub(super) fn ints_in(&mut self, open: char, close: char) -> Result<Vec<usize>, Diagnostic> {
        let mut values = Vec::new();
        self.list(open, close, |cursor| {
            values.push(cursor.int()?);
            Ok(())
        })?;
        Ok(values)
    }

    pub(super) fn string(&mut self) -> Result<String, Diagnostic> {
        let HloTokenKind::Str(text) = self.kind() else {
            return Err(self.unexpected("a string in double quotes"));
        };
        let value = unescape(text).map_err(|error| error.located(self.at().location()))?;
        self.advance();
        Ok(value)
    }

    /// Entries between `open` and `close`, separated by commas.
    pub(super) fn list(
        &mut self,
        open: char,
        close: char,
        mut entry: impl FnMut(&mut Self) -> Result<(), Diagnostic>,
    ) -> Result<(), Diagnostic> {
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

    /// Takes a group in braces, brackets or parentheses, and returns its text.
    pub(super) fn skip_group(&mut self) -> Result<&'a str, Diagnostic> {
        let (start, at) = (self.token.start, self.at());
        let mut depth = 0_usize;
        loop {
            match self.kind() {
                HloTokenKind::Mark('{' | '(' | '[') => depth += 1,
                HloTokenKind::Mark('}' | ')' | ']') => depth = depth.saturating_sub(1),
                HloTokenKind::End | HloTokenKind::Unclosed(_) => {
                    return Err(at.error("unclosed group"));
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

    /// Takes a group in braces, in which only braces and double quotes have a meaning, and returns its text.
    pub(super) fn dict(&mut self) -> Result<&'a str, Diagnostic> {
        let text = self.text.get(self.token.start..).unwrap_or_default();
        let Some(length) = dict_length(text) else {
            return Err(self.unexpected("a string or a closed group in braces"));
        };
        self.lexer.skip(length - 1);
        self.advance();
        Ok(text.get(..length).unwrap_or_default())
    }

    /// `{op_name="f/add" source_file="f.hlo" source_line=3}`; other fields are skipped.
    pub(super) fn metadata(&mut self) -> Result<OpMetadata, Diagnostic> {
        let mut metadata = OpMetadata::default();
        self.expect('{')?;
        while !self.accept('}') {
            match self.attr_name()? {
                "op_type" => metadata.op_type = self.string()?.into(),
                "op_name" => metadata.op_name = self.string()?.into(),
                "source_file" => metadata.source_file = self.string()?.into(),
                "source_line" => metadata.source_line = self.source_line()?,
                _ => drop(self.skip_group()?),
            }
        }
        Ok(metadata)
    }

    fn source_line(&mut self) -> Result<u32, Diagnostic> {
        let at = self.at();
        let line = self.int()?;
        let too_large = || at.error(format!("expected a line below 2^31, found {line}"));
        i32::try_from(line).map(i32::cast_unsigned).map_err(|_| too_large())
    }

    /// Skips the value of an ignored attribute, up to a comma or the end of the line.
    pub(super) fn skip_value(&mut self) -> Result<(), Diagnostic> {
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

    pub(super) fn skip_line(&mut self) {
        self.advance();
        while !self.token.leads_line && self.kind() != HloTokenKind::End {
            self.advance();
        }
    }

    /// Skips an invalid instruction, up to a line that starts with a name or closes the computation.
    pub(super) fn skip_instr(&mut self) {
        let starts = |token: HloToken<'_>| {
            token.leads_line && matches!(token.kind, HloTokenKind::Word(_) | HloTokenKind::Mark('}'))
                || token.kind == HloTokenKind::End
        };
        while !starts(self.token) {
            self.advance();
        }
    }

    /// `f32[2,3]{1,0}` or a tuple of shapes.
    pub(super) fn shape(&mut self) -> Result<Shape, Diagnostic> {
        self.nested_shape(0)
    }

    /// The memory space of a shape in the entry computation layout.
    pub(super) fn memory(&mut self) -> Result<MemorySpace, Diagnostic> {
        match self.kind() {
            HloTokenKind::Mark('(') => self.shape().map(|_| MemorySpace::Device),
            _ => self.array_shape(MemorySpace::ALL).map(|(_, memory)| memory),
        }
    }

    fn nested_shape(&mut self, depth: usize) -> Result<Shape, Diagnostic> {
        if self.kind() != HloTokenKind::Mark('(') {
            return self.array_shape(&[MemorySpace::Device]).map(|(array, _)| Shape::Array(array));
        }
        if depth == MAX_TUPLE_NESTING {
            return Err(self
                .at()
                .error(format!("expected at most {MAX_TUPLE_NESTING} nested tuples, found more")));
        }
        let mut elements = Vec::new();
        self.list('(', ')', |cursor| {
            elements.push(cursor.nested_shape(depth + 1)?);
            Ok(())
        })?;
        Ok(Shape::Tuple(elements))
    }

    /// An array shape with its memory space, one of `memories`.
    fn array_shape(&mut self, memories: &[MemorySpace]) -> Result<(ArrayShape, MemorySpace), Diagnostic> {
        let at = self.at();
        let word = self.name("a shape")?;
        let dtype = word.parse::<DType>().map_err(|unknown| {
            at.error(unknown.to_string()).with_hint(did_you_mean(
                word,
                DType::ALL.iter().map(|t| t.name()),
                "known",
            ))
        })?;
        let mut dims = Vec::new();
        self.list('[', ']', |cursor| {
            if cursor.kind() == HloTokenKind::Mark('<') {
                return Err(cursor.at().error("unsupported dynamic size: expected a static size"));
            }
            if dims.len() == MAX_DIMS {
                return Err(cursor.at().error(format!("expected at most {MAX_DIMS} dimensions, found more")));
            }
            dims.push(cursor.int()?);
            Ok(())
        })?;
        let memory = self.layout(dims.len(), memories)?;
        Ok((ArrayShape { dtype, dims }, memory))
    }

    /// A layout, if there is one: a brace may also open the body of a computation.
    fn layout(&mut self, rank: usize, memories: &[MemorySpace]) -> Result<MemorySpace, Diagnostic> {
        let inner = self.text.get(self.token.end..).unwrap_or_default();
        let opens_layout = inner.starts_with(|c: char| c.is_ascii_digit() || matches!(c, ':' | '}'));
        if self.kind() != HloTokenKind::Mark('{') || !opens_layout {
            return Ok(MemorySpace::Device);
        }
        let at = self.at();
        let layout = self.skip_group()?;
        let found = memories.iter().copied().find(|&memory| layout == row_major(rank, memory));
        found.ok_or_else(|| {
            at.error(format!("unsupported layout {layout}: expected a row-major layout in device memory"))
        })
    }

    /// The shape before the name of an operand, if there is one.
    pub(super) fn operand_shape(&mut self) -> Result<Option<Shape>, Diagnostic> {
        let before_bracket = self.text.as_bytes().get(self.token.end) == Some(&b'[');
        match self.kind() {
            HloTokenKind::Mark('(') => self.shape().map(Some),
            HloTokenKind::Word(_) if before_bracket => self.shape().map(Some),
            _ => Ok(None),
        }
    }

    /// The elements of a constant of this shape.
    pub(super) fn literal(&mut self, shape: &Shape) -> Result<Literal, Diagnostic> {
        let Some(array) = shape.as_array() else {
            return Err(self.at().error(format!("expected an array, found a constant of shape {shape}")));
        };
        let mut bytes = Vec::new();
        self.elements(array.dtype, &array.dims, &mut bytes)?;
        Ok(Literal::from_bytes(array.clone(), bytes))
    }

    fn elements(&mut self, dtype: DType, dims: &[usize], bytes: &mut Vec<u8>) -> Result<(), Diagnostic> {
        let Some((&size, inner)) = dims.split_first() else {
            let (HloTokenKind::Word(text) | HloTokenKind::Number(text)) = self.kind() else {
                return Err(self.unexpected("an element"));
            };
            read_element(bytes, dtype, text).map_err(|error| error.located(self.at().location()))?;
            self.advance();
            return Ok(());
        };
        let at = self.at();
        let mut found = 0;
        self.list('{', '}', |cursor| {
            if cursor.kind() == HloTokenKind::Mark('.') {
                let elided = cursor.at().error("expected elements, found an elided constant");
                return Err(elided.with_hint("print the module with its large constants"));
            }
            found += 1;
            cursor.elements(dtype, inner, bytes)
        })?;
        if found != size {
            return Err(at.error(format!("expected {size} elements or rows, found {found}")));
        }
        Ok(())
    }
}
