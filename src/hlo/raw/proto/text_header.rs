//! The header of a module and its tables as text.

use std::fmt::Write;

use super::{
    escape::push_quoted,
    messages::{HloModuleConfigProto, HloModuleProto, StackFrameIndexProto},
    text_attrs::Attrs,
    text_common::frontend_attributes,
    text_shape::{join, push_program_shape},
    text_sharding::push_original_array,
};
use crate::base::Diagnostic;

/// The text of a module inside of a table of another one.
pub(super) type Recovery<'r> = dyn Fn(&HloModuleProto) -> Result<String, Diagnostic> + 'r;

/// Appends the attributes of a module.
pub(super) fn header(
    out: &mut String,
    module: &HloModuleProto,
    config: Option<&HloModuleConfigProto>,
    recovery: &Recovery<'_>,
) -> Result<(), Diagnostic> {
    let mut attrs = Attrs(out);
    attrs.flag("is_scheduled", module.schedule.is_some());
    if let Some(alias) = module.input_output_alias.as_ref().filter(|alias| !alias.entries.is_empty()) {
        let mut entries = Vec::new();
        for entry in &alias.entries {
            let kind = match entry.kind {
                0 | 1 => "may-alias",
                2 => "must-alias",
                other => return Err(format!("unknown kind of an alias: {other}").into()),
            };
            let (output, element) = (join(&entry.output_shape_index), join(&entry.parameter_shape_index));
            entries.push(format!("{{{output}}}: ({}, {{{element}}}, {kind})", entry.parameter_number));
        }
        attrs.value("input_output_alias", format_args!("{{ {} }}", entries.join(", ")));
    }
    if let Some(donor) = module.buffer_donor.as_ref().filter(|donor| !donor.entries.is_empty()) {
        let entries = donor
            .entries
            .iter()
            .map(|entry| format!("({}, {{{}}})", entry.parameter_number, join(&entry.parameter_shape_index)));
        attrs.value("buffer_donor", format_args!("{{ {} }}", entries.collect::<Vec<_>>().join(", ")));
    }
    attrs.flag("alias_passthrough_params", config.is_some_and(|config| config.alias_passthrough_params));
    let layout = config.and_then(|config| config.entry_computation_layout.as_ref());
    if let Some(shape) = layout.or(module.host_program_shape.as_ref()).filter(|shape| shape.result.is_some())
    {
        let mut text = String::new();
        push_program_shape(&mut text, shape)?;
        attrs.value("entry_computation_layout", format_args!("{{{text}}}"));
    }
    if let Some(config) = config {
        let name = "allow_spmd_sharding_propagation_to_parameters";
        // One `false` is the default.
        let is_default = |list: &[bool]| list.iter().all(|&allowed| !allowed) && list.len() < 2;
        for (name, list) in [
            (name, &config.allow_spmd_sharding_propagation_to_parameters),
            ("allow_spmd_sharding_propagation_to_output", &config.allow_spmd_sharding_propagation_to_output),
        ] {
            if !is_default(list) {
                attrs.list(name, list);
            }
        }
        for (name, count) in
            [("replica_count", config.replica_count), ("num_partitions", config.num_partitions)]
        {
            if !matches!(count, 0 | 1) {
                attrs.value(name, count);
            }
        }
    }
    if let Some(frontend) = module.frontend_attributes.as_ref().filter(|frontend| !frontend.map.is_empty()) {
        attrs.value("frontend_attributes", frontend_attributes(frontend)?);
    }
    recovery_table(&mut attrs, module, recovery)
}

/// Pairs of values, with the text of the module that computes the one from the other.
fn recovery_table(
    attrs: &mut Attrs<'_>,
    module: &HloModuleProto,
    recovery: &Recovery<'_>,
) -> Result<(), Diagnostic> {
    let Some(table) = &module.original_value_recovery_table else { return Ok(()) };
    let mut text = String::from("{\n");
    for entry in &table.entries {
        text.push_str("  {");
        if let Some(old) = &entry.old_original_array {
            push_original_array(&mut text, old);
        }
        text.push_str("} : {");
        if let Some(new) = &entry.new_original_array {
            push_original_array(&mut text, new);
        }
        text.push('}');
        if let Some(module) = &entry.recovery_module {
            let inner = recovery(module)?;
            text.push_str(",\n  \"\n");
            for line in inner.trim_end().lines() {
                let line = line.replace('\\', "\\\\").replace('"', "\\\"");
                let indent = if line.is_empty() { "" } else { "    " };
                let _ = writeln!(text, "{indent}{line}");
            }
            text.push_str("\n\n");
            text.push_str("  \"");
        }
        text.push('\n');
    }
    text.push('}');
    attrs.value("origin_recovery_table", text);
    Ok(())
}

/// Appends the tables of source locations.
pub(super) fn stack_frames(out: &mut String, frames: &StackFrameIndexProto) {
    if frames.file_names.is_empty() && frames.stack_frames.is_empty() {
        return;
    }
    for (heading, names) in [("FileNames", &frames.file_names), ("FunctionNames", &frames.function_names)] {
        let _ = writeln!(out, "{heading}");
        for (index, name) in names.iter().enumerate() {
            let _ = write!(out, "{} ", index + 1);
            push_quoted(out, name.as_bytes());
            out.push('\n');
        }
        out.push('\n');
    }
    out.push_str("FileLocations\n");
    for (index, location) in frames.file_locations.iter().enumerate() {
        let _ = writeln!(
            out,
            "{} {{file_name_id={} function_name_id={} line={} end_line={} column={} end_column={}}}",
            index + 1,
            location.file_name_id,
            location.function_name_id,
            location.line,
            location.end_line,
            location.column,
            location.end_column
        );
    }
    out.push_str("\nStackFrames\n");
    for (index, frame) in frames.stack_frames.iter().enumerate() {
        // XLA prints the id of the parent plus one.
        let (location, parent) = (frame.file_location_id, i64::from(frame.parent_frame_id) + 1);
        let _ = writeln!(out, "{} {{file_location_id={location} parent_frame_id={parent}}}", index + 1);
    }
    out.push_str("\n\n");
}
