//! Adds the declared tokens to the tokenizer, with the ids that `PreTrainedTokenizerFast` of transformers gives them.

use std::collections::HashSet;

use serde::Deserialize;
use tokenizers::{AddedToken, Model as _, Tokenizer};

use super::declared::{CONFIG, Declared, NamedToken, invalid};
use crate::data::DataError;

const TOKENIZER: &str = "tokenizer.json";

/// Keys of tokens that must be in the vocabulary; other tokens may be new to it.
const REQUIRED: [&str; 3] = ["bos_token", "eos_token", "pad_token"];

impl Declared {
    /// Adds the tokens to a tokenizer.
    ///
    /// # Errors
    /// [`DataError::TokenizerFile`] if a token does not get the id that its file states; [`DataError::NotInVocabulary`]
    /// for a missing token of [`REQUIRED`].
    pub(super) fn add_to(&self, tokenizer: &mut Tokenizer) -> Result<(), DataError> {
        self.check_ids(tokenizer)?;
        let before: HashSet<String> =
            tokenizer.get_added_tokens_decoder().into_values().map(|token| token.content).collect();
        // Flags in the config override those of tokenizer.json; added_tokens.json has no flags.
        let listed: Vec<AddedToken> = self
            .added
            .values()
            .filter(|token| self.added_file == CONFIG || !before.contains(&token.content))
            .cloned()
            .collect();
        let mut known: HashSet<&str> = before.iter().map(String::as_str).collect();
        known.extend(listed.iter().map(|token| token.content.as_str()));
        let named = self.named.values().map(|named| AddedToken::from(named.content.clone(), true));
        let unlisted: Vec<AddedToken> = named
            .chain(self.extra.iter().cloned())
            .filter(|token| !known.contains(&*token.content))
            .collect();
        for (key, NamedToken { file, content }) in &self.named {
            let is_required = REQUIRED.contains(&key.as_str());
            if is_required && !known.contains(&**content) && tokenizer.token_to_id(content).is_none() {
                return Err(DataError::NotInVocabulary { file, key: key.clone(), token: content.clone() });
            }
        }
        let tokens: Vec<AddedToken> = listed.iter().cloned().chain(unlisted).collect();
        tokenizer.add_tokens(tokens).map_err(|error| DataError::NotATokenizer(error.to_string().into()))?;
        for (&id, token) in &self.added {
            check_id(self.added_file, token, id, tokenizer)?;
        }
        Ok(())
    }

    /// Checks that `tokenizer.json` has the same ids for the same tokens.
    fn check_ids(&self, tokenizer: &Tokenizer) -> Result<(), DataError> {
        for (&id, token) in &self.added {
            let wrong = |problem: String| {
                invalid(self.added_file, format!("added token `{}`: {problem}", token.content))
            };
            match (tokenizer.token_to_id(&token.content), tokenizer.id_to_token(id)) {
                (Some(found), _) if found != id => {
                    return Err(wrong(format!("has the id {id}, but {found} in {TOKENIZER}")));
                }
                (None, Some(other)) => {
                    return Err(wrong(format!("has the id {id}, which is that of `{other}` in {TOKENIZER}")));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Checks that the added tokens of `tokenizer.json` get the ids that it states.
///
/// # Errors
/// [`DataError::NotATokenizer`] if the list of added tokens is malformed, [`DataError::TokenizerFile`] if an id differs.
pub(super) fn check_own_ids(file: &[u8], tokenizer: &Tokenizer) -> Result<(), DataError> {
    #[derive(Deserialize)]
    struct File {
        #[serde(default)]
        added_tokens: Vec<AddedEntry>,
    }
    #[derive(Deserialize)]
    struct AddedEntry {
        id: u32,
        #[serde(flatten)]
        token: AddedToken,
    }
    let File { added_tokens } =
        serde_json::from_slice(file).map_err(|error| DataError::NotATokenizer(error.to_string().into()))?;
    added_tokens.iter().try_for_each(|entry| check_id(TOKENIZER, &entry.token, entry.id, tokenizer))
}

fn check_id(file: &'static str, token: &AddedToken, id: u32, tokenizer: &Tokenizer) -> Result<(), DataError> {
    let content = &token.content;
    let wrong = |problem: String| Err(invalid(file, format!("added token `{content}`: {problem}")));
    if content.is_empty() {
        return wrong("expected a string that is not empty".to_owned());
    }
    if let Some(other) = tokenizer.get_model().id_to_token(id).filter(|other| other != content) {
        return wrong(format!("has the id {id}, which is that of `{other}` in the vocabulary"));
    }
    match tokenizer.token_to_id(content) {
        Some(found) if found == id => Ok(()),
        Some(found) => wrong(format!("expected the next free id, {found}, found {id}")),
        None => wrong("not in the vocabulary".to_owned()),
    }
}

/// Every id below is what `AutoTokenizer` of transformers 5.24 returns for the same files.
#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use serde_json::{Value, json};

    use super::*;
    use crate::data::{SpecialTokens, Tokenizer, TokenizerFiles, testing};

    /// The config with the end of sequence of the test tokenizer, and the files beside it.
    struct Files {
        config: Value,
        map: Option<Value>,
        added: Option<Value>,
    }

    fn config(config: Value) -> Files {
        let mut all = json!({ "eos_token": "<|im_end|>" });
        all.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
        Files { config: all, map: None, added: None }
    }

    fn decoder(added: Value) -> Files {
        config(json!({ "added_tokens_decoder": added }))
    }

    fn load(files: &Files) -> Result<Tokenizer, DataError> {
        let text = |value: &Value| value.to_string().into_bytes();
        let (map, added) = (files.map.as_ref().map(text), files.added.as_ref().map(text));
        let tokenizer = testing::tokenizer_json();
        let files = TokenizerFiles {
            tokenizer: tokenizer.as_bytes(),
            config: &text(&files.config),
            special_tokens_map: map.as_deref(),
            added_tokens: added.as_deref(),
            ..TokenizerFiles::default()
        };
        Tokenizer::new(files, UNIX_EPOCH)
    }

    /// A token with all flags false but those named.
    fn token(content: &str, flags: &[&str]) -> Value {
        let flag = |name: &str| flags.contains(&name);
        json!({
            "content": content,
            "lstrip": flag("lstrip"),
            "normalized": flag("normalized"),
            "rstrip": flag("rstrip"),
            "single_word": flag("single_word"),
            "special": flag("special"),
        })
    }

    #[track_caller]
    fn check(files: &Files, text: &str, expect: &[u32], decoded: &str) {
        let tokenizer = load(files).unwrap();
        let ids = tokenizer.encode_plain(text).unwrap();
        assert_eq!(ids, expect, "{text}");
        assert_eq!(tokenizer.decode(&ids, SpecialTokens::Skip).unwrap(), decoded);
    }

    #[test]
    fn tokens_of_the_config_are_one_id_with_their_flags() {
        let two = decoder(json!({ "265": token("<x>", &[]), "266": token("<y>", &["special"]) }));
        check(&two, "a<x>b <y>", &[64, 265, 65, 220, 266], "a<x>b ");
        let flags = decoder(json!({
            "265": token("<l>", &["lstrip"]),
            "266": token("<r>", &["rstrip"]),
            "267": token("word", &["single_word"]),
            "268": token("<n>", &["normalized"]),
        }));
        check(&flags, "a  <l>  b", &[64, 265, 220, 220, 65], "a<l>  b");
        check(&flags, "a  <r>  b", &[64, 220, 220, 266, 65], "a  <r>b");
        let words = [64, 220, 267, 220, 82, 86, 78, 81, 67, 82, 220, 267, 13];
        check(&flags, "a word swords word.", &words, "a word swords word.");
        check(&flags, "a <n>b", &[64, 220, 268, 65], "a <n>b");
        let minimal = decoder(json!({ "265": { "content": "<x>", "special": true } }));
        check(&minimal, "a<x>b", &[64, 265, 65], "ab");
    }

    #[test]
    fn the_config_changes_flags_of_tokens_that_are_known() {
        let stripping = decoder(json!({ "259": token("<|im_start|>", &["rstrip"]) }));
        check(&stripping, "<|im_start|>  a", &[259, 64], "a");
        let word = decoder(json!({ "257": token("the", &[]) }));
        check(&word, "the ather", &[257, 220, 64, 257, 81], "the ather");
    }

    #[test]
    fn added_tokens_json_counts_where_the_config_lists_none() {
        let added = || Some(json!({ "<y>": 266, "<x>": 265 }));
        let beside = Files { added: added(), ..config(json!({})) };
        check(&beside, "a<x>b <y>", &[64, 265, 65, 220, 266], "a<x>b <y>");
        let named = Files { added: added(), ..config(json!({ "eos_token": "<y>" })) };
        check(&named, "a<x>b <y>", &[64, 265, 65, 220, 266], "a<x>b ");
        assert_eq!(load(&named).unwrap().eos_id().unwrap(), 266);
        let listed =
            Files { added: Some(json!({ "<y>": 266 })), ..decoder(json!({ "265": token("<x>", &[]) })) };
        check(&listed, "a<x>b <y>", &[64, 265, 65, 220, 27, 88, 29], "a<x>b <y>");
    }

    #[test]
    fn special_tokens_are_added_where_no_file_lists_them() {
        check(
            &config(json!({ "eos_token": "the" })),
            "a the there",
            &[64, 220, 257, 220, 257, 81, 68],
            "a  re",
        );
        let extra = config(json!({ "additional_special_tokens": ["<x>", "<|pad|>"] }));
        check(&extra, "a<x>b <y><|pad|>", &[64, 265, 65, 220, 27, 88, 29, 261], "ab <y>");
        check(&config(json!({ "image_token": "<x>" })), "a<x>  b", &[64, 265, 220, 220, 65], "a  b");
    }

    #[test]
    fn the_end_of_sequence_is_found_in_every_file() {
        let check = |files: &Files, expect: Option<u32>| {
            assert_eq!(load(files).unwrap().eos_id().ok(), expect);
        };
        let map = || Some(json!({ "eos_token": { "content": "<|eot_id|>", "lstrip": false } }));
        let bare = |config: Value| Files { config, map: map(), added: None };
        check(&bare(json!({})), Some(264));
        check(&bare(json!({ "eos_token": "<|im_end|>" })), Some(264));
        check(&bare(json!({ "eos_token": "<|im_end|>", "added_tokens_decoder": {} })), Some(260));
        check(&bare(json!({ "added_tokens_decoder": {} })), Some(264));
        check(&Files { config: json!({}), map: None, added: None }, None);
    }

    #[test]
    fn ids_that_contradict_each_other_are_refused() {
        let check = |files: &Files, expect: &str| assert_eq!(load(files).unwrap_err().to_string(), expect);
        check(
            &decoder(json!({ "270": token("<x>", &[]) })),
            "tokenizer_config.json: added token `<x>`: expected the next free id, 265, found 270",
        );
        check(
            &decoder(json!({ "5": token("<x>", &[]) })),
            "tokenizer_config.json: added token `<x>`: has the id 5, which is that of `&` in tokenizer.json",
        );
        check(
            &decoder(json!({ "270": token("<|im_start|>", &[]) })),
            "tokenizer_config.json: added token `<|im_start|>`: has the id 270, but 259 in tokenizer.json",
        );
        check(
            &decoder(json!({ "265": token("<x>", &[]), "266": token("<x>", &[]) })),
            "tokenizer_config.json: added token `<x>`: expected the next free id, 265, found 266",
        );
        check(
            &decoder(json!({ "265": token("<x>", &[]), "0265": token("<y>", &[]) })),
            "tokenizer_config.json: `added_tokens_decoder`: `0265`: duplicate id; another key is the same number",
        );
        check(
            &decoder(json!({ "x": token("<x>", &[]) })),
            "tokenizer_config.json: `added_tokens_decoder`: `x`: expected a token id as key",
        );
        check(
            &decoder(json!({ "265": token("", &[]) })),
            "tokenizer_config.json: `added_tokens_decoder`: `265`: `content`: expected a string that is not empty",
        );
        check(
            &Files { added: Some(json!({ "<x>": 260 })), ..config(json!({})) },
            "added_tokens.json: added token `<x>`: has the id 260, which is that of `<|im_end|>` in tokenizer.json",
        );
        check(
            &Files { added: Some(json!({ "<x>": 265, "<y>": 265 })), ..config(json!({})) },
            "added_tokens.json: `<y>`: duplicate id 265, which `<x>` has as well",
        );
        check(
            &Files { config: json!({}), map: Some(json!({ "pad_token": "<x>" })), added: None },
            "special_tokens_map.json: `pad_token` is not in the vocabulary: <x>",
        );
        check(
            &Files { added: Some(json!([])), ..config(json!({})) },
            "added_tokens.json: expected a JSON object, found: invalid type: sequence, expected a map at line 1 column 0",
        );
    }

    #[test]
    fn tokenizer_json_must_give_its_added_tokens_the_ids_that_they_get() {
        let mut file: Value = serde_json::from_str(&testing::tokenizer_json()).unwrap();
        file["added_tokens"][5]["id"] = json!(300);
        let (file, config) = (file.to_string(), "{}");
        let files = TokenizerFiles {
            tokenizer: file.as_bytes(),
            config: config.as_bytes(),
            ..TokenizerFiles::default()
        };
        assert_eq!(
            Tokenizer::new(files, UNIX_EPOCH).unwrap_err().to_string(),
            "tokenizer.json: added token `<|eot_id|>`: expected the next free id, 264, found 300"
        );
    }
}
