//! Expressions of a template.

use super::state::TemplateParser;
use crate::data::jinja::{
    ast::{BinaryOp, CompareOp, Expr, ExprKind},
    error::Result,
    lexer::TokenKind,
    meter,
};

impl TemplateParser {
    pub(super) fn make(&self, line: usize, kind: ExprKind) -> Result<Expr> {
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

    pub(super) fn tuple_of(
        &mut self,
        ends: &[&str],
        parse: impl Fn(&mut Self) -> Result<Expr>,
    ) -> Result<Expr> {
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
    pub(super) fn items(
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
}
