//! Parses templates, as the parser of Jinja2 does.

mod expression;

mod operand;

mod state;

mod statement;

mod target;

pub(super) use statement::{ParsedTemplate, parse};
