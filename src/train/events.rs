use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::data::DatasetReport;

/// Events of a run, in order.
#[derive(Debug)]
pub enum Event<'a> {
    /// The samples were encoded.
    Data {
        /// Training samples.
        train: &'a DatasetReport,
        /// Held-out samples.
        held_out: Option<&'a DatasetReport>,
    },
    /// A phase of unknown length begins.
    Phase(&'a str),
    /// Weights were copied to devices.
    Loaded {
        /// Bytes of the last tensor.
        bytes: usize,
    },
    /// Weights, adapters and optimizer state are on the devices.
    Placed {
        /// Bytes on each device, as the plugin reports them.
        device_bytes: &'a [u64],
    },
    /// A warning of the compiler.
    Warning(&'a str),
    /// The run resumes from a checkpoint.
    Resumed {
        /// Updates made before.
        steps: usize,
    },
    /// The loss of the held-out samples.
    HeldOut {
        /// Before or after training.
        when: When,
        /// Mean over labelled tokens.
        loss: f64,
    },
    /// The answer to the question.
    Answer {
        /// Before or after training.
        when: When,
        /// The question.
        question: &'a str,
        /// The generated text.
        text: &'a str,
    },
    /// An update was made.
    Step(&'a StepRecord),
    /// The adapter was written.
    Saved {
        /// The folder.
        folder: &'a Path,
    },
}

/// Before or after training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Before the first update of this run.
    Before,
    /// After the last.
    After,
}

/// One line of `metrics.jsonl`.
///
/// ```
/// use hloom::train::StepRecord;
///
/// let record = StepRecord {
///     step: 1,
///     loss: 2.5,
///     learning_rate: 1e-4,
///     grad_norm: 0.75,
///     num_label_tokens: 1900,
///     tokens_per_second: 4096.0,
///     seconds: 0.5,
/// };
/// assert_eq!(
///     serde_json::to_string(&record)?,
///     r#"{"step":1,"loss":2.5,"learning_rate":0.0001,"grad_norm":0.75,"num_label_tokens":1900,"tokens_per_second":4096.0,"seconds":0.5}"#,
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StepRecord {
    /// Counted from one.
    pub step: usize,
    /// Mean loss before the update.
    pub loss: f32,
    /// The learning rate of the update.
    pub learning_rate: f64,
    /// The norm of the gradients before clipping.
    pub grad_norm: f32,
    /// Labelled tokens of the step.
    pub num_label_tokens: usize,
    /// Tokens per second, padding included.
    pub tokens_per_second: f64,
    /// Seconds since the first update began.
    pub seconds: f64,
}

/// Receives the events of a run, and can stop it.
pub trait Observer {
    /// Receives an event.
    fn event(&mut self, event: Event<'_>);

    /// Whether to stop after the current update.
    fn wants_stop(&self) -> bool;
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Updates made, including those before the run was resumed.
    pub steps: usize,
    /// Planned updates; more than `steps` if the run was stopped.
    pub steps_planned: usize,
    /// Updates made before this run was resumed.
    pub steps_before: usize,
    /// Samples of all updates made, repeated ones included.
    pub samples_seen: u64,
    /// Labelled tokens of all updates made.
    pub label_tokens_seen: u64,
    /// Loss of the first update of this run.
    pub loss_first: Option<f32>,
    /// Loss of the last.
    pub loss_last: Option<f32>,
    /// Held-out loss before the first update of this run.
    pub held_out_before: Option<f64>,
    /// Held-out loss after it.
    pub held_out_after: Option<f64>,
    /// Tokens per second, padding included; the median over the updates.
    pub tokens_per_second: Option<f64>,
    /// The folder of the adapter.
    pub adapter: PathBuf,
}
