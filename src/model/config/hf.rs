use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    architecture::Config,
    fields::{FLAG, Fields, HEAD_DIM, LAYERS, POSITIVE, SIZE, TEXT, TOKENS, excerpt},
    hf_quantization, hf_rope, hf_window,
};
use crate::{
    base::{DType, Diagnostic, Diagnostics, LineIndex, Location},
    model::{
        Linear,
        arch::{Architecture, Biases, LLAMA},
    },
};

impl Config {
    /// Reads the text of a `config.json`; `file` is how diagnostics name it.
    ///
    /// # Errors
    /// Every problem found: see [`Config::from_hf`].
    pub fn from_json(text: &str, file: &str) -> Result<Self, Diagnostics> {
        let value = serde_json::from_str(text).map_err(|error| {
            let message = format!("not valid JSON: {error}");
            Diagnostics(vec![Diagnostic::error(Location::line(file, error.line()), message)])
        })?;
        Self::from_hf(&value, file)
    }

    /// Reads a configuration written as TOML with the field names of `config.json`.
    ///
    /// # Errors
    /// Every problem found: see [`Config::from_hf`].
    pub fn from_toml(text: &str, file: &str) -> Result<Self, Diagnostics> {
        let value = toml::from_str(text).map_err(|error| {
            let line = LineIndex::new(text).line(error.span().unwrap_or_default().start);
            let message = format!("not valid TOML: {}", error.message());
            Diagnostics(vec![Diagnostic::error(Location::line(file, line), message)])
        })?;
        Self::from_hf(&value, file)
    }

    /// Reads a `config.json` as transformers writes it, of any version; `file` is how diagnostics name it.
    ///
    /// Unknown fields are ignored, except those that would change the mathematics of the model.
    ///
    /// # Errors
    /// Every problem found: fields that are missing or have the wrong type, inconsistent sizes, another architecture, a
    /// rotary embedding that is unknown or defined twice and differently.
    pub fn from_hf(value: &Value, file: &str) -> Result<Self, Diagnostics> {
        let mut diagnostics = Diagnostics::default();
        let Value::Object(object) = value else {
            let message = format!("expected an object, found {}", excerpt(value));
            return Err(Diagnostics(vec![Diagnostic::error(Location::file(file), message)]));
        };
        let config = read(&mut Fields::new(file, object, &mut diagnostics));
        if let Some(config) = config.as_ref().filter(|config| config.exact_param_count() > MAX_PARAMETERS) {
            let message =
                format!("the sizes multiply to too many parameters: {}", config.exact_param_count());
            diagnostics.push(Diagnostic::error(Location::file(file), message));
        }
        match config {
            Some(config) => diagnostics.into_result(config),
            None => Err(diagnostics),
        }
    }
}

impl Config {
    /// Warnings about values that [`Config::from_hf`] assumes in place of missing fields on which the mathematics depends.
    pub fn assumptions(value: &Value, file: &str) -> Vec<Diagnostic> {
        let assumed = hf_rope::assumed_theta(value).map(|theta| {
            let location = Location::file(file).at("rope_theta");
            let message = format!("missing, {theta} is assumed, as for the first Llama models");
            Diagnostic::error(location, message)
                .with_hint("Llama 3 models have 500000: copy config.json from the original model")
        });
        assumed.into_iter().collect()
    }
}

/// Far beyond any model, and small enough that the bytes of all tensors fit 64 bits.
const MAX_PARAMETERS: u128 = 1 << 50;

/// `None` only after a diagnostic.
fn read(fields: &mut Fields<'_>) -> Option<Config> {
    let architecture = read_architecture(fields);
    let vocab_size = fields.required("vocab_size", &SIZE);
    let hidden_size = fields.required("hidden_size", &SIZE);
    let intermediate_size = fields.required("intermediate_size", &SIZE);
    let num_hidden_layers = fields.required("num_hidden_layers", &LAYERS);
    let num_attention_heads = fields.required("num_attention_heads", &SIZE);
    let num_key_value_heads = read_kv_heads(fields, num_attention_heads);
    let head_dim = read_head_dim(fields, hidden_size, num_attention_heads);
    let rms_norm_eps = fields.required("rms_norm_eps", &POSITIVE);
    let max_position_embeddings = fields.required("max_position_embeddings", &SIZE);
    let tie_word_embeddings = fields.optional("tie_word_embeddings", &FLAG).unwrap_or(false);
    let biases = read_biases(fields, architecture.biases);
    let sliding_window = hf_window::read(fields, architecture.window, num_hidden_layers);
    let bos_token_ids = fields.optional("bos_token_id", &TOKENS).unwrap_or_default();
    let eos_token_ids = fields.optional("eos_token_id", &TOKENS).unwrap_or_default();
    let rope = hf_rope::read(fields);
    let quantized = hf_quantization::read(fields);
    check_neutral(fields);
    Some(Config {
        vocab_size: vocab_size?,
        hidden_size: hidden_size?,
        intermediate_size: intermediate_size?,
        num_hidden_layers: num_hidden_layers?,
        num_attention_heads: num_attention_heads?,
        num_key_value_heads: num_key_value_heads?,
        head_dim: head_dim?,
        rms_norm_eps: rms_norm_eps?,
        tie_word_embeddings,
        biases,
        sliding_window,
        rope: rope?,
        max_position_embeddings: max_position_embeddings?,
        bos_token_ids,
        eos_token_ids,
        dtype: read_dtype(fields),
        quantized,
    })
}

/// Llama after a diagnostic, so that the other fields are read.
fn read_architecture(fields: &mut Fields<'_>) -> &'static Architecture {
    let architecture = find_architecture(fields).unwrap_or(&LLAMA);
    for &key in architecture.explicit_fields {
        if !fields.has(key) {
            fields.find(key, format!("missing, expected it in a config of {}", architecture.model_type));
        }
    }
    if let Some(act) = fields.optional("hidden_act", &TEXT).filter(|act| act != "silu") {
        fields.find("hidden_act", format!("expected silu, found {act}"));
    }
    architecture
}

fn find_architecture(fields: &mut Fields<'_>) -> Option<&'static Architecture> {
    let kind = fields.optional("model_type", &TEXT);
    let known = match &kind {
        Some(kind) => Architecture::of_model_type(kind),
        None => {
            let classes = fields.get("architectures").and_then(Value::as_array);
            Architecture::of_classes(classes.into_iter().flatten().filter_map(Value::as_str))
        }
    };
    // A `model_type` of the wrong type was reported.
    if known.is_none() && (kind.is_some() || fields.get("model_type").is_none()) {
        let types = Architecture::list(|architecture| Some(architecture.model_type), ", ");
        let message = match kind {
            Some(kind) => format!("expected one of {types}, found {kind}"),
            None => format!("missing, expected one of {types}"),
        };
        let models = Architecture::list(|architecture| Some(architecture.models), "; ");
        fields.find_with_hint("model_type", message, format!("supported: {models}"));
    }
    known
}

fn read_biases(fields: &mut Fields<'_>, biases: Biases) -> BTreeSet<Linear> {
    match biases {
        Biases::Fixed(linears) => linears.iter().copied().collect(),
        Biases::ByField => {
            let of_attention = fields.optional("attention_bias", &FLAG).unwrap_or(false);
            let of_mlp = fields.optional("mlp_bias", &FLAG).unwrap_or(false);
            let has_bias = |linear: &Linear| match linear {
                Linear::Query | Linear::Key | Linear::Value | Linear::Output => of_attention,
                Linear::Gate | Linear::Up | Linear::Down => of_mlp,
            };
            Linear::ALL.into_iter().filter(has_bias).collect()
        }
    }
}

fn read_kv_heads(fields: &mut Fields<'_>, heads: Option<usize>) -> Option<usize> {
    const KEY: &str = "num_key_value_heads";
    if fields.get(KEY).is_none() {
        return heads;
    }
    let kv_heads = fields.optional(KEY, &SIZE)?;
    let heads = heads?;
    if !heads.is_multiple_of(kv_heads) {
        fields.find(KEY, format!("expected a divisor of num_attention_heads, {heads}, found {kv_heads}"));
    }
    Some(kv_heads)
}

fn read_head_dim(fields: &mut Fields<'_>, hidden: Option<usize>, heads: Option<usize>) -> Option<usize> {
    const KEY: &str = "head_dim";
    let head_dim = if fields.get(KEY).is_some() {
        fields.optional(KEY, &HEAD_DIM)?
    } else {
        let (hidden, heads) = (hidden?, heads?);
        if !hidden.is_multiple_of(heads) {
            fields.find(
                KEY,
                format!(
                    "missing, and hidden_size, {hidden}, is not a multiple of num_attention_heads: {heads}"
                ),
            );
            return None;
        }
        hidden / heads
    };
    if !head_dim.is_multiple_of(2) {
        fields
            .find(KEY, format!("expected an even number, since features rotate in pairs, found {head_dim}"));
    }
    Some(head_dim)
}

/// Informational, so an unknown spelling counts as absent.
fn read_dtype(fields: &Fields<'_>) -> Option<DType> {
    match fields.get("dtype").or(fields.get("torch_dtype"))?.as_str()? {
        "float32" => Some(DType::F32),
        "bfloat16" => Some(DType::BF16),
        "float16" => Some(DType::F16),
        _ => None,
    }
}

/// The only value, besides null, that does not change the mathematics of a Llama.
enum Neutral {
    Absent,
    Number(f64),
    False,
}

impl Neutral {
    fn is(&self, value: &Value) -> bool {
        match self {
            Self::Absent => false,
            Self::Number(neutral) => value.as_f64() == Some(*neutral),
            Self::False => *value == Value::Bool(false),
        }
    }

    fn expected(&self) -> String {
        match self {
            Self::Absent => "no such field".to_owned(),
            Self::Number(neutral) => neutral.to_string(),
            Self::False => "false".to_owned(),
        }
    }
}

/// Fields by which related architectures differ from a plain Llama.
const NEUTRAL: &[(&str, Neutral)] = &[
    ("attention_dropout", Neutral::Number(0.0)),
    ("hidden_dropout", Neutral::Number(0.0)),
    ("residual_dropout", Neutral::Number(0.0)),
    ("embd_pdrop", Neutral::Number(0.0)),
    ("pretraining_tp", Neutral::Number(1.0)),
    ("partial_rotary_factor", Neutral::Number(1.0)),
    ("rope_interleaved", Neutral::False),
    ("no_rope_layers", Neutral::Absent),
    ("attention_chunk_size", Neutral::Absent),
    ("attention_out_bias", Neutral::False),
    ("use_qk_norm", Neutral::False),
    ("clip_qkv", Neutral::Absent),
    ("attn_logit_softcapping", Neutral::Absent),
    ("final_logit_softcapping", Neutral::Absent),
    ("query_pre_attn_scalar", Neutral::Absent),
    ("attention_multiplier", Neutral::Absent),
    ("embedding_multiplier", Neutral::Number(1.0)),
    ("residual_multiplier", Neutral::Number(1.0)),
    ("logits_scaling", Neutral::Number(1.0)),
    ("logit_scale", Neutral::Number(1.0)),
    ("use_parallel_residual", Neutral::False),
    ("num_local_experts", Neutral::Absent),
    ("num_experts", Neutral::Absent),
];

fn check_neutral(fields: &mut Fields<'_>) {
    for (key, neutral) in NEUTRAL {
        if let Some(value) = fields.get(key).filter(|value| !neutral.is(value)) {
            fields.find_with_hint(
                key,
                format!("expected {}, found {}", neutral.expected(), excerpt(value)),
                "only plain Llama layers are supported, which would ignore it",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::model::Rope;

    proptest! {
        #[test]
        fn no_value_of_a_field_is_read_into_a_broken_config(field in 0..FIELDS.len(), value in any_value()) {
            let config = with(json!({ FIELDS[field]: value }));
            match Config::from_hf(&config, "c.json") {
                Err(diagnostics) => prop_assert!(!diagnostics.0.is_empty()),
                Ok(config) => {
                    prop_assert_eq!(config.num_attention_heads % config.num_key_value_heads, 0);
                    prop_assert!(config.param_count() <= 1 << 50);
                    let frequencies = config.rope.inverse_frequencies(config.head_dim);
                    prop_assert_eq!(2 * frequencies.len(), config.head_dim);
                    prop_assert!(frequencies.iter().all(|f| f.is_finite() && *f >= 0.0));
                }
            }
        }
    }

    const FIELDS: [&str; 12] = [
        "vocab_size",
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "rms_norm_eps",
        "rope_theta",
        "rope_scaling",
        "rope_parameters",
        "eos_token_id",
        "architectures",
    ];

    fn any_value() -> impl Strategy<Value = Value> {
        let number = prop_oneof![any::<i64>().prop_map(Value::from), any::<f64>().prop_map(Value::from)];
        let small = (0..70_u64).prop_map(Value::from);
        let table = (any::<f64>(), any::<f64>()).prop_map(
            |(theta, factor)| json!({"rope_type": "linear", "rope_theta": theta, "factor": factor}),
        );
        prop_oneof![number, small, table, Just(json!(null)), Just(json!([])), Just(json!("llama3"))]
    }

    /// A small valid configuration with some fields replaced; null takes a field away.
    fn with(changes: Value) -> Value {
        let mut config = json!({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 256,
            "hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 2, "num_attention_heads": 4,
            "rms_norm_eps": 1e-5, "max_position_embeddings": 512});
        for (key, value) in changes.as_object().unwrap() {
            config[key] = value.clone();
        }
        config
    }

    #[track_caller]
    fn read(changes: Value) -> Config {
        Config::from_hf(&with(changes), "c.json").unwrap()
    }

    #[track_caller]
    fn refuse(changes: Value, expect: &[&str]) {
        let diagnostics = Config::from_hf(&with(changes), "c.json").unwrap_err();
        assert_eq!(diagnostics.to_string(), expect.join("\n"));
    }

    #[test]
    fn a_config_of_transformers_5_is_read() {
        let text = r#"{"architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
            "bos_token_id": 1, "dtype": "float32", "eos_token_id": [2, 3], "head_dim": 32, "hidden_act": "silu",
            "hidden_size": 64, "initializer_range": 0.08, "intermediate_size": 176,
            "max_position_embeddings": 512, "mlp_bias": true, "model_type": "llama", "num_attention_heads": 4,
            "num_hidden_layers": 2, "num_key_value_heads": 2, "pad_token_id": null, "pretraining_tp": 1,
            "rms_norm_eps": 1e-05, "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
            "tie_word_embeddings": true, "transformers_version": "5.24.0", "use_cache": true, "vocab_size": 259}"#;
        let expect = Config {
            vocab_size: 259,
            hidden_size: 64,
            intermediate_size: 176,
            num_hidden_layers: 2,
            num_attention_heads: 4,
            num_key_value_heads: 2,
            head_dim: 32,
            rms_norm_eps: 1e-5,
            tie_word_embeddings: true,
            biases: [Linear::Gate, Linear::Up, Linear::Down].into(),
            sliding_window: None,
            rope: Rope::Default { theta: 10_000.0 },
            max_position_embeddings: 512,
            bos_token_ids: vec![1],
            eos_token_ids: vec![2, 3],
            dtype: Some(DType::F32),
            quantized: None,
        };
        assert_eq!(Config::from_json(text, "c.json"), Ok(expect));
    }

    #[test]
    fn fields_that_older_files_lack_have_defaults() {
        let config =
            read(json!({"model_type": null, "torch_dtype": "bfloat16", "num_key_value_heads": null}));
        assert_eq!((config.num_key_value_heads, config.head_dim), (4, 16));
        assert!(!config.tie_word_embeddings && config.biases.is_empty());
        assert_eq!((config.bos_token_ids, config.dtype), (vec![], Some(DType::BF16)));
        assert_eq!(read(json!({"sliding_window": null, "layer_types": ["full_attention"]})).vocab_size, 256);
    }

    #[test]
    fn biases_count_as_parameters() {
        let linears = 4 * 64 * 64 + 3 * 64 * 176;
        let layer = linears + 2 * 64;
        let plain = 2 * 256 * 64 + 2 * layer + 64;
        assert_eq!(read(json!({})).param_count(), plain);
        assert_eq!(read(json!({"attention_bias": true})).param_count(), plain + 2 * 4 * 64);
        assert_eq!(read(json!({"mlp_bias": true})).param_count(), plain + 2 * (2 * 176 + 64));
        assert_eq!(read(json!({"tie_word_embeddings": true})).param_count(), plain - 256 * 64);
    }

    #[test]
    fn every_problem_is_named_at_once() {
        refuse(
            json!({"vocab_size": null, "hidden_size": 64.5, "num_hidden_layers": 0, "rms_norm_eps": "1e-5",
                "mlp_bias": 1, "eos_token_id": -1, "hidden_act": "gelu"}),
            &[
                "c.json: `hidden_act`: expected silu, found gelu",
                "c.json: `vocab_size`: missing, expected a whole number from 1 to 2147483647",
                "c.json: `hidden_size`: expected a whole number from 1 to 2147483647, found 64.5",
                "c.json: `num_hidden_layers`: expected a whole number from 1 to 10000, found 0",
                "c.json: `rms_norm_eps`: expected a number from 1e-30 to 1e30, found \"1e-5\"",
                "c.json: `mlp_bias`: expected true or false, found 1",
                "c.json: `eos_token_id`: expected a token id or a list of them, found -1",
            ],
        );
    }

    #[test]
    fn sizes_must_fit_each_other() {
        refuse(
            json!({"num_key_value_heads": 3}),
            &["c.json: `num_key_value_heads`: expected a divisor of num_attention_heads, 4, found 3"],
        );
        refuse(
            json!({"hidden_size": 66}),
            &[
                "c.json: `head_dim`: missing, and hidden_size, 66, is not a multiple of num_attention_heads: 4",
            ],
        );
        refuse(
            json!({"head_dim": 15}),
            &["c.json: `head_dim`: expected an even number, since features rotate in pairs, found 15"],
        );
        let most = 0x7fff_ffff_u64;
        refuse(
            json!({"hidden_size": most, "head_dim": 2, "intermediate_size": most, "vocab_size": 1}),
            &["c.json: the sizes multiply to too many parameters: 27670116237265862591"],
        );
    }

    #[test]
    fn another_architecture_is_refused() {
        let hint = "\n  hint: supported: Llama 2, 3, 3.1, 3.2 and models of their architecture, such as SmolLM2; \
                    Qwen 2 and 2.5; Mistral";
        refuse(
            json!({"model_type": "gemma"}),
            &[&format!("c.json: `model_type`: expected one of llama, qwen2, mistral, found gemma{hint}")],
        );
        refuse(
            json!({"model_type": null, "architectures": null}),
            &[&format!("c.json: `model_type`: missing, expected one of llama, qwen2, mistral{hint}")],
        );
    }

    #[test]
    fn the_biases_of_qwen2_are_fixed() {
        let qwen2 = json!({"model_type": "qwen2", "num_key_value_heads": 2, "attention_bias": false});
        assert_eq!(read(qwen2).biases, [Linear::Query, Linear::Key, Linear::Value].into());
        let by_class =
            json!({"model_type": null, "architectures": ["Qwen2ForCausalLM"], "num_key_value_heads": 2});
        assert_eq!(read(by_class).biases.len(), 3);
        assert!(
            read(json!({"model_type": "mistral", "num_key_value_heads": 2, "sliding_window": 8}))
                .biases
                .is_empty()
        );
    }

    /// transformers would take 8 key and value heads and a window of 4096.
    #[test]
    fn a_field_whose_default_is_of_one_model_must_be_there() {
        refuse(
            json!({"model_type": "mistral"}),
            &[
                "c.json: `num_key_value_heads`: missing, expected it in a config of mistral",
                "c.json: `sliding_window`: missing, expected it in a config of mistral",
            ],
        );
        let config =
            read(json!({"model_type": "mistral", "num_key_value_heads": null, "sliding_window": null}));
        assert_eq!((config.num_key_value_heads, config.sliding_window), (4, None));
    }

    #[test]
    fn what_would_change_the_mathematics_is_refused() {
        let cases = [
            (json!({"attention_dropout": 0.1}), "`attention_dropout`: expected 0, found 0.1"),
            (json!({"pretraining_tp": 2}), "`pretraining_tp`: expected 1, found 2"),
            (json!({"sliding_window": 4096}), "`sliding_window`: expected no such field, found 4096"),
            (json!({"rope_interleaved": true}), "`rope_interleaved`: expected false, found true"),
            (
                json!({"layer_types": ["linear"]}),
                "`layer_types`: expected nothing but \"full_attention\", found [\"linear\"]",
            ),
            (json!({"partial_rotary_factor": 0.5}), "`partial_rotary_factor`: expected 1, found 0.5"),
        ];
        for (changes, message) in cases {
            let hint = "\n  hint: only plain Llama layers are supported, which would ignore it";
            refuse(changes, &[&format!("c.json: {message}{hint}")]);
        }
    }

    #[test]
    fn malformed_text_is_reported_with_its_line() {
        let json = Config::from_json("{\n \"vocab_size\": 1,\n}", "c.json").unwrap_err().to_string();
        assert_eq!(json, "c.json:3: not valid JSON: trailing comma at line 3 column 1");
        let toml = Config::from_toml("vocab_size = 1\nhidden_size =\n", "c.toml").unwrap_err().to_string();
        assert!(toml.starts_with("c.toml:2: not valid TOML: "), "{toml}");
        let list = Config::from_json("[1]", "c.json").unwrap_err().to_string();
        assert_eq!(list, "c.json: expected an object, found [1]");
    }
}
