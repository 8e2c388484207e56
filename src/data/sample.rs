use super::Conversation;

/// One record of the training data, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Line where the sample begins, counted from one.
    pub line: usize,
    /// Its text.
    pub content: SampleContent,
}

/// Text of a sample, in one of the accepted forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SampleContent {
    /// `{"messages": [{"role", "content"} ...]}`, or `prompt` and `completion` as lists of messages. The assistant's
    /// messages are labels, except those of a prompt.
    Messages(Conversation),
    /// `{"prompt", "completion"}` of text. The completion is the label.
    Completion {
        /// Text before the completion.
        prompt: String,
        /// Text to learn.
        completion: String,
    },
    /// `{"text"}`. Every token is a label, and no end-of-sequence token is appended.
    Text(String),
}
