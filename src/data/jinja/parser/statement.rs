//! Statements of a template.

use std::sync::Arc;

use super::state::TemplateParser;
use crate::data::jinja::{
    ast::{BODY, Expr, ExprKind, For, LoopKind, Macro, Specials, Statement},
    error::Result,
    lexer::{self, TokenKind},
};

/// A parsed template.
#[derive(Debug)]
pub(crate) struct ParsedTemplate {
    pub body: Vec<Statement>,
    /// Whether it has `{% generation %}` blocks.
    pub has_generation: bool,
}

/// Parses a template.
pub(crate) fn parse(source: &str) -> Result<ParsedTemplate> {
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

impl TemplateParser {
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
}
