//! Changes, by themselves and grouped by computation.

use super::{
    format::{both, differing, list, unquoted},
    page::Page,
    sides::Sides,
};
use crate::{
    cli::figures::{WIDTH, grouped, scaled},
    diff::{Change, ChangedComputation, ChangedPart, Ignore, ModuleDiff, describe},
    hlo::raw::InstrRef,
};

/// The changes of each computation, those with most changes first.
pub(super) fn computations(page: &mut Page, diff: &ModuleDiff<'_>, sides: &Sides<'_>) {
    let is_renamed = |one: &ChangedComputation<'_>| {
        !sides.ignored.has(Ignore::Names)
            && sides.before.computation_name(one.before) != sides.after.computation_name(one.after)
    };
    let changed = diff.computations.iter().filter(|one| !one.is_empty() || is_renamed(one));
    let mut changed: Vec<&ChangedComputation<'_>> = changed.collect();
    changed.sort_by_key(|computation| std::cmp::Reverse(computation.len()));
    for computation in changed.iter().take(page.top) {
        page.blank();
        heading(page, computation, sides);
        if let Some([before, after]) = computation.root {
            page.line(&format!("  ROOT: %{} -> %{}", before.name(), after.name()));
        }
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
        page.more(groups.len(), "changes");
        let (removed, added) = (&computation.removed, &computation.added);
        instrs(page, '-', removed, |instr| describe(sides.before, instr, sides.ignored));
        instrs(page, '+', added, |instr| describe(sides.after, instr, sides.ignored));
    }
    if changed.len() > page.top {
        page.blank();
        page.more(changed.len(), "computations with changes");
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
        [before, after] if before == after => format!("run {} times, ", scaled(after, "")),
        [before, after] => format!("run {} -> {} times, ", scaled(before, ""), scaled(after, "")),
    };
    let ChangedComputation { changed, removed, added, unchanged, .. } = computation;
    let counts = [
        (changed.len(), "changed"),
        (removed.len(), "removed"),
        (added.len(), "added"),
        (*unchanged, "unchanged"),
    ];
    let counts = counts.into_iter().filter(|&(count, _)| count > 0);
    let counts: Vec<String> = counts.map(|(count, what)| format!("{} {what}", grouped(count))).collect();
    let counts = runs + &counts.join(", ");
    let line = format!("{entry}{names}: {counts}");
    if line.chars().count() <= WIDTH {
        return page.line(&line);
    }
    page.line(&format!("{entry}{names}:"));
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
                let lead = format!("{} {opcode}: ", grouped(same.len()));
                let room = (WIDTH - 4).saturating_sub(lead.len());
                lead + &list(names, same.len(), room)
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
pub(super) fn change_lines(page: &mut Page, lead: &str, change: &Change<'_>) {
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
fn part_text(part: &ChangedPart<'_>) -> String {
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
