use std::{collections::BTreeMap, path::Path};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use super::{super::WeightsError, Patterns};

/// The settings of a LoRA adapter, as adapter_config.json has them. Source: `LoraConfig` of PEFT.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdapterConfig {
    /// Always `LORA`.
    pub peft_type: String,
    /// What the adapted model is for, `CAUSAL_LM`.
    #[serde(default)]
    pub task_type: Option<String>,
    /// The model that was adapted, a path or a hub name; only a note.
    #[serde(default)]
    pub base_model_name_or_path: Option<String>,
    /// The rank of every adapter that no pattern names.
    pub r: usize,
    /// The numerator of the scale of every adapter that no pattern names: `lora_alpha / r`.
    #[serde(serialize_with = "short")]
    pub lora_alpha: f64,
    /// Scale by `lora_alpha / sqrt(r)` instead.
    #[serde(default)]
    pub use_rslora: bool,
    /// The probability that training drops an input of an adapter.
    #[serde(default)]
    pub lora_dropout: f64,
    /// Which modules have an adapter.
    #[serde(default)]
    pub target_modules: Option<Targets>,
    /// Which of them have none after all.
    #[serde(default)]
    pub exclude_modules: Option<Targets>,
    /// The only layers that have adapters; all of them if absent.
    #[serde(default, deserialize_with = "one_or_many")]
    pub layers_to_transform: Option<Vec<usize>>,
    /// Ranks of single modules.
    #[serde(default)]
    pub rank_pattern: Patterns<usize>,
    /// Alphas of single modules.
    #[serde(default, serialize_with = "short_patterns")]
    pub alpha_pattern: Patterns<f64>,
}

/// A choice of modules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Targets {
    /// Names: a module is meant if its path is the name or ends in a dot and the name.
    Names(Vec<String>),
    /// A regular expression that the whole path must match, or `all-linear`.
    Pattern(String),
}

/// Fields that say nothing about what the adapter computes.
const NOTES: &[&str] = &[
    "auto_mapping",
    "inference_mode",
    "megatron_core",
    "peft_version",
    "qalora_group_size",
    "revision",
    // How a start was made that is named by `init_lora_weights`, which decides whether it is supported.
    "corda_config",
    "eva_config",
    "loftq_config",
    "lora_ga_config",
    // Where an adapter is kept while it is loaded.
    "runtime_config",
    // Checked by itself.
    LAYERS_PATTERN,
];

const LAYERS_PATTERN: &str = "layers_pattern";

/// A module of a Llama, with the list of layers that `layers_pattern` must find.
const MODULE: &str = "model.layers.0.self_attn.q_proj";

/// Starts from which the base weights stay what they are.
const PLAIN_STARTS: &[&str] = &["gaussian", "eva", "orthogonal"];

impl AdapterConfig {
    /// A plain LoRA of a causal language model: scale `lora_alpha / r`, no dropout, no patterns.
    pub fn new(r: usize, lora_alpha: f64, targets: Targets) -> Self {
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
            rank_pattern: Patterns::default(),
            alpha_pattern: Patterns::default(),
        }
    }

    /// The settings in `json`, the content of the file at `path`.
    ///
    /// # Errors
    /// If a field is missing or of the wrong kind, or switches on what is not supported: DoRA, trained biases, modules
    /// saved whole, and whatever later versions of PEFT add. Unknown fields that are off are fine.
    pub fn from_json(path: &Path, json: Value) -> Result<Self, WeightsError> {
        let wrong = |key: &str, problem| WeightsError::Setting {
            path: path.to_owned(),
            key: key.to_owned(),
            problem,
            hint: None,
        };
        let broken = |source| WeightsError::Json { path: path.to_owned(), source };
        let fields: BTreeMap<String, Value> = serde_json::from_value(json.clone()).map_err(broken)?;
        let config: Self = serde_json::from_value(json).map_err(broken)?;
        let known = config.to_json();
        let unsupported =
            |(key, value): &(&String, &Value)| known.get(key.as_str()).is_none() && !is_off(key, value);
        if let Some((key, value)) = fields.iter().find(unsupported) {
            return Err(wrong(key, format!("not supported: {value}")));
        }
        if let Some(pattern) = fields.get(LAYERS_PATTERN)
            && let Err(problem) = check_layers_pattern(pattern, &config)
        {
            return Err(wrong(LAYERS_PATTERN, problem));
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

/// Checks that a pattern for the name of the list of layers, or one of several, finds that of a Llama: then it says no more
/// than `layers_to_transform` alone does.
fn check_layers_pattern(pattern: &Value, config: &AdapterConfig) -> Result<(), String> {
    let patterns = match pattern {
        Value::Null => return Ok(()),
        Value::String(one) => vec![one.as_str()],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        other => return Err(format!("expected a text or a list of texts, found {other}")),
    };
    if patterns.is_empty() || patterns == [""] {
        return Ok(());
    }
    if config.layers_to_transform.as_ref().is_none_or(Vec::is_empty) {
        return Err("expected `layers_to_transform` with it, found none".to_owned());
    }
    let finds = |pattern: &&str| {
        let regex = fancy_regex::Regex::new(&format!(r"^.*\.{pattern}\.(\d+)\."));
        regex.map(|regex| regex.is_match(MODULE).unwrap_or(false)).map_err(|error| error.to_string())
    };
    for pattern in &patterns {
        if finds(pattern)? {
            return Ok(());
        }
    }
    Err(format!("expected a pattern that finds `layers` in {MODULE}, found {pattern}"))
}

fn is_off(key: &str, value: &Value) -> bool {
    if NOTES.contains(&key) {
        return true;
    }
    match (key, value) {
        ("init_lora_weights", Value::Bool(_)) | ("bias", Value::Null) => true,
        ("init_lora_weights", Value::String(start)) => PLAIN_STARTS.contains(&start.as_str()),
        ("bias", bias) => bias == "none",
        (_, Value::Null | Value::Bool(false)) => true,
        (_, Value::String(text)) => text.is_empty(),
        (_, Value::Array(list)) => list.is_empty(),
        (_, Value::Object(map)) => map.is_empty(),
        (_, Value::Bool(true) | Value::Number(_)) => false,
    }
}

/// A whole number without a fraction, as PEFT types these fields.
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

    fn parse(field: &str, value: Value) -> Result<AdapterConfig, String> {
        let mut json = written();
        json[field] = value;
        AdapterConfig::from_json(Path::new("adapter_config.json"), json).map_err(|error| error.to_string())
    }

    #[test]
    fn what_peft_writes_is_understood() {
        let config = parse("later", Value::Null).unwrap();
        assert_eq!(config.target_modules, Some(Targets::Names(vec!["q_proj".into(), "v_proj".into()])));
        assert_eq!(config.layers_to_transform, Some(vec![3]));
        assert_eq!(config.rank_pattern.0, [("z".to_owned(), 1), ("a".to_owned(), 2)]);
        assert!(config.use_rslora);
        let pattern = parse("target_modules", json!("all-linear")).unwrap().target_modules;
        assert_eq!(pattern, Some(Targets::Pattern("all-linear".into())));
    }

    #[test]
    fn starts_that_leave_the_base_as_it_is_are_read() {
        let mut json = written();
        json["init_lora_weights"] = json!("eva");
        json["eva_config"] = json!({"rho": 2.0, "tau": 0.99, "whiten": false});
        json["runtime_config"] = json!({"ephemeral_gpu_offload": false});
        assert!(AdapterConfig::from_json(Path::new("a"), json).is_ok());
        let config = parse("loftq_config", json!({"loftq_bits": 4})).unwrap();
        assert_eq!(config.r, 4);
    }

    #[test]
    fn a_pattern_for_layers_must_find_those_of_a_llama() {
        for pattern in [json!("layers"), json!(["h", "layers"]), json!("lay.rs"), json!([]), json!("")] {
            assert_eq!(parse("layers_pattern", pattern).unwrap().layers_to_transform, Some(vec![3]));
        }
        let expect = "adapter_config.json: `layers_pattern`: expected a pattern that finds `layers` in \
                      model.layers.0.self_attn.q_proj, found \"blocks\"";
        assert_eq!(parse("layers_pattern", json!("blocks")).unwrap_err(), expect);
        let mut json = written();
        json["layers_to_transform"] = Value::Null;
        json["layers_pattern"] = json!("layers");
        let error = AdapterConfig::from_json(Path::new("a"), json).unwrap_err().to_string();
        assert_eq!(error, "a: `layers_pattern`: expected `layers_to_transform` with it, found none");
    }

    #[test]
    fn what_is_not_supported_is_named() {
        let check = |field: &str, value: Value, expect: &str| {
            assert_eq!(parse(field, value).unwrap_err(), format!("adapter_config.json: `{field}`: {expect}"));
        };
        check("use_dora", json!(true), "not supported: true");
        check("bias", json!("all"), "not supported: \"all\"");
        check("modules_to_save", json!(["lm_head"]), "not supported: [\"lm_head\"]");
        check("fan_in_fan_out", json!(true), "not supported: true");
        check("lora_bias", json!(true), "not supported: true");
        check("layer_replication", json!([[0, 4]]), "not supported: [[0,4]]");
        check("trainable_token_indices", json!([1]), "not supported: [1]");
        check("init_lora_weights", json!("pissa"), "not supported: \"pissa\"");
        check("invented_next_year", json!(0.5), "not supported: 0.5");
        check("peft_type", json!("IA3"), "expected LORA, found IA3");
        check("r", json!(0), "expected a rank of at least 1, found 0");
    }
}
