//! Calls of macros, loops and global functions.

use std::{cell::Cell, rc::Rc, sync::Arc};

use super::{
    args::{Args, int, required},
    ast::Macro,
    compare, dates,
    error::{Error, Result},
    interpreter::Interpreter,
    meter, methods,
    namespace::set_attribute,
    print,
    undefined::undefined_error,
    value::{BlockScope, Closure, Cycler, Joiner, Loop, Namespace, PyRange, PyValue},
};

/// Length limit of ranges in Jinja2's sandbox.
const MAX_RANGE: usize = 100_000;

impl Interpreter {
    /// `callee(*args)`.
    pub(super) fn call(&mut self, callee: &PyValue, args: Args) -> Result<PyValue> {
        match callee {
            PyValue::Undefined(undefined) => Err(undefined_error(undefined)),
            PyValue::Macro(closure) => self.nested_call(|interpreter| interpreter.call_macro(closure, args)),
            PyValue::Loop(inner) => self.nested_call(|interpreter| interpreter.call_loop(inner, args)),
            PyValue::Function(name) => self.call_function(name, args),
            PyValue::Method(method) => {
                let (object, name) = &**method;
                match object {
                    PyValue::Loop(inner) => loop_method(inner, name, args),
                    PyValue::Cycler(cycler) => cycler_method(cycler, name, args),
                    _ => methods::call(object, name, args),
                }
            }
            PyValue::Joiner(joiner) => {
                args.none("Joiner.__call__")?;
                if joiner.used.replace(true) { Ok(joiner.separator.clone()) } else { PyValue::text("") }
            }
            _ => Err(Error::new(format!("'{}' object is not callable", callee.type_name()))),
        }
    }

    fn nested_call(&mut self, call: impl FnOnce(&mut Self) -> Result<PyValue>) -> Result<PyValue> {
        if self.calls == meter::MAX_CALLS {
            let limit = meter::MAX_CALLS;
            return Err(Error::new(format!("macros and loops call each other deeper than {limit} levels")));
        }
        self.calls += 1;
        let result = call(self);
        self.calls -= 1;
        result
    }

    fn call_macro(&mut self, closure: &Closure, args: Args) -> Result<PyValue> {
        let definition = &closure.definition;
        let scope = BlockScope::inside(&closure.scope);
        let missing = bind(definition, args, &scope)?;
        for (name, default) in missing {
            let value = match default {
                Some(default) => self.eval(default, &scope)?,
                None => PyValue::undefined(format!("parameter '{name}' was not provided")),
            };
            scope.set(name.clone(), value);
        }
        let (text, _) = self.capture(|interpreter| interpreter.body(&definition.body, &scope))?;
        Ok(text)
    }

    fn call_loop(&mut self, inner: &Loop, args: Args) -> Result<PyValue> {
        let [items] = args.bind("__call__", ["iterable"])?;
        let items = required(items, "__call__", "iterable")?;
        let Some((definition, scope)) = &inner.recursion else {
            return Err(Error::new("The loop must have the 'recursive' marker to be called recursively."));
        };
        let (text, ()) =
            self.capture(|interpreter| interpreter.repeat(definition, &items, scope, inner.depth + 1))?;
        Ok(text)
    }

    fn call_function(&mut self, name: &str, args: Args) -> Result<PyValue> {
        match name {
            "range" => range(args),
            "dict" => dict(args),
            "cycler" => {
                if args.positional.is_empty() {
                    return Err(Error::new("at least one item has to be provided"));
                }
                Ok(PyValue::Cycler(Rc::new(Cycler { items: args.positional, at: Cell::new(0) })))
            }
            "joiner" => {
                let [separator] = args.bind("joiner", ["sep"])?;
                let separator = separator.map_or_else(|| PyValue::text(", "), Ok)?;
                Ok(PyValue::Joiner(Rc::new(Joiner { separator, used: Cell::new(false) })))
            }
            "namespace" => self.namespace(args),
            "raise_exception" => {
                let [message] = args.bind("raise_exception", ["message"])?;
                let message = required(message, "raise_exception", "message")?;
                Err(Error::new(print::to_text(&message)?))
            }
            "strftime_now" => {
                let [format] = args.bind("strftime_now", ["format"])?;
                let format = required(format, "strftime_now", "format")?;
                let PyValue::Text(format) = format else {
                    return Err(Error::new(format!(
                        "strftime() argument 1 must be str, not {}",
                        format.type_name()
                    )));
                };
                PyValue::text(dates::strftime(&format.text, self.now)?)
            }
            _ => Err(Error::unsupported(format!("the function '{name}'"))),
        }
    }

    fn namespace(&mut self, args: Args) -> Result<PyValue> {
        // A namespace lives until the end of the rendering.
        self.kept.grow(256)?;
        let namespace = Rc::new(Namespace::default());
        let PyValue::Dict(attributes) = dict(args)? else { return Err(Error::new("expected attributes")) };
        for (name, value) in &attributes.items {
            let Some(name) = name.as_text() else {
                return Err(Error::unsupported("a namespace with names that are no strings"));
            };
            set_attribute(&namespace, name.into(), value.clone())?;
        }
        self.namespaces.push(namespace.clone());
        Ok(PyValue::Namespace(namespace))
    }
}

/// Binds arguments to parameters; returns the parameters without an argument.
fn bind<'a>(
    definition: &'a Macro,
    args: Args,
    scope: &BlockScope,
) -> Result<Vec<(&'a Arc<str>, &'a Option<super::ast::Expr>)>> {
    let name = definition.name.as_deref().map_or_else(|| "None".into(), print::repr_text);
    let parameters = &definition.parameters;
    let mut named = args.named;
    let mut missing = Vec::new();
    let mut positional = args.positional.into_iter();
    for (parameter, default) in parameters {
        let at = named.iter().position(|(known, _)| known == parameter);
        let value = positional.next().or_else(|| at.map(|at| named.remove(at).1));
        if value.is_none() {
            missing.push((parameter, default));
        }
        scope.set(parameter.clone(), value.unwrap_or_else(|| PyValue::undefined_name(parameter)));
    }
    let explicit_caller = parameters.iter().any(|(parameter, _)| &**parameter == "caller");
    if definition.reads.caller && !explicit_caller {
        let at = named.iter().position(|(known, _)| &**known == "caller");
        let caller = at.map(|at| named.remove(at).1);
        scope.set("caller".into(), caller.unwrap_or_else(|| PyValue::undefined("No caller defined")));
    }
    if definition.reads.kwargs {
        let pairs = named.into_iter().map(|(name, value)| Ok((PyValue::text(&*name)?, value)));
        scope.set("kwargs".into(), PyValue::dict(pairs.collect::<Result<Vec<_>>>()?)?);
    } else if let Some((argument, _)) = named.first() {
        return Err(Error::new(format!("macro {name} takes no keyword argument '{argument}'")));
    }
    let rest: Vec<PyValue> = positional.collect();
    if definition.reads.varargs {
        scope.set("varargs".into(), PyValue::tuple(rest)?);
    } else if !rest.is_empty() {
        let count = parameters.len();
        return Err(Error::new(format!("macro {name} takes not more than {count} argument(s)")));
    }
    Ok(missing)
}

fn range(args: Args) -> Result<PyValue> {
    let [first, second, third] = args.bind_positional("range")?;
    let first = int(&required(first, "range", "stop")?)?;
    let (start, stop) = match &second {
        Some(stop) => (first, int(stop)?),
        None => (0, first),
    };
    let step = third.map_or(Ok(1), |step| int(&step))?;
    if step == 0 {
        return Err(Error::new("range() arg 3 must not be zero"));
    }
    if [start, stop, step].iter().any(|bound| bound.unsigned_abs() > 1 << 100) {
        return Err(Error::unsupported("a range with bounds beyond 100 bits"));
    }
    let range = PyRange { start, stop, step };
    if range.len() > MAX_RANGE {
        return Err(Error::new(format!(
            "Range too big. The sandbox blocks ranges larger than MAX_RANGE ({MAX_RANGE})."
        )));
    }
    Ok(PyValue::Range(Rc::new(range)))
}

/// `dict(items, **named)`.
fn dict(args: Args) -> Result<PyValue> {
    let mut pairs = Vec::new();
    if args.positional.len() > 1 {
        let found = args.positional.len();
        return Err(Error::new(format!("dict expected at most 1 argument, got {found}")));
    }
    match args.positional.first() {
        None => {}
        Some(PyValue::Dict(dict)) => pairs.extend(dict.items.iter().cloned()),
        Some(PyValue::Namespace(_)) => return Err(Error::new("'TemplateNamespace' object is not iterable")),
        Some(items) => {
            for (i, item) in items.items()?.iter().enumerate() {
                let pair = item.items()?;
                let found = pair.len();
                let Ok([key, value]) = <[PyValue; 2]>::try_from(pair) else {
                    return Err(Error::new(format!(
                        "dictionary update sequence element #{i} has length {found}; 2 is required"
                    )));
                };
                pairs.push((key, value));
            }
        }
    }
    for (name, value) in args.named {
        pairs.push((PyValue::text(&*name)?, value));
    }
    PyValue::dict(pairs)
}

fn loop_method(inner: &Loop, name: &str, args: Args) -> Result<PyValue> {
    if name == "changed" {
        return Ok(PyValue::Bool(loop_changed(inner, args.positional)?));
    }
    if args.positional.is_empty() {
        return Err(Error::new("no items for cycling given"));
    }
    Ok(args.positional[inner.index.get() % args.positional.len()].clone())
}

fn cycler_method(cycler: &Cycler, name: &str, args: Args) -> Result<PyValue> {
    args.none(name)?;
    let at = cycler.at.get();
    if name == "reset" {
        cycler.at.set(0);
        return Ok(PyValue::None);
    }
    cycler.at.set((at + 1) % cycler.items.len());
    Ok(cycler.items[at].clone())
}

/// Whether `changed` was called with other values before.
fn loop_changed(inner: &Loop, values: Vec<PyValue>) -> Result<bool> {
    let same = match &*inner.changed.borrow() {
        Some(before) => compare::equal(&PyValue::tuple(before.clone())?, &PyValue::tuple(values.clone())?)?,
        None => false,
    };
    if !same {
        *inner.changed.borrow_mut() = Some(values);
    }
    Ok(!same)
}
