//! Buffers from the values of a walk.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::{
    super::op_name::op_name,
    buffer::{Buffer, BufferKind},
    flow::{Flow, Origin},
    groups::Groups,
    in_place::aliases,
};
use crate::hlo::raw::{AttrName, CompId, Module, Opcode};

/// Maximum number of results whose memory is considered for a temporary, from the smallest that is large enough.
const MAX_RESULTS_TRIED: usize = 64;

/// The buffers of the values of a walk, of which these leaves are the result.
pub(super) fn collect<'m>(
    module: &'m Module,
    flow: &mut Flow<'m>,
    result: std::ops::Range<usize>,
) -> Vec<Buffer<'m>> {
    let mut groups = Groups::new(flow.values.len());
    for at in 0..flow.values.len() as u32 {
        groups.join(at, flow.same.find(at));
    }
    for &(a, b) in &flow.joined {
        groups.join(a, b);
    }
    let outputs: Vec<u32> = result.clone().map(|at| flow.ids[at]).collect();
    for (output, input) in donations(module, flow) {
        if let (Some(&output), Some(&input)) = (outputs.get(output), flow.ids.get(input)) {
            groups.join(output, input);
        }
    }
    let outputs: Vec<u32> = outputs.iter().map(|&output| groups.find(output)).collect();
    let reusing = std::mem::take(&mut flow.reusing);
    reuse(flow, &reusing, &mut groups, &outputs);
    let handovers = handovers(flow, &reusing, &mut groups);

    let mut members: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
    for at in 0..flow.values.len() as u32 {
        if flow.same.find(at) == at {
            members.entry(groups.find(at)).or_default().push(at);
        }
    }
    let mut is_output = vec![false; flow.values.len()];
    outputs.iter().for_each(|&output| is_output[groups.find(output) as usize] = true);
    let mut members: Vec<(u32, Vec<u32>)> = members.into_iter().collect();
    members.sort_unstable_by_key(|&(group, _)| group);
    let buffers = members.into_iter().map(|(group, members)| {
        let values = members.iter().map(|&member| &flow.values[member as usize]);
        let kind = if values.clone().any(|value| value.origin == Origin::Parameter) {
            BufferKind::Parameter
        } else if is_output[group as usize] {
            BufferKind::Output
        } else if values.clone().all(|value| value.origin == Origin::Constant) {
            BufferKind::Constant
        } else {
            BufferKind::Temporary
        };
        let first = values.clone().min_by_key(|value| (value.origin != Origin::Parameter, value.first));
        let first = first.expect("a buffer has a value");
        let (computation, instr, space) = (first.computation, first.instr, first.leaf.space);
        let named = values.clone().filter(|value| op_name(module, value.instr).is_some());
        let named = named.min_by_key(|value| value.first).map_or(instr, |value| value.instr);
        let bytes = values.clone().map(|value| value.leaf.bytes).max().unwrap_or(0);
        let live = merged(values.map(|value| (value.first, value.last)).collect());
        let buffer = Buffer {
            computation,
            instr,
            op_name: op_name(module, named),
            stack_frame: named.metadata("stack_frame_id").and_then(|frame| frame.parse().ok()),
            kind,
            bytes,
            space,
            live,
        };
        Candidate { buffer, group, is_result: is_output[group as usize], in_use: BTreeMap::new() }
    });
    let mut candidates: Vec<Candidate<'m>> = buffers.filter(|candidate| candidate.buffer.bytes > 0).collect();
    fill_results(&mut candidates, &handovers);
    let last = (flow.positions.len() as u32).saturating_sub(1);
    let held = candidates.into_iter().map(|Candidate { mut buffer, .. }| {
        if buffer.kind != BufferKind::Temporary {
            buffer.live = vec![(0, last)];
        }
        buffer
    });
    held.collect()
}

/// A buffer before temporaries are put into the memory of results.
struct Candidate<'m> {
    buffer: Buffer<'m>,
    group: u32,
    is_result: bool,
    /// When values are in this result, from first to last position.
    in_use: BTreeMap<u32, u32>,
}

/// The position at which an instruction that reads the buffer of one group may write that of another.
type Handovers = FxHashMap<(u32, u32), u32>;

fn handovers(flow: &mut Flow<'_>, reusing: &[(u32, u32)], groups: &mut Groups) -> Handovers {
    let mut found = Handovers::default();
    for &(value, operand) in reusing {
        let (value, operand) = (flow.same.find(value), flow.same.find(operand));
        let (a, b) = (&flow.values[value as usize], &flow.values[operand as usize]);
        if a.leaf == b.leaf && b.last == a.first {
            found.insert((groups.find(operand), groups.find(value)), a.first);
        }
    }
    found
}

/// Puts temporaries into the memory of results while that has no value.
fn fill_results(candidates: &mut Vec<Candidate<'_>>, handovers: &Handovers) {
    // The largest last, and of equal ones the first made: those are placed first, as in XLA.
    candidates.reverse();
    candidates.sort_by_key(|candidate| candidate.buffer.bytes);
    let results: Vec<usize> = (0..candidates.len()).filter(|&at| candidates[at].is_result).collect();
    for &result in &results {
        let Candidate { buffer, in_use, .. } = &mut candidates[result];
        in_use.extend(buffer.live.iter().copied());
    }
    let mut is_filling = vec![false; candidates.len()];
    for at in (0..candidates.len()).rev() {
        let Candidate { buffer: temporary, group, .. } = &candidates[at];
        if temporary.kind != BufferKind::Temporary {
            continue;
        }
        let first = results.partition_point(|&result| candidates[result].buffer.bytes < temporary.bytes);
        let result = results[first..].iter().take(MAX_RESULTS_TRIED).copied().find(|&at| {
            let result = &candidates[at];
            let handover = handovers.get(&(*group, result.group)).copied();
            let mut live = temporary.live.iter();
            result.buffer.space == temporary.space
                && live.all(|&range| is_free(&result.in_use, range, handover))
        });
        if let Some(result) = result {
            is_filling[at] = true;
            let live = temporary.live.clone();
            candidates[result].in_use.extend(live);
        }
    }
    let mut is_filling = is_filling.into_iter();
    candidates.retain(|_| is_filling.next() == Some(false));
}

/// Whether a range meets none of others, which go from key to value and are disjoint. It may end where another begins if memory is
/// handed over there.
fn is_free(ranges: &BTreeMap<u32, u32>, (first, last): (u32, u32), handover: Option<u32>) -> bool {
    let end = if handover == Some(last) { last.saturating_sub(1) } else { last };
    ranges.range(..=end).next_back().is_none_or(|(_, &end)| end < first)
}

/// The leaves of the result that are in the memory of parameters, and the positions of those among the ids of the walk.
fn donations(module: &Module, flow: &mut Flow<'_>) -> Vec<(usize, usize)> {
    let Some(text) = module.attr(AttrName::InputOutputAlias) else { return vec![] };
    let root = module.instruction(module.entry(), module.root(module.entry())).shape();
    let mut parameters = FxHashMap::default();
    for (at, value) in flow.ids.iter().map(|&id| &flow.values[id as usize]).enumerate() {
        if value.origin == Origin::Parameter && value.instr.opcode() == Opcode::Parameter {
            let number = value.instr.payload().parse::<usize>().ok();
            number.map(|number| *parameters.entry(number).or_insert((at, value.instr.shape())));
        }
    }
    let mut found = Vec::new();
    for alias in aliases(text) {
        let Some(&(start, shape)) = parameters.get(&alias.input) else { continue };
        let output = flow.rules.leaf(root, &alias.output);
        if let (Some(output), Some(input)) = (output, flow.rules.leaf(shape, &alias.input_path)) {
            found.push((output, start + input));
        }
    }
    found
}

/// Puts values into the buffer of an operand that nothing reads afterward, where each of the two has a buffer of its own.
fn reuse(flow: &mut Flow<'_>, reusing: &[(u32, u32)], groups: &mut Groups, outputs: &[u32]) {
    let count = flow.values.len() as u32;
    let group_of: Vec<u32> = (0..count).map(|at| groups.find(at)).collect();
    let mut sizes = vec![0_u32; flow.values.len()];
    for at in (0..count).filter(|&at| flow.same.find(at) == at) {
        sizes[group_of[at as usize] as usize] += 1;
    }
    // Results have buffers that exist before the run.
    outputs.iter().for_each(|&output| sizes[output as usize] += 1);
    let is_alone = |value: usize| sizes[group_of[value] as usize] == 1;
    let mut taken = vec![false; flow.values.len()];
    let mut placed = vec![false; flow.values.len()];
    for &(value, operand) in reusing {
        let (value, operand) = (flow.same.find(value) as usize, flow.same.find(operand) as usize);
        let (a, b) = (&flow.values[value], &flow.values[operand]);
        if a.leaf == b.leaf
            && b.origin == Origin::Computed
            && b.last == a.first
            && !(taken[operand] || placed[value])
            && is_alone(value)
            && is_alone(operand)
        {
            taken[operand] = true;
            placed[value] = true;
            groups.join(value as u32, operand as u32);
        }
    }
}

/// Ranges in order, those that touch as one.
fn merged(mut ranges: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
    ranges.sort_unstable();
    let mut merged: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match merged.last_mut() {
            Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
            _ => merged.push((first, last)),
        }
    }
    merged
}

/// The sum of the buffers at each position. Constants do not count.
pub(super) fn curve<'b, 'm: 'b>(positions: usize, buffers: impl Iterator<Item = &'b Buffer<'m>>) -> Vec<u64> {
    let mut steps = vec![0_i128; positions + 1];
    for buffer in buffers.filter(|buffer| buffer.kind != BufferKind::Constant) {
        for &(first, last) in &buffer.live {
            steps[first as usize] += i128::from(buffer.bytes);
            steps[(last as usize + 1).min(positions)] -= i128::from(buffer.bytes);
        }
    }
    steps.truncate(positions);
    let mut sum = 0;
    let sums = steps.into_iter().map(|step| {
        sum += step;
        u64::try_from(sum).unwrap_or(u64::MAX)
    });
    sums.collect()
}

/// Adds one buffer for each further call of a computation: the memory that the first call needed beyond what was in use.
pub(super) fn add_repeats<'m>(flow: &Flow<'m>, buffers: &mut Vec<Buffer<'m>>) {
    let mut extra: FxHashMap<CompId, u64> = FxHashMap::default();
    let mut curve = curve(flow.positions.len(), buffers.iter().filter(|buffer| buffer.space == 0));
    for repeat in &flow.repeats {
        let Some((first, last)) = flow.spans[repeat.callee.index()] else { continue };
        let (first, last) = (first as usize, last as usize);
        let bytes = *extra.entry(repeat.callee).or_insert_with(|| {
            let before = first.checked_sub(1).map_or(0, |before| curve[before]);
            let highest = curve.get(first..=last).into_iter().flatten().copied().max().unwrap_or(0);
            highest.saturating_sub(before)
        });
        let position = repeat.position.min(flow.positions.len() as u32 - 1);
        curve[position as usize] = curve[position as usize].saturating_add(bytes);
        if bytes > 0 {
            buffers.push(Buffer {
                computation: repeat.caller,
                instr: repeat.instr,
                op_name: repeat.instr.metadata("op_name"),
                stack_frame: repeat.instr.metadata("stack_frame_id").and_then(|frame| frame.parse().ok()),
                kind: BufferKind::Temporary,
                bytes,
                space: 0,
                live: vec![(position, position)],
            });
        }
    }
}
