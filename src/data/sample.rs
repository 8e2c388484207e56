use std::ops::Range;

use super::{Conversation, DataError, Ending, RowKind, Tokenizer, tokenizer::Span};

/// One row as token ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Its tokens.
    pub ids: Vec<u32>,
    /// Whether each of them is to be learned; as long as `ids`.
    pub counted: Vec<bool>,
}

impl Sample {
    /// The tokens of a row.
    ///
    /// Of a conversation, each turn of the assistant counts from its first token to the one that ends the
    /// turn; of a prompt and its completion, the completion and the end of sequence after it; of a text, all.
    ///
    /// # Errors
    /// If a conversation has no template, or one that refuses it or rewrites earlier turns, or if the
    /// tokenizer cannot represent the text.
    pub fn new(row: &RowKind, tokenizer: &Tokenizer) -> Result<Self, DataError> {
        match row {
            RowKind::Messages(messages) => conversation(messages, tokenizer),
            RowKind::Completion { prompt, completion } => {
                let opening = tokenizer.encode("")?.into_iter().find(|&id| Some(id) == tokenizer.bos_id());
                let (given, learned) = completed(prompt, completion, tokenizer)?;
                let prompt_len = opening.iter().len() + given.len();
                let ids: Vec<u32> =
                    opening.into_iter().chain(given).chain(learned).chain([tokenizer.eos_id()]).collect();
                let counted = (0..ids.len()).map(|i| i >= prompt_len).collect();
                Ok(Self { ids, counted })
            }
            RowKind::Text(text) => {
                let ids = tokenizer.encode(text)?;
                let counted = vec![true; ids.len()];
                Ok(Self { ids, counted })
            }
        }
    }

    /// Labels that a loss over the first `seq` tokens counts. The first token has none before it that could
    /// predict it.
    pub fn labels_within(&self, seq: usize) -> usize {
        self.counted.iter().take(seq).skip(1).filter(|&&counted| counted).count()
    }
}

/// The tokens of a prompt and of its completion. They are cut as one text, as the model will meet them; where a token
/// would hold the end of one and the beginning of the other, each is cut alone.
fn completed(
    prompt: &str,
    completion: &str,
    tokenizer: &Tokenizer,
) -> Result<(Vec<u32>, Vec<u32>), DataError> {
    let spans = tokenizer.encode_spans(&format!("{prompt}{completion}"))?;
    let first = spans.partition_point(|span| span.bytes.start < prompt.len());
    if spans[..first].iter().any(|span| span.bytes.end > prompt.len()) {
        return Ok((tokenizer.encode_plain(prompt)?, tokenizer.encode_plain(completion)?));
    }
    let ids = |spans: &[Span]| spans.iter().map(|span| span.id).collect();
    Ok((ids(&spans[..first]), ids(&spans[first..])))
}

fn conversation(conversation: &Conversation, tokenizer: &Tokenizer) -> Result<Sample, DataError> {
    let Conversation { messages, inputs } = conversation;
    let template = tokenizer.chat_template()?;
    let text = template.render(messages, inputs, Ending::Closed)?;
    let end_of = |n_messages: usize, ending| {
        let beginning = template.render(&messages[..n_messages], inputs, ending)?;
        if text.starts_with(&beginning) { Ok(beginning.len()) } else { Err(DataError::Rewritten(n_messages)) }
    };
    let spans = tokenizer.encode_spans(&text)?;
    let mut counted = vec![false; spans.len()];
    for (i, _) in messages.iter().enumerate().filter(|(_, message)| message.is_learned()) {
        let (start, end) = (end_of(i, Ending::Prompt)?, end_of(i + 1, Ending::Closed)?);
        if start > end {
            return Err(DataError::Rewritten(i + 1));
        }
        counted[turn_tokens(&spans, start..end, &text, tokenizer)].fill(true);
    }
    let ids = spans.into_iter().map(|span| span.id).collect();
    Ok(Sample { ids, counted })
}

/// The tokens that begin inside `turn`, up to the token that ends it: blanks which the template writes after
/// that token are not the assistant's.
fn turn_tokens(spans: &[Span], turn: Range<usize>, text: &str, tokenizer: &Tokenizer) -> Range<usize> {
    let first = spans.partition_point(|span| span.bytes.start < turn.start);
    let past = spans.partition_point(|span| span.bytes.start < turn.end).max(first);
    let is_blank = |span: &Span| {
        !tokenizer.is_special(span.id) && text.get(span.bytes.clone()).is_some_and(|t| t.trim().is_empty())
    };
    let end = first + spans[first..past].iter().rposition(|span| !is_blank(span)).map_or(0, |last| last + 1);
    let ends_special = end > first && tokenizer.is_special(spans[end - 1].id);
    first..if ends_special { end } else { past }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Message, Role, SpecialTokens, testing};

    /// The counted tokens of a row in brackets.
    fn marked(row: &RowKind, tokenizer: &Tokenizer) -> String {
        let sample = Sample::new(row, tokenizer).unwrap();
        assert_eq!(sample.ids.len(), sample.counted.len());
        let mut text = String::new();
        let tokens: Vec<_> = sample.ids.iter().zip(&sample.counted).collect();
        for run in tokens.chunk_by(|a, b| a.1 == b.1) {
            let ids: Vec<u32> = run.iter().map(|&(&id, _)| id).collect();
            let part = tokenizer.decode(&ids, SpecialTokens::Keep).unwrap();
            text += &if *run[0].1 { format!("[{part}]") } else { part };
        }
        text
    }

    fn chat(turns: &[(Role, &str)]) -> RowKind {
        let messages = turns.iter().map(|&(role, content)| Message::new(role, content));
        RowKind::Messages(messages.collect::<Vec<_>>().into())
    }

    const TWO_ANSWERS: [(Role, &str); 4] =
        [(Role::User, "q"), (Role::Assistant, "the"), (Role::User, "r"), (Role::Assistant, "été\n")];

    #[test]
    fn each_answer_counts_to_the_end_of_its_turn() {
        assert_eq!(
            marked(&chat(&TWO_ANSWERS), testing::tokenizer()),
            "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n[the<|im_end|>]\n\
             <|im_start|>user\nr<|im_end|>\n<|im_start|>assistant\n[été\n<|im_end|>]\n"
        );
    }

    #[test]
    fn a_template_like_llama31_counts_the_same_tokens() {
        let tokenizer = testing::tokenizer_with(testing::LLAMA31);
        let text = marked(&chat(&TWO_ANSWERS), &tokenizer);
        let expect = "<|start_header_id|>user<|end_header_id|>\n\nq<|eot_id|>\
            <|start_header_id|>assistant<|end_header_id|>\n\n[the<|eot_id|>]\
            <|start_header_id|>user<|end_header_id|>\n\nr<|eot_id|>\
            <|start_header_id|>assistant<|end_header_id|>\n\n[été<|eot_id|>]";
        assert!(text.ends_with(expect), "{text}");
    }

    #[test]
    fn a_turn_without_a_special_end_counts_its_blanks() {
        let source = "{% for m in messages %}{{ m.role + ': ' + m.content + '\n\n' }}{% endfor %}\
            {% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}";
        let tokenizer = testing::tokenizer_with(source);
        let text = marked(&chat(&TWO_ANSWERS[..3]), &tokenizer);
        assert_eq!(text, "user: q\n\nassistant: [the\n\n]user: r\n\n");
    }

    #[test]
    fn a_template_that_rewrites_earlier_turns_is_refused() {
        let source = "{% for m in messages %}{% if loop.last or m.role == 'user' %}{{ m.role + m.content }}{% endif %}\
            {% endfor %}{% if add_generation_prompt %}{{ 'assistant' }}{% endif %}";
        let tokenizer = testing::tokenizer_with(source);
        let error = Sample::new(&chat(&TWO_ANSWERS), &tokenizer).unwrap_err();
        assert_eq!(
            error.to_string(),
            "chat template: expected each turn to continue the text before it, found it rewritten at message 1"
        );
        assert!(Sample::new(&chat(&TWO_ANSWERS[..2]), &tokenizer).is_ok());

        let silent = "{{ messages[0].content }}{% if add_generation_prompt %}{{ '!' }}{% endif %}{% if messages[2] %}!{% endif %}";
        let error = Sample::new(&chat(&TWO_ANSWERS[..3]), &testing::tokenizer_with(silent)).unwrap_err();
        assert!(matches!(error, DataError::Rewritten(2)), "{error}");
    }

    #[test]
    fn a_completion_counts_with_the_end_of_sequence() {
        let row = RowKind::Completion { prompt: "a t".into(), completion: "he".into() };
        assert_eq!(marked(&row, testing::tokenizer()), "<|im_start|>a t[he<|im_end|>]");
    }

    #[test]
    fn a_text_counts_as_a_whole_and_nothing_is_appended() {
        let row = RowKind::Text("the".into());
        assert_eq!(marked(&row, testing::tokenizer()), "[<|im_start|>the]");
        let sample = Sample::new(&row, testing::tokenizer()).unwrap();
        assert_eq!((sample.labels_within(8), sample.labels_within(1)), (1, 0));
    }
}
