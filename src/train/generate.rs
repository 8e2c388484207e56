//! Greedy decoding without a key-value cache: every token runs the entire row.

use super::{TrainError, Trainer};
use crate::{
    base::{Literal, Setting},
    data::Tokenizer,
};

/// Continues `prompt` with the most likely token that the tokenizer knows, up to `max_new_tokens`, the end of the trainer's
/// row, or the first stop token, which is included.
///
/// # Errors
/// If the prompt is empty or fills the row, the logits are not finite, or the plugin fails.
pub fn greedy(
    trainer: &mut Trainer<'_>,
    prompt: &[u32],
    max_new_tokens: usize,
    tokenizer: &Tokenizer,
) -> Result<Vec<u32>, TrainError> {
    let seq = trainer.spec().workload.seq;
    check_room(prompt.len(), seq, Setting::Prompt)?;
    let mut ids = prompt.to_vec();
    for _ in 0..max_new_tokens.min(seq - prompt.len()) {
        let mut row: Vec<i32> = ids.iter().map(|&id| id.cast_signed()).collect();
        row.resize(seq, tokenizer.pad_id().cast_signed());
        let position = Literal::s32s([1], &[ids.len() as i32 - 1]);
        let logits = trainer.next_logits(&Literal::s32s([1, seq], &row), &position)?.to_f32s();
        let next = argmax(&logits, |id| tokenizer.knows(id)).ok_or_else(|| TrainError::NotFinite {
            what: format!("every logit of token {}", ids.len() + 1),
        })?;
        ids.push(next);
        if tokenizer.stop_ids().contains(&next) {
            break;
        }
    }
    Ok(ids.split_off(prompt.len()))
}

/// Checks the length of a prompt, which comes from the setting `source`, for rows of `seq` tokens.
///
/// # Errors
/// If the prompt is empty, or a row has no room for a token after it.
pub fn check_room(prompt: usize, seq: usize, source: Setting) -> Result<(), TrainError> {
    let wrong =
        |setting, problem, hint: &str| TrainError::Setting { setting, problem, hint: Some(hint.into()) };
    if prompt == 0 {
        let problem = "expected at least one token, found none".to_owned();
        return Err(wrong(source, problem, "give the text to continue"));
    }
    if prompt >= seq {
        let problem = format!("expected room for more than the {prompt} tokens of the prompt, found: {seq}");
        return Err(wrong(Setting::Seq, problem, "raise it, or shorten the prompt"));
    }
    Ok(())
}

/// The first index of the largest value among those that are `allowed`; NaN is never the largest.
fn argmax(values: &[f32], allowed: impl Fn(u32) -> bool) -> Option<u32> {
    let numbers = (0..).zip(values.iter().copied()).filter(|&(id, value)| !value.is_nan() && allowed(id));
    numbers.reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(id, _)| id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_equals_wins_and_nan_never() {
        assert_eq!(argmax(&[f32::NAN, 1.0, 3.0, 3.0], |_| true), Some(2));
        assert_eq!(argmax(&[f32::NAN], |_| true), None);
    }

    #[test]
    fn what_is_not_allowed_never_wins() {
        assert_eq!(argmax(&[1.0, 9.0, 2.0, 8.0], |id| id % 2 == 0), Some(2));
        assert_eq!(argmax(&[1.0, f32::NEG_INFINITY], |id| id == 1), Some(1));
        assert_eq!(argmax(&[1.0], |_| false), None);
    }
}
