macro_rules! embedded {
    ($( $name:literal ),* $(,)?) => {
        /// Every template, by name.
        pub(super) const EMBEDDED: &[(&str, &str)] =
            &[$( ($name, include_str!(concat!("../../hlo-templates/", $name, ".hlo"))), )*];
    };
}

embedded![
    "adamw",
    "attention_block",
    "attention_block_back",
    "attention_mask",
    "attention_mix",
    "attention_weights",
    "attention_weights.grad",
    "bias_correction",
    "cross_entropy",
    "dense",
    "dropout",
    "embed",
    "hqq4_dequant",
    "int8_dequant",
    "log_sum_exp",
    "log_sum_exp.grad",
    "lora_dense",
    "nested_absmax_dequant",
    "next_token",
    "nf4_dequant",
    "q4_0_dequant",
    "q8_0_dequant",
    "rms_norm",
    "rope",
    "rope_table",
    "segment_mask",
    "swiglu",
    "threefry2x32",
    "window_mask",
];

/// Names of attention kernels. No template for them is embedded; one that a library of templates has replaces the attention
/// that is built in Rust.
///
/// They compute all of attention, whatever algorithm is requested: `(o, log_sum_exp)` from `q [batch, seq, heads, head_dim]` and
/// `k` and `v [batch, seq, kv_heads, head_dim]`, with rotary embeddings applied, where `log_sum_exp` is
/// `f32[batch, seq, heads]`. The second is for rows with several sequences, and takes the segments too. The `.grad` takes
/// `q`, `k`, `v`, the segments, the result and its cotangent, the latter two as tuples, and returns `(dq, dk, dv)`.
pub const KERNELS: [&str; 2] = ["attention", "attention_packed"];

/// The names that a template can have.
pub(super) fn names() -> Vec<&'static str> {
    EMBEDDED.iter().map(|&(name, _)| name).chain(KERNELS).collect()
}
