//! Folders that XLA writes with `--xla_dump_to`: the stages of modules, each in a file.

use std::{collections::BTreeMap, fs::File, io::Read, path::Path};

use super::{
    AppError,
    module_file::{ModuleFile, choose},
};
use crate::{
    base::{Diagnostic, Diagnostics, Location, Setting},
    train::TrainError,
};

/// Maximum number of modules that an error names.
const MAX_NAMES: usize = 12;

/// The stages of a module in order of compilation. `module` is a part of its name where the folder has several.
///
/// # Errors
/// A folder that cannot be read, has no dumps, or several modules of which none is chosen.
pub(super) fn stages(folder: &Path, module: Option<&str>) -> Result<Vec<ModuleFile>, AppError> {
    let modules = modules(folder)?;
    let is_chosen = |name: &str| module.is_none_or(|wanted| name.contains(wanted));
    let chosen: Vec<&String> = modules.keys().filter(|name| is_chosen(name)).collect();
    let names: Vec<&str> = modules.keys().map(String::as_str).take(MAX_NAMES).collect();
    match chosen[..] {
        [name] => Ok(modules[name].values().cloned().collect()),
        [] if modules.is_empty() => {
            let location = Location::file(folder.display().to_string());
            let problem = "expected HLO modules, as XLA dumps them or in a bundle, found none";
            let hint = "XLA writes them where XLA_FLAGS has xla_dump_to";
            Err(Diagnostics::from(Diagnostic::error(location, problem).with_hint(hint)).into())
        }
        [] => {
            let problem = format!("unknown module: {}", module.unwrap_or_default());
            Err(choose(folder, problem, Setting::Module, &names))
        }
        _ => {
            let problem = format!("expected the stages of one module, found {} modules", chosen.len());
            Err(choose(folder, problem, Setting::Module, &names))
        }
    }
}

/// The place of a stage in the order of compilation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    /// Before the first pass.
    First,
    /// The dump with this number, in between.
    Numbered(u32, String),
    /// After the last pass.
    Last(String),
}

/// The stages of each module, by its name with its number: `module_0001.jit_f`.
fn modules(folder: &Path) -> Result<BTreeMap<String, BTreeMap<Order, ModuleFile>>, AppError> {
    let failed = |source| TrainError::Io { action: "read", path: folder.to_owned(), source };
    let mut found: BTreeMap<String, BTreeMap<Order, ModuleFile>> = BTreeMap::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some((module, order, stage)) = parse(name) else { continue };
        if path.is_file() && is_module(&path, name) {
            let file = ModuleFile { stage: stage.to_owned(), path: path.clone() };
            found.entry(module.to_owned()).or_default().entry(order).or_insert(file);
        }
    }
    Ok(found)
}

/// The module and the stage of `module_0001.jit_f.0007.PIPELINE.after_PASS.txt`.
fn parse(name: &str) -> Option<(&str, Order, &str)> {
    let name = name.strip_suffix(".gz").unwrap_or(name);
    let name = [".hlo.pb", ".hlo.txt", ".hlo", ".txt"].iter().find_map(|suffix| name.strip_suffix(suffix))?;
    let rest = name.strip_prefix("module_")?;
    let number = rest.find('.')?;
    if number == 0 || !rest[..number].bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let first = "module_".len() + number + 1;
    // A dump between two passes has a number of four digits in front of the name of the pipeline.
    let mut segment = first;
    for part in name[first..].split('.') {
        if segment > first && part.len() == 4 && part.bytes().all(|byte| byte.is_ascii_digit()) {
            let stage = &name[segment..];
            let number = part.parse().ok()?;
            return Some((&name[..segment - 1], Order::Numbered(number, stage.to_owned()), stage));
        }
        segment += part.len() + 1;
    }
    // `sm_9.0_gpu_after_optimizations` has a dot.
    let last = match name[first..].find(".sm_") {
        Some(gpu) => first + gpu,
        None => name.rfind('.').filter(|&dot| dot >= first)?,
    };
    let stage = &name[last + 1..];
    let order = match stage {
        "before_optimizations" => Order::First,
        _ => Order::Last(stage.to_owned()),
    };
    Some((&name[..last], order, stage))
}

/// Whether a file is a module and not one of the reports that XLA writes beside it.
fn is_module(path: &Path, name: &str) -> bool {
    if name.contains(".hlo.pb") || name.ends_with(".gz") {
        return true;
    }
    let mut start = [0; 9];
    File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == *b"HloModule"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_dumps() {
        #[track_caller]
        fn check(name: &str, expect: (&str, Order, &str)) {
            assert_eq!(parse(name), Some(expect));
        }
        check(
            "module_0001.jit_f.before_optimizations.txt",
            ("module_0001.jit_f", Order::First, "before_optimizations"),
        );
        let pass = "0007.layout.after_layout-assignment.before_sub-byte-size-setter";
        check(
            &format!("module_0001.jit_f.{pass}.hlo.pb"),
            ("module_0001.jit_f", Order::Numbered(7, pass.to_owned()), pass),
        );
        let gpu = "sm_9.0_gpu_after_optimizations";
        check(
            &format!("module_0012.jit_f.g.{gpu}.txt.gz"),
            ("module_0012.jit_f.g", Order::Last(gpu.to_owned()), gpu),
        );
        for other in
            ["module_0001.jit_f.ir-with-opt.ll", "module_x.jit.txt", "options.txt", "module_0001.txt"]
        {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    #[test]
    fn stages_come_in_order_of_compilation() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        let text = "HloModule f\nENTRY e { ROOT a = f32[] parameter(0) }\n";
        for stage in ["cpu_after_optimizations", "0001.b.after_x", "0000.a.after_y", "before_optimizations"] {
            write(&format!("module_0003.jit_f.{stage}.txt"), text);
        }
        write("module_0003.jit_f.cpu_after_optimizations-buffer-assignment.txt", "BufferAssignment:\n");
        let found = stages(folder.path(), None).unwrap();
        let found: Vec<&str> = found.iter().map(|file| file.stage.as_str()).collect();
        assert_eq!(
            found,
            ["before_optimizations", "0000.a.after_y", "0001.b.after_x", "cpu_after_optimizations"]
        );

        write("module_0004.jit_g.before_optimizations.txt", text);
        let error = stages(folder.path(), None).unwrap_err();
        let diagnostic = &error.diagnostics().unwrap().0[0];
        assert_eq!(diagnostic.message, "expected the stages of one module, found 2 modules");
        assert_eq!(stages(folder.path(), Some("jit_g")).unwrap().len(), 1);
        assert!(stages(folder.path(), Some("jit_h")).is_err());
    }
}
