use std::{
    collections::BTreeMap,
    fmt::{self, Display, Formatter},
};

use super::{
    value::LiteralText,
    word::{NameText, Quoted, dict_length, row_major},
};
use crate::{
    base::{MemorySpace, Shape},
    hlo::{
        Alias, Attrs, CompId, Computation, CustomCall, DotDims, GatherDims, Instr, InstrId, Module,
        OpMetadata, PadDim, ScatterDims, SideEffect, SliceDim, Verified,
    },
};

/// Prints a module as HLO text, which XLA's parser reads as the same module. Equal modules have equal text.
///
/// Layouts, all of which are row-major, are left out, except for the entry computation layout of a module with
/// parameters in host memory. Constants are printed in full.
pub fn print(module: &Verified) -> String {
    print_module(module.module())
}

/// Like [`print()`], for a module that is not verified: an invalid reference is printed as `?`.
pub fn print_module(module: &Module) -> String {
    ModuleText(module, MetadataText::Shown).to_string()
}

/// Like [`print_module()`], with or without the metadata of instructions.
pub fn print_with(module: &Module, metadata: MetadataText) -> String {
    ModuleText(module, metadata).to_string()
}

/// Whether the text of a module has the metadata of instructions, which makes its lines twice as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataText {
    /// With metadata.
    Shown,
    /// Without metadata.
    Hidden,
}

struct ModuleText<'a>(&'a Module, MetadataText);

impl Display for ModuleText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Module { name, computations, entry, aliases, host_parameters, .. } = self.0;
        write!(f, "HloModule {}", NameText(name))?;
        if !aliases.is_empty() {
            let alias = |&Alias { output, parameter }: &Alias| {
                format!("{{{output}}}: ({parameter}, {{}}, may-alias)")
            };
            write!(f, ", input_output_alias={{ {} }}", list(aliases, ", ", alias))?;
        }
        if let Some(entry) = computations.get(entry.index()).filter(|_| !host_parameters.is_empty()) {
            let shapes = entry.parameter_shapes().into_iter().enumerate();
            let parameters =
                shapes.map(|(number, shape)| shape_with_layout(shape, self.0.parameter_memory(number)));
            let parameters = parameters.collect::<Vec<_>>().join(", ");
            let result = shape_with_layout(entry.result(), MemorySpace::Device);
            write!(f, ", entry_computation_layout={{({parameters})->{result}}}")?;
        }
        write!(f, "{}", FrontendAttributesText(&self.0.written_attributes()))?;
        f.write_str("\n")?;
        for (index, computation) in computations.iter().enumerate() {
            let Computation { name, instrs, root } = computation;
            let entry = if index == entry.index() { "ENTRY " } else { "" };
            writeln!(f, "\n{entry}{} {{", NameText(name))?;
            let id = CompId::new(index);
            for (index, instr) in instrs.iter().enumerate() {
                let root = if index == root.index() { "ROOT " } else { "" };
                let metadata = match self.1 {
                    MetadataText::Shown => self.0.metadata.get(id, InstrId::new(index)),
                    MetadataText::Hidden => None,
                };
                writeln!(f, "  {root}{}", InstrText { module: self.0, computation, instr, metadata })?;
            }
            f.write_str("}\n")?;
        }
        Ok(())
    }
}

struct InstrText<'a> {
    module: &'a Module,
    computation: &'a Computation,
    instr: &'a Instr,
    metadata: Option<&'a OpMetadata>,
}

impl Display for InstrText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Instr { name, opcode, shape, operands, attrs, sharding, frontend_attributes } = self.instr;
        write!(f, "{} = {shape} {opcode}(", NameText(name))?;
        match attrs {
            Attrs::Parameter(number) => write!(f, "{number}")?,
            Attrs::Constant(literal) => write!(f, "{}", LiteralText(literal))?,
            _ => {
                for (index, operand) in operands.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    let named = self.computation.instrs.get(operand.index());
                    write!(f, "{comma}{}", NameText(named.map_or("?", |instr| &instr.name)))?;
                }
            }
        }
        f.write_str(")")?;
        self.attrs(f, attrs)?;
        if let Some(sharding) = sharding {
            write!(f, ", sharding={sharding}")?;
        }
        write!(f, "{}", FrontendAttributesText(frontend_attributes))?;
        self.metadata.map_or(Ok(()), |metadata| write_metadata(f, metadata))?;
        match attrs {
            Attrs::CustomCall(CustomCall { backend_config, .. }) if !backend_config.is_empty() => {
                write!(f, ", backend_config={}", Quoted(backend_config))
            }
            _ => Ok(()),
        }
    }
}

/// `, frontend_attributes={...}`, or nothing. A value that is a group in braces is printed without quotes.
struct FrontendAttributesText<'a>(&'a BTreeMap<String, String>);

impl Display for FrontendAttributesText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        let entries = self.0.iter().map(|(key, value)| match dict_length(value) {
            Some(length) if length == value.len() => format!("{key}={value}"),
            _ => format!("{key}={}", Quoted(value)),
        });
        write!(f, ", frontend_attributes={{{}}}", entries.collect::<Vec<_>>().join(","))
    }
}

/// `, metadata={...}` with the fields that are known.
fn write_metadata(f: &mut Formatter<'_>, metadata: &OpMetadata) -> fmt::Result {
    let OpMetadata { op_type, op_name, source_file, source_line } = metadata;
    let strings = [("op_type", op_type), ("op_name", op_name), ("source_file", source_file)];
    let mut separator = "";
    f.write_str(", metadata={")?;
    for (key, value) in strings.into_iter().filter(|(_, value)| !value.is_empty()) {
        write!(f, "{separator}{key}={}", Quoted(value))?;
        separator = " ";
    }
    if *source_line != 0 {
        write!(f, "{separator}source_line={source_line}")?;
    }
    f.write_str("}")
}

impl InstrText<'_> {
    fn attrs(&self, f: &mut Formatter<'_>, attrs: &Attrs) -> fmt::Result {
        match attrs {
            Attrs::Plain | Attrs::Parameter(_) | Attrs::Constant(_) => Ok(()),
            Attrs::Iota(dim) => write!(f, ", iota_dimension={dim}"),
            Attrs::Dims(dims) => write!(f, ", dimensions={}", ints(dims)),
            Attrs::Compare(comparison) => write!(f, ", direction={comparison}"),
            Attrs::Dot(DotDims { lhs_batch, rhs_batch, lhs_contracting, rhs_contracting }) => {
                if !lhs_batch.is_empty() {
                    write!(f, ", lhs_batch_dims={}", ints(lhs_batch))?;
                }
                write!(f, ", lhs_contracting_dims={}", ints(lhs_contracting))?;
                if !rhs_batch.is_empty() {
                    write!(f, ", rhs_batch_dims={}", ints(rhs_batch))?;
                }
                write!(f, ", rhs_contracting_dims={}", ints(rhs_contracting))
            }
            Attrs::Slice(ranges) => {
                let strided = ranges.iter().any(|range| range.stride != 1);
                let range = |&SliceDim { start, limit, stride }: &SliceDim| match strided {
                    true => format!("[{start}:{limit}:{stride}]"),
                    false => format!("[{start}:{limit}]"),
                };
                write!(f, ", slice={{{}}}", list(ranges, ", ", range))
            }
            Attrs::DynamicSlice(sizes) => write!(f, ", dynamic_slice_sizes={}", ints(sizes)),
            Attrs::Pad(edges) => {
                let spread = edges.iter().any(|edge| edge.interior != 0);
                let edge = |&PadDim { low, high, interior }: &PadDim| match spread {
                    true => format!("{low}_{high}_{interior}"),
                    false => format!("{low}_{high}"),
                };
                write!(f, ", padding={}", list(edges, "x", edge))
            }
            Attrs::Reduce { dims, to_apply } => {
                write!(f, ", dimensions={}, to_apply={}", ints(dims), self.called(*to_apply))
            }
            Attrs::Gather(GatherDims {
                offset_dims,
                collapsed_slice_dims,
                start_index_map,
                index_vector_dim,
                slice_sizes,
            }) => {
                write!(f, ", offset_dims={}", ints(offset_dims))?;
                write!(f, ", collapsed_slice_dims={}", ints(collapsed_slice_dims))?;
                write!(f, ", start_index_map={}", ints(start_index_map))?;
                write!(f, ", index_vector_dim={index_vector_dim}, slice_sizes={}", ints(slice_sizes))
            }
            Attrs::Scatter { dims, to_apply } => {
                let ScatterDims {
                    update_window_dims,
                    inserted_window_dims,
                    scatter_dims_to_operand_dims,
                    index_vector_dim,
                } = dims;
                write!(f, ", update_window_dims={}", ints(update_window_dims))?;
                write!(f, ", inserted_window_dims={}", ints(inserted_window_dims))?;
                write!(f, ", scatter_dims_to_operand_dims={}", ints(scatter_dims_to_operand_dims))?;
                write!(f, ", index_vector_dim={index_vector_dim}, to_apply={}", self.called(*to_apply))
            }
            Attrs::Call(callee) => write!(f, ", to_apply={}", self.called(*callee)),
            Attrs::While { condition, body } => {
                write!(f, ", condition={}, body={}", self.called(*condition), self.called(*body))
            }
            Attrs::TupleIndex(index) => write!(f, ", index={index}"),
            // XLA prints the backend config after all other attributes.
            Attrs::CustomCall(CustomCall { target, side_effect, backend_config: _ }) => {
                write!(f, ", custom_call_target={}", Quoted(target))?;
                f.write_str(match side_effect {
                    SideEffect::Absent => "",
                    SideEffect::Present => ", custom_call_has_side_effect=true",
                })
            }
        }
    }

    fn called(&self, id: CompId) -> NameText<'_> {
        NameText(self.module.computations.get(id.index()).map_or("?", |callee| &callee.name))
    }
}

/// A shape with its layout, as in the entry computation layout.
fn shape_with_layout(shape: &Shape, memory: MemorySpace) -> String {
    match shape {
        Shape::Array(array) => {
            let layout = row_major(array.rank(), memory);
            if layout == "{}" { array.to_string() } else { format!("{array}{layout}") }
        }
        Shape::Tuple(elements) => {
            format!("({})", list(elements, ", ", |element| shape_with_layout(element, memory)))
        }
    }
}

fn ints(values: &[usize]) -> String {
    format!("{{{}}}", list(values, ",", usize::to_string))
}

fn list<T>(values: &[T], separator: &str, text: impl Fn(&T) -> String) -> String {
    values.iter().map(text).collect::<Vec<_>>().join(separator)
}
