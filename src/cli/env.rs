//! The environment of a command.

use std::{
    ffi::OsString,
    io::{self, IsTerminal, Write},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anstream::{AutoStream, ColorChoice, stream::RawStream};

use super::Home;
use crate::pjrt;

/// The environment of a command.
pub struct Env<'a> {
    /// The folder of the store.
    pub store: PathBuf,
    /// This program, which is started again as a worker process.
    pub program: PathBuf,
    /// The folder in which default output folders are created.
    pub folder: PathBuf,
    /// Standard output.
    pub out: &'a mut dyn Write,
    /// Standard error.
    pub err: &'a mut dyn Write,
    /// The kind of reader of `out`.
    pub out_kind: Stream,
    /// The kind of reader of `err`.
    pub err_kind: Stream,
    /// The style of text for people on `out`.
    pub out_style: Style,
    /// The style of text for people on `err`.
    pub err_style: Style,
    /// The user's home folder.
    pub home: Home,
    /// Who handles signals.
    pub signals: Signals,
}

/// The reader of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// A person at a terminal.
    Terminal,
    /// A file or another program.
    Pipe,
}

/// Whether text has colors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Escape sequences of terminals.
    Ansi,
    /// Text without escape sequences.
    Plain,
}

impl Style {
    /// The style that the usual variables select: NO_COLOR, CLICOLOR, CLICOLOR_FORCE and TERM.
    fn of(stream: &impl RawStream) -> Self {
        match AutoStream::choice(stream) {
            ColorChoice::Never => Self::Plain,
            ColorChoice::Auto | ColorChoice::Always | ColorChoice::AlwaysAnsi => Self::Ansi,
        }
    }
}

/// Who handles SIGINT (Ctrl-C), SIGTERM and SIGHUP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signals {
    /// The command: training saves a checkpoint and stops.
    Handled,
    /// The caller: no handler is installed.
    LeftToCaller,
}

impl<'a> Env<'a> {
    /// The environment of this process. Call it first in `main`: it sets a variable for the plugins' logs, which only a process without other
    /// threads may do.
    pub fn of_process(out: &'a mut dyn Write, err: &'a mut dyn Write) -> Self {
        if std::env::var_os(pjrt::LOG_LEVEL).is_none() {
            pjrt::quiet_logs();
        }
        let home = Home(std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from));
        let kind = |is_terminal| if is_terminal { Stream::Terminal } else { Stream::Pipe };
        Self {
            store: store_folder(|name| std::env::var_os(name), &home),
            program: std::env::current_exe().unwrap_or_else(|_| "hloom".into()),
            folder: PathBuf::new(),
            out,
            err,
            out_kind: kind(io::stdout().is_terminal()),
            // A dumb terminal cannot redraw a line, so that progress is lines there.
            err_kind: kind(
                io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb"),
            ),
            out_style: Style::of(&io::stdout()),
            err_style: Style::of(&io::stderr()),
            home,
            signals: Signals::Handled,
        }
    }
}

/// `$HLOOM_STORE`, else `hloom` in the user's folder for caches.
fn store_folder(variable: impl Fn(&str) -> Option<OsString>, home: &Home) -> PathBuf {
    // In a quoted variable, the shell does not expand `~`.
    let expanded =
        |value: OsString| value.to_str().and_then(|path| home.expand(path).ok()).map(PathBuf::from);
    let folder = |name| {
        let value = variable(name).filter(|value| !value.is_empty())?;
        Some(expanded(value.clone()).unwrap_or_else(|| value.into()))
    };
    let in_home = |caches: &str| home.0.as_ref().map(|home| home.join(caches));
    let caches = || {
        if cfg!(target_os = "macos") {
            return in_home("Library/Caches");
        }
        folder("XDG_CACHE_HOME").filter(|folder| folder.is_absolute()).or_else(|| in_home(".cache"))
    };
    folder("HLOOM_STORE").or_else(|| Some(caches()?.join("hloom"))).unwrap_or_else(|| ".hloom".into())
}

/// A request of the user to stop.
#[derive(Clone, Debug, Default)]
pub(super) struct Interrupt {
    requested: Arc<AtomicBool>,
}

impl Interrupt {
    /// From now on the first Ctrl-C is a request, and the second one quits.
    pub(super) fn watch(signals: Signals) -> Self {
        let interrupt = Self::default();
        if signals == Signals::LeftToCaller {
            return interrupt;
        }
        let requested = interrupt.requested.clone();
        let handler = move || {
            if requested.swap(true, Ordering::Relaxed) {
                quit();
            }
            // A failure to write this cannot be reported.
            let _ = writeln!(io::stderr(), "\nstopping after this step; press Ctrl-C again to quit at once");
        };
        if let Err(error) = ctrlc::set_handler(handler) {
            tracing::warn!(%error, "Ctrl-C quits at once");
        }
        interrupt
    }

    /// Whether the user has requested it.
    pub(super) fn requested(&self) -> bool {
        self.requested.load(Ordering::Relaxed)
    }
}

/// Ends the process as shells expect it after Ctrl-C.
#[allow(clippy::exit)]
fn quit() {
    std::process::exit(130);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_folder_is_that_of_the_variables() {
        let check = |variables: &[(&str, &str)], expect: &str| {
            let variable = |name: &str| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
            };
            let home = Home(variable("HOME").map(PathBuf::from));
            assert_eq!(store_folder(variable, &home), PathBuf::from(expect));
        };
        check(&[("HLOOM_STORE", "here"), ("HOME", "/me")], "here");
        check(&[], ".hloom");
        check(&[("HLOOM_STORE", "~/here"), ("HOME", "/me")], "/me/here");
        if cfg!(target_os = "macos") {
            check(&[("HOME", "/Users/me")], "/Users/me/Library/Caches/hloom");
        } else {
            check(&[("HLOOM_STORE", ""), ("HOME", "/me")], "/me/.cache/hloom");
            check(&[("XDG_CACHE_HOME", "/caches"), ("HOME", "/me")], "/caches/hloom");
            check(&[("XDG_CACHE_HOME", "relative"), ("HOME", "/me")], "/me/.cache/hloom");
        }
    }
}
