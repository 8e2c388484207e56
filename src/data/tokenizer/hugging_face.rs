//! Encodes text as token ids, and decodes them.

use std::{
    collections::{BTreeMap, HashSet},
    ops::Range,
    time::SystemTime,
};

use tokenizers::{PostProcessor as _, PostProcessorWrapper};

use super::{
    added::check_own_ids,
    contain::contain,
    declared::{self, Declared},
    limits::{self, Limits},
};
use crate::{
    base::Diagnostic,
    data::{ChatTemplate, DataError, TemplateInputs, TokenizerFiles, chat_templates::ChatTemplates},
};

/// Treatment of special tokens when token ids are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialTokens {
    /// Write them.
    Keep,
    /// Leave them out.
    Skip,
}

/// A Hugging Face fast tokenizer with its special tokens and chat templates.
#[derive(Debug)]
pub struct Tokenizer {
    /// Without post-processor, which would trim the offsets of tokens.
    inner: tokenizers::Tokenizer,
    limits: Limits,
    post_processor: Option<PostProcessorWrapper>,
    chat_templates: ChatTemplates,
    special_ids: HashSet<u32>,
    /// The ids of the vocabulary, ascending.
    ids: Vec<u32>,
    bos_id: Option<u32>,
    eos_id: Option<u32>,
    pad_id: u32,
    stop_ids: Vec<u32>,
}

/// A token and the bytes of the text that it covers.
pub(crate) struct TokenSpan {
    pub id: u32,
    pub bytes: Range<usize>,
}

impl Tokenizer {
    /// Reads the files. `now` is the time for chat templates, see [`ChatTemplate::new`].
    ///
    /// # Errors
    /// [`DataError::NotATokenizer`] if `tokenizer.json` is malformed or exceeds a limit; [`DataError::TokenizerFile`] if
    /// another file is malformed, or two files disagree on the id of a token; [`DataError::NotInVocabulary`] for a
    /// missing special token; [`DataError::ChatTemplate`] if a chat template does not parse.
    pub fn new(files: TokenizerFiles<'_>, now: SystemTime) -> Result<Self, DataError> {
        let limits = limits::read(files.tokenizer).map_err(DataError::NotATokenizer)?;
        let mut inner = contain(|| tokenizers::Tokenizer::from_bytes(files.tokenizer))
            .map_err(DataError::NotATokenizer)?
            .map_err(|error| DataError::NotATokenizer(error.to_string().into()))?;
        // Batches have their own length, and a file may request more padding than fits in memory.
        inner.with_padding(None);
        inner.with_truncation(None).map_err(|error| DataError::NotATokenizer(error.to_string().into()))?;
        let config = declared::read_object(declared::CONFIG, files.config)?;
        check_own_ids(files.tokenizer, &inner)?;
        limits.check_encode(PROBE).map_err(DataError::NotATokenizer)?;
        probe(&inner).map_err(DataError::NotATokenizer)?;

        let post_processor = inner.get_post_processor().cloned();
        inner.with_post_processor(None::<PostProcessorWrapper>);
        let declared = Declared::read(&config, &files)?;
        contain(|| declared.add_to(&mut inner)).map_err(DataError::NotATokenizer)??;

        let mut ids: Vec<u32> = inner.get_vocab(true).into_values().collect();
        ids.sort_unstable();
        ids.dedup();
        let named = |key: &str| inner.token_to_id(&declared.named.get(key)?.content);
        let of_model = || files.eos_ids.iter().copied().filter(|id| ids.binary_search(id).is_ok());
        let (bos_id, eos_id) = (named("bos_token"), named("eos_token").or_else(|| of_model().next()));
        let pad_id = named("pad_token").or(eos_id);
        let added = inner.get_added_tokens_decoder();
        let added_special = added.iter().filter(|(_, token)| token.special).map(|(&id, _)| id);
        let special_ids = added_special.chain(bos_id).chain(eos_id).chain(pad_id).collect();
        let stop_ids = eos_id.into_iter().chain(of_model()).collect();

        let variables: BTreeMap<String, String> =
            declared.named.into_iter().map(|(key, token)| (key, token.content)).collect();
        let chat_templates = ChatTemplates::read(&config, &files, &variables, now)?;
        // A tokenizer without either token pads with id 0, which is never a label.
        let pad_id = pad_id.unwrap_or(0);
        Ok(Self {
            inner,
            limits,
            post_processor,
            chat_templates,
            special_ids,
            ids,
            bos_id,
            eos_id,
            pad_id,
            stop_ids,
        })
    }

    /// Encodes `text`, with the special tokens that the post-processor adds, as calling a Hugging Face tokenizer does.
    ///
    /// # Errors
    /// [`DataError::Encode`] if the tokenizer cannot represent the text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, DataError> {
        self.limits.check_encode(text).map_err(DataError::Encode)?;
        let encoding = contain(|| -> tokenizers::Result<_> {
            let encoding = self.inner.encode(text, false)?;
            match &self.post_processor {
                Some(processor) => processor.process(encoding, None, true),
                None => Ok(encoding),
            }
        });
        let encoding = encoding.map_err(DataError::Encode)?.map_err(unencodable)?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Encodes `text` without added tokens. A special token written in the text becomes its id.
    ///
    /// # Errors
    /// As [`Self::encode`].
    pub fn encode_plain(&self, text: &str) -> Result<Vec<u32>, DataError> {
        self.limits.check_encode(text).map_err(DataError::Encode)?;
        let encoding = contain(|| self.inner.encode_fast(text, false)).map_err(DataError::Encode)?;
        Ok(encoding.map_err(unencodable)?.get_ids().to_vec())
    }

    /// As [`Self::encode_plain`], with the bytes that each token covers. Tokens that share a character all cover it.
    pub(crate) fn encode_spans(&self, text: &str) -> Result<Vec<TokenSpan>, DataError> {
        self.limits.check_encode(text).map_err(DataError::Encode)?;
        let encoding = contain(|| self.inner.encode(text, false)).map_err(DataError::Encode)?;
        let encoding = encoding.map_err(unencodable)?;
        let spans = encoding.get_ids().iter().zip(encoding.get_offsets());
        Ok(spans.map(|(&id, &(start, end))| TokenSpan { id, bytes: start..end }).collect())
    }

    /// Decodes `ids`; invalid UTF-8 becomes U+FFFD.
    ///
    /// # Errors
    /// [`DataError::UnknownId`] for an id that is not in the vocabulary, [`DataError::Decode`] if the library fails or the
    /// text exceeds a limit.
    pub fn decode(&self, ids: &[u32], special_tokens: SpecialTokens) -> Result<String, DataError> {
        if let Some(&id) = ids.iter().find(|&&id| !self.knows(id)) {
            return Err(DataError::UnknownId { limit: self.vocab_size(), id });
        }
        let bytes = ids.iter().filter_map(|&id| self.inner.id_to_token(id)).map(|token| token.len()).sum();
        self.limits.check_decode(bytes).map_err(DataError::Decode)?;
        contain(|| self.inner.decode(ids, special_tokens == SpecialTokens::Skip))
            .map_err(DataError::Decode)?
            .map_err(|error| DataError::Decode(error.to_string().into()))
    }

    /// Id of a token, spelled as in the vocabulary.
    pub fn token_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// Whether `id` is a special token: one that `tokenizer.json` marks as special, or the beginning-of-sequence,
    /// end-of-sequence or padding token.
    pub fn is_special(&self, id: u32) -> bool {
        self.special_ids.contains(&id)
    }

    /// One past the largest id, including added tokens. The vocabulary of a model may be larger; if it is smaller,
    /// [`Dataset::check_vocab`](crate::data::Dataset::check_vocab) reports the ids beyond it.
    pub fn vocab_size(&self) -> usize {
        self.ids.last().map_or(0, |&id| id as usize + 1)
    }

    /// Whether `id` is in the vocabulary, which may have gaps.
    pub fn knows(&self, id: u32) -> bool {
        self.ids.binary_search(&id).is_ok()
    }

    /// Beginning-of-sequence token, if a file names one.
    pub fn bos_id(&self) -> Option<u32> {
        self.bos_id
    }

    /// End-of-sequence token.
    ///
    /// # Errors
    /// [`DataError::NoEos`] if no file names one.
    pub fn eos_id(&self) -> Result<u32, DataError> {
        self.eos_id.ok_or(DataError::NoEos)
    }

    /// Tokens that end generation: the end-of-sequence token, and those of the model's configs.
    pub fn stop_ids(&self) -> &[u32] {
        &self.stop_ids
    }

    /// Padding token; the end-of-sequence token if no file names one. Padding is never a label, so that they may be equal.
    pub fn pad_id(&self) -> u32 {
        self.pad_id
    }

    /// Chat template for conversations without tools.
    ///
    /// # Errors
    /// [`DataError::NoChatTemplate`] if the model has none, [`DataError::NoDefaultTemplate`] if it has only others.
    pub fn chat_template(&self) -> Result<&ChatTemplate, DataError> {
        self.chat_template_for(&TemplateInputs::default())
    }

    /// Chat template for conversations with these inputs.
    ///
    /// # Errors
    /// As [`Self::chat_template`].
    pub fn chat_template_for(&self, inputs: &TemplateInputs) -> Result<&ChatTemplate, DataError> {
        self.chat_templates.of(inputs)
    }
}

/// Text that a tokenizer is tried on when its file is read.
const PROBE: &str = "A b\u{e9} 12, \u{4e16}\n";

/// Uses every component once, to find those on which the library panics. Its errors are ignored, as not every vocabulary
/// can represent the probe.
fn probe(tokenizer: &tokenizers::Tokenizer) -> Result<(), Diagnostic> {
    contain(|| {
        let encoding = tokenizer.encode(PROBE, true);
        encoding.and_then(|encoding| tokenizer.decode(encoding.get_ids(), false)).map(drop)
    })
    .map(drop)
}

fn unencodable(error: tokenizers::Error) -> DataError {
    DataError::Encode(error.to_string().into())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::data::{
        Message, MessageRole,
        testing::{self, CHATML},
    };

    fn load(config: Value, chat_template: Option<&str>) -> Result<Tokenizer, DataError> {
        let (tokenizer, config) = (testing::tokenizer_json(), config.to_string());
        let files = TokenizerFiles {
            tokenizer: tokenizer.as_bytes(),
            config: config.as_bytes(),
            chat_template,
            ..TokenizerFiles::default()
        };
        Tokenizer::new(files, UNIX_EPOCH)
    }

    fn check_refused(config: Value, expect: &str) {
        assert_eq!(load(config, None).unwrap_err().to_string(), expect);
    }

    #[test]
    fn encode_adds_what_the_post_processor_says() {
        let tokenizer = testing::tokenizer();
        let bos = tokenizer.bos_id().unwrap();
        let plain = tokenizer.encode_plain("the cat").unwrap();
        assert_eq!(plain.len(), 4, "`the`, a space, and two letters joined of three");
        assert_eq!(tokenizer.encode("the cat").unwrap(), [&[bos], plain.as_slice()].concat());
    }

    #[test]
    fn special_tokens_in_the_text_are_recognised_and_kept_or_skipped() {
        let tokenizer = testing::tokenizer();
        let ids = tokenizer.encode_plain("<|im_start|>the<|im_end|>").unwrap();
        assert_eq!(ids.len(), 3);
        assert_eq!(ids.last(), tokenizer.token_id("<|im_end|>").as_ref());
        assert_eq!(tokenizer.decode(&ids, SpecialTokens::Keep).unwrap(), "<|im_start|>the<|im_end|>");
        assert_eq!(tokenizer.decode(&ids, SpecialTokens::Skip).unwrap(), "the");
    }

    fn with_component(key: &str, component: Value) -> Result<Tokenizer, DataError> {
        let mut tokenizer: Value = serde_json::from_str(&testing::tokenizer_json()).unwrap();
        tokenizer[key] = component;
        let tokenizer = tokenizer.to_string();
        let files =
            TokenizerFiles { tokenizer: tokenizer.as_bytes(), config: b"{}", ..TokenizerFiles::default() };
        Tokenizer::new(files, UNIX_EPOCH)
    }

    fn split(pattern: &str) -> Value {
        json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false})
    }

    #[test]
    fn patterns_that_backtrack_too_often_are_an_error() {
        let start = std::time::Instant::now();
        let text = "a".repeat(50_000);
        let replace =
            |pattern: &str| json!({"type": "Replace", "pattern": {"Regex": pattern}, "content": "b"});
        let sequence = json!({"type": "Sequence", "pretokenizers": [split("b"), split(r"((a|aa)+)\1b")]});
        for (key, component, pattern) in [
            ("pre_tokenizer", split(r"(?:a(?!x)|aa)+b"), r"(?:a(?!x)|aa)+b"),
            ("pre_tokenizer", sequence, r"((a|aa)+)\1b"),
            ("normalizer", replace(r"(?:a(?!x)|aa)+b"), r"(?:a(?!x)|aa)+b"),
        ] {
            let error =
                with_component(key, component).unwrap().encode_plain(&text).map(|ids| ids.len()).unwrap_err();
            let expect = format!(
                "the text could not be encoded: `{key}` of tokenizer.json: the regular expression `{pattern}` \
                 backtracks more than a million times in a text of 50000 bytes"
            );
            assert_eq!(error.to_string(), expect);
        }
        // Each match is found, but by many steps.
        let slow = with_component("pre_tokenizer", split("(?=((?=a)a|aa){1,12}b|)a")).unwrap();
        let error = slow.encode_plain(&text).unwrap_err().to_string();
        assert!(error.ends_with("takes longer than 1.5 s in a text of 50000 bytes"), "{error}");
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    }

    #[test]
    fn patterns_without_steps_back_take_any_text() {
        let text = "a".repeat(50_000) + "b";
        for pattern in ["(a+)+$", "(a|aa)+c", "(a*)*b"] {
            let tokenizer = with_component("pre_tokenizer", split(pattern)).unwrap();
            assert_eq!(tokenizer.encode_plain(&text).unwrap().len(), text.len(), "{pattern}");
        }
        let llama = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
        let tokenizer = with_component("pre_tokenizer", split(llama)).unwrap();
        for text in ["a b  12345\n\n ".repeat(5000), " ".repeat(50_000), "a".repeat(50_000)] {
            assert!(tokenizer.encode_plain(&text).is_ok());
        }
    }

    #[test]
    fn an_unknown_id_is_an_error() {
        let tokenizer = testing::tokenizer();
        let limit = tokenizer.vocab_size();
        assert!(tokenizer.decode(&[limit as u32 - 1], SpecialTokens::Keep).is_ok());
        let error = tokenizer.decode(&[limit as u32], SpecialTokens::Keep).unwrap_err();
        assert_eq!(error.to_string(), format!("expected token ids below {limit}, found: {limit}"));
        assert_eq!(error.hint().as_deref(), Some("use the tokenizer files that came with the model"));
    }

    #[test]
    fn padding_falls_back_to_the_end_of_sequence() {
        let tokenizer = load(json!({"eos_token": {"content": "<|im_end|>"}}), None).unwrap();
        assert_eq!((tokenizer.bos_id(), tokenizer.pad_id()), (None, tokenizer.eos_id().unwrap()));
        let tokenizer = load(json!({"eos_token": "<|im_end|>", "pad_token": "<|pad|>"}), None).unwrap();
        assert_eq!(Some(tokenizer.pad_id()), tokenizer.token_id("<|pad|>"));
    }

    #[test]
    fn the_chat_template_comes_from_its_file_or_the_config() {
        let named = json!([{"name": "tool_use", "template": "a"}, {"name": "default", "template": "b"}]);
        let render = |config, file| {
            let tokenizer = load(config, file).unwrap();
            tokenizer
                .chat_template()
                .unwrap()
                .render(&[], &Default::default(), crate::data::Ending::Prompt)
                .unwrap()
        };
        let eos = "<|im_end|>";
        assert_eq!(render(json!({"eos_token": eos, "chat_template": named}), None), "b");
        assert_eq!(
            render(json!({"eos_token": eos, "chat_template": "c{{ eos_token }}"}), None),
            "c<|im_end|>"
        );
        let from_file = render(json!({"eos_token": eos, "chat_template": "c"}), Some(CHATML));
        assert_eq!(from_file, "<|im_start|>assistant\n");
    }

    /// Checks the text of a conversation without tools and of one with tools, or the error.
    fn check_named(config: Value, file: Option<&str>, additional: &[(&str, &str)], expect: [&str; 3]) {
        let (tokenizer, config) = (testing::tokenizer_json(), config.to_string());
        let additional: Vec<_> = additional.iter().map(|&(name, text)| (name.into(), text.into())).collect();
        let files = TokenizerFiles {
            tokenizer: tokenizer.as_bytes(),
            config: config.as_bytes(),
            chat_template: file,
            additional_chat_templates: &additional,
            ..TokenizerFiles::default()
        };
        let tokenizer = Tokenizer::new(files, UNIX_EPOCH).unwrap();
        let render = |tools: Option<Value>| {
            let inputs = TemplateInputs { tools, ..TemplateInputs::default() };
            let template = tokenizer.chat_template_for(&inputs)?;
            template.render(&[Message::new(MessageRole::User, "q")], &inputs, crate::data::Ending::Closed)
        };
        let found = [None, Some(json!([])), Some(json!([{"type": "function"}]))]
            .map(|tools| render(tools).unwrap_or_else(|error| error.to_string()));
        assert_eq!(found, expect, "{config}");
    }

    /// The texts are those of `apply_chat_template` of transformers 5.24, the errors where it raises one.
    #[test]
    fn a_conversation_with_tools_has_the_template_for_them() {
        let tool_use = "t{{ tools|length }}:{% for m in messages %}{{ m.role }}{% endfor %}";
        let default = "d:{% for m in messages %}{{ m.role }}{% endfor %}";
        let named = |name: &str, template: &str| json!({"name": name, "template": template});
        let both = json!({"chat_template": [named("default", default), named("tool_use", tool_use)]});
        let expect = ["d:user", "t0:user", "t1:user"];
        check_named(both.clone(), None, &[], expect);
        check_named(json!({}), Some(default), &[("tool_use", tool_use)], expect);
        // Files win over the config, even where they are fewer.
        check_named(both, Some("f"), &[], ["f", "f", "f"]);
        check_named(json!({"chat_template": "c"}), None, &[("default", "f")], ["f", "f", "f"]);
        let error = |names: &str| format!("expected a chat template named `default`, found only: {names}");
        let (rag, no_default) = (error("rag"), error("rag, tool_use"));
        let list = json!({"chat_template": [named("tool_use", tool_use), named("rag", "{% if %}")]});
        check_named(list, None, &[], [&no_default, "t0:user", "t1:user"]);
        check_named(json!({}), None, &[("rag", "r")], [&rag, &rag, &rag]);
        check_named(json!({"chat_template": []}), None, &[], ["expected a chat template, found none"; 3]);
    }

    #[test]
    fn errors_of_chat_templates_name_their_file_and_line() {
        let wrong = "a\n{% if %}";
        let problem = "expected an expression, found end of statement block";
        check_refused(
            json!({"chat_template": wrong}),
            &format!("tokenizer_config.json: chat template:2: {problem}"),
        );
        check_refused(
            json!({"chat_template": [{"name": "tool_use", "template": wrong}]}),
            &format!("tokenizer_config.json: chat template `tool_use`:2: {problem}"),
        );
        let error = load(json!({}), Some(wrong)).unwrap_err();
        assert_eq!(error.to_string(), format!("chat_template.jinja:2: {problem}"));
        let long = "a".repeat(1 << 21);
        let error = load(json!({}), Some(&long)).unwrap_err().to_string();
        assert!(error.starts_with("chat_template.jinja: expected a template of at most "), "{error}");
        check_named(
            json!({}),
            Some("\n\n{{ raise_exception('no') }}"),
            &[("tool_use", "\n{{ 1 // 0 }}")],
            [
                "chat_template.jinja:3: no",
                "additional_chat_templates/tool_use.jinja:2: integer division or modulo by zero",
                "additional_chat_templates/tool_use.jinja:2: integer division or modulo by zero",
            ],
        );
        let kinds =
            "`chat_template`: expected a string, or a list of {\"name\": ..., \"template\": ...}, found ";
        check_refused(json!({"chat_template": 3}), &format!("tokenizer_config.json: {kinds}3"));
        check_refused(json!({"chat_template": ["a"]}), &format!("tokenizer_config.json: {kinds}\"a\""));
    }

    #[test]
    fn errors_name_the_malformed_file() {
        check_refused(
            json!({"eos_token": "</s>"}),
            "tokenizer_config.json: `eos_token` is not in the vocabulary: </s>",
        );
        check_refused(
            json!([]),
            "tokenizer_config.json: expected a JSON object, found: invalid type: sequence, expected a map at line 1 column 0",
        );
        let files = TokenizerFiles { tokenizer: b"{}", config: b"{}", ..TokenizerFiles::default() };
        let error = Tokenizer::new(files, UNIX_EPOCH).unwrap_err().to_string();
        assert!(
            error.starts_with("tokenizer.json: expected a Hugging Face tokenizer, found: "),
            "unexpected: {error}"
        );
    }

    #[test]
    fn conversations_need_a_template() {
        let error =
            load(json!({"eos_token": "<|im_end|>"}), None).unwrap().chat_template().unwrap_err().to_string();
        assert_eq!(error, "expected a chat template, found none");
    }

    proptest! {
        #[test]
        fn any_text_survives_encoding(text in any::<String>()) {
            let tokenizer = testing::tokenizer();
            let ids = tokenizer.encode_plain(&text).unwrap();
            prop_assert_eq!(tokenizer.decode(&ids, SpecialTokens::Keep).unwrap(), text);
        }
    }
}
