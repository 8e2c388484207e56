//! Expressions of a template.

use std::sync::Arc;

use super::{NameKind, TemplateParser};
use crate::data::jinja::{
    ast::{BinaryOp, CallArguments, CompareOp, Expr, ExprKind},
    error::Result,
    lexer::TokenKind,
    meter,
    text::Text,
};

impl TemplateParser {
    fn make(&self, line: usize, kind: ExprKind) -> Result<Expr> {
        let expression = Expr::new(line, kind);
        if expression.depth > meter::MAX_NESTING {
            return self.fail(format!("an expression of more than {} levels", meter::MAX_NESTING));
        }
        Ok(expression)
    }

    /// An expression, or several with commas between them.
    pub(super) fn tuple(&mut self) -> Result<Expr> {
        self.tuple_of(&[], Self::expression)
    }

    /// As [`Self::tuple`], without `a if b` outside of brackets, up to one of the names `ends`.
    pub(super) fn tuple_until(&mut self, ends: &[&str]) -> Result<Expr> {
        self.tuple_of(ends, |parser| parser.nested(Self::or))
    }

    /// As [`Self::tuple`], without `a if b` outside of brackets.
    pub(super) fn tuple_without_condition(&mut self) -> Result<Expr> {
        self.tuple_until(&[])
    }

    fn tuple_of(&mut self, ends: &[&str], parse: impl Fn(&mut Self) -> Result<Expr>) -> Result<Expr> {
        let line = self.line();
        let (mut items, is_tuple) = self.items(ends, parse)?;
        if is_tuple {
            return self.make(line, ExprKind::Tuple(items));
        }
        match items.pop() {
            Some(item) => Ok(item),
            None => self.unexpected("an expression"),
        }
    }

    /// Expressions with commas between them, and whether there was a comma.
    fn items(
        &mut self,
        ends: &[&str],
        parse: impl Fn(&mut Self) -> Result<Expr>,
    ) -> Result<(Vec<Expr>, bool)> {
        let mut items = Vec::new();
        let mut is_tuple = false;
        loop {
            let end = matches!(self.kind(), TokenKind::VariableEnd | TokenKind::BlockEnd);
            if end || self.is_operator(")") || ends.iter().any(|end| self.is_name(end)) {
                return Ok((items, is_tuple));
            }
            items.push(parse(self)?);
            if !self.skip_operator(",") {
                return Ok((items, is_tuple));
            }
            is_tuple = true;
        }
    }

    pub(super) fn expression(&mut self) -> Result<Expr> {
        self.nested(Self::condition_expression)
    }

    fn condition_expression(&mut self) -> Result<Expr> {
        let known = self.named.len();
        let mut line = self.line();
        let mut value = self.or()?;
        while self.skip_name("if") {
            let test = self.or()?;
            let otherwise = if self.skip_name("else") { Some(self.expression()?) } else { None };
            self.named.truncate(known);
            value = self.make(line, ExprKind::Condition(Box::new((test, value, otherwise))))?;
            line = self.line();
        }
        Ok(value)
    }

    fn or(&mut self) -> Result<Expr> {
        let line = self.line();
        let mut left = self.and()?;
        while self.skip_name("or") {
            let right = self.and()?;
            left = self.make(line, ExprKind::Or(Box::new((left, right))))?;
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Expr> {
        let line = self.line();
        let mut left = self.not()?;
        while self.skip_name("and") {
            let right = self.not()?;
            left = self.make(line, ExprKind::And(Box::new((left, right))))?;
        }
        Ok(left)
    }

    fn not(&mut self) -> Result<Expr> {
        let line = self.line();
        if self.skip_name("not") {
            let inner = self.nested(Self::not)?;
            return self.make(line, ExprKind::Not(Box::new(inner)));
        }
        self.compare()
    }

    fn comparison(&mut self) -> Option<CompareOp> {
        let comparison = match self.kind() {
            TokenKind::Operator("==") => CompareOp::Equal,
            TokenKind::Operator("!=") => CompareOp::NotEqual,
            TokenKind::Operator("<") => CompareOp::Less,
            TokenKind::Operator("<=") => CompareOp::LessEqual,
            TokenKind::Operator(">") => CompareOp::Greater,
            TokenKind::Operator(">=") => CompareOp::GreaterEqual,
            TokenKind::Name(name) if &**name == "in" => CompareOp::In,
            TokenKind::Name(name) if &**name == "not" => {
                let after = self.tokens.get(self.at + 1).map(|token| &token.kind);
                if !matches!(after, Some(TokenKind::Name(name)) if &**name == "in") {
                    return None;
                }
                self.at += 1;
                CompareOp::NotIn
            }
            _ => return None,
        };
        self.at += 1;
        Some(comparison)
    }

    fn compare(&mut self) -> Result<Expr> {
        let line = self.line();
        let first = self.sum()?;
        let mut others = Vec::new();
        while let Some(comparison) = self.comparison() {
            others.push((comparison, self.sum()?));
        }
        if others.is_empty() {
            return Ok(first);
        }
        self.make(line, ExprKind::Compare(Box::new(first), others))
    }

    fn sum(&mut self) -> Result<Expr> {
        let operators = [("+", BinaryOp::Add), ("-", BinaryOp::Subtract)];
        self.binary(&operators, Self::concat)
    }

    fn concat(&mut self) -> Result<Expr> {
        let line = self.line();
        let first = self.product()?;
        if !self.is_operator("~") {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.skip_operator("~") {
            parts.push(self.product()?);
        }
        self.make(line, ExprKind::Concat(parts))
    }

    fn product(&mut self) -> Result<Expr> {
        let operators = [
            ("*", BinaryOp::Multiply),
            ("/", BinaryOp::Divide),
            ("//", BinaryOp::FloorDivide),
            ("%", BinaryOp::Modulo),
        ];
        self.binary(&operators, Self::power)
    }

    fn power(&mut self) -> Result<Expr> {
        self.binary(&[("**", BinaryOp::Power)], |parser| {
            let node = parser.unary()?;
            parser.filters_and_tests(node)
        })
    }

    fn binary(
        &mut self,
        operators: &[(&str, BinaryOp)],
        operand: impl Fn(&mut Self) -> Result<Expr>,
    ) -> Result<Expr> {
        let line = self.line();
        let mut left = operand(self)?;
        while let Some((_, operator)) = operators.iter().find(|(symbol, _)| self.is_operator(symbol)) {
            self.at += 1;
            let right = operand(self)?;
            left = self.make(line, ExprKind::Binary(*operator, Box::new((left, right))))?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expr> {
        let line = self.line();
        let node = if self.skip_operator("-") {
            let inner = self.nested(Self::unary)?;
            self.make(line, ExprKind::Negative(Box::new(inner)))?
        } else if self.skip_operator("+") {
            let inner = self.nested(Self::unary)?;
            self.make(line, ExprKind::Positive(Box::new(inner)))?
        } else {
            self.primary()?
        };
        self.postfix(node)
    }

    fn primary(&mut self) -> Result<Expr> {
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

    fn note_special(&mut self, name: &str) {
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

    fn postfix(&mut self, mut node: Expr) -> Result<Expr> {
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
                let arguments = self.arguments()?;
                self.make(line, ExprKind::Call(Box::new(node), arguments))?
            } else {
                return Ok(node);
            };
        }
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

    fn filters_and_tests(&mut self, mut node: Expr) -> Result<Expr> {
        loop {
            let line = self.line();
            node = if self.is_operator("|") {
                self.filters(node)?
            } else if self.skip_name("is") {
                self.test(node, line)?
            } else if self.is_operator("(") {
                let arguments = self.arguments()?;
                self.make(line, ExprKind::Call(Box::new(node), arguments))?
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
    fn starts_argument(&self) -> bool {
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
