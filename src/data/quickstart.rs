/// Number of samples at the end of [`quickstart`] that are held out, see [`super::HeldOut::Last`].
pub(crate) const QUICKSTART_HELD_OUT: usize = 16;

/// A question that is not in [`quickstart`]; its answer shows what training changed.
pub(crate) const HELD_OUT_QUESTION: &str = "What is the largest ocean on Earth?";

/// The dataset of the quick start as JSONL: short conversations in which an old weaver answers, each answer with the same
/// first words and the same last sentence.
pub(crate) fn quickstart() -> &'static str {
    include_str!("quickstart.jsonl")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::data::{HeldOut, Message, SampleContent, SampleFile};

    fn conversations() -> Vec<(String, String)> {
        let file = SampleFile::parse("quickstart.jsonl", quickstart().as_bytes()).unwrap();
        let pair = |content: &SampleContent| match content {
            SampleContent::Messages(conversation) => match conversation.messages.as_slice() {
                [question, answer] if [question.role(), answer.role()] == ["user", "assistant"] => {
                    let content = |message: &Message| message.fields()["content"].as_str().map(str::to_owned);
                    content(question).zip(content(answer))
                }
                _ => None,
            },
            SampleContent::Completion { .. } | SampleContent::Text(_) => None,
        };
        file.samples
            .iter()
            .map(|sample| pair(&sample.content).expect("one question and one answer"))
            .collect()
    }

    #[test]
    fn every_answer_keeps_the_manner_and_none_comes_twice() {
        let conversations = conversations();
        assert_eq!(conversations.len(), 160);
        for (question, answer) in &conversations {
            let told = answer.strip_prefix("From the loom: ");
            let told = told.and_then(|rest| rest.strip_suffix(" So the thread runs true."));
            assert!(told.is_some_and(|told| told.ends_with('.')), "{question}");
        }
        let questions: HashSet<_> = conversations.iter().map(|(question, _)| question.as_str()).collect();
        assert_eq!(questions.len(), conversations.len());
        assert!(!questions.contains(HELD_OUT_QUESTION));
    }

    #[test]
    fn the_last_samples_are_held_out() {
        let file = SampleFile::parse("quickstart.jsonl", quickstart().as_bytes()).unwrap();
        let (train, held_out) = file.split(HeldOut::Last(QUICKSTART_HELD_OUT)).unwrap();
        assert_eq!((train.samples.len(), held_out.samples.len()), (144, 16));
    }
}
