//! Chat templates against Jinja2: features one by one, and whole templates of models.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use hloom::data::{ChatTemplate, DataError};
use serde_json::{Map, Value};

/// The time at which the golden outputs say that they were made: 2024-07-26 13:04:05.
fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_721_999_045)
}

fn render(source: &str, variables: &Map<String, Value>) -> Result<String, DataError> {
    ChatTemplate::new(source, BTreeMap::new(), now())?.render_with(variables.clone())
}

fn object(text: &str) -> Map<String, Value> {
    serde_json::from_str(text).unwrap()
}

/// What the message of Jinja2 says, where ours says the same.
fn message(error: &str) -> Option<&str> {
    let kinds = ["UndefinedError: ", "TemplateError: ", "SecurityError: ", "ZeroDivisionError: "];
    let message = kinds.iter().find_map(|kind| error.strip_prefix(kind));
    // A namespace is of a class of transformers there.
    message.filter(|message| !message.contains("TemplateNamespace"))
}

/// Templates that Jinja2 renders and we refuse, with what the error says.
const UNSUPPORTED: [(&str, &str); 7] = [
    ("{{ 'abc'.encode() }}", "unsupported: the method 'encode' of 'str'"),
    ("{{ 'abc'.translate({}) }}", "unsupported: the method 'translate' of 'str'"),
    ("{{ self }}", "unsupported: the variable 'self'"),
    ("{{ caller }}{{ varargs }}{{ kwargs }}{{ self }}", "unsupported: the variable 'self'"),
    ("{% block x %}y{% endblock %}", "unsupported: the tag 'block'"),
    // Jinja2 prints nothing where it finds this when it compiles, and fails as we do where it finds it later.
    ("{{ none[1:] }}", "'NoneType' object is not subscriptable"),
    ("{{ 5[1:] }}", "'int' object is not subscriptable"),
];

/// `features.json` holds what Jinja2 3.1.6 makes of each template, see `generate.py`.
#[test]
fn every_feature_renders_as_jinja2_renders_it() {
    let variables = object(include_str!("chat_templates/variables.json"));
    let cases: Vec<Map<String, Value>> =
        serde_json::from_str(include_str!("chat_templates/features.json")).unwrap();
    let mut wrong = Vec::new();
    for case in &cases {
        let source = case["template"].as_str().unwrap();
        let found = render(source, &variables);
        let right = match (&found, case.get("text"), case.get("error")) {
            (Ok(found), Some(expect), _) => found == expect,
            (Err(DataError::ChatTemplate { message: found, .. }), _, Some(error)) => {
                message(error.as_str().unwrap()).is_none_or(|message| found == message)
            }
            (Err(DataError::ChatTemplate { message: found, .. }), ..) => {
                UNSUPPORTED.contains(&(source, found.as_str()))
            }
            _ => false,
        };
        if !right {
            let expect = case.get("text").or_else(|| case.get("error")).unwrap();
            let found = found.map_or_else(|error| error.to_string(), |text| format!("{text:?}"));
            wrong.push(format!("{source:?}\n  expected {expect}\n  found    {found}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
