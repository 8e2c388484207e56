//! The figures of a module as text for 80 columns.

use std::fmt::Write;

use super::{
    figures::{WIDTH, cut, grouped, scaled},
    render,
};
use crate::{
    app::inspect::{BufferReport, CollectiveReport, MemoryReport, MeshAxes, ModuleReport},
    hlo::raw::Opcode,
};

/// Columns of the memory curve.
const CURVE: usize = 64;

/// Heights of the memory curve.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The module, its memory, collectives and opcodes. `top` limits the rows of each table.
pub(super) fn text(report: &ModuleReport, mesh: Option<&MeshAxes>, top: usize) -> String {
    let mut out = String::new();
    head(&mut out, report);
    memory(&mut out, report);
    buffers(&mut out, report, top);
    collectives(&mut out, &report.collectives, mesh, top);
    opcodes(&mut out, report);
    out
}

/// A row for each stage of a module, in order.
pub(super) fn stages_text(stages: &[(String, ModuleReport)]) -> String {
    let mut out = String::new();
    let header = ["instructions", "FLOP", "collectives", "peak memory"];
    line(
        &mut out,
        &format!("{:<24}{:>14}{:>14}{:>14}{:>14}", "stage", header[0], header[1], header[2], header[3]),
    );
    for (stage, report) in stages {
        // Only a schedule has a peak.
        let peak = if report.scheduled { render::bytes(report.memory.peak_bytes) } else { String::new() };
        let row = format!(
            "{:<24}{:>14}{:>14}{:>14}{:>14}",
            cut(stage, 23),
            grouped(report.instructions),
            scaled(report.flops, ""),
            grouped(report.collectives.len()),
            peak
        );
        line(&mut out, &row);
    }
    out.push('\n');
    out
}

fn line(out: &mut String, text: &str) {
    out.push_str(&cut(text.trim_end(), WIDTH));
    out.push('\n');
}

fn head(out: &mut String, report: &ModuleReport) {
    line(out, &format!("{}  {}", report.module, report.file));
    let order = if report.scheduled { "scheduled" } else { "not scheduled" };
    let (instructions, computations) = (grouped(report.instructions), grouped(report.computations));
    let devices = render::count(report.devices as usize, "device", "devices");
    line(out, &format!("{instructions} instructions in {computations} computations, {order}, for {devices}"));
    out.push('\n');
    let work = format!(
        "work      {}, {} of it in products; {} transcendental",
        scaled(report.flops, "FLOP"),
        scaled(report.product_flops, "FLOP"),
        scaled(report.transcendentals, "")
    );
    line(out, &work);
    line(out, &format!("traffic   {} read and written by instructions", render::bytes(report.bytes as u64)));
}

fn memory(out: &mut String, report: &ModuleReport) {
    let MemoryReport { peak_bytes, parameter_bytes, output_bytes, constant_bytes, host_bytes, .. } =
        report.memory;
    let temporary = peak_bytes.saturating_sub(parameter_bytes).saturating_sub(output_bytes);
    let parameters = render::count(report.parameters, "parameter", "parameters");
    let bytes = render::bytes;
    if !report.scheduled {
        line(
            out,
            &format!("memory    {} in {parameters}; the peak is that of a schedule", bytes(parameter_bytes)),
        );
        return;
    }
    line(out, &format!("memory    {} at the peak", bytes(peak_bytes)));
    let mut parts = vec![format!("{} in {parameters}", bytes(parameter_bytes))];
    parts.extend((output_bytes > 0).then(|| format!("{} of results", bytes(output_bytes))));
    parts.push(format!("{} temporary", bytes(temporary)));
    line(out, &format!("          {}", parts.join(", ")));
    let mut beside = Vec::new();
    beside.extend((host_bytes > 0).then(|| format!("{} in the host's memory", bytes(host_bytes))));
    beside.extend((constant_bytes > 0).then(|| format!("{} of constants", bytes(constant_bytes))));
    if !beside.is_empty() {
        line(out, &format!("          beside it {}", beside.join(", ")));
    }
    line(out, &format!("          {}", bars(&report.memory.curve)));
    let (position, positions) = (report.memory.peak_position + 1, report.memory.curve.len());
    let peak = format!("peak at {} of {}: {}", grouped(position), grouped(positions), report.memory.peak_at);
    line(out, &format!("          {peak}"));
}

/// The curve in one line: each column is the maximum of its part.
fn bars(curve: &[u64]) -> String {
    let highest = curve.iter().copied().max().unwrap_or(0).max(1);
    let columns = curve.len().min(CURVE);
    let column = |column: usize| {
        let part = curve.len() * column / columns..(curve.len() * (column + 1) / columns).max(1);
        let value = curve[part].iter().copied().max().unwrap_or(0);
        BARS[(value as f64 / highest as f64 * 8.0).round() as usize]
    };
    (0..columns).map(column).collect()
}

fn buffers(out: &mut String, report: &ModuleReport, top: usize) {
    if !report.scheduled || report.largest.is_empty() {
        return;
    }
    out.push('\n');
    line(out, "in use at the peak");
    line(out, &format!("  {:>9}  {:<9}  {:>15}  instruction", "bytes", "kind", "live"));
    for buffer in report.largest.iter().take(top) {
        let live = match buffer.live[..] {
            [(first, last)] => format!("{}..{}", first + 1, last + 1),
            [(first, _), .., (_, last)] => format!("{}..{} in parts", first + 1, last + 1),
            [] => String::new(),
        };
        let BufferReport { name, bytes, kind, op, .. } = buffer;
        let name = op.as_deref().unwrap_or(name);
        line(out, &format!("  {:>9}  {kind:<9}  {live:>15}  {name}", render::bytes(*bytes)));
    }
    more(out, report.largest.len(), top, "buffers");
}

fn collectives(out: &mut String, collectives: &[CollectiveReport], mesh: Option<&MeshAxes>, top: usize) {
    out.push('\n');
    if collectives.is_empty() {
        line(out, "no collectives");
        return;
    }
    let all = |found: &CollectiveReport| found.count * found.bytes as f64;
    let runs: f64 = collectives.iter().map(|found| found.count).sum();
    let bytes: f64 = collectives.iter().map(all).sum();
    let exposed: f64 = collectives.iter().filter(|found| found.exposed == Some(true)).map(all).sum();
    let (count, runs) = (grouped(collectives.len()), grouped(runs as usize));
    let mut summary = format!("collectives: {count}, {runs} runs, {} in all", render::bytes(bytes as u64));
    if exposed > 0.0 {
        let _ = write!(summary, ", {} while nothing is computed", render::bytes(exposed as u64));
    }
    line(out, &summary);
    let over = if mesh.is_some() { "axis" } else { "devices" };
    line(
        out,
        &format!(
            "  {:>8} {:>8} {:>5}  {:<18} {over:<8} {:>8}  part",
            "in all", "bytes", "runs", "kind", "overlaps"
        ),
    );
    let mut sorted: Vec<&CollectiveReport> = collectives.iter().collect();
    sorted.sort_by(|a, b| all(b).total_cmp(&all(a)));
    for found in sorted.into_iter().take(top) {
        line(out, &collective_row(found, mesh));
    }
    more(out, collectives.len(), top, "collectives");
    for (name, _) in mesh.iter().flat_map(|mesh| &mesh.axes) {
        let rules = mesh.iter().flat_map(|mesh| &mesh.rules).filter(|rule| rule.axis == *name);
        let rules: Vec<String> =
            rules.map(|rule| format!("[{}] {} {}", rule.section, rule.dim, rule.location)).collect();
        if !rules.is_empty() {
            wrapped(out, &format!("  axis {name}:"), rules.into_iter());
        }
    }
}

fn collective_row(found: &CollectiveReport, mesh: Option<&MeshAxes>) -> String {
    let all = render::bytes((found.count * found.bytes as f64) as u64);
    let devices = found.group_size.map_or("?".to_owned(), |size| size.to_string());
    let over = found.axis.as_ref().filter(|_| mesh.is_some()).unwrap_or(&devices);
    let overlaps = match found.exposed {
        Some(true) => "nothing".to_owned(),
        Some(false) => grouped(found.overlapped),
        None => String::new(),
    };
    let bytes = render::bytes(found.bytes);
    let CollectiveReport { kind, name, count, part, pass, .. } = found;
    // A name of an instruction says less than the module that it is in.
    let is_module = |scope: &&str| Opcode::from_name(scope.split('.').next().unwrap_or_default()).is_none();
    let scope = part.as_ref().and_then(|part| part.rsplit('/').find(is_module).or(part.rsplit('/').next()));
    let part = match (pass, scope) {
        (Some(pass), Some(scope)) => format!("{pass} {scope}"),
        (None, Some(scope)) => scope.to_owned(),
        _ => found.op.clone().unwrap_or(name.clone()),
    };
    let kind = kind.strip_prefix("collective-").unwrap_or(kind);
    format!("  {all:>8} {bytes:>8} {count:>5}  {kind:<14} {over:<7} {overlaps:>8}  {part}")
}

/// Items after a title, with line breaks between them where a line is full.
fn wrapped(out: &mut String, title: &str, items: impl Iterator<Item = String>) {
    let mut row = title.to_owned();
    for item in items {
        if row.chars().count() + item.chars().count() + 2 > WIDTH {
            line(out, &row);
            row = " ".repeat(title.chars().count());
        }
        let _ = write!(row, "  {item}");
    }
    line(out, &row);
}

fn more(out: &mut String, rows: usize, top: usize, what: &str) {
    if rows > top {
        line(out, &format!("  {:>9}  {what} more", grouped(rows - top)));
    }
}

fn opcodes(out: &mut String, report: &ModuleReport) {
    out.push('\n');
    let items = report.opcodes.iter().map(|(opcode, count)| format!("{} {opcode}", grouped(*count)));
    wrapped(out, "opcodes", items);
}
