//! The sliding window of attention, which architectures write with different fields of `config.json`.

use serde_json::Value;

use super::fields::{FLAG, Fields, Kind, SIZE, excerpt};
use crate::model::arch::WindowKeys;

/// A TOML file has no null, so zero stands for it.
const WINDOW: Kind<Option<usize>> = Kind {
    expected: "a number of positions up to 2147483647, or 0 or null for full attention",
    read: |value| if value.as_u64() == Some(0) { Some(None) } else { (SIZE.read)(value).map(Some) },
};

const LAYER: Kind<usize> = Kind {
    expected: "a whole number from 0 to 2147483647",
    read: |value| if value.as_u64() == Some(0) { Some(0) } else { (SIZE.read)(value) },
};

/// The value of Qwen 2 if `max_window_layers` is missing.
const MAX_WINDOW_LAYERS: usize = 28;

/// The value of Qwen 2 if `sliding_window` is missing, but not if it is null.
const QWEN2_WINDOW: usize = 4096;

const KEY: &str = "sliding_window";
const TYPES: &str = "layer_types";

/// The window of all of `layers` layers; `None` for full attention, and after a diagnostic.
pub(super) fn read(fields: &mut Fields<'_>, keys: WindowKeys, layers: Option<usize>) -> Option<usize> {
    match keys {
        WindowKeys::Unsupported => {
            refuse(fields, KEY, "expected no such field");
            if !fields.get(TYPES).is_none_or(all_full) {
                refuse(fields, TYPES, "expected nothing but \"full_attention\"");
            }
            None
        }
        WindowKeys::EveryLayer => {
            refuse(fields, TYPES, "expected no such field");
            fields.optional(KEY, &WINDOW)?
        }
        WindowKeys::SomeLayers => read_some(fields, layers?),
    }
}

fn all_full(kinds: &Value) -> bool {
    kinds.as_array().is_some_and(|kinds| kinds.iter().all(|kind| kind == "full_attention"))
}

fn refuse(fields: &mut Fields<'_>, key: &'static str, expected: &str) {
    if let Some(value) = fields.get(key) {
        fields.find_with_hint(
            key,
            format!("{expected}, found {}", excerpt(value)),
            "only plain Llama layers are supported, which would ignore it",
        );
    }
}

fn read_some(fields: &mut Fields<'_>, layers: usize) -> Option<usize> {
    let is_used = fields.optional("use_sliding_window", &FLAG).unwrap_or(false);
    let first = fields.optional("max_window_layers", &LAYER).unwrap_or(MAX_WINDOW_LAYERS);
    let window = match fields.has(KEY) {
        true => fields.optional(KEY, &WINDOW).flatten(),
        false => Some(QWEN2_WINDOW),
    };
    let window = window.filter(|_| is_used);
    let listed = listed(fields, layers);
    if window.is_none() && listed.is_some_and(|sliding| sliding > 0) {
        fields.find(TYPES, "has layers of sliding attention, but there is no `sliding_window` in use");
        return None;
    }
    let window = window?;
    match listed.unwrap_or(layers.saturating_sub(first)) {
        0 => None,
        sliding if sliding == layers => Some(window),
        sliding => {
            let key = if listed.is_some() { TYPES } else { "max_window_layers" };
            fields.find_with_hint(
                key,
                format!("expected the same attention in all layers, found a window in {sliding} of {layers}"),
                "rows not longer than the window need none: with \"use_sliding_window\": false they are the same",
            );
            None
        }
    }
}

/// The number of layers with sliding attention in `layer_types`.
fn listed(fields: &mut Fields<'_>, layers: usize) -> Option<usize> {
    const EXPECTED: &str = "full_attention or sliding_attention";
    let value = fields.get(TYPES)?;
    let kinds: Option<Vec<&str>> =
        value.as_array().and_then(|kinds| kinds.iter().map(Value::as_str).collect());
    let known =
        |kinds: &Vec<&str>| kinds.iter().all(|kind| matches!(*kind, "full_attention" | "sliding_attention"));
    match kinds.filter(known) {
        None => fields.find(TYPES, format!("expected a list of {EXPECTED}, found {}", excerpt(value))),
        Some(kinds) if kinds.len() != layers => {
            fields.find(TYPES, format!("expected one for each of {layers} layers, found {}", kinds.len()));
        }
        Some(kinds) => return Some(kinds.iter().filter(|kind| **kind == "sliding_attention").count()),
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::base::Diagnostics;

    fn read_window(keys: WindowKeys, config: &Value) -> Result<Option<usize>, Diagnostics> {
        let mut diagnostics = Diagnostics::default();
        let mut fields = Fields::new("c.json", config.as_object().unwrap(), &mut diagnostics);
        let window = read(&mut fields, keys, Some(3));
        diagnostics.into_result(window)
    }

    #[track_caller]
    fn check(keys: WindowKeys, config: Value, expect: Option<usize>) {
        assert_eq!(read_window(keys, &config).unwrap(), expect, "{config}");
    }

    #[track_caller]
    fn refuse(keys: WindowKeys, config: Value, expect: &str) {
        assert_eq!(read_window(keys, &config).unwrap_err().to_string(), expect);
    }

    #[test]
    fn mistral_has_its_window_in_every_layer() {
        use WindowKeys::EveryLayer;
        check(EveryLayer, json!({"sliding_window": 4096}), Some(4096));
        check(EveryLayer, json!({"sliding_window": null}), None);
        check(EveryLayer, json!({"sliding_window": 0}), None);
        refuse(
            EveryLayer,
            json!({"sliding_window": -1}),
            "c.json: `sliding_window`: expected a number of positions up to 2147483647, or 0 or null for full \
             attention, found -1",
        );
    }

    #[test]
    fn qwen_has_its_window_where_it_is_used() {
        use WindowKeys::SomeLayers;
        check(SomeLayers, json!({"sliding_window": 8}), None);
        check(
            SomeLayers,
            json!({"sliding_window": 8, "use_sliding_window": false, "max_window_layers": 0}),
            None,
        );
        check(SomeLayers, json!({"sliding_window": 8, "use_sliding_window": true}), None);
        check(
            SomeLayers,
            json!({"sliding_window": 8, "use_sliding_window": true, "max_window_layers": 0}),
            Some(8),
        );
        check(SomeLayers, json!({"use_sliding_window": true, "max_window_layers": 0}), Some(4096));
        check(
            SomeLayers,
            json!({"sliding_window": null, "use_sliding_window": true, "max_window_layers": 0}),
            None,
        );
        let all = ["sliding_attention"; 3];
        check(
            SomeLayers,
            json!({"sliding_window": 8, "use_sliding_window": true, "max_window_layers": 9, "layer_types": all}),
            Some(8),
        );
    }

    #[test]
    fn layers_that_differ_are_refused() {
        use WindowKeys::SomeLayers;
        let hint = "hint: rows not longer than the window need none: with \"use_sliding_window\": false they are \
                    the same";
        refuse(
            SomeLayers,
            json!({"sliding_window": 8, "use_sliding_window": true, "max_window_layers": 1}),
            &format!(
                "c.json: `max_window_layers`: expected the same attention in all layers, found a window in 2 of 3\n  \
                 {hint}"
            ),
        );
        let mixed = ["full_attention", "full_attention", "sliding_attention"];
        refuse(
            SomeLayers,
            json!({"sliding_window": 8, "use_sliding_window": true, "layer_types": mixed}),
            &format!(
                "c.json: `layer_types`: expected the same attention in all layers, found a window in 1 of 3\n  {hint}"
            ),
        );
        refuse(
            SomeLayers,
            json!({"sliding_window": 8, "layer_types": mixed}),
            "c.json: `layer_types`: has layers of sliding attention, but there is no `sliding_window` in use",
        );
        refuse(
            SomeLayers,
            json!({"layer_types": mixed[..2]}),
            "c.json: `layer_types`: expected one for each of 3 layers, found 2",
        );
        refuse(
            SomeLayers,
            json!({"layer_types": ["linear_attention", "full_attention", "full_attention"]}),
            "c.json: `layer_types`: expected a list of full_attention or sliding_attention, found \
             [\"linear_attention\",\"full_attention\",\"full_attention\"]",
        );
    }
}
