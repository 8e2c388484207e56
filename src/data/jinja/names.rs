//! Names of global functions, filters, and methods of values.

use super::value::{PyValue, View};

/// Global functions.
pub(super) const GLOBALS: [&str; 8] =
    ["range", "dict", "lipsum", "cycler", "joiner", "namespace", "raise_exception", "strftime_now"];

/// Filters, sorted.
pub(super) const FILTERS: [&str; 54] = [
    "abs",
    "attr",
    "batch",
    "capitalize",
    "center",
    "count",
    "d",
    "default",
    "dictsort",
    "e",
    "escape",
    "filesizeformat",
    "first",
    "float",
    "forceescape",
    "format",
    "groupby",
    "indent",
    "int",
    "items",
    "join",
    "last",
    "length",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "pprint",
    "random",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "safe",
    "select",
    "selectattr",
    "slice",
    "sort",
    "string",
    "striptags",
    "sum",
    "title",
    "tojson",
    "trim",
    "truncate",
    "unique",
    "upper",
    "urlencode",
    "urlize",
    "wordcount",
    "wordwrap",
    "xmlattr",
];

/// Whether a filter has this name.
pub(super) fn is_filter(name: &str) -> bool {
    FILTERS.binary_search(&name).is_ok()
}

/// Methods of `str`.
pub(super) const TEXT: [&str; 47] = [
    "capitalize",
    "casefold",
    "center",
    "count",
    "encode",
    "endswith",
    "expandtabs",
    "find",
    "format",
    "format_map",
    "index",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "isidentifier",
    "islower",
    "isnumeric",
    "isprintable",
    "isspace",
    "istitle",
    "isupper",
    "join",
    "ljust",
    "lower",
    "lstrip",
    "maketrans",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rindex",
    "rjust",
    "rpartition",
    "rsplit",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "swapcase",
    "title",
    "translate",
    "upper",
    "zfill",
];

const DICT: [&str; 6] = ["copy", "fromkeys", "get", "items", "keys", "values"];
const DICT_MUTATING: [&str; 5] = ["clear", "pop", "popitem", "setdefault", "update"];
const LIST: [&str; 3] = ["copy", "count", "index"];
const LIST_MUTATING: [&str; 8] = ["append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"];
const SEQUENCE: [&str; 2] = ["count", "index"];
const INT: [&str; 6] = ["as_integer_ratio", "bit_count", "bit_length", "conjugate", "from_bytes", "to_bytes"];
const FLOAT: [&str; 5] = ["as_integer_ratio", "conjugate", "fromhex", "hex", "is_integer"];
const GENERATOR: [&str; 7] = ["close", "gi_code", "gi_frame", "gi_running", "gi_yieldfrom", "send", "throw"];

/// Methods that a value has: those that templates may call, and those that would change it.
pub(super) fn methods(value: &PyValue) -> (&'static [&'static str], &'static [&'static str]) {
    match value {
        PyValue::Text(_) | PyValue::Markup(_) => (&TEXT, &[]),
        PyValue::Dict(_) => (&DICT, &DICT_MUTATING),
        PyValue::List(_) => (&LIST, &LIST_MUTATING),
        PyValue::Tuple(_) | PyValue::Range(_) => (&SEQUENCE, &[]),
        PyValue::Int(_) | PyValue::Bool(_) => (&INT, &[]),
        PyValue::Float(_) => (&FLOAT, &[]),
        PyValue::View(View::Keys | View::Items, _) => (&["isdisjoint"], &[]),
        PyValue::Iterator(iterator) if iterator.kind == "generator" => (&GENERATOR, &[]),
        PyValue::Cycler(_) => (&["next", "reset"], &[]),
        _ => (&[], &[]),
    }
}
