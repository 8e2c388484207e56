//! Mesh files: TOML, with the line of every entry.

use std::{
    collections::HashMap,
    io,
    ops::Range,
    path::{Path, PathBuf},
};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    AxisConfig, AxisSize, Dim, MeshCode, MeshConfig, OnViolation, Override, Policy, Rule, config::put,
};
use crate::base::{Diagnostics, LineIndex, Location, Partitioner, did_you_mean, read_text};

/// What a mesh file is expected to be.
const MESH_CONFIG: &str = "a mesh config in TOML";

/// A mesh config with those it extends, as far as they are valid.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The config.
    pub config: MeshConfig,
    /// Problems of the files themselves.
    pub problems: Diagnostics,
}

/// Reads a mesh config and the files that it extends. Locations name it `path`.
///
/// # Errors
/// If the file cannot be read; everything else is a problem of the result.
pub fn load(path: &Path) -> io::Result<Loaded> {
    Ok(parse(&read_text(path, MESH_CONFIG)?, path))
}

/// Reads the text of a mesh config; locations name it `path`, to which the names of extended files are relative.
///
/// ```
/// use std::path::Path;
///
/// let mesh = hloom::mesh::parse("[mesh]\nfsdp = 8\n[store]\nembd = \"fsdp\"\n", Path::new("m.toml"));
/// let problems = mesh.problems.to_string();
/// assert!(problems.starts_with("error[unknown-dim]: m.toml:4: `store.embd`: unknown dimension: embd"), "{problems}");
/// assert!(problems.ends_with("hint: did you mean `embed`?"), "{problems}");
/// ```
pub fn parse(text: &str, path: &Path) -> Loaded {
    let config = MeshConfig {
        location: Location::file(path.display().to_string()),
        axes: vec![],
        store: vec![],
        compute: vec![],
        overrides: vec![],
        policy: Policy::default(),
        partitioner: Partitioner::default(),
    };
    let mut loaded = Loaded { config, problems: Diagnostics::default() };
    let mut meshes = 0;
    read(path, text, &mut vec![], &mut meshes, &mut loaded);
    if meshes == 0 {
        let problem =
            MeshCode::NoMesh.error(loaded.config.location.clone(), "expected a table [mesh], found none");
        loaded.problems.push(problem.with_hint("for example `[mesh]` and below it `fsdp = 8`"));
    }
    loaded
}

/// Files above the one that is read.
const MAX_EXTENDS: usize = 32;

type Value<'a, 'i> = &'a Spanned<DeValue<'i>>;

/// Reads one file over what `loaded` holds. `above` are the files that led here, outermost first.
fn read(path: &Path, text: &str, above: &mut Vec<PathBuf>, meshes: &mut usize, loaded: &mut Loaded) {
    let (table, errors) = DeTable::parse_recoverable(text);
    let table = table.into_inner();
    let file = path.display().to_string();
    let lines = LineIndex::new(text);
    if let Some(value) = table.get("extends") {
        let location = Location::line(&file, lines.line(value.span().start)).at("extends");
        above.push(path.to_owned());
        extend(path, value, location, above, meshes, loaded);
        above.pop();
    }
    let Loaded { config, problems } = loaded;
    let mut reader = Reader { file, text, lines, problems };
    reader.syntax(&errors);
    *meshes += usize::from(table.contains_key("mesh"));
    reader.top(&table, config);
}

fn extend(
    path: &Path,
    value: Value<'_, '_>,
    location: Location,
    above: &mut Vec<PathBuf>,
    meshes: &mut usize,
    loaded: &mut Loaded,
) {
    let mut report = |code: MeshCode, message, hint: &str| {
        loaded.problems.push(code.error(location.clone(), message).with_hint(hint));
    };
    let Some(name) = value.get_ref().as_str() else {
        let message = format!("expected the name of a file, found: {}", found(value.get_ref()));
        return report(MeshCode::WrongValue, message, "for example `extends = \"fsdp8.toml\"`");
    };
    let next = path.parent().unwrap_or(Path::new("")).join(name);
    let same = |a: &Path| match (a.canonicalize(), next.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == next,
    };
    if let Some(start) = above.iter().position(|file| same(file)) {
        let files = above[start..].iter().chain([&above[start]]);
        let circle: Vec<String> = files.map(|file| file.display().to_string()).collect();
        let message = format!("circular `extends`: {}", circle.join(" -> "));
        return report(MeshCode::ExtendsCircle, message, "leave out one `extends`");
    }
    if above.len() > MAX_EXTENDS {
        let message = format!("expected at most {MAX_EXTENDS} files that extend one another");
        return report(MeshCode::WrongValue, message, "write the rules of several files into one");
    }
    match read_text(&next, MESH_CONFIG) {
        Ok(text) => read(&next, &text, above, meshes, loaded),
        Err(error) => {
            let message = format!("cannot read {}: {error}", next.display());
            report(MeshCode::ExtendsMissing, message, "the name is relative to the folder of this file");
        }
    }
}

/// A value as it is shown in messages.
fn found(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("{text:?}"),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(truth) => truth.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(_) => "a list".into(),
        DeValue::Table(_) => "a table".into(),
    }
}

/// What follows so many mistakes of the grammar is rarely worth reading.
const MAX_SYNTAX_ERRORS: usize = 100;

/// Every key that begins a line or a header of a table, or is the beginning of a dotted one, with its lines.
fn key_lines(text: &str) -> HashMap<&str, Vec<usize>> {
    let mut keys: HashMap<&str, Vec<usize>> = HashMap::new();
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim_start().trim_start_matches('[').trim_start();
        let end = line.find(['=', ']']).unwrap_or(line.len());
        let dots = line[..end].match_indices('.').take(4).map(|(at, _)| at);
        for key in dots.chain([end]).map(|end| line[..end].trim_end()) {
            keys.entry(key).or_default().push(number);
        }
    }
    keys
}

struct Reader<'a> {
    file: String,
    text: &'a str,
    lines: LineIndex,
    problems: &'a mut Diagnostics,
}

impl Reader<'_> {
    fn location(&self, span: Range<usize>) -> Location {
        Location::line(&self.file, self.lines.line(span.start))
    }

    fn report(
        &mut self,
        code: MeshCode,
        location: Location,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.problems.push(code.error(location, message).with_hint(hint));
    }

    fn syntax(&mut self, errors: &[toml::de::Error]) {
        let mut keys = None;
        for error in errors.iter().take(MAX_SYNTAX_ERRORS) {
            let span = error.span().unwrap_or_default();
            let location = self.location(span.clone());
            if error.message() != "duplicate key" {
                self.problems.push(MeshCode::Syntax.error(location, error.message().trim_end()));
                continue;
            }
            let key = self.text.get(span).unwrap_or_default();
            let keys = keys.get_or_insert_with(|| key_lines(self.text));
            let before = |line: &&usize| Some(**line) < location.line;
            // The parser reports the second position only.
            let first = keys.get(key).and_then(|lines| lines.iter().rev().find(before));
            let message = match first {
                Some(&first) => {
                    format!("duplicate key; first defined at {}", Location::line(&self.file, first))
                }
                None => "duplicate key".into(),
            };
            self.report(MeshCode::DuplicateKey, location.at(key), message, "leave out one of them");
        }
    }

    fn top(&mut self, table: &DeTable<'_>, config: &mut MeshConfig) {
        const KEYS: [&str; 7] = ["extends", "mesh", "store", "compute", "override", "policy", "partitioner"];
        for (key, value) in table {
            let location = self.location(key.span());
            match key.get_ref().as_ref() {
                "extends" => {}
                "mesh" => {
                    config.location = location.clone().at("mesh");
                    self.entries("mesh", location, value, |reader, name, location, value| {
                        if let Some(axis) = reader.axis(name, location, value) {
                            put(&mut config.axes, axis, |a, b| a.name == b.name);
                        }
                    });
                }
                "store" => self.rules("store", location, value, &mut config.store),
                "compute" => self.rules("compute", location, value, &mut config.compute),
                "override" => match value.get_ref().as_array() {
                    Some(entries) => {
                        entries.iter().for_each(|entry| config.overrides.extend(self.overridden(entry)))
                    }
                    None => self.wrong(location.at("override"), "tables `[[override]]`", value),
                },
                "policy" => self.entries("policy", location, value, |reader, name, location, value| {
                    reader.policy(name, location, value, &mut config.policy);
                }),
                "partitioner" => {
                    self.entries("partitioner", location, value, |reader, name, location, value| {
                        match (name, value.get_ref().as_str()) {
                            ("kind", Some("gspmd")) => config.partitioner = Partitioner::Gspmd,
                            ("kind", Some("shardy")) => config.partitioner = Partitioner::Shardy,
                            ("kind", _) => reader.wrong(location, "\"gspmd\" or \"shardy\"", value),
                            _ => reader.unknown_key(location, name, &["kind"]),
                        }
                    })
                }
                unknown => self.unknown_key(location.at(unknown), unknown, &KEYS),
            }
        }
    }

    /// Calls `each` with the name, location and value of every entry of a table.
    fn entries(
        &mut self,
        section: &str,
        location: Location,
        value: Value<'_, '_>,
        mut each: impl FnMut(&mut Self, &str, Location, Value<'_, '_>),
    ) {
        let Some(table) = value.get_ref().as_table() else {
            return self.wrong(location.at(section), "a table", value);
        };
        for (key, value) in table {
            let location = self.location(key.span()).at(format!("{section}.{}", key.get_ref()));
            each(self, key.get_ref(), location, value);
        }
    }

    fn unknown_key(&mut self, location: Location, name: &str, known: &[&str]) {
        let hint = did_you_mean(name, known.iter().copied(), "known here");
        self.report(MeshCode::UnknownKey, location, format!("unknown table or key: {name}"), hint);
    }

    fn wrong(&mut self, location: Location, expected: &str, value: Value<'_, '_>) {
        let message = format!("expected {expected}, found: {}", found(value.get_ref()));
        self.problems.push(MeshCode::WrongValue.error(location, message));
    }

    fn axis(&mut self, name: &str, location: Location, value: Value<'_, '_>) -> Option<AxisConfig> {
        let mut letters = name.chars();
        let begins = letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
        let is_name = begins && letters.all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_name || ["none", "rest"].contains(&name) {
            let hint = "a name consists of letters, digits and `_`, does not begin with a digit, and is neither `none` nor `rest`";
            self.report(MeshCode::AxisName, location, format!("invalid name of a mesh axis: {name}"), hint);
            return None;
        }
        let number = value.get_ref().as_integer();
        let size = number.and_then(|number| usize::from_str_radix(number.as_str(), number.radix()).ok());
        let size = match size {
            Some(size @ 1..) => AxisSize::Fixed(size),
            _ if value.get_ref().as_str() == Some("rest") => AxisSize::Rest,
            _ => {
                let found = found(value.get_ref());
                let message = format!("expected a whole number of at least 1 or \"rest\", found: {found}");
                self.report(
                    MeshCode::AxisSize,
                    location.clone(),
                    message,
                    "an axis of size 1 shards nothing",
                );
                AxisSize::Fixed(1)
            }
        };
        Some(AxisConfig { name: name.to_owned(), size, location })
    }

    fn rules(&mut self, section: &str, location: Location, value: Value<'_, '_>, rules: &mut Vec<Rule>) {
        self.entries(section, location, value, |reader, name, location, value| {
            if let Some(rule) = reader.rule(name, location, value) {
                put(rules, rule, |a, b| a.dim == b.dim);
            }
        });
    }

    fn rule(&mut self, name: &str, location: Location, value: Value<'_, '_>) -> Option<Rule> {
        let Some(dim) = Dim::from_name(name) else {
            let hint = did_you_mean(name, Dim::ALL.iter().map(|dim| dim.name()), "dimensions");
            self.report(MeshCode::UnknownDim, location, format!("unknown dimension: {name}"), hint);
            return None;
        };
        let axes: Option<Vec<String>> = match value.get_ref() {
            DeValue::String(axis) if axis == "none" => Some(vec![]),
            DeValue::String(axis) => Some(vec![axis.to_string()]),
            DeValue::Array(axes) => {
                axes.iter().map(|axis| axis.get_ref().as_str().map(str::to_owned)).collect()
            }
            _ => None,
        };
        let Some(axes) = axes else {
            self.wrong(location, "an axis, a list of axes or \"none\"", value);
            return None;
        };
        if let Some(axis) =
            axes.iter().enumerate().find_map(|(at, axis)| axes[..at].contains(axis).then_some(axis))
        {
            let message = format!("duplicate mesh axis in the list: {axis}");
            self.report(MeshCode::RepeatedAxis, location, message, "leave out one of them");
            return None;
        }
        if dim == Dim::Rank && !axes.is_empty() {
            let message = "the rank of adapters cannot be sharded";
            self.report(
                MeshCode::SplitRank,
                location,
                message,
                "remove it: adapters are sharded as the parameters they adapt",
            );
            return None;
        }
        if dim == Dim::Layers && !axes.is_empty() {
            let message = "the stack of layers cannot be sharded: every device runs all layers";
            self.report(MeshCode::SplitLayers, location, message, "shard another dimension, such as `embed`");
            return None;
        }
        Some(Rule { dim, axes, location })
    }

    fn overridden(&mut self, entry: Value<'_, '_>) -> Option<Override> {
        let location = self.location(entry.span()).at("override");
        let Some(table) = entry.get_ref().as_table() else {
            self.wrong(location, "a table with `param` and `dims`", entry);
            return None;
        };
        let (mut param, mut rules) = (None, None);
        for (key, value) in table {
            let location = self.location(key.span()).at(format!("override.{}", key.get_ref()));
            match (key.get_ref().as_ref(), value.get_ref().as_str()) {
                ("param", Some(text)) => param = Some((text.to_owned(), location)),
                ("param", None) => self.wrong(location, "the name of a parameter", value),
                ("dims", _) => {
                    let mut found = vec![];
                    self.rules("override.dims", location, value, &mut found);
                    rules = Some(found);
                }
                (unknown, _) => self.unknown_key(location, unknown, &["param", "dims"]),
            }
        }
        let (Some((param, param_place)), Some(rules)) = (param, rules) else {
            let message = "expected `param` and `dims`";
            let hint =
                "for example `param = \"layers.*.self_attn.k_proj\"` and `dims = { kv_heads = \"none\" }`";
            self.report(MeshCode::WrongValue, location, message, hint);
            return None;
        };
        Some(Override { param, location: param_place, rules })
    }

    fn policy(&mut self, name: &str, location: Location, value: Value<'_, '_>, policy: &mut Policy) {
        let (choice, expected) = match name {
            "indivisible" => (&mut policy.indivisible, "\"error\", \"replicate\" or \"pad\""),
            "axis_conflict" => (&mut policy.axis_conflict, "\"error\" or \"replicate\""),
            "unused_axis" => (&mut policy.unused_axis, "\"error\" or \"replicate\""),
            _ => return self.unknown_key(location, name, &["indivisible", "axis_conflict", "unused_axis"]),
        };
        *choice = match value.get_ref().as_str() {
            Some("error") => OnViolation::Error,
            Some("replicate") => OnViolation::Replicate,
            Some("pad") if name == "indivisible" => OnViolation::Pad,
            _ => return self.wrong(location, expected, value),
        };
    }
}
