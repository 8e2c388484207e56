//! The attributes of an instruction as text, in XLA's order.

use std::fmt::Write;

use super::{
    messages_instr::HloInstructionProto,
    number,
    text_attrs::Attrs,
    text_literal::push_literal,
    text_scope::Scope,
    text_shape::{join, push_shape},
    text_sharding::{push_groups, push_sharding},
};
use crate::{
    base::Diagnostic,
    hlo::raw::{attr::AttrName, opcode::Opcode, words},
};

/// Appends the attributes that the opcode has of its own, the called computations included.
pub(super) fn push_own(
    attrs: &mut Attrs<'_>,
    instr: &HloInstructionProto,
    scope: &Scope<'_>,
) -> Result<(), Diagnostic> {
    if let Some(replication) = &instr.parameter_replication {
        attrs.list("parameter_replication", &replication.replicated_at_leaf_buffers);
    }
    push_collective(attrs, instr)?;
    push_numbers(attrs, instr)?;
    push_ranges(attrs, instr)?;
    push_io(attrs, instr)?;
    push_compare(attrs, instr, scope)?;
    attrs.push_dot(instr)?;
    attrs.push_gather(instr);
    attrs.flag("indices_are_sorted", instr.indices_are_sorted);
    attrs.flag("unique_indices", instr.unique_indices);
    if instr.opcode == "get-tuple-element" || instr.tuple_index != 0 {
        attrs.value("index", instr.tuple_index);
    }
    attrs.word("kind", &instr.fusion_kind)?;
    push_custom_call(attrs, instr)?;
    push_options(attrs, instr)?;
    push_domain(attrs, instr, scope)?;
    attrs.push_accuracy(instr)?;
    push_called(attrs, instr, scope)?;
    if instr.opcode != "custom-call" && instr.opcode != "fusion" {
        push_aliasing(attrs, instr);
    }
    attrs.flag("is_composite", instr.is_composite);
    Ok(())
}

fn push_collective(attrs: &mut Attrs<'_>, instr: &HloInstructionProto) -> Result<(), Diagnostic> {
    let opcode = instr.opcode.as_str();
    let base = opcode.strip_suffix("-start").unwrap_or(opcode);
    if instr.channel_id != 0 {
        attrs.value("channel_id", instr.channel_id);
    }
    attrs.flag("is_host_transfer", instr.is_host_transfer);
    let in_groups = [
        "all-gather",
        "all-reduce",
        "all-to-all",
        "collective-broadcast",
        "ragged-all-to-all",
        "reduce-scatter",
    ];
    let has_groups = instr.collective_device_list.is_some()
        || instr.iota_collective_device_list.is_some()
        || instr.mesh_axes_replica_group_list.is_some()
        || !instr.replica_groups.is_empty();
    if base == "collective-permute" {
        let pairs =
            instr.source_target_pairs.iter().map(|pair| format!("{{{},{}}}", pair.source, pair.target));
        attrs.value("source_target_pairs", format_args!("{{{}}}", pairs.collect::<Vec<_>>().join(",")));
        if !instr.dynamic_slice_sizes.is_empty() {
            push_slice_sizes(attrs, instr)?;
        }
    } else if in_groups.contains(&base) || has_groups {
        let mut groups = String::new();
        push_groups(&mut groups, instr)?;
        attrs.value("replica_groups", groups);
    }
    if opcode != "custom-call" {
        attrs.flag("constrain_layout", instr.constrain_layout);
    }
    if base != "all-gather" {
        attrs.flag("use_global_device_ids", instr.use_global_device_ids);
    }
    push_dimensions(attrs, instr);
    if base == "all-gather" {
        attrs.flag("use_global_device_ids", instr.use_global_device_ids);
    }
    Ok(())
}

/// The slices that a collective-permute sends, each with as many sizes as its array has dimensions.
fn push_slice_sizes(attrs: &mut Attrs<'_>, instr: &HloInstructionProto) -> Result<(), Diagnostic> {
    let rank = instr.shape.as_ref().map_or(0, |shape| {
        let mut array = &**shape;
        while let Some(first) = array.tuple_shapes.first() {
            array = first;
        }
        array.dimensions.len()
    });
    let sizes = &instr.dynamic_slice_sizes;
    if rank == 0 || !sizes.len().is_multiple_of(rank) {
        return Err(format!("expected slice sizes for {rank} dimensions, found {sizes:?}").into());
    }
    let slices = sizes.chunks(rank).map(|sizes| format!("{{{}}}", join(sizes)));
    attrs.value("slice_sizes", format_args!("{{{}}}", slices.collect::<Vec<_>>().join(",")));
    Ok(())
}

fn push_dimensions(attrs: &mut Attrs<'_>, instr: &HloInstructionProto) {
    match (instr.opcode.as_str(), &instr.dimensions[..]) {
        ("iota", [dim]) => attrs.value("iota_dimension", dim),
        ("reshape", [dim]) => attrs.value("inferred_dimension", dim),
        (opcode, dims) => {
            // Where a text needs them, XLA prints them even if there are none.
            let is_required = |opcode: Opcode| opcode.required().contains(&AttrName::Dimensions);
            let is_printed =
                matches!(opcode, "broadcast" | "map") || Opcode::from_name(opcode).is_some_and(is_required);
            if is_printed || !dims.is_empty() {
                attrs.list("dimensions", dims);
            }
        }
    }
}

fn push_numbers(attrs: &mut Attrs<'_>, instr: &HloInstructionProto) -> Result<(), Diagnostic> {
    let opcode = instr.opcode.as_str();
    if opcode.starts_with("batch-norm") || instr.epsilon != 0.0 || instr.feature_index != 0 {
        attrs.value("epsilon", number::single(instr.epsilon));
        attrs.value("feature_index", instr.feature_index);
    }
    if opcode == "fft" || instr.fft_type != 0 || !instr.fft_length.is_empty() {
        attrs.one_of("fft_type", words::FFT_TYPES, instr.fft_type)?;
        attrs.list("fft_length", &instr.fft_length);
    }
    attrs.flag("is_stable", instr.is_stable);
    attrs.push_convolution(instr)
}

fn push_ranges(attrs: &mut Attrs<'_>, instr: &HloInstructionProto) -> Result<(), Diagnostic> {
    let opcode = instr.opcode.as_str();
    if opcode == "slice" || !instr.slice_dimensions.is_empty() {
        let strided = instr.slice_dimensions.iter().any(|range| range.stride != 1);
        let ranges = instr.slice_dimensions.iter().map(|range| match strided {
            false => format!("[{}:{}]", range.start, range.limit),
            true => format!("[{}:{}:{}]", range.start, range.limit, range.stride),
        });
        attrs.value("slice", format_args!("{{{}}}", ranges.collect::<Vec<_>>().join(", ")));
    }
    let is_permute = opcode.starts_with("collective-permute");
    if opcode == "dynamic-slice" || (!instr.dynamic_slice_sizes.is_empty() && !is_permute) {
        attrs.list("dynamic_slice_sizes", &instr.dynamic_slice_sizes);
    }
    if opcode == "reduce-precision" || instr.exponent_bits != 0 || instr.mantissa_bits != 0 {
        attrs.value("exponent_bits", instr.exponent_bits);
        attrs.value("mantissa_bits", instr.mantissa_bits);
    }
    if let Some(padding) = &instr.padding_config {
        let interior = padding.dimensions.iter().any(|dim| dim.interior_padding != 0);
        let dims = padding.dimensions.iter().map(|dim| {
            let (low, high) = (dim.edge_padding_low, dim.edge_padding_high);
            if interior { format!("{low}_{high}_{}", dim.interior_padding) } else { format!("{low}_{high}") }
        });
        attrs.value("padding", dims.collect::<Vec<_>>().join("x"));
    }
    Ok(())
}

fn push_io(attrs: &mut Attrs<'_>, instr: &HloInstructionProto) -> Result<(), Diagnostic> {
    if let Some(shape) = &instr.outfeed_shape {
        let mut text = String::new();
        push_shape(&mut text, shape)?;
        attrs.value("outfeed_shape", text);
    }
    attrs.quoted("outfeed_config", &instr.outfeed_config);
    attrs.quoted("infeed_config", &instr.infeed_config);
    if instr.opcode == "rng" || instr.distribution != 0 {
        attrs.one_of("distribution", words::DISTRIBUTIONS, instr.distribution)?;
    }
    if instr.opcode == "rng-bit-generator" || instr.rng_algorithm != 0 {
        attrs.one_of("algorithm", words::RNG_ALGORITHMS, instr.rng_algorithm)?;
    }
    if instr.opcode == "rng-get-and-update-state" || instr.delta != 0 {
        attrs.value("delta", instr.delta);
    }
    Ok(())
}

/// The comparison of an element type where none is named.
pub(super) fn default_comparison(element_type: i32) -> &'static str {
    match element_type {
        // S1 .. S64
        2..=5 | 21 | 26 | 30 => "SIGNED",
        // PRED, U1 .. U64
        1 | 6..=9 | 22 | 27 | 31 => "UNSIGNED",
        _ => "FLOAT",
    }
}

fn push_compare(
    attrs: &mut Attrs<'_>,
    instr: &HloInstructionProto,
    scope: &Scope<'_>,
) -> Result<(), Diagnostic> {
    attrs.word("direction", &instr.comparison_direction)?;
    let operand = instr.operand_ids.first().and_then(|id| scope.instrs.get(id));
    let default = operand.map_or("", |operand| default_comparison(operand.element_type));
    if instr.comparison_type != default {
        attrs.word("type", &instr.comparison_type)?;
    }
    Ok(())
}

fn push_custom_call(attrs: &mut Attrs<'_>, instr: &HloInstructionProto) -> Result<(), Diagnostic> {
    let is_custom_call = instr.opcode == "custom-call";
    if instr.padding_type != 0 {
        attrs.one_of("padding_type", words::PADDING_TYPES, instr.padding_type)?;
    }
    if is_custom_call || !instr.custom_call_target.is_empty() {
        attrs.always_quoted("custom_call_target", instr.custom_call_target.as_bytes());
    }
    if (is_custom_call && instr.constrain_layout) || !instr.operand_shapes_with_layout.is_empty() {
        let mut text = String::from("{");
        for (index, shape) in instr.operand_shapes_with_layout.iter().enumerate() {
            text.push_str(if index == 0 { "" } else { ", " });
            push_shape(&mut text, shape)?;
        }
        text.push('}');
        attrs.value("operand_layout_constraints", text);
    }
    attrs.flag("custom_call_has_side_effect", instr.custom_call_has_side_effect);
    if let Some(literal) = instr.literal.as_ref().filter(|_| instr.opcode != "constant") {
        let mut text = String::new();
        push_literal(&mut text, literal, true)?;
        attrs.value("literal", text);
    }
    if is_custom_call || instr.opcode == "fusion" {
        push_aliasing(attrs, instr);
    }
    if instr.custom_call_schedule != 0 {
        attrs.one_of("schedule", words::SCHEDULES, instr.custom_call_schedule)?;
    }
    if !matches!(instr.custom_call_api_version, 0 | 1) {
        attrs.one_of("api_version", words::API_VERSIONS, instr.custom_call_api_version)?;
    }
    Ok(())
}

/// `{{0}: (1, {})}`
fn push_aliasing(attrs: &mut Attrs<'_>, instr: &HloInstructionProto) {
    if instr.output_operand_aliasing.is_empty() {
        return;
    }
    let pairs = instr.output_operand_aliasing.iter().map(|pair| {
        let (output, operand) = (join(&pair.output_shape_index), join(&pair.operand_shape_index));
        format!("{{{output}}}: ({}, {{{operand}}})", pair.operand_index)
    });
    attrs.value("output_to_operand_aliasing", format_args!("{{{}}}", pairs.collect::<Vec<_>>().join(", ")));
}

fn push_options(attrs: &mut Attrs<'_>, instr: &HloInstructionProto) -> Result<(), Diagnostic> {
    if let Some(index) = instr.cross_program_prefetch_index {
        attrs.value("cross_program_prefetch_index", index);
    }
    if let Some(options) = &instr.triangular_solve_options {
        attrs.flag("left_side", options.left_side);
        attrs.flag("lower", options.lower);
        attrs.flag("unit_diagonal", options.unit_diagonal);
        attrs.one_of("transpose_a", words::TRANSPOSES, options.transpose_a)?;
    }
    attrs.flag("lower", instr.cholesky_options.as_ref().is_some_and(|options| options.lower));
    if instr.opcode == "topk" || instr.k != 0 || instr.largest {
        attrs.value("k", instr.k);
        attrs.value("largest", instr.largest);
    }
    if instr.opcode == "scan" || instr.num_carries != 0 {
        attrs.value("num_carries", instr.num_carries);
    }
    attrs.flag("is_reverse", instr.is_reverse);
    match instr.is_associative {
        0 => {}
        1 => attrs.value("is_associative", true),
        2 => attrs.value("is_associative", false),
        other => return Err(format!("unknown value of is_associative: {other}").into()),
    }
    Ok(())
}

fn push_domain(
    attrs: &mut Attrs<'_>,
    instr: &HloInstructionProto,
    scope: &Scope<'_>,
) -> Result<(), Diagnostic> {
    let (entry, exit) = (&instr.domain_entry_sharding, &instr.domain_exit_sharding);
    if instr.opcode != "domain" && entry.is_none() && exit.is_none() {
        return Ok(());
    }
    let mut text = String::from("{kind=\"sharding\"");
    // The text calls the sharding of the operand entry, the message calls it exit.
    for (name, sharding) in [("entry", exit), ("exit", entry)] {
        if let Some(sharding) = sharding {
            let _ = write!(text, ", {name}=");
            push_sharding(&mut text, sharding, scope.payloads)?;
        }
    }
    text.push('}');
    attrs.value("domain", text);
    Ok(())
}

/// The attributes that name called computations.
fn push_called(
    attrs: &mut Attrs<'_>,
    instr: &HloInstructionProto,
    scope: &Scope<'_>,
) -> Result<(), Diagnostic> {
    let ids = &instr.called_computation_ids;
    let names: Vec<&str> = ids.iter().map(|id| scope.computation_name(*id)).collect::<Result<_, _>>()?;
    let mut one = |name: &str, callee: &str| attrs.value(name, format_args!("%{callee}"));
    match (instr.opcode.as_str(), &names[..]) {
        // A computation of XLA's while is its body first.
        ("while", &[body, condition]) => {
            one("condition", condition);
            one("body", body);
        }
        ("select-and-scatter", &[select, scatter]) => {
            one("select", select);
            one("scatter", scatter);
        }
        ("conditional", &[then, otherwise]) if scope.is_pred(instr.operand_ids.first()) => {
            one("true_computation", then);
            one("false_computation", otherwise);
        }
        ("conditional", names) => attrs.names("branch_computations", names),
        ("custom-call", names) if !names.is_empty() => attrs.names("called_computations", names),
        (_, []) => {}
        ("fusion" | "async-start" | "async-update" | "async-done", &[callee]) => one("calls", callee),
        (_, &[callee]) => one("to_apply", callee),
        (opcode, names) => {
            return Err(format!("expected one called computation of {opcode}, found {}", names.len()).into());
        }
    }
    Ok(())
}
