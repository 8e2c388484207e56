//! Keys that would change the meaning of a sample and are not supported, each with a hint.

use super::json_fields::{JsonObject, list};
use crate::base::Diagnostic;

const PREFERENCE: &str =
    "preference data are not supported; write the better answer as an assistant message or as `completion`";
pub(super) const MEDIA: &str = "only text is supported; leave out the samples with images, audio or video";
pub(super) const FUNCTIONS: &str = "write functions as `tools` and calls as `tool_calls` of a message";
const WEIGHT: &str = "leave out the samples that should not count; `weight` 0 in a message excludes that message from the labels";
const LABEL: &str = "write the text to learn as `completion`, or remove the key";
const TOKENIZED: &str = "write the text instead; it is encoded with the model's tokenizer";
const INSTRUCTION: &str =
    "write `instruction` and `input` as `prompt` and `output` as `completion`, or remove the keys";

/// Keys of a sample.
pub(super) const OF_SAMPLE: &[(&str, &str)] = &[
    ("chosen", PREFERENCE),
    ("rejected", PREFERENCE),
    ("images", MEDIA),
    ("image", MEDIA),
    ("videos", MEDIA),
    ("video", MEDIA),
    ("audios", MEDIA),
    ("audio", MEDIA),
    ("functions", FUNCTIONS),
    ("function_call", FUNCTIONS),
    ("tool", FUNCTIONS),
    ("tool_calls", FUNCTIONS),
    ("weight", WEIGHT),
    ("weights", WEIGHT),
    ("train", WEIGHT),
    ("mask", WEIGHT),
    ("loss_mask", WEIGHT),
    ("completion_mask", WEIGHT),
    ("label", LABEL),
    ("labels", LABEL),
    ("input_ids", TOKENIZED),
    ("instruction", INSTRUCTION),
    ("input", INSTRUCTION),
    ("output", INSTRUCTION),
];

/// Keys of a message. All others are passed to the template.
pub(super) const OF_MESSAGE: &[(&str, &str)] = &[
    ("function_call", FUNCTIONS),
    ("functions", FUNCTIONS),
    ("images", MEDIA),
    ("image", MEDIA),
    ("videos", MEDIA),
    ("audio", MEDIA),
    ("chosen", PREFERENCE),
    ("rejected", PREFERENCE),
    ("label", LABEL),
    ("mask", WEIGHT),
    ("loss", WEIGHT),
    ("loss_mask", WEIGHT),
    ("loss_weight", WEIGHT),
    ("train_detail", WEIGHT),
];

/// Rejects an object with keys of a table.
pub(super) fn refuse(object: &JsonObject, unsupported: &[(&str, &str)]) -> Result<(), Diagnostic> {
    let found: Vec<_> = unsupported.iter().filter(|(key, _)| object.contains_key(*key)).collect();
    let Some((_, hint)) = found.first() else { return Ok(()) };
    let keys = if found.len() == 1 { "key" } else { "keys" };
    let message = format!("unsupported {keys}: {}", list(found.iter().map(|(key, _)| *key)));
    Err(Diagnostic::from(message).with_hint(*hint))
}
