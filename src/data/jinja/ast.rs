//! The parsed form of a template.

use std::sync::Arc;

use super::text::Text;

/// A statement or text of a template.
#[derive(Debug)]
pub(super) enum Statement {
    Text(Arc<str>),
    Print(Expr),
    For(Arc<For>),
    /// Conditions with their bodies, and the body of `else`.
    If(Vec<(Expr, Vec<Statement>)>, Vec<Statement>),
    Set(AssignTarget, Expr),
    /// `{% set x | filter %}body{% endset %}`; the filters apply to [`BODY`].
    SetBlock(AssignTarget, Expr, Vec<Statement>),
    With(Vec<(AssignTarget, Expr)>, Vec<Statement>),
    Macro(Arc<Macro>),
    /// A call with its `caller`.
    Call(Expr, Arc<Macro>),
    /// `{% filter f %}body{% endfilter %}`; the filters apply to [`BODY`].
    Filter(Expr, Vec<Statement>),
    /// `{% generation %}body{% endgeneration %}`, with variables of its own.
    Generation(Vec<Statement>),
    Break,
    Continue,
}

/// Variable with the text of a block for its filters; not a valid name in templates.
pub(super) const BODY: &str = "<body>";

/// `{% for target in items if test recursive %}body{% else %}otherwise{% endfor %}`.
#[derive(Debug)]
pub(super) struct For {
    pub line: usize,
    pub target: AssignTarget,
    pub items: Expr,
    pub test: Option<Expr>,
    pub kind: LoopKind,
    pub body: Vec<Statement>,
    pub otherwise: Vec<Statement>,
}

/// Whether a loop may call itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoopKind {
    Plain,
    Recursive,
}

/// `{% macro name(parameters) %}body{% endmacro %}`.
#[derive(Debug)]
pub(super) struct Macro {
    /// `None` for the body of a call block.
    pub name: Option<Arc<str>>,
    pub parameters: Vec<(Arc<str>, Option<Expr>)>,
    pub body: Vec<Statement>,
    /// The special variables that the body reads.
    pub reads: Specials,
}

/// Special variables that a macro reads.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Specials {
    pub caller: bool,
    pub varargs: bool,
    pub kwargs: bool,
}

/// Target of an assignment.
#[derive(Debug)]
pub(super) enum AssignTarget {
    Name(Arc<str>),
    /// `namespace.attribute`, with its line.
    Attribute(Arc<str>, Arc<str>, usize),
    Tuple(Vec<AssignTarget>, usize),
}

/// An expression with its line.
#[derive(Debug)]
pub(super) struct Expr {
    pub line: usize,
    pub kind: ExprKind,
    /// Levels of nested expressions, including this one.
    pub depth: usize,
}

impl Expr {
    /// An expression at a line.
    pub(super) fn new(line: usize, kind: ExprKind) -> Self {
        let depth = 1 + kind.children_depth();
        Self { line, kind, depth }
    }
}

/// Kinds of expressions.
#[derive(Debug)]
pub(super) enum ExprKind {
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(Arc<Text>),
    Name(Arc<str>),
    List(Vec<Expr>),
    Tuple(Vec<Expr>),
    Dict(Vec<(Expr, Expr)>),
    Not(Box<Expr>),
    Negative(Box<Expr>),
    Positive(Box<Expr>),
    And(Box<(Expr, Expr)>),
    Or(Box<(Expr, Expr)>),
    Binary(BinaryOp, Box<(Expr, Expr)>),
    Compare(Box<Expr>, Vec<(CompareOp, Expr)>),
    Concat(Vec<Expr>),
    /// Condition, value, and the value otherwise.
    Condition(Box<(Expr, Expr, Option<Expr>)>),
    Attribute(Box<Expr>, Arc<str>),
    Item(Box<(Expr, Expr)>),
    Slice(Box<(Expr, [Option<Expr>; 3])>),
    Filter(Box<Expr>, Arc<str>, CallArguments),
    Test(Box<Expr>, Arc<str>, CallArguments),
    Call(Box<Expr>, CallArguments),
}

impl ExprKind {
    fn children_depth(&self) -> usize {
        let pair = |pair: &(Expr, Expr)| pair.0.depth.max(pair.1.depth);
        match self {
            Self::None | Self::Bool(_) | Self::Int(_) | Self::Float(_) | Self::Text(_) | Self::Name(_) => 0,
            Self::List(items) | Self::Tuple(items) | Self::Concat(items) => deepest(items),
            Self::Dict(items) => items.iter().map(pair).max().unwrap_or(0),
            Self::Not(inner) | Self::Negative(inner) | Self::Positive(inner) | Self::Attribute(inner, _) => {
                inner.depth
            }
            Self::And(both) | Self::Or(both) | Self::Binary(_, both) | Self::Item(both) => pair(both),
            Self::Compare(first, others) => {
                first.depth.max(deepest(others.iter().map(|(_, operand)| operand)))
            }
            Self::Condition(parts) => parts.0.depth.max(parts.1.depth).max(deepest(&parts.2)),
            Self::Slice(parts) => parts.0.depth.max(deepest(parts.1.iter().flatten())),
            Self::Filter(inner, _, arguments)
            | Self::Test(inner, _, arguments)
            | Self::Call(inner, arguments) => inner.depth.max(arguments.depth()),
        }
    }
}

fn deepest<'a>(expressions: impl IntoIterator<Item = &'a Expr>) -> usize {
    expressions.into_iter().map(|expression| expression.depth).max().unwrap_or(0)
}

/// Arguments of a call.
#[derive(Debug, Default)]
pub(super) struct CallArguments {
    pub positional: Vec<Expr>,
    pub named: Vec<(Arc<str>, Expr)>,
    pub rest: Option<Box<Expr>>,
    pub named_rest: Option<Box<Expr>>,
}

impl CallArguments {
    fn depth(&self) -> usize {
        let named = self.named.iter().map(|(_, value)| value);
        let rest = self.rest.as_deref().into_iter().chain(self.named_rest.as_deref());
        deepest(self.positional.iter().chain(named).chain(rest))
    }
}

/// Binary arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BinaryOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Modulo,
    Power,
}

impl BinaryOp {
    /// Symbol of the operator in Python's error messages.
    pub(super) const fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::FloorDivide => "//",
            Self::Modulo => "%",
            Self::Power => "** or pow()",
        }
    }
}

/// Comparison operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CompareOp {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
    NotIn,
}

impl CompareOp {
    /// Symbol of the operator.
    pub(super) const fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Greater => ">",
            Self::GreaterEqual => ">=",
            Self::In => "in",
            Self::NotIn => "not in",
        }
    }
}
