use super::{super::WeightsError, metadata::Metadata};

/// Keys whose token ends a generation.
const KEYS: &[&str] = &[
    "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.eot_token_id",
    "tokenizer.ggml.eom_token_id",
    "tokenizer.ggml.fim_pad_token_id",
    "tokenizer.ggml.fim_rep_token_id",
    "tokenizer.ggml.fim_sep_token_id",
];

/// Tokens that end a generation whether or not a key names them.
const TEXTS: &[&str] = &[
    "</s>",
    "<eos>",
    "<end_of_turn>",
    "<end_of_utterance>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<|return|>",
    "<|call|>",
    "<|file_sep|>",
    "<|fim_pad|>",
    "<|fim_repo|>",
    "<|repo_name|>",
];

/// The ids at which llama.cpp ends a generation, each once, the end of sequence first.
/// Source: `llama_vocab::impl::load` of `llama-vocab.cpp`.
pub(super) fn ids(metadata: &Metadata) -> Result<Vec<usize>, WeightsError> {
    let mut ids = Vec::new();
    let mut add = |id| {
        if !ids.contains(&id) {
            ids.push(id);
        }
    };
    for key in KEYS {
        metadata.size(key)?.into_iter().for_each(&mut add);
    }
    let tokens = metadata.texts("tokenizer.ggml.tokens")?.unwrap_or_default();
    tokens.iter().enumerate().filter(|(_, token)| TEXTS.contains(token)).for_each(|(id, _)| add(id));
    Ok(ids)
}
