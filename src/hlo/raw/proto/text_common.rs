//! The attributes that every instruction may have, as text.

use std::fmt::Write;

use super::{
    escape::push_config,
    messages_data::{FrontendAttributes, StatisticsViz},
    messages_instr::HloInstructionProto,
    number,
    text_attrs::Attrs,
    text_metadata::{payload, push_metadata},
    text_scope::Scope,
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
