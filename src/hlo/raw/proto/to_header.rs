//! The header of a module and its tables as messages.

use super::{
    messages::{
        AliasEntryProto, BufferDonorEntryProto, FileLocationProto, HloBufferDonorProto,
        HloInputOutputAliasProto, HloModuleConfigProto, HloModuleProto, OriginalValueRecoveryTableProto,
        RecoveryEntry, StackFrameIndexProto, StackFrameProto,
    },
    to_parts::frontend_attributes,
    to_shape, to_sharding,
    value::Value,
};
use crate::hlo::raw::{
    attr::AttrName,
    cursor::{Parsed, SyntaxError},
    module::{Attr, Module},
    parse::parse,
};

/// The message of a module inside of a table of another one.
pub(super) type Recovery<'r> = dyn Fn(&Module) -> Result<HloModuleProto, Vec<SyntaxError>> + 'r;

/// Sets the fields of the attributes of a module. The settings among them go to `config`.
pub(super) fn set(
    proto: &mut HloModuleProto,
    config: &mut HloModuleConfigProto,
    module: &Module,
    recovery: &Recovery<'_>,
) -> Result<(), Vec<SyntaxError>> {
    let mut errors = Vec::new();
    for attr in &module.attrs {
        let range = attr.value.range();
        let mut value = Value::new(&module.text, range.start, range.end);
        let read = set_one(proto, config, attr, &mut value, recovery).and_then(|()| value.end());
        errors.extend(read.err());
    }
    if !module.frames.text.is_empty() {
        let range = module.frames.text.range();
        match stack_frames(&mut Value::new(&module.text, range.start, range.end)) {
            Ok(frames) => proto.stack_frame_index = Some(frames),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

fn set_one(
    proto: &mut HloModuleProto,
    config: &mut HloModuleConfigProto,
    attr: &Attr,
    value: &mut Value<'_>,
    recovery: &Recovery<'_>,
) -> Parsed<()> {
    match attr.name {
        // The schedule follows from the order of the instructions.
        Some(AttrName::IsScheduled) => drop(value.boolean()?),
        Some(AttrName::InputOutputAlias) => {
            let entries = value.items(b'{', b'}', alias)?;
            proto.input_output_alias = Some(HloInputOutputAliasProto { entries });
        }
        Some(AttrName::BufferDonor) => {
            let entries = value.items(b'{', b'}', donor)?;
            proto.buffer_donor = Some(HloBufferDonorProto { entries });
        }
        Some(AttrName::EntryComputationLayout) => {
            let shape = to_shape::program_shape(value)?;
            config.entry_computation_layout = Some(shape.clone());
            proto.host_program_shape = Some(shape);
        }
        Some(AttrName::FrontendAttributes) => proto.frontend_attributes = Some(frontend_attributes(value)?),
        Some(AttrName::OriginRecoveryTable) => {
            let table = recovery_table(value, recovery)?;
            proto.original_value_recovery_table = Some(table);
        }
        Some(AttrName::ReplicaCount) => config.replica_count = value.int()?,
        Some(AttrName::NumPartitions) => config.num_partitions = value.int()?,
        Some(AttrName::AliasPassthroughParams) => config.alias_passthrough_params = value.boolean()?,
        Some(AttrName::AllowSpmdShardingPropagationToParameters) => {
            config.allow_spmd_sharding_propagation_to_parameters = value.bools()?;
        }
        Some(AttrName::AllowSpmdShardingPropagationToOutput) => {
            config.allow_spmd_sharding_propagation_to_output = value.bools()?;
        }
        _ => {
            let message = "HloModuleProto has no field for this attribute of the module";
            return Err(SyntaxError::new(attr.spelling.start(), message));
        }
    }
    Ok(())
}

/// The attributes of a module that only its config has.
pub(super) fn is_setting(name: AttrName) -> bool {
    matches!(
        name,
        AttrName::ReplicaCount
            | AttrName::NumPartitions
            | AttrName::AliasPassthroughParams
            | AttrName::AllowSpmdShardingPropagationToParameters
            | AttrName::AllowSpmdShardingPropagationToOutput
    )
}

/// `{0}: (1, {}, may-alias)`
fn alias(value: &mut Value<'_>) -> Parsed<AliasEntryProto> {
    let output_shape_index = value.ints()?;
    value.expect(b':')?;
    value.expect(b'(')?;
    let parameter_number = value.int()?;
    value.accept(b',')?;
    let parameter_shape_index = if value.next_is(b'{')? { value.ints()? } else { vec![] };
    let mut kind = 1;
    if value.accept(b',')? {
        kind = match value.word("`may-alias` or `must-alias`")? {
            "may-alias" => 1,
            "must-alias" => 2,
            _ => return Err(value.error("`may-alias` or `must-alias`")),
        };
    }
    value.expect(b')')?;
    Ok(AliasEntryProto { output_shape_index, parameter_number, parameter_shape_index, kind })
}

/// `(0, {})`
fn donor(value: &mut Value<'_>) -> Parsed<BufferDonorEntryProto> {
    value.expect(b'(')?;
    let parameter_number = value.int()?;
    value.accept(b',')?;
    let parameter_shape_index = if value.next_is(b'{')? { value.ints()? } else { vec![] };
    value.expect(b')')?;
    Ok(BufferDonorEntryProto { parameter_number, parameter_shape_index })
}

/// `{"v1"} : {"v0"}, "text of a module"`
fn recovery_table(value: &mut Value<'_>, recovery: &Recovery<'_>) -> Parsed<OriginalValueRecoveryTableProto> {
    let array = |value: &mut Value<'_>| {
        value.expect(b'{')?;
        let found = if value.next_is(b'}')? { None } else { Some(to_sharding::original_array(value)?) };
        value.expect(b'}')?;
        Ok(found)
    };
    let entries = value.items(b'{', b'}', |value| {
        let old_original_array = array(value)?;
        value.expect(b':')?;
        let new_original_array = array(value)?;
        value.accept(b',')?;
        let recovery_module =
            if value.next_is(b'"')? { Some(Box::new(recovery_module(value, recovery)?)) } else { None };
        Ok(RecoveryEntry { old_original_array, new_original_array, recovery_module })
    })?;
    Ok(OriginalValueRecoveryTableProto { entries })
}

fn recovery_module(value: &mut Value<'_>, recovery: &Recovery<'_>) -> Parsed<HloModuleProto> {
    let at = value.0.at();
    let text = value.utf8()?;
    let inside = |message: String| SyntaxError::new(at, format!("in the recovery module: {message}"));
    let module = parse(text, "recovery module").map_err(|errors| inside(errors.to_string()))?;
    recovery(&module).map_err(|errors| {
        let first = errors.into_iter().next().map_or_else(String::new, |error| error.message);
        inside(first)
    })
}

/// The tables of source locations, whose rows are in the order of their numbers.
fn stack_frames(value: &mut Value<'_>) -> Parsed<StackFrameIndexProto> {
    let mut found = StackFrameIndexProto::default();
    for (heading, names) in
        [("FileNames", &mut found.file_names), ("FunctionNames", &mut found.function_names)]
    {
        value.accept_word(heading)?;
        while row(value, names.len())? {
            names.push(value.utf8()?);
        }
    }
    value.accept_word("FileLocations")?;
    while row(value, found.file_locations.len())? {
        let mut location = FileLocationProto::default();
        value.items(b'{', b'}', |value| {
            let field = value.word("a field")?;
            value.expect(b'=')?;
            let number = value.int32()?;
            match field {
                "file_name_id" => location.file_name_id = number,
                "function_name_id" => location.function_name_id = number,
                "line" => location.line = number,
                "end_line" => location.end_line = number,
                "column" => location.column = number,
                _ => location.end_column = number,
            }
            Ok(())
        })?;
        found.file_locations.push(location);
    }
    value.accept_word("StackFrames")?;
    while row(value, found.stack_frames.len())? {
        let mut frame = StackFrameProto::default();
        value.items(b'{', b'}', |value| {
            let field = value.word("a field")?;
            value.expect(b'=')?;
            let number = value.int32()?;
            match field {
                "file_location_id" => frame.file_location_id = number,
                // The text has the id of the parent plus one.
                _ => frame.parent_frame_id = number.saturating_sub(1).max(0),
            }
            Ok(())
        })?;
        found.stack_frames.push(frame);
    }
    Ok(found)
}

/// Takes the number in front of a row, if there is one: rows are numbered from one.
fn row(value: &mut Value<'_>, rows: usize) -> Parsed<bool> {
    value.0.skip_blank()?;
    if !value.0.peek().is_ascii_digit() {
        return Ok(false);
    }
    let at = *value;
    if value.int()? == rows as i64 + 1 {
        return Ok(true);
    }
    Err(at.error(&format!("row number {}", rows + 1)))
}
