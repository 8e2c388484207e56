//! A Jinja interpreter with Python's values, for chat templates.
//!
//! It renders the same text as Jinja2 in the environment that Hugging Face transformers builds for chat templates
//! (sandboxed, `trim_blocks`, `lstrip_blocks`, loop controls, `generation` blocks), or returns an error: the text decides
//! what a model learns, so an approximation would be wrong. The work, the memory and the depth of a rendering are
//! limited, see [`meter`].

mod error;

mod ast;

mod lexer;

mod parser;

mod meter;

mod text;

mod float;

mod value;

mod inspect;

mod input;

mod undefined;

mod namespace;

mod names;

mod operators;

mod print;

mod number;

mod compare;

mod attribute;

mod index;

mod interpreter;

mod expression;

mod call;

mod args;

mod filters;

mod predicates;

mod methods;

mod printf;

mod format;

mod unicode;

mod json;

mod dates;

use std::{sync::Arc, time::SystemTime};

pub(super) use error::Error;
use error::Result;
use serde_json::{Map, Value as Json};

/// A parsed template.
#[derive(Debug)]
pub(super) struct Template {
    parsed: parser::ParsedTemplate,
    source_bytes: usize,
    now: SystemTime,
}

impl Template {
    /// Parses a template; `strftime_now` formats `now` in UTC.
    ///
    /// # Errors
    /// If the source is longer than [`meter::MAX_SOURCE`] or not a valid template.
    pub(super) fn parse(source: &str, now: SystemTime) -> Result<Self> {
        if source.len() > meter::MAX_SOURCE {
            let (found, limit) = (source.len(), meter::MAX_SOURCE);
            return Err(Error::new(format!("expected a template of at most {limit} bytes, found {found}")));
        }
        meter::on_own_stack(|| {
            let parsed = parser::parse(source)?;
            Ok(Self { parsed, source_bytes: source.len(), now })
        })
    }

    /// Whether the template has `{% generation %}` blocks.
    pub(super) fn has_generation(&self) -> bool {
        self.parsed.has_generation
    }

    /// Renders the template with `variables`.
    ///
    /// # Errors
    /// If the template raises an error, uses an unsupported feature, or exceeds a limit.
    pub(super) fn render(&self, variables: &Map<String, Json>) -> Result<String> {
        self.run(variables, None)
    }

    /// As [`Self::render`], with `marks` before and after each `{% generation %}` block.
    pub(super) fn render_marked(
        &self,
        variables: &Map<String, Json>,
        marks: [&'static str; 2],
    ) -> Result<String> {
        self.run(variables, Some(marks))
    }

    fn run(&self, variables: &Map<String, Json>, marks: Option<[&'static str; 2]>) -> Result<String> {
        meter::on_own_stack(|| {
            meter::start(self.source_bytes + input::json_bytes(variables));
            let mut root = Vec::with_capacity(variables.len());
            for (name, variable) in variables {
                root.push((Arc::from(name.as_str()), input::from_json(variable)?));
            }
            interpreter::render(&self.parsed.body, root, self.now, marks)
        })
    }
}
