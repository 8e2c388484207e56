//! Evaluates expressions.

use std::{rc::Rc, sync::Arc};

use super::{
    args::Args,
    ast::{CallArguments, CompareOp, Expr, ExprKind},
    attribute, compare,
    error::{Error, Result},
    filters, index,
    interpreter::Interpreter,
    meter, names, number, operators, predicates, print,
    value::{BlockScope, PyValue, Undefined},
};

impl Interpreter {
    /// The value of an expression; an error has its line.
    pub(super) fn eval(&mut self, expression: &Expr, scope: &Rc<BlockScope>) -> Result<PyValue> {
        meter::step(1)
            .and_then(|()| meter::deeper(|| self.eval_kind(expression, scope)))
            .map_err(|error| error.or_at(expression.line))
    }

    fn eval_kind(&mut self, expression: &Expr, scope: &Rc<BlockScope>) -> Result<PyValue> {
        match &expression.kind {
            ExprKind::None => Ok(PyValue::None),
            ExprKind::Bool(value) => Ok(PyValue::Bool(*value)),
            ExprKind::Int(value) => Ok(PyValue::Int(*value)),
            ExprKind::Float(value) => Ok(PyValue::Float(*value)),
            ExprKind::Text(text) => Ok(PyValue::Text(text.clone())),
            ExprKind::Name(name) => self.variable(name, scope),
            ExprKind::List(items) => PyValue::list(self.eval_all(items, scope)?),
            ExprKind::Tuple(items) => PyValue::tuple(self.eval_all(items, scope)?),
            ExprKind::Dict(items) => {
                let mut pairs = Vec::with_capacity(items.len());
                for (key, value) in items {
                    pairs.push((self.eval(key, scope)?, self.eval(value, scope)?));
                }
                PyValue::dict(pairs)
            }
            ExprKind::Not(inner) => Ok(PyValue::Bool(!self.eval(inner, scope)?.is_true())),
            ExprKind::Negative(inner) => number::negative(&self.eval(inner, scope)?),
            ExprKind::Positive(inner) => number::positive(&self.eval(inner, scope)?),
            ExprKind::And(both) => {
                let left = self.eval(&both.0, scope)?;
                if left.is_true() { self.eval(&both.1, scope) } else { Ok(left) }
            }
            ExprKind::Or(both) => {
                let left = self.eval(&both.0, scope)?;
                if left.is_true() { Ok(left) } else { self.eval(&both.1, scope) }
            }
            ExprKind::Binary(operator, both) => {
                let (left, right) = (self.eval(&both.0, scope)?, self.eval(&both.1, scope)?);
                operators::binary(*operator, &left, &right)
            }
            ExprKind::Compare(first, others) => self.compare(first, others, scope).map(PyValue::Bool),
            ExprKind::Concat(parts) => {
                let parts = self.eval_all(parts, scope)?;
                let mut out = meter::Writer::default();
                parts.iter().try_for_each(|part| print::write(part, &mut out))?;
                PyValue::written(out)
            }
            ExprKind::Condition(parts) => {
                let (test, value, otherwise) = &**parts;
                if self.eval(test, scope)?.is_true() {
                    return self.eval(value, scope);
                }
                match otherwise {
                    Some(otherwise) => self.eval(otherwise, scope),
                    None => Ok(no_else(expression.line)),
                }
            }
            ExprKind::Attribute(object, name) => attribute::attribute(&self.eval(object, scope)?, name),
            ExprKind::Item(both) => {
                let (object, key) = (self.eval(&both.0, scope)?, self.eval(&both.1, scope)?);
                attribute::item(&object, &key)
            }
            ExprKind::Slice(parts) => {
                let object = self.eval(&parts.0, scope)?;
                let mut bounds = [PyValue::None, PyValue::None, PyValue::None];
                for (bound, part) in bounds.iter_mut().zip(&parts.1) {
                    if let Some(part) = part {
                        *bound = self.eval(part, scope)?;
                    }
                }
                index::slice(&object, bounds)
            }
            ExprKind::Filter(input, name, arguments) => {
                let input = self.eval(input, scope)?;
                filters::apply(name, input, self.args(arguments, scope)?)
            }
            ExprKind::Test(input, name, arguments) => {
                let input = self.eval(input, scope)?;
                Ok(PyValue::Bool(predicates::apply(name, &input, self.args(arguments, scope)?)?))
            }
            ExprKind::Call(..) => self.call_with(expression, scope, None),
        }
    }

    /// A chain of comparisons such as `a < b < c`, up to the first that is false.
    fn compare(
        &mut self,
        first: &Expr,
        others: &[(CompareOp, Expr)],
        scope: &Rc<BlockScope>,
    ) -> Result<bool> {
        let mut left = self.eval(first, scope)?;
        for (operator, right) in others {
            let right = self.eval(right, scope)?;
            if !compare::compare(*operator, &left, &right)? {
                return Ok(false);
            }
            left = right;
        }
        Ok(true)
    }

    fn variable(&self, name: &Arc<str>, scope: &BlockScope) -> Result<PyValue> {
        if let Some(value) = scope.get(name) {
            return Ok(value);
        }
        match names::GLOBALS.iter().find(|known| **known == &**name) {
            Some(known) => Ok(PyValue::Function(known)),
            None if &**name == "self" => Err(Error::unsupported("the variable 'self'")),
            None => Ok(PyValue::undefined_name(name)),
        }
    }

    fn eval_all(&mut self, expressions: &[Expr], scope: &Rc<BlockScope>) -> Result<Vec<PyValue>> {
        expressions.iter().map(|expression| self.eval(expression, scope)).collect()
    }

    fn args(&mut self, arguments: &CallArguments, scope: &Rc<BlockScope>) -> Result<Args> {
        let mut args = Args { positional: self.eval_all(&arguments.positional, scope)?, named: Vec::new() };
        for (name, value) in &arguments.named {
            args.named.push((name.clone(), self.eval(value, scope)?));
        }
        if let Some(rest) = &arguments.rest {
            args.positional.extend(self.eval(rest, scope)?.items()?);
        }
        if let Some(rest) = &arguments.named_rest {
            let PyValue::Dict(dict) = self.eval(rest, scope)? else {
                return Err(Error::new("argument after ** must be a mapping"));
            };
            for (name, value) in &dict.items {
                let name = name.as_text().ok_or_else(|| Error::new("keywords must be strings"))?;
                if args.named.iter().any(|(known, _)| **known == *name) {
                    return Err(Error::new(format!("got multiple values for keyword argument '{name}'")));
                }
                args.named.push((name.into(), value.clone()));
            }
        }
        Ok(args)
    }

    /// The value of a call, which passes `caller` on.
    pub(super) fn call_with(
        &mut self,
        call: &Expr,
        scope: &Rc<BlockScope>,
        caller: Option<PyValue>,
    ) -> Result<PyValue> {
        let ExprKind::Call(callee, arguments) = &call.kind else { return self.eval(call, scope) };
        let callee = self.eval(callee, scope)?;
        let mut args = self.args(arguments, scope)?;
        if let Some(caller) = caller {
            args.named.push(("caller".into(), caller));
        }
        self.call(&callee, args).map_err(|error| error.or_at(call.line))
    }
}

fn no_else(line: usize) -> PyValue {
    PyValue::Undefined(Rc::new(Undefined::Hint(format!(
        "the inline if-expression on line {line} evaluated to false and no else section was defined."
    ))))
}
