//! The fields that an instruction has by its opcode.

use super::{
    messages_data::{FrontendAttributes, OpMetadata, ShapeProto, StatisticsViz},
    messages_instr::HloInstructionProto,
    text_instr::default_comparison,
    to_attrs,
    value::Value,
};
use crate::hlo::raw::{
    attr::AttrName,
    cursor::{Parsed, SyntaxError},
    module::Attr,
    opcode::Opcode,
};

/// An instruction without attributes.
pub(super) fn plain(name: String, opcode: Opcode, shape: ShapeProto, id: i64) -> HloInstructionProto {
    HloInstructionProto {
        name,
        opcode: opcode.name().to_owned(),
        shape: Some(Box::new(shape)),
        id,
        // XLA always has these.
        metadata: Some(Box::new(OpMetadata::default())),
        frontend_attributes: Some(Box::new(FrontendAttributes::default())),
        statistics_viz: Some(Box::new(StatisticsViz::default())),
        // What a text means that does not say it.
        largest: opcode == Opcode::Topk,
        is_associative: if opcode == Opcode::Scan { 2 } else { 0 },
        ..HloInstructionProto::default()
    }
}

/// The order of called computations in a message: those of a while begin with its body.
pub(super) fn callee_order(name: AttrName) -> u8 {
    match name {
        AttrName::Body | AttrName::Select | AttrName::TrueComputation => 0,
        _ => 1,
    }
}

/// Whether an attribute of an opcode such as `fusion-start` is one of the async opcode.
pub(super) fn is_of_start(attr: &Attr) -> bool {
    attr.name.is_some_and(|name| {
        name.is_common() || matches!(name, AttrName::AsyncExecutionThread | AttrName::OutputToOperandAliasing)
    })
}

/// Whether it is one of the wrapped opcode. Where an instruction comes from, and how to compile it, goes for both.
pub(super) fn is_of_wrapped(attr: &Attr) -> bool {
    match attr.name {
        Some(
            AttrName::Metadata
            | AttrName::BackendConfig
            | AttrName::FrontendAttributes
            | AttrName::Statistics,
        ) => true,
        _ => !is_of_start(attr),
    }
}

/// Sets the field of an attribute.
pub(super) fn set(
    proto: &mut HloInstructionProto,
    attr: &Attr,
    name: &str,
    value: &mut Value<'_>,
) -> Parsed<()> {
    // References have been resolved when the text was read.
    if attr.name.is_some_and(|name| name.is_call() || name == AttrName::ControlPredecessors) {
        return Ok(());
    }
    if to_attrs::set(proto, name, value)? {
        return Ok(());
    }
    let message =
        format!("HloInstructionProto has no field for the attribute `{name}` of `{}`", proto.opcode);
    Err(SyntaxError::new(attr.spelling.start(), message))
}

/// Sets what XLA sets for an opcode where the text leaves it out. `operand` is the shape of the first operand.
pub(super) fn set_defaults(proto: &mut HloInstructionProto, operand: Option<&ShapeProto>) {
    let operands = proto.operand_ids.len();
    let base = proto.opcode.strip_suffix("-start").unwrap_or(&proto.opcode);
    match base {
        "all-gather"
        | "all-reduce"
        | "all-to-all"
        | "collective-broadcast"
        | "ragged-all-to-all"
        | "reduce-scatter" => {
            let has_groups =
                proto.iota_collective_device_list.is_some() || proto.mesh_axes_replica_group_list.is_some();
            if !has_groups {
                proto.collective_device_list.get_or_insert_default();
            }
        }
        "convolution" => {
            set_groups(proto);
            set_precision(proto, 2);
            proto.window.get_or_insert_default();
            proto.sparsity_config.get_or_insert_default();
        }
        "custom-call" => {
            set_groups(proto);
            set_precision(proto, operands);
            if proto.custom_call_api_version == 0 {
                proto.custom_call_api_version = 1;
            }
        }
        "dot" | "scaled-dot" => {
            set_precision(proto, 2);
            proto.dot_dimension_numbers.get_or_insert_default();
        }
        "ragged-dot" => {
            set_precision(proto, 2);
            let ragged = proto.ragged_dot_dimension_numbers.get_or_insert_default();
            ragged.dot_dimension_numbers.get_or_insert_default();
        }
        "compare" if proto.comparison_type.is_empty() => {
            let element_type = operand.map_or(0, |operand| operand.element_type);
            default_comparison(element_type).clone_into(&mut proto.comparison_type);
        }
        "reduce-window" | "select-and-scatter" => drop(proto.window.get_or_insert_default()),
        "cholesky" => drop(proto.cholesky_options.get_or_insert_default()),
        "triangular-solve" => drop(proto.triangular_solve_options.get_or_insert_default()),
        "outfeed" if proto.outfeed_shape.is_none() => {
            proto.outfeed_shape = operand.cloned().map(Box::new);
        }
        _ => {}
    }
}

fn set_groups(proto: &mut HloInstructionProto) {
    for count in [&mut proto.feature_group_count, &mut proto.batch_group_count] {
        if *count == 0 {
            *count = 1;
        }
    }
}

fn set_precision(proto: &mut HloInstructionProto, operands: usize) {
    let config = proto.precision_config.get_or_insert_default();
    if config.operand_precision.is_empty() {
        config.operand_precision = vec![0; operands];
    }
}
