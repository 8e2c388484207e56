//! Tokenizers that the library accepts or panics on, and that take more than they give.

use std::time::{Instant, UNIX_EPOCH};

use serde_json::{Value, json};

use super::*;
use crate::data::testing;

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
