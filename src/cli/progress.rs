//! Progress of a command on standard error: bars on a terminal, lines in a log.

use std::{io::Write, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};

use super::{
    Output,
    env::{Interrupt, Signals, Stream},
    render,
};
use crate::{
    app::Status,
    data::DatasetReport,
    step::Packing,
    train::{Event, Observer, RunConfig, RunSettings, StepRecord, When},
};

/// Steps between two lines of a log.
const STEPS_PER_LINE: usize = 10;

/// Shows progress.
pub(super) struct Reporter<'a> {
    err: &'a mut dyn Write,
    screen: Screen,
    bar: ProgressBar,
    /// Text of the bar, or the last line.
    now: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Screen {
    Bars,
    Lines,
    Silent,
}

impl<'a> Reporter<'a> {
    pub(super) fn new(err: &'a mut dyn Write, kind: Stream, output: Output) -> Self {
        let screen = match kind {
            _ if output.quiet => Screen::Silent,
            Stream::Terminal => Screen::Bars,
            Stream::Pipe => Screen::Lines,
        };
        Self { err, screen, bar: ProgressBar::hidden(), now: String::new() }
    }

    /// Shows that `bytes` more of `total` bytes of weights were copied to the devices.
    pub(super) fn loaded(&mut self, bytes: usize, total: u64) {
        self.begin("loading weights", Some(total), "");
        self.bar.inc(bytes as u64);
    }

    /// Shows `what`, unless it is shown already: a bar of `total` bytes, or a spinner until they are known.
    fn begin(&mut self, what: &str, total: Option<u64>, more: &str) {
        let shown = self.now == what;
        let complete = total.is_none() || self.bar.length().is_some();
        match self.screen {
            Screen::Silent => {}
            Screen::Lines if shown => {}
            Screen::Lines => self.line(&format!("{what}{more}")),
            Screen::Bars if shown && complete => {}
            Screen::Bars => {
                self.done();
                self.bar = match total {
                    Some(total) => {
                        bar(total, "{msg} {wide_bar} {decimal_bytes} of {decimal_total_bytes}, {eta} left")
                    }
                    None => spinner(),
                };
                self.bar.set_message(what.to_owned());
            }
        }
        what.clone_into(&mut self.now);
    }

    /// Shows a training step.
    fn step(&mut self, record: &StepRecord, steps: usize, text: String) {
        match self.screen {
            Screen::Silent => {}
            Screen::Lines => {
                let round = record.step.is_multiple_of(STEPS_PER_LINE);
                if round || record.step == steps || self.now != "training" {
                    self.line(&text);
                }
            }
            Screen::Bars => {
                if self.now != "training" {
                    self.done();
                    self.bar = bar(steps as u64, "{wide_bar} {msg}");
                }
                self.bar.set_message(text);
                self.bar.set_position(record.step as u64);
            }
        }
        self.now = "training".to_owned();
    }
}

impl Status for Reporter<'_> {
    fn line(&mut self, text: &str) {
        if self.screen != Screen::Silent {
            // Progress that cannot be shown is no reason to stop.
            let _ = self.bar.suspend(|| writeln!(self.err, "{}", render::flags(text)));
        }
    }

    fn warning(&mut self, text: &str) {
        let _ = self.bar.suspend(|| writeln!(self.err, "warning: {}", render::flags(text)));
    }

    fn phase(&mut self, name: &str) {
        self.begin(name, None, "");
    }

    fn fetched(&mut self, name: &str, bytes: u64, total: Option<u64>) {
        let size = total.map(|total| format!(" ({})", render::bytes(total))).unwrap_or_default();
        self.begin(name, total, &size);
        self.bar.set_position(bytes);
    }

    fn done(&mut self) {
        self.bar.finish_and_clear();
        self.bar = ProgressBar::hidden();
        self.now.clear();
    }
}

fn bar(total: u64, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(total).with_style(style.progress_chars("=> "))
}

fn spinner() -> ProgressBar {
    let template = "{spinner} {msg}, {elapsed}";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner());
    let spinner = ProgressBar::new_spinner().with_style(style);
    spinner.enable_steady_tick(Duration::from_millis(120));
    spinner
}

/// The answers to the question of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(super) struct Answers {
    pub question: String,
    pub before: Option<String>,
    pub after: Option<String>,
}

/// Shows the events of a training run.
pub(super) struct ConsoleObserver<'r, 'e> {
    reporter: &'r mut Reporter<'e>,
    steps: usize,
    seq: usize,
    packing: Packing,
    weight_bytes: u64,
    signals: Signals,
    /// Handler of Ctrl-C from the first step on; before it there is nothing to save, and Ctrl-C quits at once.
    interrupt: Option<Interrupt>,
    /// Steps of this run so far.
    made: usize,
    answers: Option<Answers>,
}

impl<'r, 'e> ConsoleObserver<'r, 'e> {
    pub(super) fn new(
        reporter: &'r mut Reporter<'e>,
        config: &RunConfig,
        weight_bytes: u64,
        signals: Signals,
    ) -> Self {
        let (steps, &RunSettings { seq, packing, .. }) = (config.steps(), &config.settings);
        Self { reporter, steps, seq, packing, weight_bytes, signals, interrupt: None, made: 0, answers: None }
    }

    /// The answers.
    pub(super) fn into_answers(self) -> Option<Answers> {
        self.answers
    }

    /// Shows the counts of a dataset, whose samples are `kind` ones.
    fn data(&mut self, kind: &str, report: &DatasetReport) {
        let DatasetReport { samples, truncated, dropped, rows, num_label_tokens, .. } = *report;
        let samples_of = |n| render::count(n, &format!("{kind}sample"), &format!("{kind}samples"));
        let (all, seq) = (samples_of(samples), self.seq);
        let tokens = render::count(num_label_tokens, "labelled token", "labelled tokens");
        self.reporter.line(&format!("{all}, {tokens}"));
        if truncated > 0 {
            let (are, were) = if truncated == 1 { ("is", "was") } else { ("are", "were") };
            self.reporter
                .line(&format!("{truncated} of {all} {are} longer than {seq} tokens and {were} truncated"));
        }
        if dropped > 0 {
            let (have, were) = if dropped == 1 { ("has", "was") } else { ("have", "were") };
            let text = format!("{dropped} of {all} {have} no label within {seq} tokens and {were} left out");
            self.reporter.line(&text);
        }
        for warning in &report.warnings {
            self.reporter.warning(&warning.to_string());
        }
        if self.packing == Packing::On {
            let (packed, rows) = (samples_of(samples - dropped), render::count(rows, "row", "rows"));
            let padding = 100.0 * report.padding(seq);
            self.reporter.line(&format!("{packed} packed into {rows}: {padding:.1} % padding"));
        }
    }

    fn step(&mut self, record: &StepRecord) {
        let signals = self.signals;
        self.interrupt.get_or_insert_with(|| Interrupt::watch(signals));
        self.made += 1;
        let StepRecord { step, loss, learning_rate, num_label_tokens, tokens_per_second, seconds, .. } =
            *record;
        let each = seconds / self.made as f64;
        let left = Duration::try_from_secs_f64(each * self.steps.saturating_sub(step) as f64);
        let left = left.map(render::duration).unwrap_or_default();
        let text = format!(
            "step {step}/{}  loss {loss:.4}  lr {learning_rate:.2e}  {tokens_per_second:.0} tok/s  {left} left",
            self.steps
        );
        self.reporter.step(record, self.steps, text);
        if num_label_tokens == 0 {
            self.reporter.line(&format!("step {step}: no labelled tokens; the adapters are unchanged"));
        }
    }
}

impl Observer for ConsoleObserver<'_, '_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Data { train, held_out } => {
                self.data("", train);
                if let Some(held_out) = held_out {
                    self.data("held-out ", held_out);
                }
            }
            Event::Phase(what) => self.reporter.phase(what),
            Event::Loaded { bytes } => self.reporter.loaded(bytes, self.weight_bytes),
            Event::Placed { device_bytes: [_] | [] } => {}
            Event::Placed { device_bytes } => self.reporter.line(&device_memory(device_bytes)),
            Event::Warning(warning) => self.reporter.warning(warning),
            Event::Resumed { steps } => self.reporter.line(&format!("resuming after step {steps}")),
            Event::HeldOut { when: When::Before, loss } => {
                self.reporter.line(&format!("held-out loss before training: {loss:.4}"));
            }
            Event::HeldOut { when: When::After, .. } => {}
            Event::Answer { when, question, text } => {
                let answers = self.answers.get_or_insert_default();
                question.clone_into(&mut answers.question);
                let answer = match when {
                    When::Before => &mut answers.before,
                    When::After => &mut answers.after,
                };
                *answer = Some(text.to_owned());
            }
            Event::Step(record) => self.step(record),
            Event::Saved { folder } => self.reporter.line(&format!("saved: {}", folder.display())),
        }
    }

    fn wants_stop(&self) -> bool {
        self.interrupt.as_ref().is_some_and(Interrupt::requested)
    }
}

/// Bytes that several devices store, as text.
fn device_memory(device_bytes: &[u64]) -> String {
    let most = device_bytes.iter().copied().max().unwrap_or_default();
    let least = device_bytes.iter().copied().min().unwrap_or_default();
    let each =
        if least == most { format!("{most} bytes") } else { format!("between {least} and {most} bytes") };
    format!("each of {} devices stores {each} ({})", device_bytes.len(), render::bytes(most))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::{
        resolve::{self, BatchShards},
        settings::Settings,
    };

    fn check(output: Output, events: Vec<Event<'_>>, expect: &str) -> Option<Answers> {
        check_with(Settings::default(), output, events, expect)
    }

    fn check_with(
        settings: Settings,
        output: Output,
        events: Vec<Event<'_>>,
        expect: &str,
    ) -> Option<Answers> {
        let settings = Settings { steps: Some(12), ..settings };
        let folder = tempfile::tempdir().unwrap();
        let requested = resolve::run_settings(&settings, BatchShards::ONE, folder.path()).unwrap();
        let config = RunConfig {
            schedule: resolve::schedule(&settings, 100).unwrap(),
            settings: requested,
            dtype: crate::base::DType::F32,
            base_storage: crate::model::BaseStorage::Plain(crate::base::DType::F32),
            base_model: None,
        };
        let mut err = Vec::new();
        let mut reporter = Reporter::new(&mut err, Stream::Pipe, output);
        let mut observer = ConsoleObserver::new(&mut reporter, &config, 1000, Signals::LeftToCaller);
        for event in events {
            observer.event(event);
        }
        let answers = observer.into_answers();
        assert_eq!(String::from_utf8(err).unwrap(), expect);
        answers
    }

    const LOUD: Output = Output { json: false, quiet: false };

    fn record(step: usize, num_label_tokens: usize) -> StepRecord {
        StepRecord {
            step,
            loss: 1.5,
            learning_rate: 1e-3,
            grad_norm: 1.0,
            num_label_tokens,
            tokens_per_second: 512.4,
            seconds: 10.0 * step as f64,
        }
    }

    #[test]
    fn a_log_has_a_line_for_each_phase_and_every_tenth_step() {
        let records: Vec<StepRecord> = (1..=12).map(|step| record(step, 7)).collect();
        let events = || {
            let phases = [
                Event::Phase("loading weights"),
                Event::Loaded { bytes: 500 },
                Event::Loaded { bytes: 500 },
                Event::Phase("compiling"),
            ];
            phases.into_iter().chain(records.iter().map(Event::Step)).collect()
        };
        let expect = "loading weights\ncompiling\n\
                      step 1/12  loss 1.5000  lr 1.00e-3  512 tok/s  1m 50s left\n\
                      step 10/12  loss 1.5000  lr 1.00e-3  512 tok/s  20s left\n\
                      step 12/12  loss 1.5000  lr 1.00e-3  512 tok/s  0s left\n";
        check(LOUD, events(), expect);
        check(Output { quiet: true, ..LOUD }, events(), "");
    }

    #[test]
    fn truncated_and_dropped_samples_are_reported() {
        let train = DatasetReport {
            samples: 160,
            truncated: 3,
            dropped: 1,
            num_label_tokens: 900,
            ..Default::default()
        };
        let held_out = DatasetReport { samples: 16, num_label_tokens: 90, ..Default::default() };
        let events = vec![Event::Data { train: &train, held_out: Some(&held_out) }];
        let expect = "160 samples, 900 labelled tokens\n\
                      3 of 160 samples are longer than 128 tokens and were truncated\n\
                      1 of 160 samples has no label within 128 tokens and was left out\n\
                      16 held-out samples, 90 labelled tokens\n";
        check(LOUD, events, expect);
    }

    #[test]
    fn packing_is_reported_with_its_padding() {
        let train = DatasetReport {
            samples: 11,
            dropped: 1,
            tokens: 250,
            num_label_tokens: 90,
            rows: 2,
            ..Default::default()
        };
        let held_out =
            DatasetReport { samples: 1, tokens: 64, num_label_tokens: 9, rows: 1, ..Default::default() };
        let events = || vec![Event::Data { train: &train, held_out: Some(&held_out) }];
        let expect = "11 samples, 90 labelled tokens\n\
                      1 of 11 samples has no label within 128 tokens and was left out\n\
                      10 samples packed into 2 rows: 2.3 % padding\n\
                      1 held-out sample, 9 labelled tokens\n\
                      1 held-out sample packed into 1 row: 50.0 % padding\n";
        check_with(Settings { pack: Some(true), ..Settings::default() }, LOUD, events(), expect);
    }

    #[test]
    fn a_step_without_labels_is_reported() {
        let record = record(10, 0);
        let expect = "step 10/12  loss 1.5000  lr 1.00e-3  512 tok/s  3m 20s left\n\
                      step 10: no labelled tokens; the adapters are unchanged\n";
        check(LOUD, vec![Event::Step(&record)], expect);
    }

    #[test]
    fn answers_are_kept() {
        let answer = |when, text| Event::Answer { when, question: "why?", text };
        let events = vec![answer(When::Before, "so"), answer(When::After, "because")];
        let expect =
            Answers { question: "why?".into(), before: Some("so".into()), after: Some("because".into()) };
        assert_eq!(check(LOUD, events, ""), Some(expect));
    }
}
