//! Encodes samples as token ids and labels.

use std::ops::Range;

use super::{
    Conversation, DataError, Ending, Message, SampleContent, Tokenizer,
    tokenizer::TokenSpan,
    turns::{LabelledText, TurnSpan, labelled_text},
};

/// A sample as token ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenizedSample {
    /// Token ids.
    pub ids: Vec<u32>,
    /// Whether each token is a label; as long as `ids`.
    pub label_mask: Vec<bool>,
}

impl TokenizedSample {
    /// Number of labels among the first `seq` tokens. The first token is never one, as no token before it predicts
    /// it.
    pub fn labels_within(&self, seq: usize) -> usize {
        self.label_mask.iter().take(seq).skip(1).filter(|&&is_label| is_label).count()
    }
}

/// Observations about the tokens of a sample, for warnings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Notes {
    /// The text already begins with the beginning-of-sequence token.
    pub has_begin: bool,
    /// The text already ends with the end-of-sequence token.
    pub has_end: bool,
    /// A token spans the end of a prompt and the start of the text to learn.
    pub crosses: Option<Boundary>,
    /// Keys of messages, counted from one, that the template leaves out of the text to learn.
    pub left_out: Vec<(usize, &'static str)>,
    /// Inputs that the template does not use.
    pub unused: Vec<String>,
}

/// The boundary before a text to learn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Boundary {
    /// Between the prompt and the completion of the sample.
    Completion,
    /// Between the prompt that the template writes and the answer.
    Turn,
}

/// Encodes samples as tokens and labels.
#[derive(Debug)]
pub(super) struct Encoder<'a> {
    tokenizer: &'a Tokenizer,
    seq: usize,
    /// Tokens that the tokenizer adds before and after every text.
    before: Vec<u32>,
    after: Vec<u32>,
}

impl<'a> Encoder<'a> {
    /// An encoder for rows of `seq` tokens. Turns that begin past them are not searched for labels.
    ///
    /// # Errors
    /// [`DataError::Encode`] if the tokenizer's post-processor fails.
    pub(super) fn new(tokenizer: &'a Tokenizer, seq: usize) -> Result<Self, DataError> {
        // Not every vocabulary has a token for this text; then the added tokens are those of an empty one.
        let plain = tokenizer.encode_plain("a").unwrap_or_default();
        let mut before = tokenizer.encode(if plain.is_empty() { "" } else { "a" })?;
        let at = if plain.is_empty() {
            before.iter().position(|&id| Some(id) == tokenizer.eos_id().ok())
        } else {
            before.windows(plain.len()).position(|ids| ids == plain)
        };
        let after = before.split_off(at.unwrap_or(before.len()));
        let after = after.into_iter().skip(plain.len()).collect();
        Ok(Self { tokenizer, seq, before, after })
    }

    /// Encodes a sample.
    ///
    /// Labels are, of a conversation, the tokens of each learned turn up to the one that ends it; of a prompt with a
    /// completion, the completion and the end-of-sequence token; of a text, every token. Tokens that begin or end a
    /// sequence are added unless the text has them already.
    ///
    /// # Errors
    /// [`DataError::NoChatTemplate`], [`DataError::NoDefaultTemplate`], [`DataError::ChatTemplate`] and
    /// [`DataError::Rewritten`] for conversations, [`DataError::NoEos`] for completions, [`DataError::Encode`] if the
    /// tokenizer cannot represent the text.
    pub(super) fn encode(&self, content: &SampleContent) -> Result<(TokenizedSample, Notes), DataError> {
        let mut notes = Notes::default();
        let sample = match content {
            SampleContent::Messages(conversation) => self.conversation(conversation, &mut notes)?,
            SampleContent::Completion { prompt, completion } => {
                self.completion(prompt, completion, &mut notes)?
            }
            SampleContent::Text(text) => {
                let ids = self.tokenizer.encode_plain(text)?;
                let label_mask = vec![true; ids.len()];
                self.surrounded(TokenizedSample { ids, label_mask }, true, &mut notes)
            }
        };
        Ok((sample, notes))
    }

    /// Encodes prompt and completion as one text, as at inference; a token that spans both is a label.
    fn completion(
        &self,
        prompt: &str,
        completion: &str,
        notes: &mut Notes,
    ) -> Result<TokenizedSample, DataError> {
        let eos_id = self.tokenizer.eos_id()?;
        let text = format!("{prompt}{completion}");
        let spans = self.tokenizer.encode_spans(&text)?;
        let labels = tokens_of(&spans, prompt.len()..text.len());
        notes.crosses = crosses(&spans, labels.start, prompt.len()).then_some(Boundary::Completion);
        let is_blank = |span: &&TokenSpan| text.get(span.bytes.clone()).is_some_and(|t| t.trim().is_empty());
        let last = spans[labels.clone()].iter().rev().find(|&span| span.id == eos_id || !is_blank(&span));
        notes.has_end = last.is_some_and(|span| span.id == eos_id);
        let mut sample = TokenizedSample {
            label_mask: (0..spans.len()).map(|i| i >= labels.start).collect(),
            ids: spans.into_iter().map(|span| span.id).collect(),
        };
        if !notes.has_end && self.after.first() != Some(&eos_id) {
            sample.ids.push(eos_id);
            sample.label_mask.push(true);
        }
        Ok(self.surrounded(sample, false, notes))
    }

    /// Adds the tokens that the tokenizer adds around a text, unless the text has them already.
    fn surrounded(
        &self,
        sample: TokenizedSample,
        begin_is_label: bool,
        notes: &mut Notes,
    ) -> TokenizedSample {
        let (mut before, mut after) = (self.before.as_slice(), self.after.as_slice());
        let bos_id = self.tokenizer.bos_id();
        if let Some((last, others)) = before.split_last()
            && Some(*last) == bos_id
            && sample.ids.first() == Some(last)
        {
            before = others;
            notes.has_begin = true;
        }
        if let Some((first, others)) = after.split_first()
            && self.tokenizer.eos_id().is_ok_and(|eos_id| eos_id == *first)
            && (notes.has_end || sample.ids.last() == Some(first))
        {
            after = others;
            notes.has_end = true;
        }
        let label_mask = std::iter::repeat_n(begin_is_label, before.len()).chain(sample.label_mask);
        TokenizedSample {
            label_mask: label_mask.chain(std::iter::repeat_n(true, after.len())).collect(),
            ids: before.iter().copied().chain(sample.ids).chain(after.iter().copied()).collect(),
        }
    }

    fn conversation(
        &self,
        conversation: &Conversation,
        notes: &mut Notes,
    ) -> Result<TokenizedSample, DataError> {
        let template = self.tokenizer.chat_template_for(&conversation.inputs)?;
        let text = template.render(&conversation.messages, &conversation.inputs, Ending::Closed)?;
        let spans = self.tokenizer.encode_spans(&text)?;
        let limit = spans.get(self.seq).map_or(usize::MAX, |span| span.bytes.start);
        let mut label_mask = vec![false; spans.len()];
        let mut end = 0;
        let LabelledText { turns, blocks } = labelled_text(template, conversation, &text, limit)?;
        for TurnSpan { message, bytes } in &turns {
            let written = &text[end.min(bytes.start)..bytes.end];
            let left_out = left_out(&conversation.messages[*message], written);
            notes.left_out.extend(left_out.map(|key| (message + 1, key)));
            end = bytes.end;
        }
        let of_block = |bytes: Range<usize>| (bytes.start, tokens_of(&spans, bytes));
        let of_turn = |TurnSpan { bytes, .. }: TurnSpan| {
            (bytes.start, turn_tokens(&spans, bytes, &text, self.tokenizer))
        };
        let labelled: Vec<_> = match blocks {
            Some(blocks) => blocks.into_iter().map(of_block).collect(),
            None => turns.into_iter().map(of_turn).collect(),
        };
        for (start, tokens) in labelled {
            if crosses(&spans, tokens.start, start) {
                notes.crosses = Some(Boundary::Turn);
            }
            label_mask[tokens].fill(true);
        }
        notes.unused = unused(conversation, |name| template.mentions(name));
        let mut ids: Vec<u32> = spans.into_iter().map(|span| span.id).collect();
        if let (Some(bos_id), [first, second, ..]) = (self.tokenizer.bos_id(), ids.as_slice())
            && [*first, *second] == [bos_id; 2]
        {
            ids.remove(0);
            label_mask.remove(0);
            notes.has_begin = true;
        }
        Ok(TokenizedSample { ids, label_mask })
    }
}

/// Range of the tokens that overlap `bytes`.
fn tokens_of(spans: &[TokenSpan], bytes: Range<usize>) -> Range<usize> {
    let first = spans.partition_point(|span| span.bytes.end <= bytes.start);
    first..spans.partition_point(|span| span.bytes.start < bytes.end).max(first)
}

/// Whether the token `first` begins before the text to learn.
fn crosses(spans: &[TokenSpan], first: usize, start: usize) -> bool {
    spans.get(first).is_some_and(|span| span.bytes.start < start)
}

/// Range of the tokens of a turn up to the token that ends it. Whitespace that the template writes after that token is
/// not part of the answer.
fn turn_tokens(spans: &[TokenSpan], turn: Range<usize>, text: &str, tokenizer: &Tokenizer) -> Range<usize> {
    let Range { start: first, end: past } = tokens_of(spans, turn);
    let is_blank = |span: &TokenSpan| {
        !tokenizer.is_special(span.id) && text.get(span.bytes.clone()).is_some_and(|t| t.trim().is_empty())
    };
    let end = first + spans[first..past].iter().rposition(|span| !is_blank(span)).map_or(0, |last| last + 1);
    let ends_special = end > first && tokenizer.is_special(spans[end - 1].id);
    first..if ends_special { end } else { past }
}

/// Keys of a message whose text the template did not write, compared without whitespace.
fn left_out(message: &Message, written: &str) -> impl Iterator<Item = &'static str> {
    let fields = message.fields();
    let without_blanks = |text: &str| text.split_whitespace().collect::<String>();
    let written = without_blanks(written);
    let is_written = |text: Option<&str>| text.is_none_or(|text| written.contains(&without_blanks(text)));
    let parts = |key: &str| match fields.get(key) {
        Some(serde_json::Value::Array(parts)) => parts.iter().collect(),
        Some(value) => vec![value],
        None => vec![],
    };
    let of_part = |part: &serde_json::Value| is_written(part.as_str().or_else(|| part.get("text")?.as_str()));
    let of_call = |call: &serde_json::Value| {
        let function = call.get("function").unwrap_or(call);
        is_written(function.get("name").and_then(|name| name.as_str()))
    };
    let content = parts("content").into_iter().all(of_part);
    let reasoning = parts("reasoning_content").into_iter().all(of_part);
    let calls = parts("tool_calls").into_iter().all(of_call);
    let keys = [("content", content), ("reasoning_content", reasoning), ("tool_calls", calls)];
    keys.into_iter().filter(|&(_, is_written)| !is_written).map(|(key, _)| key)
}

/// Names of template inputs and of message keys that the template does not use.
fn unused(conversation: &Conversation, mentions: impl Fn(&str) -> bool) -> Vec<String> {
    let Conversation { messages, inputs } = conversation;
    let is_given = |value: &Option<serde_json::Value>| {
        value.as_ref().is_some_and(|value| value.as_array().is_some_and(|items| !items.is_empty()))
    };
    let given = [("tools", is_given(&inputs.tools)), ("documents", is_given(&inputs.documents))];
    let given = given.into_iter().filter(|&(_, is_given)| is_given).map(|(name, _)| name);
    // `left_out` reports these keys.
    let reported_elsewhere = ["role", "content", "reasoning_content", "thinking", "reasoning", "tool_calls"];
    let keys = messages.iter().flat_map(|message| message.fields().keys().map(String::as_str));
    let keys = keys.filter(|key| !reported_elsewhere.contains(key));
    let mut unused: Vec<String> = Vec::new();
    for name in given.chain(inputs.kwargs.keys().map(String::as_str)).chain(keys) {
        if !unused.iter().any(|known| known == name) && !mentions(name) {
            unused.push(name.to_owned());
        }
    }
    unused
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Message, MessageRole, SpecialTokens, testing};

    fn encode(content: &SampleContent, tokenizer: &Tokenizer) -> Result<(TokenizedSample, Notes), DataError> {
        Encoder::new(tokenizer, 512)?.encode(content)
    }

    /// The text of a sample with its labels in brackets.
    fn marked(content: &SampleContent, tokenizer: &Tokenizer) -> String {
        let (sample, _) = encode(content, tokenizer).unwrap();
        assert_eq!(sample.ids.len(), sample.label_mask.len());
        let mut text = String::new();
        let tokens: Vec<_> = sample.ids.iter().zip(&sample.label_mask).collect();
        for run in tokens.chunk_by(|a, b| a.1 == b.1) {
            let ids: Vec<u32> = run.iter().map(|&(&id, _)| id).collect();
            let part = tokenizer.decode(&ids, SpecialTokens::Keep).unwrap();
            text += &if *run[0].1 { format!("[{part}]") } else { part };
        }
        text
    }

    fn chat(turns: &[(MessageRole, &str)]) -> SampleContent {
        let messages = turns.iter().map(|&(role, content)| Message::new(role, content));
        SampleContent::Messages(messages.collect::<Vec<_>>().into())
    }

    const TWO_ANSWERS: [(MessageRole, &str); 4] = [
        (MessageRole::User, "q"),
        (MessageRole::Assistant, "the"),
        (MessageRole::User, "r"),
        (MessageRole::Assistant, "été\n"),
    ];

    #[test]
    fn each_answer_is_a_label_to_the_end_of_its_turn() {
        assert_eq!(
            marked(&chat(&TWO_ANSWERS), testing::tokenizer()),
            "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n[the<|im_end|>]\n\
             <|im_start|>user\nr<|im_end|>\n<|im_start|>assistant\n[été\n<|im_end|>]\n"
        );
    }

    #[test]
    fn a_template_like_llama31_labels_the_same_tokens() {
        let tokenizer = testing::tokenizer_with(testing::LLAMA31);
        let text = marked(&chat(&TWO_ANSWERS), &tokenizer);
        let expect = "<|start_header_id|>user<|end_header_id|>\n\nq<|eot_id|>\
            <|start_header_id|>assistant<|end_header_id|>\n\n[the<|eot_id|>]\
            <|start_header_id|>user<|end_header_id|>\n\nr<|eot_id|>\
            <|start_header_id|>assistant<|end_header_id|>\n\n[été<|eot_id|>]";
        assert!(text.ends_with(expect), "{text}");
    }

    #[test]
    fn a_turn_without_an_end_token_includes_its_whitespace() {
        let source = "{% for m in messages %}{{ m.role + ': ' + m.content + '\n\n' }}{% endfor %}\
            {% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}";
        let tokenizer = testing::tokenizer_with(source);
        let text = marked(&chat(&TWO_ANSWERS[..3]), &tokenizer);
        assert_eq!(text, "user: q\n\nassistant: [the\n\n]user: r\n\n");
    }

    #[test]
    fn a_template_that_rewrites_earlier_turns_is_an_error() {
        let source = "{% for m in messages %}{% if loop.last or m.role == 'user' %}{{ m.role + m.content }}{% endif %}\
            {% endfor %}{% if add_generation_prompt %}{{ 'assistant' }}{% endif %}";
        let tokenizer = testing::tokenizer_with(source);
        let error = encode(&chat(&TWO_ANSWERS), &tokenizer).unwrap_err();
        assert_eq!(
            error.to_string(),
            "chat template: expected the text of a turn to stay the same when more messages follow, found it rewritten at message 2"
        );
        assert!(encode(&chat(&TWO_ANSWERS[..2]), &tokenizer).is_ok());

        let silent = "{{ messages[0].content }}{% if add_generation_prompt %}{{ '!' }}{% endif %}{% if messages[2] %}!{% endif %}";
        let error = encode(&chat(&TWO_ANSWERS[..3]), &testing::tokenizer_with(silent)).unwrap_err();
        assert!(matches!(error, DataError::Rewritten(2)), "{error}");
    }

    #[test]
    fn a_completion_is_a_label_with_the_end_of_sequence() {
        let content = SampleContent::Completion { prompt: "a t".into(), completion: "he".into() };
        assert_eq!(marked(&content, testing::tokenizer()), "<|im_start|>a [the<|im_end|>]");
    }

    #[test]
    fn bos_and_eos_are_not_added_twice() {
        let content = SampleContent::Completion {
            prompt: "<|im_start|>a".into(),
            completion: "the<|im_end|>\n".into(),
        };
        assert_eq!(marked(&content, testing::tokenizer()), "<|im_start|>a[the<|im_end|>\n]");
        let (_, notes) = encode(&content, testing::tokenizer()).unwrap();
        assert!(notes.has_begin && notes.has_end);
        let content = SampleContent::Text("<|im_start|>the".into());
        assert_eq!(marked(&content, testing::tokenizer()), "[<|im_start|>the]");
    }

    #[test]
    fn generation_blocks_decide_where_a_template_has_them() {
        let source = "{% for m in messages %}{% if m.role == 'assistant' %}a: {% generation %}{{ m.content }}!\
            {% endgeneration %}{% else %}{{ m.content if loop.last else 'gone' }}{% endif %}{% endfor %}";
        let text = marked(&chat(&TWO_ANSWERS), &testing::tokenizer_with(source));
        assert_eq!(text, "gonea: [the!]gonea: [été\n!]");
    }

    const BLOCKS_OF_TURNS: [(&str, &str); 6] = [
        (
            "a: {% generation %}<think>{{ m.reasoning_content }}{% endgeneration %}</think>\
             {% generation %}{{ m.content }}!{% endgeneration %}<|im_end|>",
            "qa: [<think>so]</think>[the!]<|im_end|>ra: [<think>thus]</think>[at!]<|im_end|>",
        ),
        (
            "a: {% if loop.last %}{% generation %}<think>{{ m.reasoning_content }}</think>{% endgeneration %}\n{% endif %}\
             {% generation %}{{ m.content }}{% endgeneration %}<|im_end|>",
            "qa: [the]<|im_end|>ra: [<think>thus</think>at]<|im_end|>",
        ),
        (
            "{% if loop.last %}{% generation %}{{ m.content }}<|im_end|>{% endgeneration %}{% else %}{{ m.content }}<|im_end|>{% endif %}",
            "qthe<|im_end|>r[at<|im_end|>]",
        ),
        (
            "{% generation %}<{% generation %}{{ m.content }}{% endgeneration %}>{% endgeneration %}",
            "q[<the>]r[<at>]",
        ),
        ("t{% generation %}h{% endgeneration %}e{% generation %}a{% endgeneration %}t", "q[theat]r[theat]"),
        (
            "a:\n  {% generation %}\n  {{ m.content }}\n  {%- endgeneration %}\n b",
            "qa:\n[  the] bra:\n[  at] b",
        ),
    ];

    fn with_reasoning() -> [Message; 4] {
        let answer = |content: &str, reasoning: &str| {
            let fields =
                serde_json::json!({"role": "assistant", "content": content, "reasoning_content": reasoning});
            Message::from_fields(fields.as_object().unwrap().clone())
        };
        [
            Message::new(MessageRole::User, "q"),
            answer("the", "so"),
            Message::new(MessageRole::User, "r"),
            answer("at", "thus"),
        ]
    }

    fn with_answers(answer: &str) -> Tokenizer {
        testing::tokenizer_with(&format!(
            "{{% for m in messages %}}{{% if m.role == 'assistant' %}}{answer}{{% else %}}{{{{ m.content }}}}{{% endif %}}{{% endfor %}}"
        ))
    }

    /// The brackets are where `assistant_masks` of transformers 5.24 is one, for the same tokenizer and templates.
    #[test]
    fn several_generation_blocks_in_a_turn_are_masked_as_transformers_masks_them() {
        for (answer, expect) in BLOCKS_OF_TURNS {
            let content = SampleContent::Messages(with_reasoning().to_vec().into());
            assert_eq!(marked(&content, &with_answers(answer)), expect, "{answer}");
        }
    }

    #[test]
    fn generation_blocks_of_context_are_not_labels() {
        let [question, answer, next, last] = with_reasoning();
        let content = SampleContent::Messages(vec![question, answer.not_learned(), next, last].into());
        let source = BLOCKS_OF_TURNS[0].0;
        let expect = "qa: <think>so</think>the!<|im_end|>ra: [<think>thus]</think>[at!]<|im_end|>";
        assert_eq!(marked(&content, &with_answers(source)), expect);
    }

    #[test]
    fn generation_blocks_that_are_never_rendered_yield_no_labels() {
        let source = "{{ m.content }}{% if m.never %}{% generation %}x{% endgeneration %}{% endif %}";
        assert_eq!(marked(&chat(&TWO_ANSWERS), &with_answers(source)), "qtherété\n");
    }

    #[test]
    fn mark_characters_in_a_conversation_change_nothing() {
        let turns = [(MessageRole::User, "q\u{f0000}"), (MessageRole::Assistant, "the\u{f0001}")];
        let source = "{% generation %}{{ m.content }}{% endgeneration %}";
        let expect = "q\u{f0000}[the\u{f0001}]";
        assert_eq!(marked(&chat(&turns), &with_answers(source)), expect);
    }

    #[test]
    fn every_token_of_a_text_is_a_label_and_nothing_is_appended() {
        let content = SampleContent::Text("the".into());
        assert_eq!(marked(&content, testing::tokenizer()), "[<|im_start|>the]");
        let (sample, _) = encode(&content, testing::tokenizer()).unwrap();
        assert_eq!((sample.labels_within(8), sample.labels_within(1)), (1, 0));
    }
}
