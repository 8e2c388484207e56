//! State of the parser: the current token, scopes, and the filters and tests that must be known.

use std::sync::Arc;

use crate::data::jinja::{
    ast::Specials,
    error::{Error, Result},
    lexer::{TemplateToken, TokenKind},
    meter, names, predicates,
};

/// Whether a name is one of a filter or of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameKind {
    Filter,
    Test,
}

/// A template that is being parsed.
pub(super) struct TemplateParser {
    pub(super) tokens: Vec<TemplateToken>,
    pub(super) at: usize,
    pub(super) depth: usize,
    /// Loops around the current statement that `break` can leave.
    pub(super) loops: usize,
    /// Filters and tests of the current scope; Jinja2 looks those outside of conditions up when it compiles.
    pub(super) named: Vec<(NameKind, Arc<str>, usize)>,
    /// Those that must be known.
    pub(super) required: Vec<(NameKind, Arc<str>, usize)>,
    /// What the macros around the current statement read.
    pub(super) macros: Vec<Specials>,
    pub(super) has_generation: bool,
}

impl TemplateParser {
    pub(super) fn token(&self) -> &TemplateToken {
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    pub(super) fn kind(&self) -> &TokenKind {
        &self.token().kind
    }

    pub(super) fn line(&self) -> usize {
        self.token().line
    }

    pub(super) fn next(&mut self) -> TemplateToken {
        let token = self.token().clone();
        self.at += 1;
        token
    }

    pub(super) fn fail<T>(&self, message: impl Into<String>) -> Result<T> {
        Err(Error::at(self.line(), message))
    }

    pub(super) fn unexpected<T>(&self, expected: &str) -> Result<T> {
        match self.kind() {
            TokenKind::End => self.fail(format!("unexpected end of template, expected {expected}")),
            kind => self.fail(format!("expected {expected}, found {}", describe(kind))),
        }
    }

    pub(super) fn is_operator(&self, operator: &str) -> bool {
        matches!(self.kind(), TokenKind::Operator(found) if *found == operator)
    }

    pub(super) fn is_name(&self, name: &str) -> bool {
        matches!(self.kind(), TokenKind::Name(found) if &**found == name)
    }

    pub(super) fn skip_operator(&mut self, operator: &str) -> bool {
        let found = self.is_operator(operator);
        self.at += usize::from(found);
        found
    }

    pub(super) fn skip_name(&mut self, name: &str) -> bool {
        let found = self.is_name(name);
        self.at += usize::from(found);
        found
    }

    pub(super) fn expect_operator(&mut self, operator: &str) -> Result<()> {
        if self.skip_operator(operator) { Ok(()) } else { self.unexpected(&format!("'{operator}'")) }
    }

    pub(super) fn expect_name(&mut self) -> Result<Arc<str>> {
        let TokenKind::Name(name) = self.kind() else { return self.unexpected("a name") };
        let name = name.clone();
        self.at += 1;
        Ok(name)
    }

    pub(super) fn expect_word(&mut self, word: &str) -> Result<()> {
        if self.skip_name(word) { Ok(()) } else { self.unexpected(&format!("'{word}'")) }
    }

    pub(super) fn block_end(&mut self) -> Result<()> {
        if *self.kind() != TokenKind::BlockEnd {
            return self.unexpected("end of statement block");
        }
        self.at += 1;
        Ok(())
    }

    /// Runs `parse` one level deeper.
    pub(super) fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == meter::MAX_NESTING {
            return self.fail(format!("nested deeper than {} levels", meter::MAX_NESTING));
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    /// Runs `parse` for a scope whose filters and tests must be known.
    pub(super) fn scope<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let outer = std::mem::take(&mut self.named);
        let result = parse(self);
        let mut inner = std::mem::replace(&mut self.named, outer);
        self.required.append(&mut inner);
        result
    }

    /// Runs `parse` for a function of its own, which `break` cannot leave.
    pub(super) fn function<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let loops = std::mem::take(&mut self.loops);
        let result = self.scope(parse);
        self.loops = loops;
        result
    }

    pub(super) fn check_names(&self) -> Result<()> {
        for (named, name, line) in &self.required {
            let (known, what) = match named {
                NameKind::Filter => (names::is_filter(name), "filter"),
                NameKind::Test => (predicates::find(name).is_some(), "test"),
            };
            if !known {
                return Err(Error::at(*line, format!("No {what} named '{name}'.")));
            }
        }
        Ok(())
    }
}

fn describe(kind: &TokenKind) -> String {
    match kind {
        TokenKind::Data(_) => "template data".into(),
        TokenKind::BlockBegin => "begin of statement block".into(),
        TokenKind::BlockEnd => "end of statement block".into(),
        TokenKind::VariableBegin => "begin of print statement".into(),
        TokenKind::VariableEnd => "end of print statement".into(),
        TokenKind::Name(name) => format!("'{name}'"),
        TokenKind::Text(_) => "a string".into(),
        TokenKind::Int(value) => format!("'{value}'"),
        TokenKind::Float(value) => format!("'{value}'"),
        TokenKind::Operator(operator) => format!("'{operator}'"),
        TokenKind::End => "end of template".into(),
    }
}
