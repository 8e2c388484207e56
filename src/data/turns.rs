//! Finds the assistant's turns in the text of a conversation.

use std::ops::Range;

use super::{ChatTemplate, Conversation, DataError, Ending, Message, MessageRole};

/// A message and the bytes of the rendered text that the model has to produce for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TurnSpan {
    /// Index of the message.
    pub message: usize,
    pub bytes: Range<usize>,
}

/// Placeholder content, which no conversation and no template contains.
const PLACEHOLDER: &str = "\u{f8ff}\u{e0d5}\u{f8ff}";

/// The labelled text of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LabelledText {
    /// The turns of the learned messages, in order. Where the number of `{% generation %}` blocks differs from that of
    /// the assistant's messages, each turn spans all blocks.
    pub turns: Vec<TurnSpan>,
    /// Bytes of the learned `{% generation %}` blocks; `None` if the template has no such blocks. Then the turns are
    /// labels.
    pub blocks: Option<Vec<Range<usize>>>,
}

/// Finds the labels in `text`, the rendered conversation, before byte `limit`.
///
/// As with `return_assistant_tokens_mask` of transformers, every `{% generation %}` block is a label, however many a
/// message has, except those of messages that are context only.
///
/// # Errors
/// As [`learned_turns`], which is used for templates without blocks, and where only some messages are learned.
pub(super) fn labelled_text(
    template: &ChatTemplate,
    conversation: &Conversation,
    text: &str,
    limit: usize,
) -> Result<LabelledText, DataError> {
    let Conversation { messages, inputs } = conversation;
    let by_prefix = || learned_turns(template, conversation, text, limit);
    let Some(blocks) = template.generation_blocks(messages, inputs, text) else {
        return Ok(LabelledText { turns: by_prefix()?, blocks: None });
    };
    let of_assistant =
        messages.iter().enumerate().filter(|(_, message)| message.role() == MessageRole::Assistant.name());
    let of_assistant: Vec<_> = of_assistant.collect();
    let one_each = || {
        let turns = of_assistant.iter().zip(&blocks).filter(|((_, message), _)| message.is_learned());
        turns.map(|(&(message, _), bytes)| TurnSpan { message, bytes: bytes.clone() }).collect::<Vec<_>>()
    };
    let has_one_each = blocks.len() == of_assistant.len();
    if messages
        .iter()
        .all(|message| message.is_learned() == (message.role() == MessageRole::Assistant.name()))
    {
        let all = blocks.first().map_or(0, |first| first.start)..blocks.last().map_or(0, |last| last.end);
        let of_all = || of_assistant.iter().map(|&(message, _)| TurnSpan { message, bytes: all.clone() });
        let turns = if has_one_each { one_each() } else { of_all().collect() };
        return Ok(LabelledText { turns, blocks: Some(blocks) });
    }
    match by_prefix() {
        Ok(turns) => {
            let is_learned = |block: &Range<usize>| turns.iter().any(|turn| overlaps(&turn.bytes, block));
            let blocks = blocks.into_iter().filter(is_learned).collect();
            Ok(LabelledText { turns, blocks: Some(blocks) })
        }
        Err(DataError::Rewritten(_)) if has_one_each => {
            let turns = one_each();
            let blocks = turns.iter().map(|turn| turn.bytes.clone()).collect();
            Ok(LabelledText { turns, blocks: Some(blocks) })
        }
        Err(error) => Err(error),
    }
}

fn overlaps(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

/// The learned turns in `text`, the rendered conversation, that begin before byte `limit`.
///
/// A turn begins where the rendered text differs from the prompt for it: a template may end the prompt with text that it
/// does not write before a finished answer, such as `<think>`. It ends where the text of the messages up to it ends.
///
/// # Errors
/// [`DataError::ChatTemplate`] if the template fails on the first messages alone; [`DataError::Rewritten`] if it renders
/// them differently when more messages follow, so that a turn cannot be found.
fn learned_turns(
    template: &ChatTemplate,
    conversation: &Conversation,
    text: &str,
    limit: usize,
) -> Result<Vec<TurnSpan>, DataError> {
    let Conversation { messages, inputs } = conversation;
    let render = |messages: &[Message], ending| template.render(messages, inputs, ending);
    let mut turns = Vec::new();
    for (i, message) in messages.iter().enumerate().filter(|(_, message)| message.is_learned()) {
        let prompt = render(&messages[..i], Ending::Prompt)?;
        let start = if text.starts_with(&prompt) {
            prompt.len()
        } else {
            let before = render(&messages[..i], Ending::Closed)?;
            let opening = opening(text, &prompt, &messages[..i], render);
            if !text.starts_with(&before) || opening < before.len() {
                return Err(DataError::Rewritten(i));
            }
            opening
        };
        if start >= limit {
            break;
        }
        let end = if i + 1 == messages.len() {
            text.len()
        } else {
            let closed = render(&messages[..=i], Ending::Closed)?;
            if text.starts_with(&closed) && closed.len() >= start {
                closed.len()
            } else {
                let alone = &closed[common_prefix(&closed, &prompt)..];
                start + rewritten_turn(&text[start..], alone, message).ok_or(DataError::Rewritten(i + 1))?
            }
        };
        turns.push(TurnSpan { message: i, bytes: start..end });
    }
    Ok(turns)
}

/// Length of the opening of a turn in `text` where `prompt` ends differently: the common prefix with the prompt and with
/// a turn of other content, so that an answer that begins like the end of the prompt is not truncated.
fn opening(
    text: &str,
    prompt: &str,
    before: &[Message],
    render: impl Fn(&[Message], Ending) -> Result<String, DataError>,
) -> usize {
    let shared = common_prefix(text, prompt);
    let other = Message::new(MessageRole::Assistant, PLACEHOLDER);
    let other: Vec<Message> = before.iter().cloned().chain([other]).collect();
    render(&other, Ending::Closed).map_or(shared, |other| shared.min(common_prefix(text, &other)))
}

/// Length of the turn at the start of `text`, which the template renders as `alone` where it is the last.
///
/// When more messages follow, a template may leave out the start of a turn, such as the reasoning: then the turn is the
/// longest suffix of `alone` that is a prefix of `text`. Or it may leave out the end, but not the content.
fn rewritten_turn(text: &str, alone: &str, message: &Message) -> Option<usize> {
    let without_beginning = overlap(alone.as_bytes(), text.as_bytes());
    if without_beginning > 0 {
        return Some(without_beginning).filter(|&length| text.is_char_boundary(length));
    }
    let without_end = common_prefix(text, alone);
    let content = message.fields().get("content")?.as_str()?.trim();
    (!content.is_empty() && text[..without_end].contains(content)).then_some(without_end)
}

/// Length of the common prefix in bytes, rounded down to whole characters.
fn common_prefix(a: &str, b: &str) -> usize {
    let same = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    (0..=same).rev().find(|&at| a.is_char_boundary(at)).unwrap_or(0)
}

/// Length of the longest suffix of `a` that is a prefix of `b`, by the failure function of Knuth, Morris and Pratt.
fn overlap(a: &[u8], b: &[u8]) -> usize {
    let b = &b[..b.len().min(a.len())];
    let mut failure = vec![0; b.len()];
    let mut length = 0;
    for i in 1..b.len() {
        while length > 0 && b[i] != b[length] {
            length = failure[length - 1];
        }
        length += usize::from(b[i] == b[length]);
        failure[i] = length;
    }
    length = 0;
    for &byte in a {
        while length > 0 && (length == b.len() || byte != b[length]) {
            length = failure[length - 1];
        }
        length += usize::from(b.get(length) == Some(&byte));
    }
    length
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn turns(source: &str, messages: &[(MessageRole, &str)]) -> Result<Vec<String>, DataError> {
        let template = ChatTemplate::new(source, Default::default(), UNIX_EPOCH)?;
        let messages: Vec<Message> =
            messages.iter().map(|&(role, content)| Message::new(role, content)).collect();
        let conversation = Conversation::from(messages);
        let text = template.render(&conversation.messages, &conversation.inputs, Ending::Closed)?;
        let turns = learned_turns(&template, &conversation, &text, text.len())?;
        Ok(turns.into_iter().map(|turn| text[turn.bytes].to_owned()).collect())
    }

    #[track_caller]
    fn check(source: &str, messages: &[(MessageRole, &str)], expect: &[&str]) {
        assert_eq!(turns(source, messages).unwrap(), expect);
    }

    const FOUR: [(MessageRole, &str); 4] = [
        (MessageRole::User, "q"),
        (MessageRole::Assistant, "<think>so</think>the"),
        (MessageRole::User, "r"),
        (MessageRole::Assistant, "<think>thus</think><them"),
    ];

    #[test]
    fn a_prompt_may_end_with_text_that_a_finished_answer_lacks() {
        let source = "{% for m in messages %}{{ '<' + m.role + '>' + m.content.split('</think>')[-1] + '$' }}\
            {% endfor %}{% if add_generation_prompt %}{{ '<assistant><think>\n' }}{% endif %}";
        // `<th` is common to the prompt and to the last answer.
        check(source, &FOUR, &["the$", "<them$"]);
    }

    #[test]
    fn reasoning_may_be_left_out_when_messages_follow() {
        let source = "{% for m in messages %}{{ '<' + m.role + '>' }}\
            {{ m.content if loop.last else m.content.split('</think>')[-1] }}$\
            {% endfor %}{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}";
        check(source, &FOUR, &["the$", "<think>thus</think><them$"]);
    }

    #[test]
    fn the_end_may_be_left_out_when_messages_follow() {
        let source = "{% for m in messages %}{{ '<' + m.role + '>' + m.content }}{% if loop.last and m.role == 'assistant' %}$$$\
            {% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}";
        check(source, &FOUR, &["<think>so</think>the", "<think>thus</think><them$$$"]);
    }

    #[test]
    fn a_turn_that_cannot_be_found_is_an_error() {
        let source = "{% for m in messages %}{{ m.content if loop.last else 'gone' }}{% endfor %}";
        assert!(matches!(turns(source, &FOUR), Err(DataError::Rewritten(1))));
    }

    #[test]
    fn overlaps_are_the_longest() {
        let check =
            |a: &str, b: &str, expect| assert_eq!(overlap(a.as_bytes(), b.as_bytes()), expect, "{a} {b}");
        check("xaab", "aabaab", 3);
        check("abab", "ababab", 4);
        check("aaaa", "aa", 2);
        check("ab", "c", 0);
        check("", "c", 0);
        check("abc", "", 0);
    }
}
