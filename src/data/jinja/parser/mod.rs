//! Statements of a template.

mod expression;

use std::sync::Arc;

use super::{
    ast::{AssignTarget, BODY, Expr, ExprKind, For, LoopKind, Macro, Specials, Statement},
    error::{Error, Result},
    lexer,
    lexer::{TemplateToken, TokenKind},
    meter, names, predicates,
};

/// A parsed template.
#[derive(Debug)]
pub struct ParsedTemplate {
    pub body: Vec<Statement>,
    /// Whether it has `{% generation %}` blocks.
    pub has_generation: bool,
}

/// Parses a template.
pub fn parse(source: &str) -> Result<ParsedTemplate> {
    let mut parser = TemplateParser {
        tokens: lexer::tokens(source)?,
        at: 0,
        depth: 0,
        loops: 0,
        named: Vec::new(),
        required: Vec::new(),
        macros: Vec::new(),
        has_generation: false,
    };
    let body = parser.body(&[])?;
    parser.required.append(&mut parser.named);
    parser.check_names()?;
    Ok(ParsedTemplate { body, has_generation: parser.has_generation })
}

/// Whether a name is one of a filter or of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameKind {
    Filter,
    Test,
}

struct TemplateParser {
    tokens: Vec<TemplateToken>,
    at: usize,
    depth: usize,
    /// Loops around the current statement that `break` can leave.
    loops: usize,
    /// Filters and tests of the current scope; Jinja2 looks those outside of conditions up when it compiles.
    named: Vec<(NameKind, Arc<str>, usize)>,
    required: Vec<(NameKind, Arc<str>, usize)>,
    /// What the macros around the current statement read.
    macros: Vec<Specials>,
    has_generation: bool,
}

impl TemplateParser {
    fn token(&self) -> &TemplateToken {
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn kind(&self) -> &TokenKind {
        &self.token().kind
    }

    fn line(&self) -> usize {
        self.token().line
    }

    fn next(&mut self) -> TemplateToken {
        let token = self.token().clone();
        self.at += 1;
        token
    }

    fn fail<T>(&self, message: impl Into<String>) -> Result<T> {
        Err(Error::at(self.line(), message))
    }

    fn unexpected<T>(&self, expected: &str) -> Result<T> {
        match self.kind() {
            TokenKind::End => self.fail(format!("unexpected end of template, expected {expected}")),
            kind => self.fail(format!("expected {expected}, found {}", describe(kind))),
        }
    }

    fn is_operator(&self, operator: &str) -> bool {
        matches!(self.kind(), TokenKind::Operator(found) if *found == operator)
    }

    fn is_name(&self, name: &str) -> bool {
        matches!(self.kind(), TokenKind::Name(found) if &**found == name)
    }

    fn skip_operator(&mut self, operator: &str) -> bool {
        let found = self.is_operator(operator);
        self.at += usize::from(found);
        found
    }

    fn skip_name(&mut self, name: &str) -> bool {
        let found = self.is_name(name);
        self.at += usize::from(found);
        found
    }

    fn expect_operator(&mut self, operator: &str) -> Result<()> {
        if self.skip_operator(operator) { Ok(()) } else { self.unexpected(&format!("'{operator}'")) }
    }

    fn expect_name(&mut self) -> Result<Arc<str>> {
        let TokenKind::Name(name) = self.kind() else { return self.unexpected("a name") };
        let name = name.clone();
        self.at += 1;
        Ok(name)
    }

    fn expect_word(&mut self, word: &str) -> Result<()> {
        if self.skip_name(word) { Ok(()) } else { self.unexpected(&format!("'{word}'")) }
    }

    fn block_end(&mut self) -> Result<()> {
        if *self.kind() != TokenKind::BlockEnd {
            return self.unexpected("end of statement block");
        }
        self.at += 1;
        Ok(())
    }

    /// Runs `parse` one level deeper.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == meter::MAX_NESTING {
            return self.fail(format!("nested deeper than {} levels", meter::MAX_NESTING));
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    /// Statements up to one of the tags in `ends`, which is left as the current token, or to the end.
    fn body(&mut self, ends: &[&str]) -> Result<Vec<Statement>> {
        let mut statements = Vec::new();
        loop {
            match self.next().kind {
                TokenKind::Data(text) => statements.push(Statement::Text(text)),
                TokenKind::VariableBegin => {
                    statements.push(Statement::Print(self.tuple()?));
                    if *self.kind() != TokenKind::VariableEnd {
                        return self.unexpected("end of print statement");
                    }
                    self.at += 1;
                }
                TokenKind::BlockBegin => {
                    if ends.iter().any(|end| self.is_name(end)) {
                        return Ok(statements);
                    }
                    self.nested(|parser| parser.statement(&mut statements))?;
                    self.block_end()?;
                }
                TokenKind::End if ends.is_empty() => return Ok(statements),
                _ => {
                    self.at -= 1;
                    return self.unexpected(&format!("'{}'", ends.join("' or '")));
                }
            }
        }
    }

    /// The rest of a tag and the statements up to one of `ends`.
    fn block(&mut self, ends: &[&str]) -> Result<Vec<Statement>> {
        self.skip_operator(":");
        self.block_end()?;
        self.body(ends)
    }

    /// As [`Self::block`], and moves over the name of the end.
    fn whole_block(&mut self, end: &str) -> Result<Vec<Statement>> {
        let body = self.block(&[end])?;
        self.at += 1;
        Ok(body)
    }

    /// Runs `parse` for a scope whose filters and tests must be known.
    fn scope<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let outer = std::mem::take(&mut self.named);
        let result = parse(self);
        let mut inner = std::mem::replace(&mut self.named, outer);
        self.required.append(&mut inner);
        result
    }

    /// Runs `parse` for a function of its own, which `break` cannot leave.
    fn function<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let loops = std::mem::take(&mut self.loops);
        let result = self.scope(parse);
        self.loops = loops;
        result
    }

    fn check_names(&self) -> Result<()> {
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

    fn statement(&mut self, statements: &mut Vec<Statement>) -> Result<()> {
        let TokenKind::Name(name) = self.kind().clone() else { return self.unexpected("a tag name") };
        let statement = match &*name {
            "for" => self.for_loop()?,
            "if" => self.condition()?,
            "set" => self.set()?,
            "with" => self.with()?,
            "macro" => self.macro_definition()?,
            "call" => self.call_block()?,
            "filter" => self.filter_block()?,
            "generation" => {
                self.at += 1;
                self.has_generation = true;
                Statement::Generation(self.function(|parser| parser.whole_block("endgeneration"))?)
            }
            "print" => return self.print(statements),
            "break" | "continue" if self.loops > 0 => {
                self.at += 1;
                if &*name == "break" { Statement::Break } else { Statement::Continue }
            }
            "break" | "continue" => return self.fail(format!("'{name}' outside loop")),
            "block" | "extends" | "include" | "import" | "from" | "autoescape" => {
                return self.fail(format!("unsupported: the tag '{name}'"));
            }
            _ => return self.fail(format!("Encountered unknown tag '{name}'.")),
        };
        statements.push(statement);
        Ok(())
    }

    fn print(&mut self, statements: &mut Vec<Statement>) -> Result<()> {
        self.at += 1;
        let mut first = true;
        while *self.kind() != TokenKind::BlockEnd {
            if !std::mem::take(&mut first) {
                self.expect_operator(",")?;
            }
            statements.push(Statement::Print(self.expression()?));
        }
        Ok(())
    }

    fn for_loop(&mut self) -> Result<Statement> {
        let line = self.line();
        self.at += 1;
        let target = self.target(&["in"])?;
        self.expect_word("in")?;
        let items = self.tuple_until(&["recursive"])?;
        let test = if self.skip_name("if") { Some(self.scope(Self::expression)?) } else { None };
        let kind = if self.skip_name("recursive") { LoopKind::Recursive } else { LoopKind::Plain };
        self.loops += 1;
        let body = self.scope(|parser| parser.block(&["endfor", "else"]));
        self.loops -= 1;
        let body = body?;
        let otherwise = if self.skip_name("else") {
            self.scope(|parser| parser.whole_block("endfor"))?
        } else {
            self.at += 1;
            Vec::new()
        };
        Ok(Statement::For(Arc::new(For { line, target, items, test, kind, body, otherwise })))
    }

    fn condition(&mut self) -> Result<Statement> {
        let known = self.named.len();
        let mut branches = Vec::new();
        let mut otherwise = Vec::new();
        loop {
            self.at += 1;
            let test = self.tuple_without_condition()?;
            branches.push((test, self.block(&["elif", "else", "endif"])?));
            if self.skip_name("else") {
                otherwise = self.whole_block("endif")?;
                break;
            } else if self.skip_name("endif") {
                break;
            }
        }
        self.named.truncate(known);
        Ok(Statement::If(branches, otherwise))
    }

    fn set(&mut self) -> Result<Statement> {
        self.at += 1;
        let target = self.target(&[])?;
        if self.skip_operator("=") {
            return Ok(Statement::Set(target, self.tuple()?));
        }
        let body = Expr::new(self.line(), ExprKind::Name(BODY.into()));
        let (filter, body) = self.scope(|parser| {
            let filter = parser.filters(body)?;
            Ok((filter, parser.whole_block("endset")?))
        })?;
        Ok(Statement::SetBlock(target, filter, body))
    }

    fn with(&mut self) -> Result<Statement> {
        self.at += 1;
        let mut values = Vec::new();
        while *self.kind() != TokenKind::BlockEnd {
            if !values.is_empty() {
                self.expect_operator(",")?;
            }
            let target = self.plain_target()?;
            self.expect_operator("=")?;
            values.push((target, self.expression()?));
        }
        let body = self.scope(|parser| parser.whole_block("endwith"))?;
        Ok(Statement::With(values, body))
    }

    fn macro_definition(&mut self) -> Result<Statement> {
        self.at += 1;
        let name = self.expect_name()?;
        self.assignable(&name)?;
        let parameters = self.scope(Self::parameters)?;
        let (body, reads) = self.macro_body("endmacro")?;
        Ok(Statement::Macro(Arc::new(Macro { name: Some(name), parameters, body, reads })))
    }

    /// Body of a macro, with the special variables that it reads.
    fn macro_body(&mut self, end: &str) -> Result<(Vec<Statement>, Specials)> {
        self.macros.push(Specials::default());
        let body = self.function(|parser| parser.whole_block(end))?;
        Ok((body, self.macros.pop().unwrap_or_default()))
    }

    fn parameters(&mut self) -> Result<Vec<(Arc<str>, Option<Expr>)>> {
        self.expect_operator("(")?;
        let mut parameters: Vec<(Arc<str>, Option<Expr>)> = Vec::new();
        while !self.is_operator(")") {
            if !parameters.is_empty() {
                self.expect_operator(",")?;
            }
            let name = self.expect_name()?;
            self.assignable(&name)?;
            let default = if self.skip_operator("=") {
                Some(self.expression()?)
            } else if parameters.iter().any(|(_, default)| default.is_some()) {
                return self.fail("non-default argument follows default argument");
            } else {
                None
            };
            if parameters.iter().any(|(known, _)| *known == name) {
                return self.fail(format!("duplicate argument '{name}' in function definition"));
            }
            parameters.push((name, default));
        }
        self.expect_operator(")")?;
        Ok(parameters)
    }

    fn call_block(&mut self) -> Result<Statement> {
        self.at += 1;
        let parameters = if self.is_operator("(") { self.scope(Self::parameters)? } else { Vec::new() };
        let call = self.expression()?;
        if !matches!(call.kind, ExprKind::Call(..)) {
            return self.fail("expected call");
        }
        let (body, reads) = self.macro_body("endcall")?;
        Ok(Statement::Call(call, Arc::new(Macro { name: None, parameters, body, reads })))
    }

    fn filter_block(&mut self) -> Result<Statement> {
        self.at += 1;
        let body = Expr::new(self.line(), ExprKind::Name(BODY.into()));
        let (filter, body) = self.scope(|parser| {
            let filter = parser.filter(body)?;
            let filter = parser.filters(filter)?;
            Ok((filter, parser.whole_block("endfilter")?))
        })?;
        Ok(Statement::Filter(filter, body))
    }

    fn assignable(&self, name: &str) -> Result<()> {
        match name {
            "true" | "false" | "none" | "True" | "False" | "None" => {
                self.fail(format!("can't assign to '{name}'"))
            }
            _ => Ok(()),
        }
    }

    /// A target of an assignment, which ends before one of the names in `ends`.
    fn target(&mut self, ends: &[&str]) -> Result<AssignTarget> {
        let line = self.line();
        let mut targets = Vec::new();
        let mut tuple = false;
        loop {
            if !targets.is_empty() && !self.skip_operator(",") {
                break;
            }
            tuple |= !targets.is_empty();
            let end = ends.iter().any(|end| self.is_name(end));
            if end || self.is_operator("=") || *self.kind() == TokenKind::BlockEnd || self.is_operator(")") {
                break;
            }
            targets.push(self.nested(|parser| parser.single_target(ends))?);
        }
        match targets.pop() {
            None => self.unexpected("a name to assign to"),
            Some(target) if !tuple => Ok(target),
            Some(target) => {
                targets.push(target);
                Ok(AssignTarget::Tuple(targets, line))
            }
        }
    }

    fn single_target(&mut self, ends: &[&str]) -> Result<AssignTarget> {
        if self.skip_operator("(") {
            let target = self.target(&[])?;
            self.expect_operator(")")?;
            return Ok(target);
        }
        let target = self.plain_target()?;
        let AssignTarget::Name(name) = &target else { return Ok(target) };
        if ends.contains(&"in") && &**name == "loop" {
            return self.fail("Can't assign to special loop variable in for-loop target");
        }
        if ends.is_empty() && self.is_operator(".") {
            let line = self.line();
            self.at += 1;
            return Ok(AssignTarget::Attribute(name.clone(), self.expect_name()?, line));
        }
        Ok(target)
    }

    fn plain_target(&mut self) -> Result<AssignTarget> {
        let name = self.expect_name()?;
        self.assignable(&name)?;
        Ok(AssignTarget::Name(name))
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
