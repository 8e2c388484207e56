//! Modules that PEFT 0.21.2 adapts in a Llama of twelve layers, by pattern. `all qv` are the `q_proj` and
//! `v_proj` of every layer, `1.q` is one module, and `error` an expression that Python rejects.

use super::{
    LoraPlan, LoraSpec, Targets,
    matching::{Pattern, PatternError},
};
use crate::model::{Config, Linear};

const EXPRESSIONS: &[(&str, &str)] = &[
    (r".*\.q_proj", "all q"),
    (r"q_proj", ""),
    (r".*layers\.1\..*(q|v)_proj", "1.q 1.v"),
    (r"model\.layers\.(1|10)\..*q_proj", "1.q 10.q"),
    (r".*\.q_proj\Z", "all q"),
    (r".*\.q_proj$", "all q"),
    (r"(?!.*mlp)(?!.*(k|v|o)_proj).*\.\w+_proj", "all q"),
    (r".*\.(?P<a>q)_proj", "all q"),
    (r".*\.1(?#two).*q_proj", "1.q 10.q 11.q"),
    (r"(?x) .* \. q_proj", "all q"),
    (r".*\.[[q]_proj", "all q"),
    (r".*\.[q&&v]_proj", "all qv"),
    (r".*\.\d{,1}\.mlp\.up_proj", "0.u 1.u 2.u 3.u 4.u 5.u 6.u 7.u 8.u 9.u"),
    (r".*\.(\d)\1\..*q_proj", "11.q"),
    (r"(?i).*\.Q_PROJ", "all q"),
    (r".*\.(?:q|k)_pro(?-i:j)", "all qk"),
    (r"\Amodel.*q_proj", "all q"),
    (r".*\.\d++\.mlp\.(?>up|u)_proj", "all u"),
    (r".*\.1\d?\.(?(1)a|mlp)\.up_proj", "error"),
    (r"(.*\.)?(1)?1\.(?(2)mlp|x)\.up_proj", "11.u"),
    (r".*\.q_proj|x", "all q"),
    (r"\p{L}.*q_proj", "error"),
    (r".*\.[\w--q]_proj", "error"),
    (r".*\hq_proj", "error"),
    (r".*\Kq_proj", "error"),
    (r".*[]q]_proj", "all q"),
    (r".*[^]a]_proj", "all qkvogud"),
    (r".*\.\x71_proj", "all q"),
    (r".*\u0071_proj", "all q"),
    (r".*\bq_proj", "all q"),
    (r".*\.q_proj(?=$)", "all q"),
    (r".*(?<!\.k)_proj", "all qvogud"),
    (r".*\N{LATIN SMALL LETTER Q}_proj", "all q"),
    (r"(?a).*\.q_proj", "all q"),
    (r"(?s).*q_proj", "all q"),
    (r".*q_proj(?i)", "error"),
    (r".*\z", "error"),
    (r"(?<n>m).*q_proj", "error"),
    (r".*\.q_\G?proj", "error"),
    (r".*\8", "error"),
    (r".*q_proj{", ""),
    (r".*(?=_proj)_{1}proj", "all qkvogud"),
    (r"{model.*q_proj", ""),
    (r".*\141q_proj", ""),
    (r".*\1610_proj", ""),
    (r".*\0?q_proj", "all q"),
    (r".*[\d-z]_proj", "error"),
    (r".*[[:alpha:]]_proj", ""),
    (r".*[a~~q]_proj", "all q"),
];

const LISTS: &[(&[&str], &str)] = &[
    (&[], "1.q 10.q"),
    (&[r"layers"], "1.q 10.q"),
    (&[r"model.layers"], "1.q 10.q"),
    (&[r"model\.layers"], "1.q 10.q"),
    (&[r"h"], ""),
    (&[r"h", r"layers"], "1.q 10.q"),
    (&[r"layers", r"h"], "1.q 10.q"),
    (&[r"h", r"blocks"], ""),
    (&[r"lay.*"], "1.q 10.q"),
    (&[r"lay[a-z]+"], "1.q 10.q"),
    (&[r"l(?:ayer|ayers)"], "1.q 10.q"),
    (&[r"(h|layers)"], "1.q 10.q"),
    (&[r"h|layers"], ""),
    (&[r"layers|h"], ""),
    (&[r"layers|model"], ""),
    (&[r"odel.layers"], ""),
    (&[r"ayers"], ""),
    (&[r"(?i)LAYERS"], "error"),
    (&[r"(?<=model.)layers"], "1.q 10.q"),
    (&[r"(?P<name>layers)"], "1.q 10.q"),
    (&[r"(?P<idx>layers)"], "error"),
    (&[r"layers\Z"], ""),
    (&[r"mod"], ""),
    (&[r"(l)ayers"], "1.q 10.q"),
    (&[r"[[l]ayers"], "1.q 10.q"),
    (&[r"layers("], "error"),
    (&[r" [l-"], "error"),
    (&[r"\w{,6}"], "1.q 10.q"),
    (&[r"\w+"], "1.q 10.q"),
    (&[r".+"], "1.q 10.q"),
];

const LAYERS: &[(&[usize], &[&str], &str)] = &[
    (&[3], &[], "3.q 5.u"),
    (&[3], &[r"h"], "5.u"),
    (&[3], &[r"layers"], "3.q 5.u"),
    (&[], &[], "0.q 1.q 2.q 3.q 4.q 5.q 5.u 6.q 7.q 8.q 9.q 10.q 11.q"),
    (&[], &[r"h"], "0.q 1.q 2.q 3.q 4.q 5.q 5.u 6.q 7.q 8.q 9.q 10.q 11.q"),
    (&[], &[r"layers"], "0.q 1.q 2.q 3.q 4.q 5.q 5.u 6.q 7.q 8.q 9.q 10.q 11.q"),
    (&[99], &[], "5.u"),
    (&[99], &[r"h"], "5.u"),
    (&[99], &[r"layers"], "5.u"),
    (&[0, 99], &[], "0.q 5.u"),
    (&[0, 99], &[r"h"], "5.u"),
    (&[0, 99], &[r"layers"], "0.q 5.u"),
    (&[1, 1, 11], &[], "1.q 5.u 11.q"),
    (&[1, 1, 11], &[r"h"], "5.u"),
    (&[1, 1, 11], &[r"layers"], "1.q 5.u 11.q"),
];

const KEYS: &[(&str, &str)] = &[
    (r"q_proj", "all q"),
    (r"layers.1.self_attn.q_proj", "1.q"),
    (r"^model.*up_proj", "all u"),
    (r"down_proj|up_proj", "all ud"),
    (r"proj", ""),
    (r".*", "all qkvogud"),
    (r"(?i)Q_PROJ", "error"),
    (r"q_proj\Z", "all q"),
    (r"(q|k)_proj", "all qk"),
    (r"layers.(\d)\2.*q_proj", "error"),
    (r"(x)|q_proj", "all q"),
    (r"model", ""),
    (r"[q&&v]_proj", "all qv"),
    (r"1\..*q_proj", "1.q"),
    (r"q(", "error"),
];

/// Expressions that are refused though Python accepts them: octal escapes, characters by name, and ASCII-only classes.
const REFUSED: &[&str] = &[
    r".*\N{LATIN SMALL LETTER Q}_proj",
    r"(?a).*\.q_proj",
    r".*\141q_proj",
    r".*\1610_proj",
    r".*\0?q_proj",
];

fn twelve() -> Config {
    Config { num_hidden_layers: 12, ..Config::builtin("tiny").unwrap() }
}

fn modules() -> impl Iterator<Item = (usize, Linear)> {
    (0..12).flat_map(|layer| Linear::ALL.map(|linear| (layer, linear)))
}

fn letter(linear: Linear) -> &'static str {
    &linear.name()[..1]
}

/// Chosen modules in the notation of the tables.
fn short(chosen: &[(usize, Linear)]) -> String {
    let of_layer = |wanted: usize| -> String {
        chosen.iter().filter(|(layer, _)| *layer == wanted).map(|&(_, linear)| letter(linear)).collect()
    };
    let first = of_layer(0);
    if !first.is_empty() && (1..12).all(|layer| of_layer(layer) == first) {
        return format!("all {first}");
    }
    let names: Vec<_> = chosen.iter().map(|&(layer, linear)| format!("{layer}.{}", letter(linear))).collect();
    names.join(" ")
}

fn matching(pattern: &Result<Pattern, PatternError>) -> String {
    let Ok(pattern) = pattern else { return "error".to_owned() };
    let matches = |&(layer, linear): &(usize, Linear)| pattern.matches(&linear.module_name(layer));
    short(&modules().filter(matches).collect::<Vec<_>>())
}

/// A plan in the notation of the tables: `error` for a malformed expression, empty if another check fails.
fn planned(spec: &LoraSpec) -> String {
    let of_plan = |plan: LoraPlan| short(&plan.iter().map(|(l, n, _)| (l, n)).collect::<Vec<_>>());
    match spec.resolve_saved(&twelve()) {
        Ok((plan, _)) => of_plan(plan),
        Err(diagnostics) if diagnostics.to_string().contains("not a regular expression") => {
            "error".to_owned()
        }
        Err(_) => String::new(),
    }
}

fn of_names(names: &[&str]) -> LoraSpec {
    let targets = Targets::Names(names.iter().map(|&name| name.to_owned()).collect());
    LoraSpec { targets, ..LoraSpec::all_linear(1, 1.0) }
}

fn owned(patterns: &[&str]) -> Vec<String> {
    patterns.iter().map(|&pattern| pattern.to_owned()).collect()
}

/// Every row that differs, so that one run shows all of them.
#[track_caller]
fn check<'a>(rows: impl Iterator<Item = (String, &'a str, String)>) {
    let wrong: Vec<_> = rows.filter(|(_, expect, found)| expect != found).collect();
    assert!(wrong.is_empty(), "(pattern, PEFT, found): {wrong:#?}");
}

#[test]
fn expressions_match_as_in_python() {
    let found = |pattern: &str| matching(&Pattern::full(pattern, &[]));
    check(EXPRESSIONS.iter().map(|&(pattern, expect)| {
        let expect = if REFUSED.contains(&pattern) { "error" } else { expect };
        (pattern.to_owned(), expect, found(pattern))
    }));
}

#[test]
fn keys_match_as_in_python() {
    check(KEYS.iter().map(|&(key, expect)| (key.to_owned(), expect, matching(&Pattern::key(key, &[])))));
}

#[test]
fn lists_of_layers_are_those_of_peft() {
    check(LISTS.iter().map(|&(patterns, expect)| {
        let spec = LoraSpec { layers: vec![1, 10], layers_pattern: owned(patterns), ..of_names(&["q_proj"]) };
        (patterns.join(" "), expect, planned(&spec))
    }));
    check(LAYERS.iter().map(|&(layers, patterns, expect)| {
        let names = of_names(&["q_proj", "model.layers.5.mlp.up_proj"]);
        let spec = LoraSpec { layers: layers.to_vec(), layers_pattern: owned(patterns), ..names };
        (format!("{layers:?} {patterns:?}"), expect, planned(&spec))
    }));
}

#[track_caller]
fn refuse(spec: &LoraSpec, expect: &[&str]) {
    assert_eq!(spec.resolve(&twelve()).unwrap_err().to_string(), expect.join("\n"));
}

#[test]
fn a_pattern_without_a_list_of_layers_is_refused() {
    let spec = |pattern: &str| LoraSpec {
        layers: vec![0],
        layers_pattern: vec![pattern.to_owned()],
        ..of_names(&["q_proj"])
    };
    refuse(
        &spec("h"),
        &["`layers_pattern`: matches no list of layers: h\n  \
           hint: the list of a Llama's layers is `layers`, or in full `model.layers`"],
    );
    refuse(&spec(r"l\Nayers"), &[r"`layers_pattern`: not a regular expression: l\Nayers: bad escape \N"]);
    refuse(
        &spec("layers)"),
        &["`layers_pattern`: not a regular expression, at character 7 of layers): \
           general parsing error: end of string not reached"],
    );
}

#[test]
fn a_saved_adapter_may_name_what_the_model_lacks() {
    let spec = LoraSpec {
        layers: vec![1, 77],
        rank_pattern: vec![("qkv".into(), 4)],
        exclude: Some(Targets::Names(vec!["visual".into()])),
        ..of_names(&["q_proj", "qkv"])
    };
    let (plan, unused) = spec.resolve_saved(&twelve()).unwrap();
    assert_eq!(plan.iter().count(), 1);
    let places: Vec<_> = unused.0.iter().map(|diagnostic| diagnostic.location.to_string()).collect();
    assert_eq!(places, ["`layers_to_transform`", "`target_modules`", "`exclude_modules`", "`rank_pattern`"]);
    assert_eq!(spec.resolve(&twelve()).unwrap_err(), unused);
    assert!(of_names(&["qkv"]).resolve_saved(&twelve()).is_err());
    assert!(of_names(&["q_proj", "lm_head"]).resolve_saved(&twelve()).is_err());
}
