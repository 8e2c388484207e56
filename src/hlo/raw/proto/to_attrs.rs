//! Attributes of instructions as fields of their messages.

use super::{
    messages_data::*,
    messages_instr::HloInstructionProto,
    text_attrs::PRECISIONS,
    to_literal,
    to_parts::{
        accuracy, dim_labels, domain, frontend_attributes, padding, range, sparsity, statistics, window,
    },
    to_shape, to_sharding,
    value::Value,
};
use crate::hlo::raw::{cursor::Parsed, words};

/// Sets the field of an attribute. `Ok(false)` if messages have no field for it.
pub(super) fn set(instr: &mut HloInstructionProto, name: &str, value: &mut Value<'_>) -> Parsed<bool> {
    let found = set_common(instr, name, value)?
        || set_flag(instr, name, value)?
        || set_number(instr, name, value)?
        || set_dims(instr, name, value)?
        || set_options(instr, name, value)?
        || set_message(instr, name, value)?;
    if found {
        value.end()?;
    }
    Ok(found)
}

/// Attributes that every instruction may have.
fn set_common(instr: &mut HloInstructionProto, name: &str, value: &mut Value<'_>) -> Parsed<bool> {
    match name {
        "sharding" => {
            instr.sharding = Some(Box::new(to_sharding::sharding(value, instr.shape.as_deref())?));
        }
        "frontend_attributes" => instr.frontend_attributes = Some(Box::new(frontend_attributes(value)?)),
        "statistics" => instr.statistics_viz = Some(Box::new(statistics(value)?)),
        "parameter_replication" => {
            let replicated_at_leaf_buffers = value.bools()?;
            instr.parameter_replication = Some(Box::new(ParameterReplication { replicated_at_leaf_buffers }));
        }
        "origin" => instr.original_value = Some(Box::new(to_sharding::origin(value)?)),
        "metadata" => instr.metadata = Some(Box::new(to_sharding::metadata(value)?)),
        "backend_config" => instr.backend_config = value.config()?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn set_flag(instr: &mut HloInstructionProto, name: &str, value: &mut Value<'_>) -> Parsed<bool> {
    let is_triangular = instr.opcode == "triangular-solve";
    let field = match name {
        "constrain_layout" => &mut instr.constrain_layout,
        "custom_call_has_side_effect" => &mut instr.custom_call_has_side_effect,
        "indices_are_sorted" => &mut instr.indices_are_sorted,
        "is_composite" => &mut instr.is_composite,
        "is_host_transfer" => &mut instr.is_host_transfer,
        "is_reverse" => &mut instr.is_reverse,
        "is_stable" => &mut instr.is_stable,
        "largest" => &mut instr.largest,
        "unique_indices" => &mut instr.unique_indices,
        "use_global_device_ids" => &mut instr.use_global_device_ids,
        "left_side" => &mut instr.triangular_solve_options.get_or_insert_default().left_side,
        "unit_diagonal" => &mut instr.triangular_solve_options.get_or_insert_default().unit_diagonal,
        "lower" if is_triangular => &mut instr.triangular_solve_options.get_or_insert_default().lower,
        "lower" => &mut instr.cholesky_options.get_or_insert_default().lower,
        _ => return Ok(false),
    };
    *field = value.boolean()?;
    Ok(true)
}

fn set_number(instr: &mut HloInstructionProto, name: &str, value: &mut Value<'_>) -> Parsed<bool> {
    match name {
        "exponent_bits" => instr.exponent_bits = value.int32()?,
        "mantissa_bits" => instr.mantissa_bits = value.int32()?,
        "cross_program_prefetch_index" => instr.cross_program_prefetch_index = Some(value.int32()?),
        "epsilon" => instr.epsilon = value.number()? as f32,
        _ => {
            let field = match name {
                "batch_group_count" => &mut instr.batch_group_count,
                "channel_id" => &mut instr.channel_id,
                "delta" => &mut instr.delta,
                "feature_group_count" => &mut instr.feature_group_count,
                "feature_index" => &mut instr.feature_index,
                "index" => &mut instr.tuple_index,
                "k" => &mut instr.k,
                "num_carries" => &mut instr.num_carries,
                _ => return Ok(false),
            };
            *field = value.int()?;
        }
    }
    Ok(true)
}

/// Lists of dimensions and sizes.
fn set_dims(instr: &mut HloInstructionProto, name: &str, value: &mut Value<'_>) -> Parsed<bool> {
    match name {
        "dimensions" => instr.dimensions = value.ints()?,
        "iota_dimension" | "inferred_dimension" => instr.dimensions = vec![value.int()?],
        "dynamic_slice_sizes" => instr.dynamic_slice_sizes = value.ints()?,
        "fft_length" => instr.fft_length = value.ints()?,
        "slice_sizes" if instr.opcode == "gather" => instr.gather_slice_sizes = value.ints()?,
        "slice_sizes" => {
            let slices = value.items(b'{', b'}', Value::ints)?;
            instr.dynamic_slice_sizes = slices.concat();
        }
        "lhs_ragged_dims" => {
            instr.ragged_dot_dimension_numbers.get_or_insert_default().lhs_ragged_dimensions =
                value.ints()?;
        }
        "rhs_group_dims" => {
            instr.ragged_dot_dimension_numbers.get_or_insert_default().rhs_group_dimensions = value.ints()?;
        }
        _ => return Ok(set_dot(instr, name, value)? || set_gather(instr, name, value)?),
    }
    Ok(true)
}

fn set_dot(instr: &mut HloInstructionProto, name: &str, value: &mut Value<'_>) -> Parsed<bool> {
    if !["lhs_batch_dims", "lhs_contracting_dims", "rhs_batch_dims", "rhs_contracting_dims"].contains(&name) {
        return Ok(false);
    }
    let dims = match instr.opcode.as_str() {
        "ragged-dot" => {
            let ragged = instr.ragged_dot_dimension_numbers.get_or_insert_default();
            ragged.dot_dimension_numbers.get_or_insert_default()
        }
        _ => instr.dot_dimension_numbers.get_or_insert_default(),
    };
    let field = match name {
        "lhs_batch_dims" => &mut dims.lhs_batch_dimensions,
        "lhs_contracting_dims" => &mut dims.lhs_contracting_dimensions,
        "rhs_batch_dims" => &mut dims.rhs_batch_dimensions,
        _ => &mut dims.rhs_contracting_dimensions,
    };
    *field = value.ints()?;
    Ok(true)
}

fn set_gather(instr: &mut HloInstructionProto, name: &str, value: &mut Value<'_>) -> Parsed<bool> {
    if name == "index_vector_dim" {
        let dim = value.int()?;
        if instr.opcode == "gather" {
            instr.gather_dimension_numbers.get_or_insert_default().index_vector_dim = dim;
        } else {
            instr.scatter_dimension_numbers.get_or_insert_default().index_vector_dim = dim;
        }
        return Ok(true);
    }
    let gather =
        |instr: &'_ mut HloInstructionProto| instr.gather_dimension_numbers.take().unwrap_or_default();
    let scatter =
        |instr: &'_ mut HloInstructionProto| instr.scatter_dimension_numbers.take().unwrap_or_default();
    match name {
        "offset_dims"
        | "collapsed_slice_dims"
        | "start_index_map"
        | "operand_batching_dims"
        | "start_indices_batching_dims" => {
            let mut dims = gather(instr);
            let field = match name {
                "offset_dims" => &mut dims.offset_dims,
                "collapsed_slice_dims" => &mut dims.collapsed_slice_dims,
                "start_index_map" => &mut dims.start_index_map,
                "operand_batching_dims" => &mut dims.operand_batching_dims,
                _ => &mut dims.start_indices_batching_dims,
            };
            *field = value.ints()?;
            instr.gather_dimension_numbers = Some(dims);
        }
        "update_window_dims"
        | "inserted_window_dims"
        | "scatter_dims_to_operand_dims"
        | "input_batching_dims"
        | "scatter_indices_batching_dims" => {
            let mut dims = scatter(instr);
            let field = match name {
                "update_window_dims" => &mut dims.update_window_dims,
                "inserted_window_dims" => &mut dims.inserted_window_dims,
                "scatter_dims_to_operand_dims" => &mut dims.scatter_dims_to_operand_dims,
                "input_batching_dims" => &mut dims.input_batching_dims,
                _ => &mut dims.scatter_indices_batching_dims,
            };
            *field = value.ints()?;
            instr.scatter_dimension_numbers = Some(dims);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Words and texts.
fn set_options(instr: &mut HloInstructionProto, name: &str, value: &mut Value<'_>) -> Parsed<bool> {
    match name {
        "kind" => instr.fusion_kind = value.word("a kind of fusion")?.to_owned(),
        "direction" => instr.comparison_direction = value.word("a direction")?.to_owned(),
        "type" => instr.comparison_type = value.word("a type of comparison")?.to_owned(),
        "fft_type" => instr.fft_type = value.one_of(words::FFT_TYPES)?,
        "distribution" => instr.distribution = value.one_of(words::DISTRIBUTIONS)?,
        "algorithm" if instr.opcode == "rng-bit-generator" => {
            instr.rng_algorithm = value.one_of(words::RNG_ALGORITHMS)?;
        }
        "algorithm" => {
            instr.precision_config.get_or_insert_default().algorithm = value.one_of(words::DOT_ALGORITHMS)?;
        }
        "operand_precision" => {
            let precisions = value.items(b'{', b'}', |value| value.one_of(PRECISIONS))?;
            instr.precision_config.get_or_insert_default().operand_precision = precisions;
        }
        "convolution_kind" | "conv_kind" => instr.conv_kind = value.one_of(words::CONVOLUTION_KINDS)?,
        "padding_type" => {
            instr.padding_type = value.one_of(words::PADDING_TYPES)?;
        }
        "schedule" => {
            instr.custom_call_schedule = value.one_of(words::SCHEDULES)?;
        }
        "api_version" => instr.custom_call_api_version = value.one_of(words::API_VERSIONS)?,
        "transpose_a" => {
            instr.triangular_solve_options.get_or_insert_default().transpose_a =
                value.one_of(words::TRANSPOSES)?;
        }
        "is_associative" => instr.is_associative = if value.boolean()? { 1 } else { 2 },
        "custom_call_target" => instr.custom_call_target = value.utf8()?,
        "infeed_config" => instr.infeed_config = value.string()?,
        "outfeed_config" => instr.outfeed_config = value.string()?,
        "async_execution_thread" => instr.async_execution_thread = value.utf8()?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Attributes that are messages.
fn set_message(instr: &mut HloInstructionProto, name: &str, value: &mut Value<'_>) -> Parsed<bool> {
    match name {
        "replica_groups" => to_sharding::groups(instr, value)?,
        "source_target_pairs" => {
            instr.source_target_pairs = value.items(b'{', b'}', |value| {
                let at = *value;
                match value.ints()?[..] {
                    [source, target] => Ok(SourceTarget { source, target }),
                    _ => Err(at.error("a source and a target")),
                }
            })?;
        }
        "window" => instr.window = Some(Box::new(window(value)?)),
        "dim_labels" => instr.convolution_dimension_numbers = Some(Box::new(dim_labels(value)?)),
        "padding" => instr.padding_config = Some(Box::new(padding(value)?)),
        "slice" => instr.slice_dimensions = value.items(b'{', b'}', range)?,
        "outfeed_shape" => instr.outfeed_shape = Some(Box::new(to_shape::shape(value)?)),
        "operand_layout_constraints" => {
            instr.constrain_layout = true;
            instr.operand_shapes_with_layout = value.items(b'{', b'}', to_shape::shape)?;
        }
        "literal" => instr.literal = Some(Box::new(to_literal::with_shapes(value)?)),
        "output_to_operand_aliasing" => {
            instr.output_operand_aliasing = value.items(b'{', b'}', |value| {
                let output_shape_index = value.ints()?;
                value.expect(b':')?;
                value.expect(b'(')?;
                let operand_index = value.int()?;
                value.accept(b',')?;
                let operand_shape_index = if value.next_is(b'{')? { value.ints()? } else { vec![] };
                value.expect(b')')?;
                Ok(OutputOperandAliasing { output_shape_index, operand_index, operand_shape_index })
            })?;
        }
        "domain" => domain(instr, value)?,
        "result_accuracy" => {
            let accuracy = accuracy(value)?;
            instr.result_accuracy = (accuracy.mode != Some(0)).then(|| Box::new(accuracy));
        }
        "sparsity_config" => instr.sparsity_config = Some(Box::new(sparsity(value)?)),
        _ => return Ok(false),
    }
    Ok(true)
}
