//! Filters by name.

mod sequence;

mod select;

mod text;

mod wrap;

mod markup;

mod convert;

use super::{
    args::Args,
    error::{Error, Result},
    json,
    value::PyValue,
};

/// A filter of a value with arguments.
type Filter = fn(PyValue, Args) -> Result<PyValue>;

/// Every filter by its name.
const FILTERS: &[(&str, Filter)] = &[
    ("abs", convert::abs),
    ("attr", convert::attr),
    ("batch", sequence::batch),
    ("capitalize", text::capitalize),
    ("center", text::center),
    ("count", sequence::length),
    ("d", convert::default),
    ("default", convert::default),
    ("dictsort", sequence::dictsort),
    ("e", markup::escape),
    ("escape", markup::escape),
    ("filesizeformat", convert::filesizeformat),
    ("first", sequence::first),
    ("float", convert::float),
    ("forceescape", markup::forceescape),
    ("format", text::format),
    ("groupby", sequence::groupby),
    ("indent", wrap::indent),
    ("int", convert::int),
    ("items", sequence::items),
    ("join", text::join),
    ("last", sequence::last),
    ("length", sequence::length),
    ("list", sequence::list),
    ("lower", text::lower),
    ("map", |value, args| select::map(value, args, apply)),
    ("max", sequence::max),
    ("min", sequence::min),
    ("pprint", |_, _| Err(Error::unsupported("the filter 'pprint'"))),
    ("random", |_, _| Err(Error::unsupported("the filter 'random', whose result differs between runs"))),
    ("reject", select::reject),
    ("rejectattr", select::rejectattr),
    ("replace", text::replace),
    ("reverse", sequence::reverse),
    ("round", convert::round),
    ("safe", markup::safe),
    ("select", select::select),
    ("selectattr", select::selectattr),
    ("slice", sequence::slice),
    ("sort", sequence::sort),
    ("string", convert::string),
    ("striptags", markup::striptags),
    ("sum", sequence::sum),
    ("title", text::title),
    ("tojson", json::filter),
    ("trim", text::trim),
    ("truncate", wrap::truncate),
    ("unique", sequence::unique),
    ("upper", text::upper),
    ("urlencode", markup::urlencode),
    ("urlize", |_, _| Err(Error::unsupported("the filter 'urlize'"))),
    ("wordcount", text::wordcount),
    ("wordwrap", wrap::wordwrap),
    ("xmlattr", markup::xmlattr),
];

/// Filters that take text that `escape` or `safe` returned as any other.
const PLAIN: [&str; 12] = [
    "count",
    "d",
    "default",
    "e",
    "escape",
    "forceescape",
    "length",
    "list",
    "safe",
    "string",
    "striptags",
    "tojson",
];

/// The filter of a name.
fn find(name: &str) -> Option<Filter> {
    let at = FILTERS.binary_search_by_key(&name, |(known, _)| known).ok()?;
    Some(FILTERS[at].1)
}

/// `input | name(*args)`.
pub(super) fn apply(name: &str, input: PyValue, args: Args) -> Result<PyValue> {
    let filter = find(name).ok_or_else(|| Error::new(format!("No filter named '{name}' found.")))?;
    let marked = |value: &PyValue| matches!(value, PyValue::Markup(_));
    let arguments = args.positional.iter().chain(args.named.iter().map(|(_, value)| value));
    if !PLAIN.contains(&name) && std::iter::once(&input).chain(arguments).any(marked) {
        return Err(Error::unsupported(format!(
            "the filter '{name}' on text that `escape` or `safe` returned"
        )));
    }
    filter(input, args)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::jinja::names;

    #[test]
    fn every_name_has_a_filter() {
        assert!(FILTERS.iter().map(|&(name, _)| name).eq(names::FILTERS));
        assert!(names::FILTERS.is_sorted());
    }
}
