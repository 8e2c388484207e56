//! Runs statements.

use std::{cell::RefCell, rc::Rc, sync::Arc, time::SystemTime};

use super::{
    ast::{AssignTarget, BODY, Expr, For, LoopKind, Statement},
    error::{Error, Result},
    meter,
    meter::Writer,
    namespace::set_attribute,
    print,
    value::{BlockScope, Closure, Loop, Namespace, PyValue},
};

/// Control flow after a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Next,
    Break,
    Continue,
}

/// A rendering.
pub(super) struct Interpreter {
    pub(super) out: Writer,
    pub(super) now: SystemTime,
    /// Marks before and after `{% generation %}` blocks.
    marks: Option<[&'static str; 2]>,
    pub(super) calls: usize,
    /// Scopes that macros capture, and namespaces: they may contain themselves and are cleared at the end.
    scopes: Vec<Rc<BlockScope>>,
    pub(super) namespaces: Vec<Rc<Namespace>>,
    pub(super) kept: meter::Charge,
}

/// Renders a template with variables, and with `marks` before and after its `{% generation %}` blocks.
pub(super) fn render(
    body: &[Statement],
    variables: Vec<(Arc<str>, PyValue)>,
    now: SystemTime,
    marks: Option<[&'static str; 2]>,
) -> Result<String> {
    let root = Rc::new(BlockScope::default());
    for (name, value) in variables {
        root.set(name, value);
    }
    let mut interpreter = Interpreter {
        out: Writer::default(),
        now,
        marks,
        calls: 0,
        scopes: Vec::new(),
        namespaces: Vec::new(),
        kept: meter::Charge::default(),
    };
    let result = interpreter.body(body, &root);
    for scope in &interpreter.scopes {
        scope.clear();
    }
    for namespace in &interpreter.namespaces {
        namespace.attributes.take();
    }
    result.map(|_| interpreter.out.into_parts().0)
}

impl Interpreter {
    /// Runs statements.
    pub(super) fn body(&mut self, body: &[Statement], scope: &Rc<BlockScope>) -> Result<Flow> {
        for statement in body {
            let flow = meter::deeper(|| self.statement(statement, scope))?;
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn statement(&mut self, statement: &Statement, scope: &Rc<BlockScope>) -> Result<Flow> {
        meter::step(1)?;
        match statement {
            Statement::Text(text) => self.out.push(text)?,
            Statement::Print(expression) => {
                let value = self.eval(expression, scope)?;
                print::write(&value, &mut self.out).map_err(|error| error.or_at(expression.line))?;
            }
            Statement::For(definition) => return self.for_loop(definition, scope),
            Statement::If(branches, otherwise) => {
                for (test, body) in branches {
                    if self.eval(test, scope)?.is_true() {
                        return self.body(body, scope);
                    }
                }
                return self.body(otherwise, scope);
            }
            Statement::Set(target, value) => {
                let line = value.line;
                let value = self.eval(value, scope)?;
                self.assign(target, value, scope, scope).map_err(|error| error.or_at(line))?;
            }
            Statement::SetBlock(target, filter, body) => {
                let (value, flow) = self.filtered(filter, body, scope)?;
                if flow != Flow::Next {
                    return Ok(flow);
                }
                self.assign(target, value, scope, scope)?;
            }
            Statement::With(values, body) => {
                let inner = BlockScope::inside(scope);
                for (target, value) in values {
                    let value = self.eval(value, scope)?;
                    self.assign(target, value, &inner, scope)?;
                }
                return self.body(body, &inner);
            }
            Statement::Macro(definition) => {
                self.keep(scope)?;
                let closure = Closure { definition: definition.clone(), scope: scope.clone() };
                if let Some(name) = &definition.name {
                    scope.set(name.clone(), PyValue::Macro(Rc::new(closure)));
                }
            }
            Statement::Call(call, caller) => {
                self.keep(scope)?;
                let caller = Closure { definition: caller.clone(), scope: scope.clone() };
                let value = self.call_with(call, scope, Some(PyValue::Macro(Rc::new(caller))))?;
                print::write(&value, &mut self.out).map_err(|error| error.or_at(call.line))?;
            }
            Statement::Filter(filter, body) => {
                let (value, flow) = self.filtered(filter, body, scope)?;
                if flow != Flow::Next {
                    return Ok(flow);
                }
                print::write(&value, &mut self.out)?;
            }
            Statement::Generation(body) => {
                let [begin, end] = self.marks.unwrap_or_default();
                self.out.push(begin)?;
                let flow = self.body(body, &BlockScope::inside(scope))?;
                self.out.push(end)?;
                return Ok(flow);
            }
            Statement::Break => return Ok(Flow::Break),
            Statement::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    /// Registers a scope that a macro may capture beyond its end.
    fn keep(&mut self, scope: &Rc<BlockScope>) -> Result<()> {
        if !self.scopes.last().is_some_and(|last| Rc::ptr_eq(last, scope)) {
            self.kept.grow(256)?;
            self.scopes.push(scope.clone());
        }
        Ok(())
    }

    /// Captures the text that `run` writes.
    pub(super) fn capture<T>(&mut self, run: impl FnOnce(&mut Self) -> Result<T>) -> Result<(PyValue, T)> {
        let outer = std::mem::take(&mut self.out);
        let result = run(self);
        let inner = std::mem::replace(&mut self.out, outer);
        let result = result?;
        Ok((PyValue::written(inner)?, result))
    }

    /// The text of a body after a filter.
    fn filtered(
        &mut self,
        filter: &Expr,
        body: &[Statement],
        scope: &Rc<BlockScope>,
    ) -> Result<(PyValue, Flow)> {
        let inner = BlockScope::inside(scope);
        let (text, flow) = self.capture(|interpreter| interpreter.body(body, &inner))?;
        if flow != Flow::Next {
            return Ok((text, flow));
        }
        let around = BlockScope::inside(&inner);
        around.set(BODY.into(), text);
        Ok((self.eval(filter, &around)?, Flow::Next))
    }

    /// Assigns in `scope`; namespaces are looked up from `from`.
    fn assign(
        &mut self,
        target: &AssignTarget,
        value: PyValue,
        scope: &BlockScope,
        from: &BlockScope,
    ) -> Result<()> {
        match target {
            AssignTarget::Name(name) => scope.set(name.clone(), value),
            AssignTarget::Attribute(name, attribute, line) => {
                let object = from.get(name).unwrap_or_else(|| PyValue::undefined_name(name));
                let PyValue::Namespace(namespace) = object else {
                    return Err(Error::at(*line, "cannot assign attribute on non-namespace object"));
                };
                set_attribute(&namespace, attribute.clone(), value).map_err(|error| error.or_at(*line))?;
            }
            AssignTarget::Tuple(targets, line) => {
                let values = unpacked(&value, targets.len()).map_err(|error| error.or_at(*line))?;
                for (target, value) in targets.iter().zip(values) {
                    self.assign(target, value, scope, from)?;
                }
            }
        }
        Ok(())
    }

    fn for_loop(&mut self, definition: &Arc<For>, scope: &Rc<BlockScope>) -> Result<Flow> {
        let items = self.eval(&definition.items, scope)?;
        self.repeat(definition, &items, scope, 0).map_err(|error| error.or_at(definition.line))?;
        Ok(Flow::Next)
    }

    /// Runs a loop over `items` at a recursion depth.
    pub(super) fn repeat(
        &mut self,
        definition: &Arc<For>,
        items: &PyValue,
        scope: &Rc<BlockScope>,
        depth: usize,
    ) -> Result<()> {
        let mut items = items.items()?;
        let line = definition.items.line;
        if let Some(test) = &definition.test {
            let mut kept = Vec::new();
            for item in items {
                let inner = BlockScope::inside(scope);
                self.assign(&definition.target, item.clone(), &inner, scope)?;
                if self.eval(test, &inner)?.is_true() {
                    kept.push(item);
                }
            }
            items = kept;
        }
        let _charge = meter::Charge::of(64 * items.len()).map_err(|error| error.or_at(line))?;
        let recursion = (definition.kind == LoopKind::Recursive).then(|| (definition.clone(), scope.clone()));
        if recursion.is_some() {
            self.keep(scope)?;
        }
        let name: Arc<str> = "loop".into();
        let state = Rc::new(Loop {
            items,
            index: std::cell::Cell::new(0),
            depth,
            changed: RefCell::default(),
            recursion,
        });
        let mut completed = false;
        for (index, item) in state.items.iter().enumerate() {
            state.index.set(index);
            let inner = BlockScope::inside(scope);
            inner.set(name.clone(), PyValue::Loop(state.clone()));
            self.assign(&definition.target, item.clone(), &inner, scope)?;
            match self.body(&definition.body, &inner)? {
                Flow::Next => completed = true,
                Flow::Continue => {}
                Flow::Break => break,
            }
        }
        // Jinja2 runs `else` unless some iteration reached its end.
        if !completed && !definition.otherwise.is_empty() {
            let flow = self.body(&definition.otherwise, &BlockScope::inside(scope))?;
            if flow != Flow::Next {
                return Err(Error::unsupported("`break` and `continue` in the `else` of a loop"));
            }
        }
        Ok(())
    }
}

fn unpacked(value: &PyValue, count: usize) -> Result<Vec<PyValue>> {
    if !value.is_iterable() {
        return Err(Error::new(format!("cannot unpack non-iterable {} object", value.type_name())));
    }
    let values = value.items()?;
    match values.len() {
        found if found < count => {
            Err(Error::new(format!("not enough values to unpack (expected {count}, got {found})")))
        }
        found if found > count => Err(Error::new(format!("too many values to unpack (expected {count})"))),
        _ => Ok(values),
    }
}
