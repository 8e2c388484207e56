//! Evaluates expressions.

use std::{rc::Rc, sync::Arc};

use super::{
    args::Args,
    ast::{Arguments, Expr, Kind},
    attribute, compare,
    error::{Error, Result},
    filters, index,
    interpreter::Interpreter,
    meter, names, number, operators, predicates, print,
    value::{Scope, Undefined, Value},
};

impl Interpreter {
    /// The value of an expression; an error has its line.
    pub(super) fn eval(&mut self, expression: &Expr, scope: &Rc<Scope>) -> Result<Value> {
        meter::step(1)
            .and_then(|()| meter::deeper(|| self.eval_kind(expression, scope)))
            .map_err(|error| error.or_at(expression.line))
    }

    fn eval_kind(&mut self, expression: &Expr, scope: &Rc<Scope>) -> Result<Value> {
        match &expression.kind {
            Kind::None => Ok(Value::None),
            Kind::Bool(value) => Ok(Value::Bool(*value)),
            Kind::Int(value) => Ok(Value::Int(*value)),
            Kind::Float(value) => Ok(Value::Float(*value)),
            Kind::Text(text) => Ok(Value::Text(text.clone())),
            Kind::Name(name) => self.variable(name, scope),
            Kind::List(items) => Value::list(self.eval_all(items, scope)?),
            Kind::Tuple(items) => Value::tuple(self.eval_all(items, scope)?),
            Kind::Dict(items) => {
                let mut pairs = Vec::with_capacity(items.len());
                for (key, value) in items {
                    pairs.push((self.eval(key, scope)?, self.eval(value, scope)?));
                }
                Value::dict(pairs)
            }
            Kind::Not(inner) => Ok(Value::Bool(!self.eval(inner, scope)?.is_true())),
            Kind::Negative(inner) => number::negative(&self.eval(inner, scope)?),
            Kind::Positive(inner) => number::positive(&self.eval(inner, scope)?),
            Kind::And(both) => {
                let left = self.eval(&both.0, scope)?;
                if left.is_true() { self.eval(&both.1, scope) } else { Ok(left) }
            }
            Kind::Or(both) => {
                let left = self.eval(&both.0, scope)?;
                if left.is_true() { Ok(left) } else { self.eval(&both.1, scope) }
            }
            Kind::Binary(operator, both) => {
                let (left, right) = (self.eval(&both.0, scope)?, self.eval(&both.1, scope)?);
                operators::binary(*operator, &left, &right)
            }
            Kind::Compare(first, others) => {
                let mut left = self.eval(first, scope)?;
                for (comparison, right) in others {
                    let right = self.eval(right, scope)?;
                    if !compare::compare(*comparison, &left, &right)? {
                        return Ok(Value::Bool(false));
                    }
                    left = right;
                }
                Ok(Value::Bool(true))
            }
            Kind::Concat(parts) => {
                let parts = self.eval_all(parts, scope)?;
                let mut out = meter::Writer::default();
                parts.iter().try_for_each(|part| print::write(part, &mut out))?;
                Value::written(out)
            }
            Kind::Condition(parts) => {
                let (test, value, otherwise) = &**parts;
                if self.eval(test, scope)?.is_true() {
                    return self.eval(value, scope);
                }
                match otherwise {
                    Some(otherwise) => self.eval(otherwise, scope),
                    None => Ok(no_else(expression.line)),
                }
            }
            Kind::Attribute(object, name) => attribute::attribute(&self.eval(object, scope)?, name),
            Kind::Item(both) => {
                let (object, key) = (self.eval(&both.0, scope)?, self.eval(&both.1, scope)?);
                attribute::item(&object, &key)
            }
            Kind::Slice(parts) => {
                let object = self.eval(&parts.0, scope)?;
                let mut bounds = [Value::None, Value::None, Value::None];
                for (bound, part) in bounds.iter_mut().zip(&parts.1) {
                    if let Some(part) = part {
                        *bound = self.eval(part, scope)?;
                    }
                }
                index::slice(&object, bounds)
            }
            Kind::Filter(input, name, arguments) => {
                let input = self.eval(input, scope)?;
                filters::apply(name, input, self.args(arguments, scope)?)
            }
            Kind::Test(input, name, arguments) => {
                let input = self.eval(input, scope)?;
                Ok(Value::Bool(predicates::apply(name, &input, self.args(arguments, scope)?)?))
            }
            Kind::Call(..) => self.call_with(expression, scope, None),
        }
    }

    fn variable(&self, name: &Arc<str>, scope: &Scope) -> Result<Value> {
        if let Some(value) = scope.get(name) {
            return Ok(value);
        }
        match names::GLOBALS.iter().find(|known| **known == &**name) {
            Some(known) => Ok(Value::Function(known)),
            None if &**name == "self" => Err(Error::unsupported("the variable 'self'")),
            None => Ok(Value::undefined_name(name)),
        }
    }

    fn eval_all(&mut self, expressions: &[Expr], scope: &Rc<Scope>) -> Result<Vec<Value>> {
        expressions.iter().map(|expression| self.eval(expression, scope)).collect()
    }

    fn args(&mut self, arguments: &Arguments, scope: &Rc<Scope>) -> Result<Args> {
        let mut args = Args { positional: self.eval_all(&arguments.positional, scope)?, named: Vec::new() };
        for (name, value) in &arguments.named {
            args.named.push((name.clone(), self.eval(value, scope)?));
        }
        if let Some(rest) = &arguments.rest {
            args.positional.extend(self.eval(rest, scope)?.items()?);
        }
        if let Some(rest) = &arguments.named_rest {
            let Value::Dict(dict) = self.eval(rest, scope)? else {
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
        scope: &Rc<Scope>,
        caller: Option<Value>,
    ) -> Result<Value> {
        let Kind::Call(callee, arguments) = &call.kind else { return self.eval(call, scope) };
        let callee = self.eval(callee, scope)?;
        let mut args = self.args(arguments, scope)?;
        if let Some(caller) = caller {
            args.named.push(("caller".into(), caller));
        }
        self.call(&callee, args).map_err(|error| error.or_at(call.line))
    }
}

fn no_else(line: usize) -> Value {
    Value::Undefined(Rc::new(Undefined::Hint(format!(
        "the inline if-expression on line {line} evaluated to false and no else section was defined."
    ))))
}
