use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Answer, Env, Failure, Output, invalid, progress::Reporter, render, worker, write_json};
use crate::{
    app::{
        AppError,
        resources::{Resources, known_package},
    },
    base::Setting,
    pjrt::{NamedValue, PjrtError},
    runtime::compile_worker::{PluginDescription, StartError},
    store::{Network, PACKAGES, Package, Store},
    targets::{DeviceSpec, devices},
};

/// Manage the plugin store.
///
/// The store is the folder $HLOOM_STORE, else `hloom` in the user's cache folder.
#[derive(clap::Subcommand, Debug)]
pub(super) enum Plugin {
    /// List packages, and which of them are installed
    List {
        #[command(flatten)]
        output: Output,
    },
    /// Fetch a package with `python3 -m pip`, and check its SHA-256
    Install {
        /// Name of the package: cpu, cuda, rocm, tpu ...
        name: String,
        #[command(flatten)]
        output: Output,
    },
    /// Print the version, attributes and targets of a plugin
    Info {
        /// An installed package, or a plugin file
        #[arg(value_name = "NAME|PATH")]
        plugin: String,
        /// Seconds that the plugin may take to start [default: 120]
        #[arg(long, value_name = "S")]
        timeout: Option<f64>,
        #[command(flatten)]
        output: Output,
    },
}

impl Plugin {
    pub(super) fn run(self, env: &mut Env<'_>) -> Result<Answer, Failure> {
        match self {
            Self::List { output } => list(env, output)?,
            Self::Install { name, output } => install(&name, env, output)?,
            Self::Info { plugin, timeout, output } => info(&plugin, timeout, env, output)?,
        }
        Ok(Answer::Yes)
    }
}

fn list(env: &mut Env<'_>, output: Output) -> Result<(), Failure> {
    let store = Store::at(&env.store);
    let mut objects = Vec::new();
    let mut text = String::new();
    for package in PACKAGES {
        let path = store.installed(package);
        let size = render::bytes(package.download_bytes());
        let state = if path.is_some() { "installed".to_owned() } else { format!("{size} to fetch") };
        text.push_str(&format!("{:<10}{:<28}{state}\n", package.key, package.requirement()));
        text.push_str(&format!("{:<10}{}\n", "", package.about));
        if let Some(path) = &path {
            text.push_str(&format!("{:<10}{}\n", "", path.display()));
        }
        objects.push(object(package, path.as_deref()));
    }
    if output.json {
        write_json(&mut *env.out, &json!({ "store": store.root(), "packages": objects }))?;
    } else {
        write!(env.out, "{text}\nstore: {}\n", store.root().display())?;
    }
    Ok(())
}

fn install(name: &str, env: &mut Env<'_>, output: Output) -> Result<(), Failure> {
    let package = known_package(name)?;
    let mut reporter = Reporter::new(&mut *env.err, env.err_kind, output);
    let path = Resources::new(&env.store, Network::Allowed).fetch(package, &mut reporter)?;
    if output.json {
        write_json(&mut *env.out, &object(package, Some(&path)))?;
    } else {
        writeln!(env.out, "{}", path.display())?;
    }
    Ok(())
}

fn object(package: &Package, path: Option<&Path>) -> Value {
    json!({
        "name": package.key,
        "about": package.about,
        "version": package.wheels.first().map(|wheel| wheel.version),
        "requirements": package.wheels.iter().map(|wheel| wheel.requirement()).collect::<Vec<_>>(),
        "download_bytes": package.download_bytes(),
        "installed": path.is_some(),
        "path": path,
    })
}

fn info(named: &str, timeout: Option<f64>, env: &mut Env<'_>, output: Output) -> Result<(), Failure> {
    let (path, platform) = find(named, env)?;
    let targets: Vec<&DeviceSpec> = devices()
        .iter()
        .filter(|device| platform.is_some_and(|platform| device.platform().name() == platform))
        .collect();
    // Without ROCm on this machine, AMD's plugin compiles but cannot run, so its targets are listed.
    let (version, attributes, missing) = match worker::starter(env, timeout)?.describe(&path) {
        Ok(PluginDescription { api_version: (major, minor), attributes }) => {
            (Some(format!("{major}.{minor}")), attributes, None)
        }
        Err(AppError::Start(StartError::Plugin(error @ PjrtError::NoRocm { .. }))) => {
            (None, Default::default(), Some(error.to_string()))
        }
        Err(error) => return Err(error.into()),
    };
    if output.json {
        let attributes: serde_json::Map<String, Value> =
            attributes.into_iter().map(|(name, value)| (name, json_value(value))).collect();
        let object = json!({
            "path": path,
            "api_version": version,
            "platform": platform,
            "attributes": attributes,
            "cannot_run": missing,
            "targets": targets.into_iter().map(target_json).collect::<Vec<_>>(),
        });
        write_json(&mut *env.out, &object)?;
        return Ok(());
    }
    let mut row = |name: &str, value: String| writeln!(env.out, "{name:<12}{value}");
    row("path", path.display().to_string())?;
    version.map(|version| row("PJRT API", version)).transpose()?;
    platform.map(|platform| row("platform", platform.to_owned())).transpose()?;
    missing.map(|missing| row("cannot run", missing)).transpose()?;
    for (name, value) in attributes {
        writeln!(env.out, "{name}: {}", json_value(value))?;
    }
    write!(env.out, "\n{}", target_table(&targets))?;
    Ok(())
}

/// A table of the devices that a plugin compiles for; empty if there are none.
fn target_table(targets: &[&DeviceSpec]) -> String {
    let mut text = String::new();
    if targets.is_empty() {
        return text;
    }
    let mut row = |cells: [&str; 5]| {
        let [target, product, memory, bandwidth, rate] = cells;
        text.push_str(&format!("{target:<10}{product:<28}{memory:>10}{bandwidth:>12}{rate:>16}\n"));
    };
    row(["target", "product", "memory", "bandwidth", "bfloat16"]);
    for device in targets {
        let memory = device.memory_bytes.map_or("the host's".to_owned(), render::bytes);
        let bandwidth = format!("{}/s", render::bytes(device.memory_bandwidth));
        let rate = format!("{:.1} TFLOP/s", device.peak_bf16 as f64 / 1e12);
        row([&device.name, &device.product, &memory, &bandwidth, &rate]);
    }
    text
}

/// Formats a compile target as JSON.
fn target_json(device: &DeviceSpec) -> Value {
    json!({
        "target": device.name,
        "product": device.product,
        "memory_bytes": device.memory_bytes,
        "memory_bandwidth": device.memory_bandwidth,
        "peak_bf16": device.peak_bf16,
    })
}

/// Returns the plugin file at a path, or that of an installed package with the package's platform.
fn find(named: &str, env: &Env<'_>) -> Result<(PathBuf, Option<&'static str>), Failure> {
    if named.contains(std::path::is_separator) || Path::new(named).is_file() {
        return Ok((named.into(), None));
    }
    let package = known_package(named)?;
    let present = Resources::new(&env.store, Network::Offline).present(package)?;
    let Some(path) = present else {
        let hint = format!("run `hloom plugin install {named}`");
        return Err(invalid(Setting::Package, format!("package is not installed: {named}"), &hint).into());
    };
    Ok((path, package.key.split('-').next()))
}

fn json_value(value: NamedValue) -> Value {
    match value {
        NamedValue::String(text) => json!(text),
        NamedValue::Int64(number) => json!(number),
        NamedValue::Int64List(numbers) => json!(numbers),
        NamedValue::Float(number) => json!(number),
        NamedValue::Bool(truth) => json!(truth),
    }
}
