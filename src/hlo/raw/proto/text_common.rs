//! The attributes that every instruction may have, as text.

use std::fmt::Write;

use super::{
    escape::{push_config, push_quoted},
    messages_data::{FrontendAttributes, OpMetadata, Payload, StatisticsViz},
    messages_instr::HloInstructionProto,
    number,
    text_attrs::Attrs,
    text_module::Scope,
    text_shape::join,
    text_sharding::{push_origin, push_sharding},
};
use crate::base::Diagnostic;

/// Appends the attributes that every instruction may have.
pub(super) fn push_common(
    attrs: &mut Attrs<'_>,
    instr: &HloInstructionProto,
    scope: &Scope<'_>,
) -> Result<(), Diagnostic> {
    if let Some(sharding) = &instr.sharding {
        let mut text = String::new();
        push_sharding(&mut text, sharding, scope.payloads)?;
        attrs.value("sharding", text);
    }
    if let Some(frontend) = instr.frontend_attributes.as_ref().filter(|frontend| !frontend.map.is_empty()) {
        attrs.value("frontend_attributes", frontend_attributes(frontend)?);
    }
    if !instr.control_predecessor_ids.is_empty() {
        let names = instr.control_predecessor_ids.iter().map(|id| scope.name(*id));
        attrs.names("control-predecessors", &names.collect::<Result<Vec<_>, _>>()?);
    }
    if let Some(statistics) = instr.statistics_viz.as_ref().filter(|viz| !viz.statistics.is_empty()) {
        attrs.value("statistics", statistics_text(statistics)?);
    }
    if let Some(origin) = &instr.original_value {
        let mut text = String::new();
        push_origin(&mut text, origin, instr.shape.as_deref())?;
        attrs.value("origin", text);
    }
    if let Some(metadata) = &instr.metadata {
        let mut text = String::new();
        push_metadata(&mut text, metadata, scope.payloads)?;
        if !text.is_empty() {
            attrs.value("metadata", format_args!("{{{text}}}"));
        }
    }
    let config = match &instr.backend_config_payload {
        Some(found) => payload(found, scope.payloads)?,
        None => &instr.backend_config,
    };
    if !config.is_empty() {
        let mut text = String::new();
        push_config(&mut text, config);
        attrs.value("backend_config", text);
    }
    Ok(())
}

/// The bytes of a payload, which are in it or in a list of the module.
fn payload<'p>(payload: &'p Payload, payloads: &'p [Vec<u8>]) -> Result<&'p [u8], Diagnostic> {
    match (&payload.value, payload.id) {
        (Some(value), _) => Ok(value),
        (None, None) => Ok(&[]),
        (None, Some(id)) => {
            let found = usize::try_from(id).ok().and_then(|id| payloads.get(id));
            found.map(Vec::as_slice).ok_or_else(|| format!("unknown payload: {id}").into())
        }
    }
}

/// `{key="value",other={...}}`
pub(super) fn frontend_attributes(attributes: &FrontendAttributes) -> Result<String, Diagnostic> {
    let mut text = String::from("{");
    for (index, (key, value)) in attributes.map.iter().enumerate() {
        text.push_str(if index == 0 { "" } else { "," });
        text.push_str(attribute_key(key)?);
        text.push('=');
        push_config(&mut text, value.as_bytes());
    }
    text.push('}');
    Ok(text)
}

/// A key that is a word of HLO text.
fn attribute_key(key: &str) -> Result<&str, Diagnostic> {
    let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let starts = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if starts && key.chars().all(valid) {
        Ok(key)
    } else {
        Err(format!("expected a key of letters, digits, `_`, `.` and `-`, found {key:?}").into())
    }
}

fn statistics_text(viz: &StatisticsViz) -> Result<String, Diagnostic> {
    let mut text = format!("{{visualizing_index={}", viz.stat_index_to_visualize);
    for statistic in &viz.statistics {
        let _ =
            write!(text, ",{}={}", attribute_key(&statistic.stat_name)?, number::double(statistic.stat_val));
    }
    text.push('}');
    Ok(text)
}

/// Appends `op_name="a" source_line=3`.
pub(super) fn push_metadata(
    out: &mut String,
    metadata: &OpMetadata,
    payloads: &[Vec<u8>],
) -> Result<(), Diagnostic> {
    let start = out.len();
    let mut field = |name: &str, value: &dyn std::fmt::Display| {
        let space = if out.len() == start { "" } else { " " };
        let _ = write!(out, "{space}{name}={value}");
    };
    let quoted = |text: &[u8]| {
        let mut out = String::new();
        push_quoted(&mut out, text);
        out
    };
    for (name, text) in [
        ("op_type", &metadata.op_type),
        ("op_name", &metadata.op_name),
        ("source_file", &metadata.source_file),
    ] {
        if !text.is_empty() {
            field(name, &quoted(text.as_bytes()));
        }
    }
    for (name, number) in [
        ("source_line", metadata.source_line),
        ("source_end_line", metadata.source_end_line),
        ("source_column", metadata.source_column),
        ("source_end_column", metadata.source_end_column),
    ] {
        if number != 0 {
            field(name, &number);
        }
    }
    if !metadata.profile_type.is_empty() {
        field("profile_type", &format_args!("{{{}}}", join(&metadata.profile_type)));
    }
    for (name, text) in
        [("deduplicated_name", &metadata.deduplicated_name), ("scheduling_name", &metadata.scheduling_name)]
    {
        if !text.is_empty() {
            field(name, &quoted(text.as_bytes()));
        }
    }
    if metadata.stack_frame_id != 0 {
        field("stack_frame_id", &metadata.stack_frame_id);
    }
    if let Some(found) = &metadata.metadata_payload {
        field("metadata_payload", &quoted(payload(found, payloads)?));
    }
    Ok(())
}
