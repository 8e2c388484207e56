//! Tokenizers that the library accepts or panics on, and that take more than they give.

use std::time::{Instant, UNIX_EPOCH};

use serde_json::{Value, json};

use super::Tokenizer;
use crate::data::{DataError, SpecialTokens, TokenizerFiles, testing};

fn load(file: &[u8]) -> Result<Tokenizer, DataError> {
    let files = TokenizerFiles { tokenizer: file, config: b"{}", ..TokenizerFiles::default() };
    Tokenizer::new(files, UNIX_EPOCH)
}

fn changed(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut file = serde_json::from_str(&testing::tokenizer_json()).unwrap();
    change(&mut file);
    file.to_string().into_bytes()
}

/// Loads and uses the tokenizer; none of it may panic.
#[track_caller]
fn check_refused(change: impl FnOnce(&mut Value), expect: &str) {
    let begin = Instant::now();
    let error = load(&changed(change)).map(drop).unwrap_err().to_string();
    assert!(error.starts_with("tokenizer.json: expected a Hugging Face tokenizer, found: "), "{error}");
    assert!(error.contains(expect), "{error}");
    assert!(begin.elapsed().as_secs() < 2);
}

#[test]
fn files_on_which_the_library_panics_are_refused() {
    let library = "the tokenizers library fails with: ";
    check_refused(|file| file["model"]["continuing_subword_prefix"] = json!("####"), library);
    check_refused(|file| file["model"]["merges"] = json!([["the", "the"]]), library);
    check_refused(|file| file["pre_tokenizer"] = json!({"type": "FixedLength", "length": 0}), library);
    let strip = json!({"type": "Strip", "content": "A", "start": 0, "stop": 9});
    check_refused(|file| file["decoder"] = strip, library);
    let charsmap = json!({"type": "Precompiled", "precompiled_charsmap": "BAAAAP////8="});
    check_refused(|file| file["normalizer"] = charsmap, library);
    check_refused(
        |file| {
            let mut template = file["post_processor"]["processors"][1].take();
            template["single"] = json!([template["single"][0], template["single"][1], template["single"][0]]);
            file["post_processor"]["processors"] = json!([template, template]);
        },
        library,
    );
    check_refused(
        |file| {
            file["post_processor"]["processors"][1]["single"] =
                json!([{"Sequence": {"id": "B", "type_id": 0}}])
        },
        library,
    );
    let cut = json!({"type": "Precompiled", "precompiled_charsmap": "????"});
    check_refused(|file| file["normalizer"] = cut, "`precompiled_charsmap`: expected a trie");
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let whole = changed(|_| ());
    for end in (0..whole.len()).step_by(97) {
        assert!(load(&whole[..end]).is_err(), "{end}");
    }
}

#[test]
fn texts_do_not_outgrow_memory() {
    let replace = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aaaaaaaaaaaaaaaa"});
    let normalizers = vec![replace; 8];
    check_refused(
        |file| file["normalizer"] = json!({"type": "Sequence", "normalizers": normalizers}),
        "`normalizer` of tokenizer.json may make",
    );
    let doubling = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aaaaaaaa"});
    let tokenizer = load(&changed(|file| file["normalizer"] = doubling)).unwrap();
    assert_eq!(tokenizer.encode_plain("a").unwrap().len(), 8);
    assert_eq!(
        tokenizer.encode_plain(&"a".repeat(1 << 20)).unwrap_err().to_string(),
        "the text could not be encoded: `normalizer` of tokenizer.json may make 1048576 bytes 8 times longer"
    );
}

/// A library that pads or cuts the probe would ask for terabytes.
#[test]
fn padding_and_truncation_of_the_file_are_not_used() {
    let plain = load(&changed(|_| {})).unwrap().encode("a b").unwrap();
    let padding = |strategy: Value, multiple: Value| {
        json!({
            "strategy": strategy, "direction": "Right", "pad_to_multiple_of": multiple, "pad_id": 0,
            "pad_type_id": 0, "pad_token": "a",
        })
    };
    let huge = 1_u64 << 40;
    for padding in
        [padding(json!({ "Fixed": huge }), Value::Null), padding(json!("BatchLongest"), json!(huge))]
    {
        let padded = load(&changed(|file| file["padding"] = padding)).unwrap();
        assert_eq!(padded.encode("a b").unwrap(), plain);
    }
    let truncation =
        json!({"max_length": 1, "strategy": "LongestFirst", "stride": huge, "direction": "Right"});
    let cut = load(&changed(|file| file["truncation"] = truncation)).unwrap();
    assert_eq!(cut.encode("a b").unwrap(), plain);
}

/// Components of every kind, in turn put into the tokenizer and then changed at random.
fn components() -> Vec<(&'static str, Value)> {
    let replace = json!({"type": "Replace", "pattern": {"Regex": "a+|\\s(?!b)"}, "content": "bc"});
    let metaspace =
        json!({"type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": "always", "split": true});
    let pattern = json!({"String": " "});
    let sep = json!(["</s>", 1]);
    vec![
        (
            "normalizer",
            json!({"type": "Sequence", "normalizers": [{"type": "NFKD"}, replace, {"type": "StripAccents"}]}),
        ),
        (
            "normalizer",
            json!({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true}),
        ),
        ("normalizer", json!({"type": "Strip", "strip_left": true, "strip_right": true})),
        ("normalizer", json!({"type": "Prepend", "prepend": "\u{2581}"})),
        ("normalizer", json!({"type": "ByteLevel"})),
        ("normalizer", json!({"type": "Precompiled", "precompiled_charsmap": "BAAAAP////8="})),
        ("pre_tokenizer", metaspace.clone()),
        (
            "pre_tokenizer",
            json!({"type": "Split", "pattern": pattern, "behavior": "MergedWithPrevious", "invert": false}),
        ),
        (
            "pre_tokenizer",
            json!({"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true}, {"type": "Punctuation", "behavior": "Isolated"}, {"type": "CharDelimiterSplit", "delimiter": "a"}]}),
        ),
        ("pre_tokenizer", json!({"type": "FixedLength", "length": 3})),
        (
            "decoder",
            json!({"type": "Sequence", "decoders": [replace, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}),
        ),
        ("decoder", metaspace),
        ("decoder", json!({"type": "WordPiece", "prefix": "##", "cleanup": true})),
        ("decoder", json!({"type": "BPEDecoder", "suffix": "</w>"})),
        (
            "decoder",
            json!({"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": true}),
        ),
        ("post_processor", json!({"type": "BertProcessing", "sep": sep, "cls": sep})),
        (
            "post_processor",
            json!({"type": "RobertaProcessing", "sep": sep, "cls": sep, "trim_offsets": true, "add_prefix_space": true}),
        ),
        (
            "model",
            json!({"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["a", -1.0], ["ab", -2.0]], "byte_fallback": false}),
        ),
        (
            "model",
            json!({"type": "WordPiece", "unk_token": "a", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": {"a": 0, "##b": 1}}),
        ),
        ("model", json!({"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0, "b": 1}})),
        (
            "model",
            json!({"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]], "unk_token": "a", "byte_fallback": true}),
        ),
    ]
}

/// Replaces the leaf with this number, counted in order; returns the number of leaves.
fn change_leaf(value: &mut Value, leaf: &mut usize, new: &Value) {
    match value {
        Value::Array(list) if !list.is_empty() => {
            list.iter_mut().for_each(|inner| change_leaf(inner, leaf, new))
        }
        Value::Object(map) if !map.is_empty() => {
            map.values_mut().for_each(|inner| change_leaf(inner, leaf, new))
        }
        other => {
            if *leaf == 0 {
                *other = new.clone();
            }
            *leaf = leaf.wrapping_sub(1);
        }
    }
}

#[test]
fn no_changed_component_panics_or_hangs() {
    let values = [
        json!(null),
        json!(0),
        json!(-1),
        json!(1e300),
        json!(u64::MAX),
        json!(""),
        json!("a"),
        json!("(a*)*(?=c)"),
        json!("\u{0}"),
        json!("é"),
        json!([]),
        json!({}),
        json!(true),
        json!("#".repeat(5000)),
        json!([["a", "b"]]),
    ];
    let texts = [String::new(), "ab é\n".repeat(40), "a".repeat(3000), "\u{fdfa}\u{0}<|im_end|>".repeat(20)];
    for (place, component) in components() {
        for leaf in 0..8 {
            for value in &values {
                let begin = Instant::now();
                let file = changed(|file| {
                    file[place] = component.clone();
                    file["added_tokens"] = json!([]);
                    change_leaf(&mut file[place], &mut { leaf }, value);
                    if place == "model" {
                        file["post_processor"] = json!(null);
                    }
                });
                if let Ok(tokenizer) = load(&file) {
                    for text in &texts {
                        let _ = tokenizer.encode_spans(text).map(|spans| spans.len());
                        let _ = tokenizer
                            .encode(text)
                            .and_then(|ids| tokenizer.decode(&ids, SpecialTokens::Skip));
                    }
                }
                assert!(begin.elapsed().as_secs() < 2, "{place}: {component}, {leaf}: {value}");
            }
        }
    }
}
