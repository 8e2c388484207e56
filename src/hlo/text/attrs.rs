//! Attributes after the operands: one match arm for each attribute, for all opcodes that have it.

use super::{
    cursor::TokenCursor,
    lex::{HloTokenKind, Position},
    unresolved::UnresolvedModule,
};
use crate::{
    base::{DType, Diagnostic, Literal, nearest_hint},
    hlo::{
        Attrs, AttrsKind, CompId, ComparisonDirection, CustomCall, DotDims, GatherDims, Instr, OpMetadata,
        Opcode, PadDim, ScatterDims, SideEffect, SliceDim, UnknownComparisonDirection,
    },
};

/// Attributes that change no result, and that the IR does not represent.
const SKIPPED: &[&str] = &[
    "backend_config",
    "origin",
    "stack_frame_id",
    "operand_precision",
    "type",
    "indices_are_sorted",
    "unique_indices",
    "statistics",
    "parameter_replication",
    "control-predecessors",
];

/// The attributes of an instruction before they are parsed.
pub(super) fn unset(kind: AttrsKind) -> Attrs {
    let unset = CompId::new(0);
    match kind {
        AttrsKind::Plain => Attrs::Plain,
        AttrsKind::Parameter => Attrs::Parameter(0),
        AttrsKind::Constant => Attrs::Constant(Literal::scalar(DType::Pred, 0.0)),
        AttrsKind::Iota => Attrs::Iota(0),
        AttrsKind::Dims => Attrs::Dims(vec![]),
        AttrsKind::Compare => Attrs::Compare(ComparisonDirection::Eq),
        AttrsKind::Dot => Attrs::Dot(DotDims::default()),
        AttrsKind::Slice => Attrs::Slice(vec![]),
        AttrsKind::DynamicSlice => Attrs::DynamicSlice(vec![]),
        AttrsKind::Pad => Attrs::Pad(vec![]),
        AttrsKind::Reduce => Attrs::Reduce { dims: vec![], to_apply: unset },
        AttrsKind::Gather => Attrs::Gather(GatherDims::default()),
        AttrsKind::Scatter => Attrs::Scatter { dims: ScatterDims::default(), to_apply: unset },
        AttrsKind::Call => Attrs::Call(unset),
        AttrsKind::While => Attrs::While { condition: unset, body: unset },
        AttrsKind::TupleIndex => Attrs::TupleIndex(0),
        AttrsKind::CustomCall => Attrs::CustomCall(CustomCall::default()),
    }
}

/// The required and the optional attributes of instructions with such attributes.
fn known(kind: AttrsKind) -> (&'static [&'static str], &'static [&'static str]) {
    match kind {
        AttrsKind::Plain | AttrsKind::Parameter | AttrsKind::Constant => (&[], &[]),
        AttrsKind::Iota => (&["iota_dimension"], &[]),
        AttrsKind::Dims => (&["dimensions"], &[]),
        AttrsKind::Compare => (&["direction"], &[]),
        AttrsKind::Dot => {
            (&[], &["lhs_batch_dims", "lhs_contracting_dims", "rhs_batch_dims", "rhs_contracting_dims"])
        }
        AttrsKind::Slice => (&["slice"], &[]),
        AttrsKind::DynamicSlice => (&["dynamic_slice_sizes"], &[]),
        AttrsKind::Pad => (&["padding"], &[]),
        AttrsKind::Reduce => (&["dimensions", "to_apply"], &[]),
        AttrsKind::Gather => (
            &["offset_dims", "collapsed_slice_dims", "start_index_map", "index_vector_dim", "slice_sizes"],
            &[],
        ),
        AttrsKind::Scatter => (
            &[
                "update_window_dims",
                "inserted_window_dims",
                "scatter_dims_to_operand_dims",
                "index_vector_dim",
                "to_apply",
            ],
            &[],
        ),
        AttrsKind::Call => (&["to_apply"], &[]),
        AttrsKind::While => (&["condition", "body"], &[]),
        AttrsKind::TupleIndex => (&["index"], &[]),
        AttrsKind::CustomCall => {
            (&["custom_call_target"], &["custom_call_has_side_effect", "backend_config"])
        }
    }
}

pub(super) struct AttrReader<'p, 'a> {
    pub cursor: &'p mut TokenCursor<'a>,
    pub module: &'p mut UnresolvedModule<'a>,
    /// The metadata, once it is read.
    pub metadata: Option<OpMetadata>,
}

impl<'a> AttrReader<'_, 'a> {
    /// Parses `, name=value` as long as there are any.
    ///
    /// # Errors
    /// An unknown, duplicate or missing attribute, or an invalid value.
    pub(super) fn read(&mut self, instr: &mut Instr) -> Result<(), Diagnostic> {
        let opcode = instr.opcode;
        let (required, optional) = known(opcode.attrs_kind());
        let mut seen: Vec<&str> = Vec::new();
        while self.cursor.accept(',') {
            let at = self.cursor.at();
            let name = self.cursor.attr_name()?;
            if seen.contains(&name) {
                return Err(at.error(format!("duplicate attribute `{name}`")));
            }
            if !self.value(name, instr)? {
                let known = required.iter().chain(optional).copied();
                return Err(unknown_attribute(opcode, name, at, known));
            }
            seen.push(name);
        }
        match required.iter().find(|name| !seen.contains(name)) {
            Some(name) => Err(self.cursor.unexpected(&format!("attribute `{name}`"))),
            None => Ok(()),
        }
    }

    /// Parses the value of attribute `name` into `instr`; false if the opcode has no such attribute.
    fn value(&mut self, name: &str, instr: &mut Instr) -> Result<bool, Diagnostic> {
        match (&mut instr.attrs, name) {
            (Attrs::Iota(dim), "iota_dimension") => *dim = self.cursor.int()?,
            (Attrs::Dims(dims) | Attrs::Reduce { dims, .. }, "dimensions") => *dims = self.cursor.ints()?,
            (Attrs::Compare(comparison), "direction") => *comparison = self.comparison()?,
            (Attrs::Dot(dims), "lhs_batch_dims") => dims.lhs_batch = self.cursor.ints()?,
            (Attrs::Dot(dims), "rhs_batch_dims") => dims.rhs_batch = self.cursor.ints()?,
            (Attrs::Dot(dims), "lhs_contracting_dims") => dims.lhs_contracting = self.cursor.ints()?,
            (Attrs::Dot(dims), "rhs_contracting_dims") => dims.rhs_contracting = self.cursor.ints()?,
            (Attrs::Slice(ranges), "slice") => *ranges = self.ranges()?,
            (Attrs::DynamicSlice(sizes), "dynamic_slice_sizes") => *sizes = self.cursor.ints()?,
            (Attrs::Pad(edges), "padding") => *edges = self.edges()?,
            (Attrs::Gather(dims), "offset_dims") => dims.offset_dims = self.cursor.ints()?,
            (Attrs::Gather(dims), "collapsed_slice_dims") => {
                dims.collapsed_slice_dims = self.cursor.ints()?
            }
            (Attrs::Gather(dims), "start_index_map") => dims.start_index_map = self.cursor.ints()?,
            (Attrs::Gather(dims), "index_vector_dim") => dims.index_vector_dim = self.cursor.int()?,
            (Attrs::Gather(dims), "slice_sizes") => dims.slice_sizes = self.cursor.ints()?,
            (Attrs::Scatter { dims, .. }, "update_window_dims") => {
                dims.update_window_dims = self.cursor.ints()?
            }
            (Attrs::Scatter { dims, .. }, "inserted_window_dims") => {
                dims.inserted_window_dims = self.cursor.ints()?;
            }
            (Attrs::Scatter { dims, .. }, "scatter_dims_to_operand_dims") => {
                dims.scatter_dims_to_operand_dims = self.cursor.ints()?;
            }
            (Attrs::Scatter { dims, .. }, "index_vector_dim") => dims.index_vector_dim = self.cursor.int()?,
            (
                Attrs::Reduce { to_apply, .. } | Attrs::Scatter { to_apply, .. } | Attrs::Call(to_apply),
                "to_apply",
            ) => *to_apply = self.computation()?,
            (Attrs::While { condition, .. }, "condition") => *condition = self.computation()?,
            (Attrs::While { body, .. }, "body") => *body = self.computation()?,
            (Attrs::TupleIndex(index), "index") => *index = self.cursor.int()?,
            (Attrs::CustomCall(call), "custom_call_target") => call.target = self.cursor.string()?,
            (Attrs::CustomCall(call), "custom_call_has_side_effect") => {
                call.side_effect = self.side_effect()?
            }
            (Attrs::CustomCall(call), "backend_config") => call.backend_config = self.config()?,
            (_, "sharding") => instr.sharding = Some(self.cursor.sharding()?),
            (_, "frontend_attributes") => instr.frontend_attributes = self.cursor.frontend_attributes()?,
            (_, "metadata") => self.metadata = Some(self.cursor.metadata()?),
            (_, name) if SKIPPED.contains(&name) => self.cursor.skip_value()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn comparison(&mut self) -> Result<ComparisonDirection, Diagnostic> {
        let at = self.cursor.at();
        let word = self.cursor.name("a comparison direction")?;
        word.parse()
            .map_err(|unknown: UnknownComparisonDirection| Diagnostic::from(unknown).located(at.location()))
    }

    fn side_effect(&mut self) -> Result<SideEffect, Diagnostic> {
        let side_effect = match self.cursor.kind() {
            HloTokenKind::Word("true") => SideEffect::Present,
            HloTokenKind::Word("false") => SideEffect::Absent,
            _ => return Err(self.cursor.unexpected("true or false")),
        };
        self.cursor.advance();
        Ok(side_effect)
    }

    /// `{[0:4], [2:8:2]}`
    fn ranges(&mut self) -> Result<Vec<SliceDim>, Diagnostic> {
        let mut ranges = Vec::new();
        self.cursor.list('{', '}', |cursor| {
            cursor.expect('[')?;
            let start = cursor.int()?;
            cursor.expect(':')?;
            let limit = cursor.int()?;
            let stride = if cursor.accept(':') { cursor.int()? } else { 1 };
            cursor.expect(']')?;
            ranges.push(SliceDim { start, limit, stride });
            Ok(())
        })?;
        Ok(ranges)
    }

    /// `0_1x-2_0_1`: low edge, high edge and, where it is not zero, interior.
    fn edges(&mut self) -> Result<Vec<PadDim>, Diagnostic> {
        let edges: Option<Vec<PadDim>> = match self.cursor.kind() {
            HloTokenKind::Number(text) => text.split('x').map(edge).collect(),
            _ => None,
        };
        let edges = edges.ok_or_else(|| self.cursor.unexpected("padding such as `0_1x-2_0`"))?;
        self.cursor.advance();
        Ok(edges)
    }

    fn computation(&mut self) -> Result<CompId, Diagnostic> {
        let at = self.cursor.at();
        let name = self.cursor.name("a computation")?;
        Ok(self.module.mention(name, at))
    }

    /// A string, or the text of a JSON object.
    fn config(&mut self) -> Result<String, Diagnostic> {
        match self.cursor.kind() {
            HloTokenKind::Mark('{') => self.cursor.skip_group().map(str::to_owned),
            _ => self.cursor.string(),
        }
    }
}

/// The error of an attribute that no instruction with `opcode` has; `known` are those that it can have.
fn unknown_attribute<'k>(
    opcode: Opcode,
    name: &str,
    at: Position,
    known: impl Iterator<Item = &'k str>,
) -> Diagnostic {
    let error = at.error(format!("unknown attribute of `{opcode}`: {name}"));
    Diagnostic { hint: nearest_hint(name, known), ..error }
}

fn edge(text: &str) -> Option<PadDim> {
    let mut parts = text.split('_');
    let low = parts.next()?.parse().ok()?;
    let high = parts.next()?.parse().ok()?;
    let interior = parts.next().map_or(Some(0), |part| part.parse::<u32>().ok())?;
    parts.next().is_none().then_some(PadDim { low, high, interior: interior as usize })
}
