//! Values of a template, which are Python's, and scopes. Operations on values are in other files.

use std::{cell::Cell, cell::RefCell, collections::HashMap, rc::Rc, sync::Arc};

use super::{
    ast::{For, Macro},
    error::{Error, Result},
    float::exact_int,
    meter::{Charge, MAX_VALUE_DEPTH, Writer},
    text::Text,
};

/// A value.
#[derive(Clone, Debug)]
pub(super) enum PyValue {
    Undefined(Rc<Undefined>),
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(Arc<Text>),
    /// Text returned by `escape` or `safe`.
    Markup(Arc<Text>),
    List(Rc<List>),
    Tuple(Rc<List>),
    Dict(Rc<Dict>),
    View(View, Rc<Dict>),
    Range(Rc<PyRange>),
    Iterator(Rc<PyIterator>),
    Namespace(Rc<Namespace>),
    Loop(Rc<Loop>),
    Macro(Rc<Closure>),
    Function(&'static str),
    Method(Rc<(PyValue, Arc<str>)>),
    Cycler(Rc<Cycler>),
    Joiner(Rc<Joiner>),
}

/// The reason why a value is undefined.
#[derive(Debug)]
pub(super) enum Undefined {
    /// A variable without a value.
    Name(Arc<str>),
    /// A missing attribute of an object of this type.
    Attribute(&'static str, PyValue),
    /// A message.
    Hint(String),
}

/// Items of a list or a tuple.
#[derive(Debug)]
pub(super) struct List {
    pub items: Vec<PyValue>,
    /// Whether it is a pair returned by `groupby`, whose items have names.
    pub is_group: Cell<bool>,
    depth: usize,
    _charge: Charge,
}

/// Items of a dict in their order.
#[derive(Debug)]
pub(super) struct Dict {
    pub items: Vec<(PyValue, PyValue)>,
    index: HashMap<HashKey, usize>,
    depth: usize,
    _charge: Charge,
}

/// A hashable value; equal keys are equal values in Python.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum HashKey {
    Undefined,
    None,
    Int(i128),
    Float(u64),
    Text(String),
    Tuple(Vec<HashKey>),
    Address(usize),
}

/// Contents of a view of a dict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    Keys,
    Values,
    Items,
}

/// `range(start, stop, step)`.
#[derive(Debug)]
pub(super) struct PyRange {
    pub start: i128,
    pub stop: i128,
    pub step: i128,
}

/// An iterator, whose items can be taken once.
#[derive(Debug)]
pub(super) struct PyIterator {
    /// Its type in Python.
    pub kind: &'static str,
    items: List,
    next: Cell<usize>,
}

/// `namespace(...)`.
#[derive(Debug, Default)]
pub(super) struct Namespace {
    pub attributes: RefCell<Vec<(Arc<str>, PyValue)>>,
}

/// The variable `loop`.
#[derive(Debug)]
pub(super) struct Loop {
    pub items: Vec<PyValue>,
    pub index: Cell<usize>,
    pub depth: usize,
    pub changed: RefCell<Option<Vec<PyValue>>>,
    /// The loop and its scope, if the loop is recursive.
    pub recursion: Option<(Arc<For>, Rc<BlockScope>)>,
}

/// A macro, with the variables around its definition.
#[derive(Debug)]
pub(super) struct Closure {
    pub definition: Arc<Macro>,
    pub scope: Rc<BlockScope>,
}

/// Variables of a block.
#[derive(Debug, Default)]
pub(super) struct BlockScope {
    variables: RefCell<HashMap<Arc<str>, PyValue>>,
    parent: Option<Rc<BlockScope>>,
}

impl BlockScope {
    /// A scope in another.
    pub(super) fn inside(parent: &Rc<Self>) -> Rc<Self> {
        Rc::new(Self { variables: RefCell::default(), parent: Some(parent.clone()) })
    }

    /// The value of a variable.
    pub(super) fn get(&self, name: &str) -> Option<PyValue> {
        let mut scope = Some(self);
        while let Some(at) = scope {
            if let Some(value) = at.variables.borrow().get(name) {
                return Some(value.clone());
            }
            scope = at.parent.as_deref();
        }
        None
    }

    /// Sets a variable.
    pub(super) fn set(&self, name: Arc<str>, value: PyValue) {
        self.variables.borrow_mut().insert(name, value);
    }

    /// Drops the variables, which may hold the scope itself.
    pub(super) fn clear(&self) {
        self.variables.take();
    }
}

/// `cycler(...)`.
#[derive(Debug)]
pub(super) struct Cycler {
    pub items: Vec<PyValue>,
    pub at: Cell<usize>,
}

/// `joiner(separator)`.
#[derive(Debug)]
pub(super) struct Joiner {
    pub separator: PyValue,
    pub used: Cell<bool>,
}

/// Bytes counted for each text, list or dict in addition to its contents, and for each item.
const OBJECT: usize = 96;
const ITEM: usize = 48;

impl List {
    fn new(items: Vec<PyValue>) -> Result<Self> {
        let charge = Charge::of(OBJECT + ITEM * items.len())?;
        let depth = level(items.iter())?;
        Ok(Self { items, is_group: Cell::new(false), depth, _charge: charge })
    }
}

/// Nesting depth of a list or dict of these values.
fn level<'a>(values: impl Iterator<Item = &'a PyValue>) -> Result<usize> {
    let depth = 1 + values.map(PyValue::depth).max().unwrap_or(0);
    if depth > MAX_VALUE_DEPTH {
        return Err(Error::new(format!("lists and dicts nest deeper than {MAX_VALUE_DEPTH} levels")));
    }
    Ok(depth)
}

impl Dict {
    /// A dict of these items, where a later value replaces an earlier one.
    pub(super) fn new(pairs: impl IntoIterator<Item = (PyValue, PyValue)>) -> Result<Self> {
        let mut items: Vec<(PyValue, PyValue)> = Vec::new();
        let mut index = HashMap::new();
        let mut charge = Charge::of(OBJECT)?;
        for (key, value) in pairs {
            let hash = HashKey::of(&key)?;
            match index.get(&hash) {
                Some(&at) => {
                    let item: &mut (PyValue, PyValue) = &mut items[at];
                    item.1 = value;
                }
                None => {
                    charge.grow(4 * ITEM + hash.bytes())?;
                    index.insert(hash, items.len());
                    items.push((key, value));
                }
            }
        }
        let depth = level(items.iter().flat_map(|(key, value)| [key, value]))?;
        Ok(Self { items, index, depth, _charge: charge })
    }

    /// The value of a key.
    pub(super) fn get(&self, key: &PyValue) -> Result<Option<&PyValue>> {
        let at = self.index.get(&HashKey::of(key)?);
        Ok(at.and_then(|&at| self.items.get(at)).map(|(_, value)| value))
    }

    /// The value of a text.
    pub(super) fn get_text(&self, key: &str) -> Option<&PyValue> {
        let at = self.index.get(&HashKey::Text(key.to_owned()))?;
        self.items.get(*at).map(|(_, value)| value)
    }
}

impl HashKey {
    /// The key of a value.
    pub(super) fn of(value: &PyValue) -> Result<Self> {
        Ok(match value {
            PyValue::Undefined(_) => Self::Undefined,
            PyValue::None => Self::None,
            PyValue::Bool(value) => Self::Int(i128::from(*value)),
            PyValue::Int(value) => Self::Int(*value),
            PyValue::Float(value) => match exact_int(*value) {
                Some(value) => Self::Int(value),
                None => Self::Float(value.to_bits()),
            },
            PyValue::Text(text) | PyValue::Markup(text) => {
                super::meter::read(text.text.len())?;
                Self::Text(text.text.clone())
            }
            PyValue::Tuple(items) => Self::Tuple(items.items.iter().map(Self::of).collect::<Result<_>>()?),
            PyValue::Range(_) => return Err(Error::unsupported("a range as a key")),
            PyValue::List(_) | PyValue::Dict(_) | PyValue::View(View::Keys | View::Items, _) => {
                return Err(Error::new(format!("unhashable type: '{}'", value.type_name())));
            }
            PyValue::View(View::Values, dict) => Self::Address(Rc::as_ptr(dict) as usize),
            PyValue::Namespace(inner) => Self::Address(Rc::as_ptr(inner) as usize),
            PyValue::Loop(inner) => Self::Address(Rc::as_ptr(inner) as usize),
            PyValue::Macro(inner) => Self::Address(Rc::as_ptr(inner) as usize),
            PyValue::Iterator(inner) => Self::Address(Rc::as_ptr(inner) as usize),
            PyValue::Cycler(inner) => Self::Address(Rc::as_ptr(inner) as usize),
            PyValue::Joiner(inner) => Self::Address(Rc::as_ptr(inner) as usize),
            PyValue::Function(_) | PyValue::Method(_) => {
                return Err(Error::unsupported("a function as a key"));
            }
        })
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Tuple(keys) => keys.iter().map(|key| ITEM + key.bytes()).sum(),
            _ => 0,
        }
    }
}

impl PyIterator {
    /// Takes the next item.
    pub(super) fn take(&self) -> Option<PyValue> {
        let at = self.next.get();
        let item = self.items.items.get(at)?;
        self.next.set(at + 1);
        Some(item.clone())
    }

    /// Takes the remaining items.
    pub(super) fn rest(&self) -> Vec<PyValue> {
        let at = self.next.replace(self.items.items.len());
        self.items.items[at..].to_vec()
    }
}

impl PyRange {
    /// Number of items.
    pub(super) fn len(&self) -> usize {
        let span = if self.step > 0 { self.stop - self.start } else { self.start - self.stop };
        let step = self.step.abs();
        usize::try_from((span.max(0) + step - 1) / step).unwrap_or(usize::MAX)
    }

    /// The items.
    pub(super) fn items(&self) -> impl Iterator<Item = PyValue> + '_ {
        (0..self.len()).map(|i| PyValue::Int(self.start + self.step * i as i128))
    }
}

impl PyValue {
    /// A text.
    pub(super) fn text(text: impl Into<String>) -> Result<Self> {
        let text = text.into();
        let charge = Charge::of(OBJECT + text.len())?;
        Ok(Self::Text(Arc::new(Text::charged(text, charge))))
    }

    /// The text of a writer.
    pub(super) fn written(writer: Writer) -> Result<Self> {
        let (text, mut charge) = writer.into_parts();
        charge.grow(OBJECT)?;
        Ok(Self::Text(Arc::new(Text::charged(text, charge))))
    }

    /// A list.
    pub(super) fn list(items: Vec<Self>) -> Result<Self> {
        Ok(Self::List(Rc::new(List::new(items)?)))
    }

    /// A tuple.
    pub(super) fn tuple(items: Vec<Self>) -> Result<Self> {
        Ok(Self::Tuple(Rc::new(List::new(items)?)))
    }

    /// A dict.
    pub(super) fn dict(items: impl IntoIterator<Item = (Self, Self)>) -> Result<Self> {
        Ok(Self::Dict(Rc::new(Dict::new(items)?)))
    }

    /// An iterator over `items`, of a type of Python.
    pub(super) fn iterator(kind: &'static str, items: Vec<Self>) -> Result<Self> {
        Ok(Self::Iterator(Rc::new(PyIterator { kind, items: List::new(items)?, next: Cell::new(0) })))
    }

    /// The undefined value of a variable without a value.
    pub(super) fn undefined_name(name: &Arc<str>) -> Self {
        Self::Undefined(Rc::new(Undefined::Name(name.clone())))
    }

    /// An undefined value whose use is an error that says `hint`.
    pub(super) fn undefined(hint: impl Into<String>) -> Self {
        Self::Undefined(Rc::new(Undefined::Hint(hint.into())))
    }

    fn depth(&self) -> usize {
        match self {
            Self::List(list) | Self::Tuple(list) => list.depth,
            Self::Dict(dict) | Self::View(_, dict) => dict.depth,
            Self::Iterator(iterator) => iterator.items.depth,
            Self::Method(method) => method.0.depth(),
            Self::Cycler(cycler) => 1 + cycler.items.iter().map(Self::depth).max().unwrap_or(0),
            Self::Joiner(joiner) => 1 + joiner.separator.depth(),
            _ => 0,
        }
    }
}
