//! The differences of two modules as text.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    computations::{change_lines, computations},
    format::{list, ratio, signed},
    page::Page,
    sides::{Sides, instructions_of},
};
use crate::{
    analyze::CollectiveKind,
    cli::{
        Style,
        figures::{WIDTH, grouped, scaled},
        render,
    },
    diff::{Change, CollectiveClass, Counted, Ignore, ModuleDiff, Totals},
    hlo::raw::{CompId, Module, ReplicaGroups},
};

/// Devices of a group to show.
const DEVICES: usize = 3;

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

fn summary(page: &mut Page, diff: &ModuleDiff<'_>, sides: &Sides<'_>) {
    for (side, module) in [("before", sides.before), ("after", sides.after)] {
        page.line(&format!("{side:<8}{}", file(module)));
    }
    let ignored: Vec<&str> = sides.ignored.iter().map(Ignore::name).collect();
    page.line(&format!("ignored {}", if ignored.is_empty() { "nothing".into() } else { ignored.join(", ") }));
    page.blank();
    page.line(if diff.equal { "equal" } else { "different" });
    let computations = [diff.computations.len(), diff.removed.len(), diff.added.len()];
    if computations.iter().any(|&count| count > 0) {
        if diff.equal {
            page.line("  but for computations that the entry does not call");
        }
        page.line(&format!("  instructions  {}", counts_text(sides.counts(diff))));
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

/// The file of a module and the module's name; only the end of the file's path if there is no room for more.
fn file(module: &Module) -> String {
    const ROOM: usize = WIDTH - 8;
    let (file, name) = (module.file(), module.name());
    let length = file.chars().count();
    match length + 2 + name.chars().count() {
        all if all <= ROOM => format!("{file}  {name}"),
        _ if length <= ROOM => file.to_owned(),
        _ => ['…'].into_iter().chain(file.chars().skip(length - ROOM + 1)).collect(),
    }
}

/// `3 changed, 2 removed, 1 added`
fn counts_text([changed, removed, added]: [usize; 3]) -> String {
    format!("{} changed, {} removed, {} added", grouped(changed), grouped(removed), grouped(added))
}

fn side_by_side(page: &mut Page, diff: &ModuleDiff<'_>) {
    let [before, after] = &diff.side_by_side.totals;
    page.blank();
    page.row("", ["before", "after", "difference"].map(str::to_owned));
    page.counted("instructions", before.instructions, after.instructions);
    page.counted("computations", before.computations, after.computations);
    let mut amount = |name: &str, unit: &str, of: fn(&Totals) -> f64| {
        let (before, after) = (of(before), of(after));
        if before > 0.0 || after > 0.0 {
            page.row(name, [scaled(before, unit), scaled(after, unit), ratio(before, after)]);
        }
    };
    amount("products and convolutions", "FLOP", |totals| totals.flops.products);
    amount("elementwise operations", "FLOP", |totals| totals.flops.elementwise);
    amount("transcendentals", "", |totals| totals.flops.transcendentals);
    amount("bytes read and written", "B", |totals| totals.bytes);
    amount("memory at the peak", "B", |totals| totals.peak_bytes.unwrap_or(0) as f64);
    amount("collectives run", "", |totals| totals.collectives);
    amount("bytes of their full arrays", "B", |totals| totals.collective_bytes);
    let mut opcodes: Vec<&Counted<String, usize>> =
        diff.side_by_side.opcodes.iter().filter(|one| one.before != one.after).collect();
    opcodes.sort_by_key(|one| std::cmp::Reverse(one.before.abs_diff(one.after)));
    page.title("instructions by opcode", opcodes.len());
    for Counted { key, before, after } in opcodes.iter().take(page.top) {
        page.counted(&format!("  {key}"), *before, *after);
    }
    page.more(opcodes.len(), "opcodes with other counts");
    let mut collectives: Vec<_> =
        diff.side_by_side.collectives.iter().filter(|one| one.before != one.after).collect();
    let moved = |one: &Counted<CollectiveClass, f64>| one.key.bytes as f64 * (one.before - one.after).abs();
    collectives.sort_by(|x, y| moved(y).total_cmp(&moved(x)));
    page.title("collectives by size and devices, times run", collectives.len());
    for Counted { key: CollectiveClass { kind, bytes, groups }, before, after } in
        collectives.iter().take(page.top)
    {
        let groups = groups_text(*kind, groups.as_ref());
        let difference = signed(*after - *before);
        let name = format!("  {kind} {}, {groups}", render::bytes(*bytes));
        page.row(&name, [scaled(*before, ""), scaled(*after, ""), difference]);
    }
    page.more(collectives.len(), "kinds of collectives with other counts");
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

fn module_changes(page: &mut Page, diff: &ModuleDiff<'_>, sides: &Sides<'_>) {
    if !diff.module.is_empty() || !diff.removed.is_empty() || !diff.added.is_empty() {
        page.blank();
        page.line("module");
    }
    diff.module.iter().for_each(|change| change_lines(page, "  ", change));
    let computations = |sign: char, module: &Module, ids: &[CompId]| {
        let noun = if ids.len() == 1 { "computation" } else { "computations" };
        let (count, instrs) = (grouped(ids.len()), grouped(instructions_of(module, ids)));
        let lead = format!("  {sign} {count} {noun}, {instrs} instructions: ");
        let names = ids.iter().map(|&id| format!("%{}", module.computation_name(id)));
        let room = WIDTH.saturating_sub(lead.len());
        lead + &list(names, ids.len(), room)
    };
    if !diff.removed.is_empty() {
        page.removed(&computations('-', sides.before, &diff.removed));
    }
    if !diff.added.is_empty() {
        page.added(&computations('+', sides.after, &diff.added));
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
    page.more(frequent.len(), "changes");
}
