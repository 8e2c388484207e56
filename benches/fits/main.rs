//! What a device needs for a step, as the compilers for devices that need not be here say. `cargo bench --bench fits`
//! compiles every row and ends with 1 where one needs more than its limit; `-- 405b` takes the rows with that word in them;
//! `-- --plot` compiles only what the plot of temporaries shows, and draws it again.

#![allow(clippy::print_stdout)]

mod plot;

use std::{
    collections::BTreeSet,
    error::Error,
    fmt, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use hloom::targets::Target;
use plot::Curve;
use serde::Deserialize;
use serde_json::Value;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A step to compile, in bfloat16 with adapters of rank 8 on all linears.
#[derive(Clone, Copy)]
struct Row {
    model: &'static str,
    /// The mesh config's name; `None` on one device.
    mesh: Option<&'static str>,
    target: &'static str,
    batch: usize,
    seq: usize,
    flags: &'static str,
    /// The bytes that each device may need, where that is less than it has.
    limit: Option<u64>,
}

/// A model on its devices; what else a row says is changed from this.
const fn row(model: &'static str, mesh: Option<&'static str>, target: &'static str) -> Row {
    Row { model, mesh, target, batch: 1, seq: 64, flags: "", limit: None }
}

const TINY: Row = row("tiny", None, "cpu:1");
const ON_8_MI300X: Row = Row { batch: 8, ..row("llama3.1-405b", Some("mi300x-8-fsdp"), "mi300x:8") };
const ON_V5E: Row = Row { batch: 8, ..row("llama3.1-8b", Some("v5e-8"), "v5e:2x4") };
const ON_RTX4090: Row = row("llama3.1-8b", None, "rtx4090:1");
const ON_H100: Row = row("llama3.1-8b", None, "h100:1");

/// 70B on two cards of 24 GB, with the flags that leave the most room.
const ON_2_RTX4090: Row = Row { batch: 2, seq: 2048, ..row("llama3.1-70b", Some("rtx4090-2"), "rtx4090:2") };

const fn gb(tenths: u64) -> Option<u64> {
    Some(tenths * 100_000_000)
}

const ROWS: [Row; 14] = [
    Row { seq: 8192, flags: "--remat-every 9", limit: gb(1500), ..ON_8_MI300X },
    Row { seq: 8192, flags: "--remat offload", limit: gb(1500), ..ON_8_MI300X },
    Row { seq: 2048, flags: "--remat-every 9", limit: gb(1200), ..ON_8_MI300X },
    Row { seq: 2048, flags: "", limit: gb(1200), ..ON_8_MI300X },
    Row { seq: 2048, flags: "--remat offload --offload-weights", limit: gb(135), ..ON_8_MI300X },
    Row { seq: 2048, flags: "--remat offload", limit: gb(35), ..ON_V5E },
    Row { seq: 8192, ..ON_RTX4090 },
    Row { seq: 4096, flags: "--base nf4", limit: gb(90), ..ON_RTX4090 },
    // 23 GiB are 24.6 GB.
    Row { flags: "--base nf4-double --remat-every 9 --loss-chunk 512", limit: gb(246), ..ON_2_RTX4090 },
    Row {
        flags: "--base nf4-double --remat-every 9 --loss-chunk 512 --offload-weights",
        limit: gb(80),
        ..ON_2_RTX4090
    },
    Row { seq: 2048, flags: "--base nf4 --remat-every 9", limit: gb(450), ..ON_8_MI300X },
    Row { model: "llama3.1-70b", seq: 2048, flags: "--remat offload --offload-weights", ..ON_RTX4090 },
    Row { seq: 131_072, flags: "--remat offload", ..ON_H100 },
    Row { seq: 262_144, flags: "--remat offload", ..ON_H100 },
];

/// How temporaries grow with the sequence, as far as the compilers go.
const SEQUENCES: [usize; 4] = [2048, 4096, 8192, 16_384];
const CURVES: [(&str, Row); 3] = [
    ("8B on one H100, dense", Row { flags: "--attention dense", ..ON_H100 }),
    ("8B on one H100, in blocks", Row { flags: "--attention blocks", ..ON_H100 }),
    ("405B on eight MI300X, in blocks", Row { flags: "--attention blocks", ..ON_8_MI300X }),
];

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model, target, batch, seq, flags, .. } = self;
        let mesh = self.mesh.unwrap_or("one device");
        write!(f, "{model:<14} {mesh:<14} {target:<10} {:<11} {flags:<34}", format!("{batch} x {seq}"))
    }
}

/// What `hloom compile --json` prints, of which this reads a part.
#[derive(Deserialize)]
struct Answer {
    targets: [Measured; 1],
}

#[derive(Deserialize)]
struct Measured {
    compile_seconds: f64,
    /// `None` where the compiler gave up for lack of memory.
    device_bytes: Option<u64>,
    /// Bytes in the host's memory for each device.
    host_bytes: u64,
    limit_bytes: Option<u64>,
    memory: Memory,
}

#[derive(Deserialize)]
struct Memory {
    temporaries: u64,
}

fn hloom() -> Command {
    Command::new(env!("CARGO_BIN_EXE_hloom"))
}

/// What the store has.
struct Installed {
    store: String,
    packages: BTreeSet<String>,
}

impl Installed {
    fn read() -> Result<Self> {
        let list: Value =
            serde_json::from_slice(&hloom().args(["plugin", "list", "--json"]).output()?.stdout)?;
        let packages = list["packages"].as_array().into_iter().flatten();
        let installed = packages.filter(|package| package["installed"] == true);
        Ok(Self {
            store: list["store"].as_str().unwrap_or_default().to_owned(),
            packages: installed.filter_map(|package| Some(package["name"].as_str()?.to_owned())).collect(),
        })
    }

    /// The plugin that `row` lacks, if it does.
    fn lacks(&self, row: &Row) -> Result<Option<String>> {
        let name = row.target.parse::<Target>()?.platform().name().to_owned();
        Ok((!self.packages.contains(&name)).then_some(name))
    }
}

fn compile(row: &Row, folder: &Path) -> Result<Measured> {
    let mut command = hloom();
    command.args(["compile", "--offline", "--json", "--quiet", "--dtype", "bfloat16"]);
    command.args(["--model", row.model, "--target", row.target]);
    command.args(["--batch", &row.batch.to_string(), "--seq", &row.seq.to_string()]);
    if let Some(mesh) = row.mesh {
        let file = format!("mesh-configs/{mesh}.toml");
        command.arg("--mesh").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(file));
    }
    command.args(row.flags.split_whitespace()).arg("--out").arg(folder.join("bundle"));
    let output = command.output()?;
    // 1 says that it does not fit, which is an answer too.
    if !matches!(output.status.code(), Some(0 | 1)) {
        return Err(String::from_utf8_lossy(&output.stderr).trim().into());
    }
    let Answer { targets: [measured] } = serde_json::from_slice(&output.stdout)?;
    Ok(measured)
}

fn gigabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e9
}

/// Compiles rows and prints a line for each.
struct Table {
    installed: Installed,
    folder: tempfile::TempDir,
    all_well: bool,
}

impl Table {
    fn new() -> Result<Self> {
        let (installed, folder) = (Installed::read()?, tempfile::tempdir()?);
        println!(
            "{:<87} {:>8} {:>8} {:>8} {:>8}  {:<4} {:>8}",
            "model, mesh config, target, batch x tokens, flags",
            "GB needs",
            "limit",
            "GB temps",
            "GB host",
            "",
            "compiled",
        );
        Ok(Self { installed, folder, all_well: true })
    }

    /// `None` if the plugin is not there, or nothing was compiled.
    fn measure(&mut self, row: &Row) -> Result<Option<Measured>> {
        if let Some(plugin) = self.installed.lacks(row)? {
            let store = &self.installed.store;
            println!("{row} SKIPPED: {store} has no {plugin}; `hloom plugin install {plugin}` fetches it");
            return Ok(None);
        }
        match compile(row, self.folder.path()) {
            Ok(measured) => Ok(Some(measured)),
            Err(error) => {
                println!("{row} FAILED: {error}");
                self.all_well = false;
                Ok(None)
            }
        }
    }

    /// Whether each device needs no more than it may.
    fn prove(&mut self, row: &Row) -> Result<()> {
        if let Some(measured) = self.measure(row)? {
            let limit = row.limit.into_iter().chain(measured.limit_bytes).min();
            let fits = measured.device_bytes.is_some_and(|needs| limit.is_none_or(|limit| needs <= limit));
            self.all_well &= fits;
            print(row, &measured, limit, if fits { "ok" } else { "OVER" });
        }
        Ok(())
    }

    /// The bytes of temporaries, if the compiler got as far.
    fn temporaries(&mut self, row: &Row) -> Result<Option<u64>> {
        let Some(measured) = self.measure(row)? else { return Ok(None) };
        print(row, &measured, None, "");
        Ok(measured.device_bytes.map(|_| measured.memory.temporaries))
    }
}

fn print(row: &Row, measured: &Measured, limit: Option<u64>, verdict: &str) {
    let show = |bytes: Option<u64>| bytes.map_or("-".to_owned(), |bytes| format!("{:.2}", gigabytes(bytes)));
    println!(
        "{row} {:>8} {:>8} {:>8} {:>8}  {verdict:<4} {:>6.1} s",
        show(measured.device_bytes),
        show(limit),
        show(Some(measured.memory.temporaries)),
        show(Some(measured.host_bytes).filter(|&bytes| bytes > 0)),
        measured.compile_seconds,
    );
}

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let given = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let words: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let chosen = |row: &Row| {
        let text = row.to_string();
        words.iter().all(|word| text.contains(word.as_str()))
    };
    let mut table = Table::new()?;
    // Cargo gives `--bench` to what is to be measured, and nothing to what is only to be tried.
    if !given("--bench") {
        table.prove(&TINY)?;
        return Ok(verdict(&table));
    }
    if !given("--plot") {
        for row in ROWS.iter().filter(|row| chosen(row)) {
            table.prove(row)?;
        }
    }
    let mut curves = Vec::new();
    for (name, of) in CURVES {
        let mut points = Vec::new();
        for seq in SEQUENCES {
            let row = Row { seq, ..of };
            if given("--plot") || chosen(&row) {
                points.extend(table.temporaries(&row)?.map(|bytes| (seq, gigabytes(bytes))));
            }
        }
        curves.push(Curve { name, points });
    }
    if given("--plot") {
        let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("benches/temporaries.svg");
        fs::write(file, plot::draw(&curves)?)?;
    }
    Ok(verdict(&table))
}

fn verdict(table: &Table) -> ExitCode {
    if table.all_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
