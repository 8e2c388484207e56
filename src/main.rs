//! The `hloom` program: parses the command line, runs it, exits.

use std::{
    io::{BufWriter, stderr, stdout},
    process::ExitCode,
};

use hloom::cli::{self, Env};

fn main() -> ExitCode {
    let (mut out, mut err) = (BufWriter::new(stdout()), stderr());
    cli::run(std::env::args_os(), &mut Env::of_process(&mut out, &mut err)).into()
}
