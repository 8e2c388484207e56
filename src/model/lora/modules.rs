//! The modules of a Llama in transformers, which `target_modules` and the other fields of a `LoraConfig` refer to by name.

use crate::model::{Config, Linear};

/// One linear of one layer.
pub(super) struct LinearModule {
    /// Its full name, such as `model.layers.0.self_attn.q_proj`.
    pub name: String,
    pub layer: usize,
    pub linear: Linear,
}

/// The modules that can be adapted.
pub(super) fn linear_modules(config: &Config) -> Vec<LinearModule> {
    let of_layer =
        |layer| Linear::ALL.map(|linear| LinearModule { name: linear.module_name(layer), layer, linear });
    (0..config.num_hidden_layers).flat_map(of_layer).collect()
}

/// The full names of all other modules.
pub(super) fn other_modules(config: &Config) -> Vec<String> {
    let layers = (0..config.num_hidden_layers).flat_map(|layer| {
        ["", ".self_attn", ".mlp", ".mlp.act_fn", ".input_layernorm", ".post_attention_layernorm"]
            .map(|part| format!("model.layers.{layer}{part}"))
    });
    ["lm_head", "model.embed_tokens", "model", "model.layers", "model.norm", "model.rotary_emb"]
        .map(str::to_owned)
        .into_iter()
        .chain(layers)
        .collect()
}
