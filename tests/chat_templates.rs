//! Chat templates against Jinja2: features one by one, and whole templates of models.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    process::{Command, Stdio},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use hloom::{
    base::Diagnostic,
    data::{ChatTemplate, DataError},
    store::{Network, Package, Silent, Wheel},
    testing::store,
};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::support::Random;

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
            (Err(DataError::ChatTemplate(Diagnostic { message: found, .. })), _, Some(error)) => {
                message(error.as_str().unwrap()).is_none_or(|message| found == message)
            }
            (Err(DataError::ChatTemplate(Diagnostic { message: found, .. })), ..) => {
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

/// Pieces of the feature templates in random orders: none may panic, and what they hold is dropped.
#[test]
fn no_mixture_of_features_panics() {
    let variables = object(include_str!("chat_templates/variables.json"));
    let cases: Vec<Map<String, Value>> =
        serde_json::from_str(include_str!("chat_templates/features.json")).unwrap();
    let sources: Vec<&str> = cases.iter().map(|case| case["template"].as_str().unwrap()).collect();
    let mut random = Random::named("templates");
    for _ in 0..MIXTURES {
        let mut mixture = String::new();
        for _ in 0..1 + random.below(3) {
            let source = sources[random.below(sources.len())];
            let cuts = [random.below(source.len() + 1), random.below(source.len() + 1)];
            let (start, end) = (cuts[0].min(cuts[1]), cuts[0].max(cuts[1]));
            let whole = random.below(3) == 0;
            let part = if whole { Some(source) } else { source.get(start..end) };
            mixture.push_str(part.unwrap_or(source));
        }
        let _ = render(&mixture, &variables);
    }
}

const MIXTURES: usize = 2_000;

/// Numbers at the edges, where arithmetic of fixed width would overflow.
#[test]
fn arithmetic_at_the_edges_does_not_panic() {
    let edges = [
        "2 ** 126",
        "-2 ** 126 * 2",
        "(-2) ** 127",
        "2 ** 126 - 1 + 2 ** 126",
        "10 ** 38",
        "1e38",
        "1e308",
        "-1e-320",
        "0",
        "-1",
        "'inf'|float",
        "'nan'|float",
    ];
    for a in edges {
        for b in edges {
            for operator in ["+", "-", "*", "/", "//", "%", "**", "<", "==", "in", "~"] {
                let _ = render(&format!("{{{{ ({a}) {operator} ({b}) }}}}"), &Map::new());
            }
            for form in [
                "(A)|round(B)",
                "(A)|round(B, 'ceil')",
                "'abcd'[A:B]",
                "[1, 2][A:B:A]",
                "range(A, B)|list|length",
                "'a'.center(A) ~ 'b'.zfill(B)",
                "(A)|int ~ (B)|float",
                "'%d %5.2f %g' % (A, B, A)",
                "'{:,} {:e}'.format(A, B)",
                "'abc'.find('a', A, B)",
                "[1]|batch(A)|list",
                "[1, 2]|slice(A)|list",
                "'abcdef'|truncate(A, leeway=B)",
                "(A)|filesizeformat ~ -(B) ~ (B)|abs",
                "'a b'|wordwrap(A)",
                "'abc'.split('b', A)",
                "'abc'.replace('a', 'b', B)",
                "'a'|indent(A)",
                "[A, B]|sort ~ [A, B]|sum",
                "{A: 1}[B]",
                "A in range(5)",
                "[1]|tojson(indent=A)",
            ] {
                let expression = form.replace('A', &format!("({a})")).replace('B', &format!("({b})"));
                let _ = render(&format!("{{{{ {expression} }}}}"), &Map::new());
            }
        }
    }
}

/// Wheels with the chat templates of many models. They are not copied here.
const TEMPLATES: Package = Package {
    key: "chat-templates",
    about: "chat templates of models, for tests",
    file: "trl/chat_templates/llama3.jinja",
    wheels: &[
        Wheel {
            name: "trl",
            version: "1.16.0",
            sha256: "c4726e139dd40e1a41661511c639c8a68416782b2e3e8c0befebd77bb7ba0396",
            bytes: 948_205,
            pip_args: &[],
        },
        Wheel {
            name: "axolotl",
            version: "0.19.0",
            sha256: "f28eb3ad3709975eec4adfe13307dd980c7e7917cc43cb03f2c6f26c007135cc",
            bytes: 1_582_641,
            pip_args: &[],
        },
    ],
};

/// What Jinja2 makes of a template where `HLOOM_JINJA_PYTHON` names a Python that has it.
fn rendered_by_jinja2(source: &str, variables: &Map<String, Value>) -> Option<String> {
    let python = std::env::var_os("HLOOM_JINJA_PYTHON")?;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/chat_templates/generate.py");
    let mut child = Command::new(python)
        .args([script, "render"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let job = json!({ "template": source, "variables": variables }).to_string();
    child.stdin.take().unwrap().write_all(job.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let result: Map<String, Value> = serde_json::from_slice(&output.stdout).unwrap();
    Some(result["text"].as_str().map_or_else(|| result["error"].to_string(), str::to_owned))
}

/// Where two texts part.
fn difference(found: &str, expect: &str) -> String {
    let same = found.chars().zip(expect.chars()).take_while(|(a, b)| a == b).count();
    let from = |text: &str| text.chars().skip(same.saturating_sub(30)).take(90).collect::<String>();
    format!("  jinja2 {:?}\n  found  {:?}", from(expect), from(found))
}

/// `models.json` holds length and SHA-256 of what Jinja2 makes of each template with each of `chats.json`.
#[test]
fn whole_templates_of_models_render_as_jinja2_renders_them() {
    let file = store().ensure(&TEMPLATES, Network::Allowed, &mut Silent);
    let file = file.unwrap_or_else(|error| panic!("tests need the chat templates: {error}"));
    let folder = file.ancestors().nth(3).unwrap();
    let golden = object(include_str!("chat_templates/models.json"));
    let chats: Vec<Map<String, Value>> =
        serde_json::from_str(include_str!("chat_templates/chats.json")).unwrap();
    assert!(golden.len() >= 100, "{} templates", golden.len());
    let mut wrong = Vec::new();
    for (name, outputs) in &golden {
        let source = fs::read_to_string(folder.join(name)).unwrap();
        for (chat, expect) in chats.iter().zip(outputs.as_array().unwrap()) {
            let defaults = json!({
                "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>",
                "tools": null, "documents": null,
            });
            let mut variables = defaults.as_object().unwrap().clone();
            variables.extend(chat["variables"].as_object().unwrap().clone());
            let found = render(&source, &variables);
            let digest = found.as_ref().map_or("error".to_owned(), |text| {
                let hash: String = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
                format!("{} {}", text.len(), &hash[..32])
            });
            if digest != expect.as_str().unwrap() {
                let found = found.unwrap_or_else(|error| error.to_string());
                let jinja2 = rendered_by_jinja2(&source, &variables);
                let hint = jinja2.map_or("  set HLOOM_JINJA_PYTHON to see where".to_owned(), |jinja2| {
                    difference(&found, &jinja2)
                });
                wrong.push(format!("{name}, {}: expected {expect}, found {digest}\n{hint}", chat["name"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

/// A template must fail soon, with a message that ends so.
fn check_limit(source: &str, line: usize, expect: &str) {
    let variables = object(r#"{"messages": [{"role": "user", "content": "Why?"}]}"#);
    let start = Instant::now();
    let error = render(source, &variables).unwrap_err();
    let elapsed = start.elapsed();
    let shown: String = source.chars().take(60).collect();
    let DataError::ChatTemplate(Diagnostic { location, message, .. }) = &error else {
        panic!("{shown}: {error}")
    };
    assert!(message.ends_with(expect), "{shown}: {message}");
    assert_eq!(location.line, Some(line), "{shown}: {message}");
    let seconds = if cfg!(debug_assertions) { 20 } else { 2 };
    assert!(elapsed < Duration::from_secs(seconds), "{shown}: {elapsed:?}");
}

#[test]
fn work_is_limited() {
    let steps = "steps";
    let nested = |depth: usize| {
        let begin: String = (0..depth).map(|i| format!("{{% for x{i} in range(100000) %}}")).collect();
        begin + "x" + &"{% endfor %}".repeat(depth)
    };
    check_limit(
        &nested(1).replace("x{", "{{ 1 }}{{ 2 }}{{ 3 }}{{ 4 }}{{ range(100)|list|length }}{"),
        1,
        steps,
    );
    check_limit(&nested(3), 1, steps);
    check_limit("\n{% for i in range(100000) %}{% set x = range(100000)|list %}{% endfor %}", 2, steps);
    check_limit(
        "{% set ns = namespace(x='ab') %}{% for i in range(64) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        1,
        BYTES,
    );
    check_limit(
        "{% set ns = namespace(x=[1]) %}{% for i in range(64) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        1,
        BYTES,
    );
    check_limit("{% for i in range(100000) %}{{ 'x' * 100000 }}{% endfor %}", 1, BYTES);
    check_limit(
        "{% for a in range(1000) %}{% for b in range(9999) %}{% if 'y' in 'x' * 99999 %}{% endif %}{% endfor %}{% endfor %}",
        1,
        steps,
    );
    check_limit(
        "{% set ns = namespace(n=3) %}{% for i in range(99999) %}{% set ns.n = ns.n ** 3 %}{% endfor %}",
        1,
        "unsupported: an integer beyond 128 bits",
    );
}

const BYTES: &str = "bytes of text and lists";

#[test]
fn memory_is_limited() {
    for expression in [
        "'x'|center(10 ** 9)",
        "'x'.center(10 ** 18)",
        "'x'.ljust(10 ** 36)",
        "'x'.zfill(10 ** 12)",
        "'x' * 10 ** 20",
        "[1] * 10 ** 20",
        "(1,) * 10 ** 10",
        "'%1000000000d' % 1",
        "'%.1000000000d' % 1",
        "'%*s' % (10 ** 15, 'a')",
        "'{:1000000000}'.format(1)",
        "'{:>99999999999}'.format('a')",
        "[1]|tojson(indent=10 ** 12)",
        "'a\\nb'|indent(10 ** 12)",
        "'a\tb'.expandtabs(10 ** 12)",
        "('x' * 100000).replace('x', 'y' * 100000)",
        "('x' * 100000).replace('', 'y' * 100000)",
        "(range(99999)|list).__len__ or range(99999)|join('y' * 99999)",
        "('y' * 99999).join('x' * 99999)",
        "[1]|batch(10 ** 12, 'x')|list",
        "('a ' * 99999)|wordwrap(2, true, 'y' * 99999)",
        "['x' * 9999999, 'x' * 9999999, 'x' * 9999999]|join",
    ] {
        check_limit(&format!("\n{{{{ {expression} }}}}"), 2, BYTES);
    }
    check_limit("{{ [1]|slice(10 ** 15)|list }}", 1, "steps");
    check_limit("{{ range(10 ** 9) }}", 1, "MAX_RANGE (100000).");
    check_limit("{{ '%.2000f' % 1.0 }}", 1, "more than 1000 digits after the decimal point");
}

#[test]
fn depth_is_limited() {
    let levels = "nested deeper than 150 levels";
    let expression = "an expression of more than 150 levels";
    check_limit(&format!("{{{{ {}1 }}}}", "-".repeat(20_000)), 1, levels);
    check_limit(&format!("{{{{ {}1 }}}}", "not ".repeat(20_000)), 1, levels);
    check_limit(&format!("\n{{{{ {}1{} }}}}", "(".repeat(20_000), ")".repeat(20_000)), 2, levels);
    check_limit(&format!("{{{{ {}1{} }}}}", "[".repeat(20_000), "]".repeat(20_000)), 1, levels);
    check_limit(&format!("{{{{ {}1{} }}}}", "{1:".repeat(20_000), "}".repeat(20_000)), 1, levels);
    check_limit(&format!("{{{{ {}1 }}}}", "1 if 1 else ".repeat(20_000)), 1, levels);
    check_limit(&format!("{{{{ a{}{} }}}}", "[a".repeat(20_000), "]".repeat(20_000)), 1, levels);
    check_limit(&format!("{{{{ a{}{} }}}}", "(a".repeat(20_000), ")".repeat(20_000)), 1, levels);
    check_limit(&format!("{{% for {}x{} in y %}}", "(".repeat(20_000), ")".repeat(20_000)), 1, levels);
    check_limit(&"{% if 1 %}".repeat(20_000), 1, levels);
    check_limit(&"{% for x in y %}".repeat(20_000), 1, levels);
    check_limit(&"{% macro m() %}".repeat(20_000), 1, levels);
    check_limit(&format!("{{{{ a{} }}}}", ".a".repeat(20_000)), 1, expression);
    check_limit(&format!("{{{{ a{} }}}}", "|e".repeat(20_000)), 1, expression);
    check_limit(&format!("{{{{ a{} }}}}", "()".repeat(20_000)), 1, expression);
    check_limit(&format!("{{{{ 1{} }}}}", " + 1".repeat(20_000)), 1, expression);
    check_limit(&format!("{{{{ 1{} }}}}", " and 1".repeat(20_000)), 1, expression);
    let values = "lists and dicts nest deeper than 150 levels";
    for nest in ["[ns.x]", "{1: ns.x}", "(ns.x,)", "[ns.x]|map('list')", "dict(a=ns.x)", "cycler(ns.x)"] {
        let source = format!(
            "{{% set ns = namespace(x=[]) %}}\n{{% for i in range(99999) %}}{{% set ns.x = [{nest}] %}}{{% endfor %}}"
        );
        check_limit(&source, 2, values);
    }
    let recursion = "the template recurses deeper than 3000 levels";
    check_limit("{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}", 1, recursion);
    check_limit(
        "{% set ns = namespace() %}{% for i in range(9999) %}{% set ns.x = namespace(y=ns.x) %}{% endfor %}{{ ns }}",
        1,
        recursion,
    );
    let calls = "macros and loops call each other deeper than 200 levels";
    check_limit("{% macro m() %}\n{{ m() }}{% endmacro %}{{ m() }}", 2, calls);
    check_limit("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", 1, calls);
    check_limit("{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{{ m() }}", 1, calls);
    let deep = format!(
        "{{% macro m() %}}{}{{{{ m() }}}}{}{{% endmacro %}}{{{{ m() }}}}",
        "{% if 1 %}".repeat(100),
        "{% endif %}".repeat(100)
    );
    check_limit(&deep, 1, recursion);
    let deep = format!(
        "{{% macro m() %}}{{{{ {}m(){} }}}}{{% endmacro %}}{{{{ m() }}}}",
        "[".repeat(100),
        "]".repeat(100)
    );
    check_limit(&deep, 1, recursion);
}

#[test]
fn long_templates_of_long_chats_render() {
    let content = "word ".repeat(10_000);
    let messages: Vec<Value> = (0..200).map(|_| json!({"role": "user", "content": content})).collect();
    let variables = json!({ "messages": messages }).as_object().unwrap().clone();
    let source = "{% set ns = namespace(all='') %}{% for m in messages %}{% set ns.all = ns.all ~ m.role ~ m.content|trim %}{% endfor %}{{ ns.all }}";
    let text = render(source, &variables).unwrap();
    assert_eq!(text.len(), 200 * (4 + content.len() - 1));
}
