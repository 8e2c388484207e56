//! The rotary embedding of a `config.json`, in both spellings: `rope_theta` with `rope_scaling`, and the
//! `rope_parameters` of transformers 5.

use serde_json::Value;

use super::{
    Rope,
    fields::{AT_LEAST_ONE, Fields, POSITIVE, SIZE, TEXT},
};

const KINDS: &str = "default, linear, llama3";

/// The base of Llama 1 and 2, whose first configs had no `rope_theta`.
const FIRST_THETA: f64 = 10_000.0;

/// Reads all spellings that are present; they must agree.
pub(super) fn read(fields: &mut Fields<'_>) -> Option<Rope> {
    let theta = read_theta(fields);
    let length = fields.optional("original_max_position_embeddings", &SIZE);
    let mut read_table = |key| fields.inside(key).map(|mut table| read_table(&mut table, theta, length));
    match (read_table("rope_scaling"), read_table("rope_parameters")) {
        (None, None) => Some(Rope::Default { theta: theta.unwrap_or(FIRST_THETA) }),
        (Some(rope), None) | (None, Some(rope)) => rope,
        (Some(scaling), Some(parameters)) => {
            let (scaling, parameters) = (scaling?, parameters?);
            if scaling != parameters {
                fields.find_with_hint(
                    "rope_parameters",
                    format!("disagrees with `rope_scaling`: {parameters} is not {scaling}"),
                    "keep the one that the model was trained with",
                );
            }
            Some(parameters)
        }
    }
}

/// The base that is assumed if none of the three fields for it is present.
pub(super) fn assumed_theta(config: &Value) -> Option<f64> {
    let tables = [Some(config), config.get("rope_scaling"), config.get("rope_parameters")];
    let is_there = |table: &Value| table.get("rope_theta").is_some_and(|theta| !theta.is_null());
    (!tables.into_iter().flatten().any(is_there)).then_some(FIRST_THETA)
}

/// The base of the frequencies, from the three fields that may contain it; they must agree.
fn read_theta(fields: &mut Fields<'_>) -> Option<f64> {
    let mut agreed =
        fields.optional("rope_theta", &AT_LEAST_ONE).map(|theta| ("rope_theta".to_owned(), theta));
    for table in ["rope_scaling", "rope_parameters"] {
        if !fields.get(table).is_some_and(Value::is_object) {
            continue;
        }
        let Some(mut table) = fields.inside(table) else { continue };
        let Some(theta) = table.optional("rope_theta", &AT_LEAST_ONE) else { continue };
        match &agreed {
            Some((location, first)) if *first != theta => {
                table.find("rope_theta", format!("disagrees with `{location}`: {theta} is not {first}"));
            }
            Some(_) => {}
            None => agreed = Some((table.full_name("rope_theta"), theta)),
        }
    }
    agreed.map(|(_, theta)| theta)
}

fn read_table(table: &mut Fields<'_>, theta: Option<f64>, outer_length: Option<usize>) -> Option<Rope> {
    let kind = read_kind(table)?;
    let own: &[&str] = match kind.as_str() {
        "default" => &[],
        "linear" => &["factor"],
        "llama3" => &["factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"],
        _ => {
            let message = format!("unknown kind of rotary embedding: {kind}");
            table.find_with_hint("rope_type", message, format!("the known kinds are {KINDS}"));
            return None;
        }
    };
    refuse_foreign(table, &kind, own);
    match kind.as_str() {
        "llama3" => read_llama3(table, theta, outer_length),
        "linear" => {
            let factor = table.required("factor", &AT_LEAST_ONE)?;
            Some(Rope::Linear { theta: theta.unwrap_or(FIRST_THETA), factor })
        }
        _ => Some(Rope::Default { theta: theta.unwrap_or(FIRST_THETA) }),
    }
}

/// `rope_type`, or `type` in older files; `default` for a table of only the base.
fn read_kind(table: &mut Fields<'_>) -> Option<String> {
    let new = table.optional("rope_type", &TEXT);
    let old = table.optional("type", &TEXT);
    match (new, old) {
        (Some(new), Some(old)) if new != old => {
            table.find(
                "type",
                format!("disagrees with `{}`: {old} is not {new}", table.full_name("rope_type")),
            );
            None
        }
        (Some(kind), _) | (None, Some(kind)) => Some(kind),
        (None, None) if table.get("rope_type").or(table.get("type")).is_some() => None,
        (None, None) if table.keys().all(|key| COMMON.contains(&key)) => Some("default".to_owned()),
        (None, None) => {
            table.find("rope_type", format!("missing, expected one of {KINDS}"));
            None
        }
    }
}

const COMMON: [&str; 4] = ["rope_type", "type", "rope_theta", "partial_rotary_factor"];

/// Rejects fields of other kinds of RoPE, which would be ignored silently.
fn refuse_foreign(table: &mut Fields<'_>, kind: &str, own: &[&str]) {
    for key in table.keys() {
        if !own.contains(&key) && !COMMON.contains(&key) {
            table.find(key, format!("not a field of a rotary embedding of kind {kind}"));
        }
    }
    if table.optional("partial_rotary_factor", &POSITIVE).is_some_and(|factor| factor != 1.0) {
        table.find("partial_rotary_factor", "expected 1: all features of a head are rotated");
    }
}

fn read_llama3(table: &mut Fields<'_>, theta: Option<f64>, outer_length: Option<usize>) -> Option<Rope> {
    const LENGTH: &str = "original_max_position_embeddings";
    if theta.is_none() && table.get("rope_theta").is_none() {
        table.required("rope_theta", &AT_LEAST_ONE);
    }
    let factor = table.required("factor", &AT_LEAST_ONE);
    let low = table.required("low_freq_factor", &POSITIVE);
    let high = table.required("high_freq_factor", &POSITIVE);
    let length = match outer_length {
        Some(outer) => table.optional(LENGTH, &SIZE).or(Some(outer)),
        None => table.required(LENGTH, &SIZE),
    };
    if let (Some(outer), Some(inner)) = (outer_length, length)
        && outer != inner
    {
        table.find(LENGTH, format!("disagrees with `{LENGTH}` of the model: {inner} is not {outer}"));
    }
    if let (Some(low), Some(high)) = (low, high)
        && high <= low
    {
        table.find("high_freq_factor", format!("expected more than low_freq_factor, {low}, found {high}"));
    }
    Some(Rope::Llama3 {
        theta: theta?,
        factor: factor?,
        low_freq_factor: low?,
        high_freq_factor: high?,
        original_max_position_embeddings: length?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::base::Diagnostics;

    fn read_config(config: &Value) -> Result<Rope, Diagnostics> {
        let mut diagnostics = Diagnostics::default();
        let rope = read(&mut Fields::new("c.json", config.as_object().unwrap(), &mut diagnostics));
        diagnostics.into_result(()).map(|()| rope.unwrap())
    }

    #[track_caller]
    fn check(config: Value, expect: Rope) {
        assert_eq!(read_config(&config), Ok(expect));
    }

    #[track_caller]
    fn refuse(config: Value, expect: &[&str]) {
        assert_eq!(read_config(&config).unwrap_err().to_string(), expect.join("\n"));
    }

    fn llama31() -> Rope {
        Rope::Llama3 {
            theta: 500_000.0,
            factor: 8.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_max_position_embeddings: 8192,
        }
    }

    /// The table of Llama 3.1 with one field replaced; null takes it away.
    fn table(key: &str, value: Value) -> Value {
        let mut table = json!({"factor": 8.0, "low_freq_factor": 1, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192, "rope_type": "llama3"});
        table[key] = value;
        table
    }

    #[test]
    fn both_spellings_read_alike() {
        let whole = table("rope_theta", json!(5e5));
        check(json!({"rope_theta": 500000.0, "rope_scaling": table("type", json!(null))}), llama31());
        check(json!({"rope_theta": 500000, "rope_scaling": table("type", json!("llama3"))}), llama31());
        check(json!({"rope_parameters": whole}), llama31());
        check(
            json!({"rope_parameters": whole, "rope_theta": 5e5, "rope_scaling": table("type", json!("llama3"))}),
            llama31(),
        );
        check(
            json!({"rope_theta": 1e4, "rope_scaling": {"type": "linear", "factor": 2}}),
            Rope::Linear { theta: 10_000.0, factor: 2.0 },
        );
    }

    #[test]
    fn missing_fields_have_the_values_of_llama_1() {
        let plain = Rope::Default { theta: 10_000.0 };
        check(json!({}), plain.clone());
        check(json!({"rope_scaling": null, "rope_parameters": {}}), plain.clone());
        check(json!({"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 1.0}}), plain);
        check(json!({"rope_theta": 100000, "rope_scaling": null}), Rope::Default { theta: 1e5 });
    }

    #[test]
    fn a_base_is_assumed_if_no_field_has_one() {
        let check = |config: Value, expect| assert_eq!(assumed_theta(&config), expect);
        check(json!({}), Some(10_000.0));
        check(json!({"rope_theta": null, "rope_scaling": null, "rope_parameters": {}}), Some(10_000.0));
        check(json!({"rope_theta": 1e4}), None);
        check(json!({"rope_parameters": {"rope_theta": 5e5}}), None);
        check(json!({"rope_scaling": {"rope_theta": 5e5}}), None);
    }

    #[test]
    fn a_length_beside_the_table_counts_and_must_agree() {
        let length = "original_max_position_embeddings";
        check(
            json!({"rope_theta": 5e5, length: 8192, "rope_scaling": table(length, json!(null))}),
            llama31(),
        );
        refuse(
            json!({"rope_theta": 5e5, length: 4096, "rope_scaling": table("type", json!(null))}),
            &["c.json: `rope_scaling.original_max_position_embeddings`: disagrees with \
               `original_max_position_embeddings` of the model: 8192 is not 4096"],
        );
    }

    #[test]
    fn unknown_kinds_and_foreign_fields_are_refused() {
        for kind in ["dynamic", "yarn", "longrope", "Llama3"] {
            let message = format!(
                "c.json: `rope_scaling.rope_type`: unknown kind of rotary embedding: {kind}\n  \
                 hint: the known kinds are default, linear, llama3"
            );
            refuse(json!({"rope_scaling": {"type": kind, "factor": 2.0}}), &[&message]);
        }
        refuse(
            json!({"rope_scaling": {"factor": 8.0}}),
            &["c.json: `rope_scaling.rope_type`: missing, expected one of default, linear, llama3"],
        );
        refuse(
            json!({"rope_parameters": {"rope_type": "default", "factor": 8.0, "partial_rotary_factor": 0.5}}),
            &[
                "c.json: `rope_parameters.factor`: not a field of a rotary embedding of kind default",
                "c.json: `rope_parameters.partial_rotary_factor`: \
                 expected 1: all features of a head are rotated",
            ],
        );
        refuse(
            json!({"rope_scaling": "linear"}),
            &["c.json: `rope_scaling`: expected an object, found \"linear\""],
        );
        refuse(
            json!({"rope_scaling": {"type": 3}}),
            &["c.json: `rope_scaling.type`: expected a string, found 3"],
        );
    }

    #[test]
    fn spellings_that_disagree_are_refused() {
        refuse(
            json!({"rope_theta": 1e4, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}),
            &["c.json: `rope_parameters.rope_theta`: disagrees with `rope_theta`: 500000 is not 10000"],
        );
        refuse(
            json!({"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_parameters": {"rope_type": "default"}}),
            &["c.json: `rope_parameters`: disagrees with `rope_scaling`: default with theta 10000 is not \
               linear with theta 10000, factor 2\n  hint: keep the one that the model was trained with"],
        );
        refuse(
            json!({"rope_theta": 5e5, "rope_scaling": table("type", json!("linear"))}),
            &["c.json: `rope_scaling.type`: disagrees with `rope_scaling.rope_type`: linear is not llama3"],
        );
    }

    #[test]
    fn numbers_that_float32_cannot_hold_are_refused() {
        refuse(
            json!({"rope_theta": 3.4e-119, "rope_scaling": {"type": "linear", "factor": 1e300}}),
            &[
                "c.json: `rope_theta`: expected a number from 1 to 1e30, found 3.4e-119",
                "c.json: `rope_scaling.factor`: expected a number from 1 to 1e30, found 1e+300",
            ],
        );
    }

    #[test]
    fn the_numbers_of_llama3_are_checked() {
        refuse(
            json!({"rope_scaling": table("high_freq_factor", json!(1))}),
            &[
                "c.json: `rope_scaling.rope_theta`: missing, expected a number from 1 to 1e30",
                "c.json: `rope_scaling.high_freq_factor`: expected more than low_freq_factor, 1, found 1",
            ],
        );
        refuse(
            json!({"rope_theta": 5e5, "rope_scaling": table("factor", json!(-1))}),
            &["c.json: `rope_scaling.factor`: expected a number from 1 to 1e30, found -1"],
        );
        refuse(
            json!({"rope_theta": 5e5, "rope_scaling": table("original_max_position_embeddings", json!(null))}),
            &["c.json: `rope_scaling.original_max_position_embeddings`: missing, \
               expected a whole number from 1 to 2147483647"],
        );
    }
}
