//! A small model, for readers that need one.

use hloom::{
    base::DType,
    model::{Config, LoraPlan, LoraSpec},
    step::Workload,
};

const CONFIG: &str = r#"{
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 8,
    "intermediate_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": false,
    "vocab_size": 16, "dtype": "float32"
}"#;

/// Its configuration.
pub fn config() -> Config {
    Config::from_json(CONFIG, "config.json").expect("a configuration")
}

/// An adapter of rank two on every linear.
pub fn lora(config: &Config) -> LoraPlan {
    LoraSpec::all_linear(2, 4.0).resolve(config).expect("a plan")
}

/// Two rows of four positions.
pub fn workload<'a>(config: &'a Config, lora: &'a LoraPlan) -> Workload<'a> {
    Workload::new(config, lora, DType::F32, 2, 4)
}
