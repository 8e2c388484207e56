//! Names that a template assigns to: targets of assignments, and parameters of macros.

use std::sync::Arc;

use super::state::TemplateParser;
use crate::data::jinja::{
    ast::{AssignTarget, Expr},
    error::Result,
    lexer::TokenKind,
};

impl TemplateParser {
    /// The parameters of a macro, each with its default.
    pub(super) fn parameters(&mut self) -> Result<Vec<(Arc<str>, Option<Expr>)>> {
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

    /// Checks that a name is not a constant.
    pub(super) fn assignable(&self, name: &str) -> Result<()> {
        match name {
            "true" | "false" | "none" | "True" | "False" | "None" => {
                self.fail(format!("can't assign to '{name}'"))
            }
            _ => Ok(()),
        }
    }

    /// A target of an assignment, which ends before one of the names in `ends`.
    pub(super) fn target(&mut self, ends: &[&str]) -> Result<AssignTarget> {
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

    /// A variable.
    pub(super) fn plain_target(&mut self) -> Result<AssignTarget> {
        let name = self.expect_name()?;
        self.assignable(&name)?;
        Ok(AssignTarget::Name(name))
    }
}
