/// Contents of the tokenizer files of a Hugging Face model folder.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokenizerFiles<'a> {
    /// `tokenizer.json`.
    pub tokenizer: &'a [u8],
    /// `tokenizer_config.json`.
    pub config: &'a [u8],
    /// `chat_template.jinja`. Without this and additional templates, `chat_template` of the config is used.
    pub chat_template: Option<&'a str>,
    /// Files in the folder `additional_chat_templates`: names without `.jinja`, and contents.
    pub additional_chat_templates: &'a [(String, String)],
    /// `special_tokens_map.json`.
    pub special_tokens_map: Option<&'a [u8]>,
    /// `added_tokens.json`.
    pub added_tokens: Option<&'a [u8]>,
    /// `eos_token_id` of `config.json` and `generation_config.json`. The first one is the end-of-sequence token if no
    /// tokenizer file names one.
    pub eos_ids: &'a [u32],
}
