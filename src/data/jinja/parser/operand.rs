//! Operands of expressions: literals, names, brackets, and the attributes, calls, filters and tests after them.

use std::sync::Arc;

use super::state::{NameKind, TemplateParser};
use crate::data::jinja::{
    ast::{CallArguments, Expr, ExprKind},
    error::Result,
    lexer::TokenKind,
    text::Text,
};

impl TemplateParser {
    pub(super) fn primary(&mut self) -> Result<Expr> {
        let token = self.next();
        let kind = match token.kind {
            TokenKind::Name(name) => match &*name {
                "true" | "True" => ExprKind::Bool(true),
                "false" | "False" => ExprKind::Bool(false),
                "none" | "None" => ExprKind::None,
                _ => {
                    self.note_special(&name);
                    ExprKind::Name(name)
                }
            },
            TokenKind::Text(mut text) => {
                while let TokenKind::Text(more) = self.kind() {
                    text.push_str(more);
                    self.at += 1;
                }
                ExprKind::Text(Arc::new(Text::constant(text)))
            }
            TokenKind::Int(value) => ExprKind::Int(value),
            TokenKind::Float(value) => ExprKind::Float(value),
            TokenKind::Operator("(") => {
                let (mut items, is_tuple) = self.items(&[], Self::expression)?;
                self.expect_operator(")")?;
                match items.pop() {
                    Some(item) if !is_tuple => return Ok(item),
                    last => {
                        items.extend(last);
                        ExprKind::Tuple(items)
                    }
                }
            }
            TokenKind::Operator("[") => ExprKind::List(self.list_items()?),
            TokenKind::Operator("{") => ExprKind::Dict(self.dict_items()?),
            _ => {
                self.at -= 1;
                return self.unexpected("an expression");
            }
        };
        self.make(token.line, kind)
    }

    pub(super) fn note_special(&mut self, name: &str) {
        for reads in &mut self.macros {
            match name {
                "caller" => reads.caller = true,
                "varargs" => reads.varargs = true,
                "kwargs" => reads.kwargs = true,
                _ => {}
            }
        }
    }

    fn list_items(&mut self) -> Result<Vec<Expr>> {
        let mut items = Vec::new();
        while !self.skip_operator("]") {
            if !items.is_empty() {
                self.expect_operator(",")?;
                if self.skip_operator("]") {
                    break;
                }
            }
            items.push(self.expression()?);
        }
        Ok(items)
    }

    fn dict_items(&mut self) -> Result<Vec<(Expr, Expr)>> {
        let mut items = Vec::new();
        while !self.skip_operator("}") {
            if !items.is_empty() {
                self.expect_operator(",")?;
                if self.skip_operator("}") {
                    break;
                }
            }
            let key = self.expression()?;
            self.expect_operator(":")?;
            items.push((key, self.expression()?));
        }
        Ok(items)
    }

    pub(super) fn postfix(&mut self, mut node: Expr) -> Result<Expr> {
        loop {
            let line = self.line();
            node = if self.skip_operator(".") {
                match self.next().kind {
                    TokenKind::Name(name) => self.make(line, ExprKind::Attribute(Box::new(node), name))?,
                    TokenKind::Int(index) => {
                        let index = self.make(line, ExprKind::Int(index))?;
                        self.make(line, ExprKind::Item(Box::new((node, index))))?
                    }
                    _ => {
                        self.at -= 1;
                        return self.unexpected("name or number");
                    }
                }
            } else if self.skip_operator("[") {
                self.subscript(node, line)?
            } else if self.is_operator("(") {
                self.call(node, line)?
            } else {
                return Ok(node);
            };
        }
    }

    /// A call of `callee` with the arguments that follow it.
    fn call(&mut self, callee: Expr, line: usize) -> Result<Expr> {
        let arguments = self.arguments()?;
        self.make(line, ExprKind::Call(Box::new(callee), arguments))
    }

    fn subscript(&mut self, node: Expr, line: usize) -> Result<Expr> {
        let mut parts = [None, None, None];
        if !self.is_operator(":") {
            let mut indices = Vec::new();
            while !self.is_operator("]") && !self.is_operator(":") {
                if !indices.is_empty() {
                    self.expect_operator(",")?;
                }
                indices.push(self.expression()?);
            }
            if self.skip_operator("]") {
                let index = match indices.pop() {
                    Some(index) if indices.is_empty() => index,
                    last => {
                        indices.extend(last);
                        self.make(line, ExprKind::Tuple(indices))?
                    }
                };
                return self.make(line, ExprKind::Item(Box::new((node, index))));
            }
            if indices.len() > 1 {
                return self.fail("unsupported: several slices");
            }
            parts[0] = indices.pop();
        }
        self.expect_operator(":")?;
        if !self.is_operator(":") && !self.is_operator("]") {
            parts[1] = Some(self.expression()?);
        }
        if self.skip_operator(":") && !self.is_operator("]") {
            parts[2] = Some(self.expression()?);
        }
        if self.is_operator(",") {
            return self.fail("unsupported: several slices");
        }
        self.expect_operator("]")?;
        self.make(line, ExprKind::Slice(Box::new((node, parts))))
    }

    pub(super) fn filters_and_tests(&mut self, mut node: Expr) -> Result<Expr> {
        loop {
            let line = self.line();
            node = if self.is_operator("|") {
                self.filters(node)?
            } else if self.skip_name("is") {
                self.test(node, line)?
            } else if self.is_operator("(") {
                self.call(node, line)?
            } else {
                return Ok(node);
            };
        }
    }

    /// `node` with the filters that follow it.
    pub(super) fn filters(&mut self, mut node: Expr) -> Result<Expr> {
        while self.skip_operator("|") {
            node = self.filter(node)?;
        }
        Ok(node)
    }

    /// `node` with the filter whose name is the current token.
    pub(super) fn filter(&mut self, node: Expr) -> Result<Expr> {
        let line = self.line();
        let name = self.dotted_name()?;
        self.named.push((NameKind::Filter, name.clone(), line));
        let arguments = if self.is_operator("(") { self.arguments()? } else { CallArguments::default() };
        self.make(line, ExprKind::Filter(Box::new(node), name, arguments))
    }

    fn test(&mut self, node: Expr, line: usize) -> Result<Expr> {
        let negated = self.skip_name("not");
        let name = self.dotted_name()?;
        self.named.push((NameKind::Test, name.clone(), line));
        let mut arguments = CallArguments::default();
        if self.is_operator("(") {
            arguments = self.arguments()?;
        } else if self.starts_argument() {
            if self.is_name("is") {
                return self.fail("You cannot chain multiple tests with is");
            }
            let argument = self.primary()?;
            arguments.positional.push(self.postfix(argument)?);
        }
        let test = self.make(line, ExprKind::Test(Box::new(node), name, arguments))?;
        if negated { self.make(line, ExprKind::Not(Box::new(test))) } else { Ok(test) }
    }

    /// Whether the current token begins the argument of a test without brackets.
    pub(super) fn starts_argument(&self) -> bool {
        match self.kind() {
            TokenKind::Name(name) => !matches!(&**name, "else" | "or" | "and"),
            TokenKind::Text(_) | TokenKind::Int(_) | TokenKind::Float(_) => true,
            TokenKind::Operator(operator) => matches!(*operator, "(" | "[" | "{"),
            _ => false,
        }
    }

    fn dotted_name(&mut self) -> Result<Arc<str>> {
        let mut name = self.expect_name()?;
        while self.skip_operator(".") {
            name = format!("{name}.{}", self.expect_name()?).into();
        }
        Ok(name)
    }

    fn arguments(&mut self) -> Result<CallArguments> {
        const INVALID: &str = "invalid syntax for function call expression";
        self.expect_operator("(")?;
        let mut arguments = CallArguments::default();
        let mut first = true;
        while !self.skip_operator(")") {
            if !std::mem::take(&mut first) {
                self.expect_operator(",")?;
                if self.skip_operator(")") {
                    break;
                }
            }
            let assigns =
                matches!(self.tokens.get(self.at + 1), Some(token) if token.kind == TokenKind::Operator("="));
            if self.skip_operator("*") {
                if arguments.rest.is_some() || arguments.named_rest.is_some() {
                    return self.fail(INVALID);
                }
                arguments.rest = Some(Box::new(self.expression()?));
            } else if self.skip_operator("**") {
                if arguments.named_rest.is_some() {
                    return self.fail(INVALID);
                }
                arguments.named_rest = Some(Box::new(self.expression()?));
            } else if assigns && matches!(self.kind(), TokenKind::Name(_)) {
                let name = self.expect_name()?;
                self.at += 1;
                if arguments.named_rest.is_some() {
                    return self.fail(INVALID);
                }
                if arguments.named.iter().any(|(known, _)| *known == name) {
                    return self.fail(format!("keyword argument repeated: {name}"));
                }
                arguments.named.push((name, self.expression()?));
            } else {
                let named = !arguments.named.is_empty();
                if named || arguments.rest.is_some() || arguments.named_rest.is_some() {
                    return self.fail(INVALID);
                }
                arguments.positional.push(self.expression()?);
            }
        }
        Ok(arguments)
    }
}
