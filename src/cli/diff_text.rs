//! The differences of two modules as text for 80 columns.

use std::fmt::Write;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Style, render};
use crate::{
    analyze::CollectiveKind,
    diff::{
        Change, ChangedComputation, ChangedPart, CollectiveClass, Counted, Ignore, IgnoreSet, ModuleDiff,
        Totals, describe,
    },
    hlo::raw::{CompId, InstrRef, Module, ReplicaGroups},
};

const WIDTH: usize = 80;

/// Devices of a group to show.
const DEVICES: usize = 3;

/// Both modules, and what was ignored.
pub(super) struct Sides<'m> {
    pub before: &'m Module,
    pub after: &'m Module,
    pub ignored: IgnoreSet,
}

/// The summary, the modules side by side, and the changes. `top` limits the computations, and the lines of each.
pub(super) fn text(diff: &ModuleDiff<'_>, sides: &Sides<'_>, top: usize, style: Style) -> String {
    let mut page = Page { lines: String::new(), style, top };
    summary(&mut page, diff, sides);
    side_by_side(&mut page, diff);
    module_changes(&mut page, diff, sides);
    frequent(&mut page, diff);
    computations(&mut page, diff, sides);
    page.lines
}

/// The text so far.
struct Page {
    lines: String,
    style: Style,
    top: usize,
}

impl Page {
    /// Adds a line, cut where it is too long.
    fn line(&mut self, line: &str) {
        self.lines.push_str(&cut(line, WIDTH));
        self.lines.push('\n');
    }

    /// Adds a line about what was removed.
    fn removed(&mut self, line: &str) {
        self.colored(line, "\u{1b}[31m");
    }

    /// Adds a line about what was added.
    fn added(&mut self, line: &str) {
        self.colored(line, "\u{1b}[32m");
    }

    fn colored(&mut self, line: &str, color: &str) {
        match self.style {
            Style::Plain => self.line(line),
            Style::Ansi => _ = writeln!(self.lines, "{color}{}\u{1b}[0m", cut(line, WIDTH)),
        }
    }

    fn blank(&mut self) {
        self.lines.push('\n');
    }
}

fn summary(page: &mut Page, diff: &ModuleDiff<'_>, sides: &Sides<'_>) {
    for (side, module) in [("before", sides.before), ("after", sides.after)] {
        page.line(&format!("{side:<8}{}  {}", module.file(), module.name()));
    }
    let ignored: Vec<&str> = sides.ignored.iter().map(Ignore::name).collect();
    page.line(&format!("ignored {}", if ignored.is_empty() { "nothing".into() } else { ignored.join(", ") }));
    page.blank();
    page.line(if diff.equal { "equal" } else { "different" });
    let count =
        |part: fn(&ChangedComputation<'_>) -> usize| -> usize { diff.computations.iter().map(part).sum() };
    if !diff.equal {
        let counts =
            [count(|one| one.changed.len()), count(|one| one.removed.len()), count(|one| one.added.len())];
        let computations = [diff.computations.len(), diff.removed.len(), diff.added.len()];
        page.line(&format!("  instructions  {}", counts_text(counts)));
        let equal = grouped(diff.equal_computations);
        page.line(&format!("  computations  {}, {equal} equal", counts_text(computations)));
    }
    if let [before, after] = diff.unknown_constants
        && before + after > 0
    {
        page.line(&format!(
            "not compared: {before} and {after} constants whose values are left out as {{...}} in a text"
        ));
    }
    let [before, after] = &diff.side_by_side.totals;
    if before.unknown_loops + after.unknown_loops > 0 {
        page.line(&format!(
            "counted as one iteration: {} and {} loops whose number of iterations is unknown",
            before.unknown_loops, after.unknown_loops
        ));
    }
}

/// `3 changed, 2 removed, 1 added`
fn counts_text([changed, removed, added]: [usize; 3]) -> String {
    format!("{} changed, {} removed, {} added", grouped(changed), grouped(removed), grouped(added))
}

fn side_by_side(page: &mut Page, diff: &ModuleDiff<'_>) {
    let [before, after] = &diff.side_by_side.totals;
    page.blank();
    row(page, "", ["before", "after", "difference"].map(str::to_owned));
    counted(page, "instructions", before.instructions, after.instructions);
    counted(page, "computations", before.computations, after.computations);
    let mut amount = |name: &str, unit: &str, of: fn(&Totals) -> f64| {
        let (before, after) = (of(before), of(after));
        if before > 0.0 || after > 0.0 {
            row(page, name, [scaled(before, unit), scaled(after, unit), ratio(before, after)]);
        }
    };
    amount("products and convolutions", "FLOP", |totals| totals.flops.products);
    amount("elementwise operations", "FLOP", |totals| totals.flops.elementwise);
    amount("transcendentals", "", |totals| totals.flops.transcendentals);
    amount("collectives run", "", |totals| totals.collectives);
    amount("bytes of their full arrays", "B", |totals| totals.collective_bytes);
    let mut opcodes: Vec<&Counted<String, usize>> =
        diff.side_by_side.opcodes.iter().filter(|one| one.before != one.after).collect();
    opcodes.sort_by_key(|one| std::cmp::Reverse(one.before.abs_diff(one.after)));
    title(page, "instructions by opcode", opcodes.len());
    for Counted { key, before, after } in opcodes.iter().take(page.top) {
        counted(page, &format!("  {key}"), *before, *after);
    }
    more(page, opcodes.len(), "opcodes with other counts");
    let mut collectives: Vec<_> =
        diff.side_by_side.collectives.iter().filter(|one| one.before != one.after).collect();
    let moved = |one: &Counted<CollectiveClass, f64>| one.key.bytes as f64 * (one.before - one.after).abs();
    collectives.sort_by(|x, y| moved(y).total_cmp(&moved(x)));
    title(page, "collectives by size and devices, times run", collectives.len());
    for Counted { key: CollectiveClass { kind, bytes, groups }, before, after } in
        collectives.iter().take(page.top)
    {
        let groups = groups_text(*kind, groups.as_ref());
        let difference = signed(*after - *before);
        let name = format!("  {kind} {}, {groups}", render::bytes(*bytes));
        row(page, &name, [scaled(*before, ""), scaled(*after, ""), difference]);
    }
    more(page, collectives.len(), "kinds of collectives with other counts");
}

fn title(page: &mut Page, title: &str, rows: usize) {
    if rows > 0 {
        page.line(title);
    }
}

fn more(page: &mut Page, rows: usize, what: &str) {
    if rows > page.top {
        page.line(&format!("  {} more {what}", grouped(rows - page.top)));
    }
}

fn counted(page: &mut Page, name: &str, before: usize, after: usize) {
    row(page, name, [grouped(before), grouped(after), signed(after as f64 - before as f64)]);
}

/// A row of the table. A name that is too long has a line of its own.
fn row(page: &mut Page, name: &str, [before, after, difference]: [String; 3]) {
    const NAME: usize = 41;
    let mut name = name;
    if name.chars().count() > NAME {
        page.line(name);
        name = "";
    }
    page.line(&format!("{name:<NAME$}{before:>13}{after:>13}{difference:>13}"));
}

fn module_changes(page: &mut Page, diff: &ModuleDiff<'_>, sides: &Sides<'_>) {
    let names = |module: &Module, ids: &[CompId]| {
        list(ids.iter().map(|&id| format!("%{}", module.computation_name(id))), ids.len(), 50)
    };
    if !diff.module.is_empty() || !diff.removed.is_empty() || !diff.added.is_empty() {
        page.blank();
        page.line("module");
    }
    for change in &diff.module {
        change_lines(page, "  ", change);
    }
    if !diff.removed.is_empty() {
        let what = render::count(diff.removed.len(), "computation", "computations");
        page.removed(&format!("  - {what}: {}", names(sides.before, &diff.removed)));
    }
    if !diff.added.is_empty() {
        let what = render::count(diff.added.len(), "computation", "computations");
        page.added(&format!("  + {what}: {}", names(sides.after, &diff.added)));
    }
}

/// The changes that several computations have.
fn frequent(page: &mut Page, diff: &ModuleDiff<'_>) {
    let mut counts: FxHashMap<&Change<'_>, (usize, FxHashSet<usize>)> = FxHashMap::default();
    for (index, computation) in diff.computations.iter().enumerate() {
        for change in computation.changed.iter().flat_map(|instr| &instr.changes) {
            let (instrs, computations) = counts.entry(change).or_default();
            *instrs += 1;
            computations.insert(index);
        }
    }
    let mut frequent: Vec<_> =
        counts.into_iter().filter(|(_, (_, computations))| computations.len() > 1).collect();
    frequent.sort_by(|(x, (in_x, _)), (y, (in_y, _))| {
        in_y.cmp(in_x).then_with(|| (&x.before, &x.after).cmp(&(&y.before, &y.after)))
    });
    if frequent.is_empty() {
        return;
    }
    page.blank();
    page.line("changes in several computations");
    for (change, (instrs, computations)) in frequent.iter().take(page.top) {
        let lead = format!("  {} instructions in {} computations, ", grouped(*instrs), computations.len());
        change_lines(page, &lead, change);
    }
    more(page, frequent.len(), "changes");
}

/// The changes of each computation, those with most changes first.
fn computations(page: &mut Page, diff: &ModuleDiff<'_>, sides: &Sides<'_>) {
    let mut changed: Vec<&ChangedComputation<'_>> =
        diff.computations.iter().filter(|computation| !computation.is_empty()).collect();
    changed.sort_by_key(|computation| std::cmp::Reverse(computation.len()));
    for computation in changed.iter().take(page.top) {
        page.blank();
        heading(page, computation, sides);
        let groups = computation.groups();
        for group in groups.iter().take(page.top) {
            match group.instrs[..] {
                [(before, after)] => {
                    change_lines(page, &format!("  {}, ", both(before.name(), after.name())), group.change);
                }
                _ => {
                    let count = grouped(group.instrs.len());
                    change_lines(page, &format!("  {count} instructions, "), group.change);
                    let names = group.instrs.iter().map(|(before, _)| format!("%{}", before.name()));
                    page.line(&format!("    {}", list(names, group.instrs.len(), WIDTH - 4)));
                }
            }
        }
        more(page, groups.len(), "changes");
        let (removed, added) = (&computation.removed, &computation.added);
        instrs(page, '-', removed, |instr| describe(sides.before, instr, sides.ignored));
        instrs(page, '+', added, |instr| describe(sides.after, instr, sides.ignored));
    }
    if changed.len() > page.top {
        page.blank();
        more(page, changed.len(), "computations with changes");
    }
}

fn heading(page: &mut Page, computation: &ChangedComputation<'_>, sides: &Sides<'_>) {
    let names = both(
        sides.before.computation_name(computation.before),
        sides.after.computation_name(computation.after),
    );
    let entry = if computation.after == sides.after.entry() { "ENTRY " } else { "" };
    let runs = match computation.runs {
        [before, after] if before == after && before <= 1.0 => String::new(),
        [before, after] if before == after => format!(", run {} times", scaled(after, "")),
        [before, after] => format!(", run {} -> {} times", scaled(before, ""), scaled(after, "")),
    };
    let counts = [computation.changed.len(), computation.removed.len(), computation.added.len()];
    let counts = counts.into_iter().zip(["changed", "removed", "added"]).filter(|&(count, _)| count > 0);
    let counts: Vec<String> = counts.map(|(count, what)| format!("{} {what}", grouped(count))).collect();
    let counts = format!("{}, {} unchanged", counts.join(", "), grouped(computation.unchanged));
    let line = format!("{entry}{names}{runs}: {counts}");
    if line.chars().count() <= WIDTH {
        return page.line(&line);
    }
    page.line(&format!("{entry}{names}{runs}:"));
    page.line(&format!("  {counts}"));
}

/// Instructions that were removed or added; where there are many, by opcode.
fn instrs(page: &mut Page, sign: char, instrs: &[InstrRef<'_>], describe: impl Fn(InstrRef<'_>) -> String) {
    let lines: Vec<String> = if instrs.len() <= page.top {
        instrs.iter().map(|&instr| describe(instr)).collect()
    } else {
        let mut opcodes: Vec<(String, Vec<InstrRef<'_>>)> = Vec::new();
        for &instr in instrs {
            let opcode = instr.opcode_text();
            match opcodes.iter_mut().find(|(other, _)| *other == opcode) {
                Some((_, same)) => same.push(instr),
                None => opcodes.push((opcode, vec![instr])),
            }
        }
        opcodes.sort_by_key(|(_, same)| std::cmp::Reverse(same.len()));
        let line = |(opcode, same): &(String, Vec<InstrRef<'_>>)| match same[..] {
            [one] => describe(one),
            _ => {
                let names = same.iter().map(|instr| format!("%{}", instr.name()));
                {
                    let lead = format!("{} {opcode}: ", grouped(same.len()));
                    let names = list(names, same.len(), (WIDTH - 4).saturating_sub(lead.len()));
                    lead + &names
                }
            }
        };
        opcodes.iter().map(line).collect()
    };
    for line in lines.iter().take(page.top) {
        match sign {
            '-' => page.removed(&format!("  - {line}")),
            _ => page.added(&format!("  + {line}")),
        }
    }
    if lines.len() > page.top {
        page.line(&format!("  {sign} {} more opcodes", lines.len() - page.top));
    }
}

/// A change: in one line if it fits, else with the values in lines of their own.
fn change_lines(page: &mut Page, lead: &str, change: &Change<'_>) {
    let part = part_text(&change.part);
    let (Some(before), Some(after)) = (&change.before, &change.after) else {
        match (&change.before, &change.after) {
            (Some(value), _) => page.line(&format!("{lead}{part}: {} -> none", unquoted(value))),
            (_, Some(value)) => page.line(&format!("{lead}{part}: none -> {}", unquoted(value))),
            (None, None) => page.line(&format!("{lead}{part}")),
        }
        return;
    };
    let (before, after) = (unquoted(before), unquoted(after));
    let line = format!("{lead}{part}: {before} -> {after}");
    if line.chars().count() <= WIDTH && !line.contains('\n') {
        return page.line(&line);
    }
    let (before, after) = differing(&before, &after, WIDTH - 6);
    page.line(&format!("{lead}{part}"));
    page.removed(&format!("    - {before}"));
    page.added(&format!("    + {after}"));
}

/// The name of what changed.
pub(super) fn part_text(part: &ChangedPart<'_>) -> String {
    match part {
        ChangedPart::Opcode => "opcode".to_owned(),
        ChangedPart::Shape => "shape".to_owned(),
        ChangedPart::Sharding => "sharding".to_owned(),
        ChangedPart::Constant => "constant".to_owned(),
        ChangedPart::ParameterNumber => "parameter number".to_owned(),
        ChangedPart::Attribute(name) => (*name).to_owned(),
        ChangedPart::Callee(attr) => (*attr).to_owned(),
        ChangedPart::Operand(position) => format!("operand {position}"),
        ChangedPart::OperandCount => "number of operands".to_owned(),
        ChangedPart::Name => "name".to_owned(),
        ChangedPart::Order => "order".to_owned(),
    }
}

/// The devices of a collective: `2 groups of 4`.
pub(super) fn groups_text(kind: CollectiveKind, groups: Option<&ReplicaGroups>) -> String {
    match groups {
        None => "unknown devices".to_owned(),
        Some(ReplicaGroups::All) => "all devices".to_owned(),
        Some(ReplicaGroups::Axes { axes, .. }) => format!("along {}", axes.join(" and ")),
        Some(ReplicaGroups::Listed(pairs)) if kind == CollectiveKind::Permute => {
            render::count(pairs.len(), "pair", "pairs")
        }
        Some(ReplicaGroups::Listed(groups)) => {
            let first = groups.first().map_or(&[][..], |group| &group[..]);
            let shown: Vec<String> = first.iter().take(DEVICES).map(ToString::to_string).collect();
            let rest = if first.len() > DEVICES { ",…" } else { "" };
            let groups = render::count(groups.len(), "group", "groups");
            format!("{groups} of {}: {}{rest}", first.len(), shown.join(","))
        }
    }
}

/// A string without its quotes; any other value as it is.
fn unquoted(text: &str) -> String {
    match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(inner) => inner.replace("\\\"", "\""),
        None => text.to_owned(),
    }
}

/// `%a`, or `%a -> %b`
fn both(before: &str, after: &str) -> String {
    if before == after { format!("%{after}") } else { format!("%{before} -> %{after}") }
}

/// The first names, at least one of them, and how many more there are, in so many characters.
fn list(names: impl Iterator<Item = String>, count: usize, width: usize) -> String {
    let mut text = String::new();
    for (index, name) in names.enumerate() {
        let more = format!(" and {} more", grouped(count - index));
        let is_last = index + 1 == count;
        let room = if is_last { width } else { width.saturating_sub(more.len()) };
        if index > 0 && text.chars().count() + 2 + name.chars().count() > room {
            return text + &more;
        }
        text.push_str(if index > 0 { ", " } else { "" });
        text.push_str(&name);
    }
    text
}

/// The parts of two texts from shortly before their first difference on, at most so many characters.
fn differing(before: &str, after: &str, width: usize) -> (String, String) {
    let equal = before.chars().zip(after.chars()).take_while(|(x, y)| x == y).count();
    let longest = before.chars().count().max(after.chars().count());
    if longest <= width {
        return (before.to_owned(), after.to_owned());
    }
    // Some of what is equal shows where the difference is.
    let start = equal.saturating_sub(width / 3).min(longest - width);
    let part = |text: &str| {
        let rest: String = text.chars().skip(start).collect();
        let rest = rest.replace('\n', " ");
        cut(&if start > 0 { format!("…{}", rest.chars().skip(1).collect::<String>()) } else { rest }, width)
    };
    (part(before), part(after))
}

/// The first characters of a text, with `…` if there are more.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width - 1).chain(['…']).collect()
}

/// `12,345`
pub(super) fn grouped(count: usize) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        text.push_str(if index > 0 && (digits.len() - index).is_multiple_of(3) { "," } else { "" });
        text.push(digit);
    }
    text
}

/// `+1,234`, `-5`, or `=` for no difference.
fn signed(difference: f64) -> String {
    let size = grouped(difference.abs() as usize);
    match difference {
        _ if difference > 0.0 => format!("+{size}"),
        _ if difference < 0.0 => format!("-{size}"),
        _ => "=".to_owned(),
    }
}

/// `1.23 TFLOP`; a count below a hundred thousand as it is.
pub(super) fn scaled(amount: f64, unit: &str) -> String {
    const PREFIXES: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    if unit.is_empty() && amount < 1e5 {
        return grouped(amount as usize);
    }
    let (mut value, mut prefix) = (amount, 0);
    while value >= 999.5 && prefix + 1 < PREFIXES.len() {
        value /= 1000.0;
        prefix += 1;
    }
    let digits = if prefix == 0 || value >= 99.95 { 0 } else { usize::from(value < 9.995) + 1 };
    format!("{value:.digits$} {}{unit}", PREFIXES[prefix]).trim_end().to_owned()
}

/// `+12.5 %`, `x 3.1`, or `=` for no difference.
fn ratio(before: f64, after: f64) -> String {
    match after / before {
        _ if after == before => "=".to_owned(),
        ratio if !ratio.is_finite() => "new".to_owned(),
        ratio if ratio >= 2.0 => format!("x {ratio:.1}"),
        ratio if (ratio - 1.0).abs() < 0.0005 => {
            format!("{}{}", if ratio < 1.0 { "-" } else { "+" }, scaled((after - before).abs(), ""))
        }
        ratio => format!("{:+.1} %", 100.0 * (ratio - 1.0)),
    }
}
