//! The `hloom` program: parses the command line, runs it, exits.

use std::{
    io::{BufWriter, stderr, stdout},
    process::ExitCode,
};

use hloom::{
    cli::{self, Env},
    data::panics_are_contained,
};

fn main() -> ExitCode {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !panics_are_contained() {
            report(panic);
        }
    }));
    let (mut out, mut err) = (BufWriter::new(stdout()), stderr());
    cli::run(std::env::args_os(), &mut Env::of_process(&mut out, &mut err)).into()
}
