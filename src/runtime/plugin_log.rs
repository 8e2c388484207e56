//! Logs of plugins, which write to standard error in XLA's log format; the C API has no call for them.

use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Prefixes of warnings that are not about the module.
const EXPECTED: &[&str] = &[
    "GSPMD sharding propagation is going to be deprecated",
    "Module contains sdy shardings or meshes in frontend_attributes",
    "RAW: ",
];
/// Line before the first log message.
const PREAMBLE: &str = "WARNING: All log messages before absl::InitializeLog()";

/// Messages of the warnings and errors in a log, each once, without time and source location.
pub(crate) fn warnings<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for text in lines.into_iter().filter_map(warning) {
        let is_expected = EXPECTED.iter().any(|expected| text.starts_with(expected));
        if !is_expected && !found.iter().any(|known| known == text) {
            found.push(text.to_owned());
        }
    }
    found
}

/// The message of a line that is a warning or an error of a plugin.
fn warning(line: &str) -> Option<&str> {
    let (head, text) = line.split_once("] ")?;
    let is_warning = head.split_whitespace().take(3).any(|word| {
        let mut letters = word.chars();
        matches!(letters.next(), Some('W' | 'E')) && letters.all(|c| c.is_ascii_digit())
    });
    is_warning.then_some(text)
}

/// Runs `work`, and returns its result and the warnings and errors that plugins logged meanwhile. Other output to standard
/// error passes through; all of it does if standard error cannot be redirected.
pub(super) fn capture_warnings<T>(work: impl FnOnce() -> T) -> (T, Vec<String>) {
    // Standard error belongs to the process: only one redirection at a time.
    static LISTENING: Mutex<()> = Mutex::new(());
    let _only = LISTENING.lock().unwrap_or_else(PoisonError::into_inner);
    match Listener::start() {
        Ok(listener) => {
            let done = work();
            (done, listener.stop())
        }
        Err(_) => (work(), Vec::new()),
    }
}

/// Standard error, redirected into a pipe.
struct Listener {
    to_pipe: PipeWriter,
    stderr: rustix::fd::OwnedFd,
    reader: Option<thread::JoinHandle<Vec<String>>>,
}

/// Marks the end of the log. The pipe's end cannot: a process started meanwhile may keep it open.
const END: &str = "\u{4}end of log";

impl Listener {
    fn start() -> io::Result<Self> {
        let (from_pipe, to_pipe) = io::pipe()?;
        let stderr = rustix::io::dup(io::stderr())?;
        let through = std::fs::File::from(stderr.try_clone()?);
        rustix::stdio::dup2_stderr(&to_pipe)?;
        let reader = thread::spawn(move || listen(from_pipe, through));
        Ok(Self { to_pipe, stderr, reader: Some(reader) })
    }

    fn stop(mut self) -> Vec<String> {
        self.end()
    }

    fn end(&mut self) -> Vec<String> {
        // Standard error is restored before the reader ends, so that nothing is written into a pipe without a reader.
        let _ = rustix::stdio::dup2_stderr(&self.stderr);
        let _ = writeln!(self.to_pipe, "\n{END}");
        let lines = self.reader.take().and_then(|reader| reader.join().ok()).unwrap_or_default();
        warnings(lines.iter().map(String::as_str))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if self.reader.is_some() {
            self.end();
        }
    }
}

/// Collects warnings and errors, and passes other lines through.
fn listen(from_pipe: PipeReader, mut through: impl Write) -> Vec<String> {
    let mut kept = Vec::new();
    let mut from_pipe = BufReader::new(from_pipe);
    let mut line = Vec::new();
    while from_pipe.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches('\n');
        if text == END {
            break;
        }
        if warning(text).is_some() {
            kept.push(text.to_owned());
        } else if !text.is_empty() && !text.starts_with(PREAMBLE) {
            let _ = through.write_all(&line);
        }
        line.clear();
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_deduplicated_without_timestamp_and_location() {
        let log = "W1130 17:00:29.065537   15740 spmd_partitioner.cc:1] Involuntary full rematerialization. x\n\
                   I1130 17:00:29.065537   15740 a.cc:1] nothing\nE0000 00:00:1.5 1 b.cc:2] bad [a] b\nplain\n\
                   2026-11-30 17:00:30.1: W external/xla/c.cc:3] again\n\
                   W1130 17:00:30.065537   15740 spmd_partitioner.cc:1] Involuntary full rematerialization. x\n\
                   W1130 17:00:30.0 1 d.cc:4] GSPMD sharding propagation is going to be deprecated and so on\n";
        assert_eq!(warnings(log.lines()), ["Involuntary full rematerialization. x", "bad [a] b", "again"]);
    }

    #[test]
    fn what_is_no_warning_goes_through() {
        let (from_pipe, mut to_pipe) = io::pipe().unwrap();
        let log = format!("{PREAMBLE} are\nW0000 00:00:1.5 1 b.cc:2] careful\nprogress\n\n{END}\n");
        to_pipe.write_all(log.as_bytes()).unwrap();
        let mut through = Vec::new();
        assert_eq!(listen(from_pipe, &mut through), ["W0000 00:00:1.5 1 b.cc:2] careful"]);
        assert_eq!(through, b"progress\n");
    }

    #[test]
    fn the_log_of_the_process_is_listened_to_while_work_is_done() {
        let text = "W1 1 1 a.cc:1] first\n";
        let (written, found) = capture_warnings(|| rustix::io::write(io::stderr(), text.as_bytes()));
        assert_eq!((written.unwrap(), &found[..]), (text.len(), &["first".to_owned()][..]));
        let (seven, found) = capture_warnings(|| 7);
        assert_eq!((seven, found), (7, vec![]));
    }
}
