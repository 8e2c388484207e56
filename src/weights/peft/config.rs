use std::{collections::BTreeMap, path::Path};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use super::patterns::Patterns;
use crate::weights::WeightsError;

/// Content of adapter_config.json. Source: `LoraConfig` of PEFT.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdapterConfig {
    /// Always `LORA`.
    pub peft_type: String,
    /// Task of the adapted model, `CAUSAL_LM`.
    #[serde(default)]
    pub task_type: Option<String>,
    /// Path or hub name of the base model; informative.
    #[serde(default)]
    pub base_model_name_or_path: Option<String>,
    /// Rank of modules that match no rank pattern.
    pub r: usize,
    /// Numerator of the scale `lora_alpha / r` of modules that match no alpha pattern.
    #[serde(serialize_with = "short")]
    pub lora_alpha: f64,
    /// Whether the scale is `lora_alpha / sqrt(r)`.
    #[serde(default)]
    pub use_rslora: bool,
    /// Dropout probability of an adapter's input in training.
    #[serde(default)]
    pub lora_dropout: f64,
    /// Modules with an adapter.
    #[serde(default)]
    pub target_modules: Option<TargetModules>,
    /// Exceptions from the target modules.
    #[serde(default)]
    pub exclude_modules: Option<TargetModules>,
    /// Layers with adapters; all of them if absent.
    #[serde(default, deserialize_with = "one_or_many")]
    pub layers_to_transform: Option<Vec<usize>>,
    /// Names of the module lists of those layers, as regular expressions; any list if absent.
    #[serde(default, deserialize_with = "one_name_or_many", skip_serializing_if = "Option::is_none")]
    pub layers_pattern: Option<Vec<String>>,
    /// Ranks by module pattern.
    #[serde(default)]
    pub rank_pattern: Patterns<usize>,
    /// Alphas by module pattern.
    #[serde(default, serialize_with = "short_patterns")]
    pub alpha_pattern: Patterns<f64>,
}

/// Selection of modules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TargetModules {
    /// Names: a module matches if its path is a name, or ends in a dot and a name.
    Names(Vec<String>),
    /// A regular expression for the complete path, or `all-linear`.
    Pattern(String),
}

/// Fields that do not affect the result of a saved adapter on linear layers, in PEFT 0.21.
const NOTES: &[&str] = &[
    "auto_mapping",
    "corda_config",
    "ensure_weight_tying",
    "eva_config",
    "fan_in_fan_out",
    "inference_mode",
    "loftq_config",
    "lora_ga_config",
    "megatron_config",
    "megatron_core",
    "merge_weights",
    "peft_version",
    "qalora_group_size",
    "revision",
    "use_qalora",
    "velora_config",
];

/// Values of `init_lora_weights` with which PEFT does not change the base weights on loading a saved adapter.
const PLAIN_STARTS: &[&str] = &["gaussian", "eva", "orthogonal", "mica", "lora_ga"];

/// Prefixes of values with which PEFT changes the base weights too.
const CHANGED_BASES: &[&str] = &["pissa", "olora", "corda", "loftq"];

/// Hint for such an adapter.
const CONVERT: &str = "convert it to a plain LoRA with PEFT: `save_pretrained` with \
                       `path_initial_model_for_weight_conversion`";

impl AdapterConfig {
    /// A plain LoRA of a causal language model: scale `lora_alpha / r`, no dropout, no patterns.
    pub fn new(r: usize, lora_alpha: f64, targets: TargetModules) -> Self {
        Self {
            peft_type: "LORA".to_owned(),
            task_type: Some("CAUSAL_LM".to_owned()),
            base_model_name_or_path: None,
            r,
            lora_alpha,
            use_rslora: false,
            lora_dropout: 0.0,
            target_modules: Some(targets),
            exclude_modules: None,
            layers_to_transform: None,
            layers_pattern: None,
            rank_pattern: Patterns::default(),
            alpha_pattern: Patterns::default(),
        }
    }

    /// Parses `json`, the content of the file at `path`.
    ///
    /// # Errors
    /// If a field is missing, has the wrong type, or enables an unsupported feature: DoRA, trained biases, fully saved
    /// modules, and features of later versions of PEFT. Unknown fields with an empty or false value are accepted.
    pub fn from_json(path: &Path, json: Value) -> Result<Self, WeightsError> {
        let wrong = |key: &str, problem| WeightsError::Setting {
            path: path.to_owned(),
            key: key.to_owned(),
            problem,
            hint: None,
        };
        let broken = |source| WeightsError::Json { path: path.to_owned(), source };
        let fields: BTreeMap<String, Value> = serde_json::from_value(json.clone()).map_err(broken)?;
        if let Some(found) = fields.get("layers_pattern").filter(|value| !is_layers_pattern(value)) {
            return Err(wrong(
                "layers_pattern",
                format!("expected a name or a list of names, found {found}"),
            ));
        }
        let config: Self = serde_json::from_value(json).map_err(broken)?;
        let known = config.to_json();
        if config.layers_pattern.is_some() && config.layers_to_transform.is_none() {
            let problem = "expected `layers_to_transform` beside it, found none".to_owned();
            return Err(wrong("layers_pattern", problem));
        }
        if let Some(Value::String(start)) = fields.get("init_lora_weights")
            && let lower = start.to_lowercase()
            && CHANGED_BASES.iter().any(|changed| lower.starts_with(changed))
        {
            return Err(WeightsError::Setting {
                path: path.to_owned(),
                key: "init_lora_weights".to_owned(),
                problem: format!("not supported: {start} changes the base weights too"),
                hint: Some(CONVERT),
            });
        }
        let unsupported = |(key, value): &(&String, &Value)| {
            known.get(key.as_str()).is_none() && key.as_str() != "layers_pattern" && !is_off(key, value)
        };
        if let Some((key, value)) = fields.iter().find(unsupported) {
            return Err(wrong(key, format!("not supported: {value}")));
        }
        if config.peft_type != "LORA" {
            return Err(wrong("peft_type", format!("expected LORA, found {}", config.peft_type)));
        }
        if config.r == 0 || config.rank_pattern.0.iter().any(|(_, rank)| *rank == 0) {
            return Err(wrong("r", "expected a rank of at least 1, found 0".to_owned()));
        }
        Ok(config)
    }

    fn to_json(&self) -> Value {
        json!(self)
    }
}

/// Whether the type of `layers_pattern` is valid.
fn is_layers_pattern(value: &Value) -> bool {
    match value {
        Value::Null | Value::String(_) => true,
        Value::Array(patterns) => patterns.iter().all(Value::is_string),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    }
}

fn is_off(key: &str, value: &Value) -> bool {
    if NOTES.contains(&key) {
        return true;
    }
    match (key, value) {
        ("init_lora_weights", Value::Bool(_)) | ("bias", Value::Null) => true,
        ("init_lora_weights", Value::String(start)) => PLAIN_STARTS.contains(&start.to_lowercase().as_str()),
        // The biases that are trained are those of the linears, and stored beside the adapter where there are any.
        ("bias", bias) => ["none", "all", "lora_only"].iter().any(|known| bias == known),
        (_, Value::Null | Value::Bool(false)) => true,
        (_, Value::String(text)) => text.is_empty(),
        (_, Value::Array(list)) => list.is_empty(),
        (_, Value::Object(map)) => map.is_empty(),
        (_, Value::Bool(true) | Value::Number(_)) => false,
    }
}

/// An integral value as an integer, the type of these fields in PEFT.
fn shorten(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 1e15 { json!(value as i64) } else { json!(value) }
}

fn short<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    shorten(*value).serialize(serializer)
}

fn short_patterns<S: Serializer>(patterns: &Patterns<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(patterns.0.iter().map(|(pattern, value)| (pattern, shorten(*value))))
}

fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<usize>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        None(()),
        One(usize),
        Many(Vec<usize>),
    }
    Ok(match OneOrMany::deserialize(deserializer)? {
        OneOrMany::None(()) => None,
        OneOrMany::One(layer) => Some(vec![layer]),
        OneOrMany::Many(layers) => Some(layers),
    })
}

/// A list; `None` for an empty list or an empty name.
fn one_name_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        None(()),
        One(String),
        Many(Vec<String>),
    }
    let names = match OneOrMany::deserialize(deserializer)? {
        OneOrMany::None(()) => return Ok(None),
        OneOrMany::One(name) if name.is_empty() => return Ok(None),
        OneOrMany::One(name) => vec![name],
        OneOrMany::Many(names) => names,
    };
    Ok(Some(names).filter(|names| !names.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fields of a file that PEFT 0.21 writes, all of them off but the first four.
    fn written() -> Value {
        json!({
            "peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"],
            "alora_invocation_tokens": null, "alpha_pattern": {}, "arrow_config": null, "auto_mapping": null,
            "base_model_name_or_path": null, "bias": "none", "ensure_weight_tying": false, "exclude_modules": null,
            "fan_in_fan_out": false, "inference_mode": true, "init_lora_weights": false, "layer_replication": null,
            "layers_pattern": null, "layers_to_transform": 3, "loftq_config": {}, "lora_bias": false,
            "lora_dropout": 0.0, "megatron_core": "megatron.core", "modules_to_save": null, "peft_version": "0.21.2",
            "qalora_group_size": 16, "rank_pattern": {"z": 1, "a": 2}, "revision": null, "task_type": "CAUSAL_LM",
            "trainable_token_indices": null, "use_dora": false, "use_qalora": false, "use_rslora": true,
        })
    }

    fn parse(field: &str, value: Value) -> Result<AdapterConfig, WeightsError> {
        let mut json = written();
        json[field] = value;
        AdapterConfig::from_json(Path::new("adapter_config.json"), json)
    }

    #[test]
    fn what_peft_writes_is_understood() {
        let config = parse("later", Value::Null).unwrap();
        assert_eq!(config.target_modules, Some(TargetModules::Names(vec!["q_proj".into(), "v_proj".into()])));
        assert_eq!(config.layers_to_transform, Some(vec![3]));
        assert_eq!(config.rank_pattern.0, [("z".to_owned(), 1), ("a".to_owned(), 2)]);
        assert!(config.use_rslora);
        let pattern = parse("target_modules", json!("all-linear")).unwrap().target_modules;
        assert_eq!(pattern, Some(TargetModules::Pattern("all-linear".into())));
    }

    /// PEFT 0.21.2 computes the same with each of these as without it.
    #[test]
    fn what_changes_nothing_is_accepted() {
        let plain = parse("later", Value::Null).unwrap();
        let eva = json!({"rho": 2.0, "tau": 0.99, "use_label_mask": true, "label_mask_value": -100, "whiten": false,
            "adjust_scaling_factors": true});
        for (field, value) in [
            ("eva_config", eva),
            ("corda_config", json!({"corda_method": "ipm"})),
            ("lora_ga_config", json!({"direction": "ArB2r"})),
            ("loftq_config", json!({"loftq_bits": 4})),
            ("velora_config", json!({})),
            ("fan_in_fan_out", json!(true)),
            ("bias", json!("all")),
            ("bias", json!("lora_only")),
            ("use_qalora", json!(true)),
            ("ensure_weight_tying", json!(true)),
            ("auto_mapping", json!({"base_model_class": "LlamaForCausalLM"})),
            ("init_lora_weights", json!("eva")),
            ("init_lora_weights", json!("Gaussian")),
            ("init_lora_weights", json!("orthogonal")),
            ("init_lora_weights", json!("mica")),
            ("init_lora_weights", json!("lora_ga")),
            ("init_lora_weights", Value::Null),
            ("layers_pattern", json!("")),
            ("layers_pattern", json!([])),
        ] {
            assert_eq!(parse(field, value.clone()).unwrap(), plain, "{field}: {value}");
        }
    }

    #[test]
    fn the_lists_of_layers_are_a_name_or_several() {
        let read = |value| parse("layers_pattern", value).unwrap().layers_pattern;
        assert_eq!(read(json!("layers")), Some(vec!["layers".to_owned()]));
        assert_eq!(read(json!(["h", "layers"])), Some(vec!["h".to_owned(), "layers".to_owned()]));
        let mut json = written();
        json["layers_pattern"] = json!("layers");
        json["layers_to_transform"] = Value::Null;
        let error = AdapterConfig::from_json(Path::new("a.json"), json).unwrap_err();
        let expect = "a.json: `layers_pattern`: expected `layers_to_transform` beside it, found none";
        assert_eq!(error.to_string(), expect);
    }

    #[test]
    fn what_is_not_supported_is_named() {
        let check = |field: &str, value: Value, expect: &str| {
            assert_eq!(
                parse(field, value).unwrap_err().to_string(),
                format!("adapter_config.json: `{field}`: {expect}")
            );
        };
        check("use_dora", json!(true), "not supported: true");
        check("bias", json!("some"), "not supported: \"some\"");
        check("modules_to_save", json!(["lm_head"]), "not supported: [\"lm_head\"]");
        check("lora_bias", json!(true), "not supported: true");
        check("layer_replication", json!([[0, 4]]), "not supported: [[0,4]]");
        check("trainable_token_indices", json!([1]), "not supported: [1]");
        for start in ["pissa", "pissa_niter_4", "OLoRA", "corda", "loftq"] {
            let expect = format!("not supported: {start} changes the base weights too");
            check("init_lora_weights", json!(start), &expect);
        }
        check("init_lora_weights", json!("invented"), "not supported: \"invented\"");
        for variant in ["kasa_config", "arrow_config", "use_bdlora", "monteclora_config"] {
            check(variant, json!({"a": 1}), "not supported: {\"a\":1}");
        }
        check("alora_invocation_tokens", json!([1]), "not supported: [1]");
        check("layers_pattern", json!(3), "expected a name or a list of names, found 3");
        check("layers_pattern", json!(["h", 3]), "expected a name or a list of names, found [\"h\",3]");
        check("invented_next_year", json!(0.5), "not supported: 0.5");
        check("peft_type", json!("IA3"), "expected LORA, found IA3");
        check("r", json!(0), "expected a rank of at least 1, found 0");
    }
}
