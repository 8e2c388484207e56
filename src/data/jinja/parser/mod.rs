//! Parses templates, as the parser of Jinja2 does.

mod expression;

mod operand;

mod state;

mod statement;

mod target;

pub use statement::{ParsedTemplate, parse};
