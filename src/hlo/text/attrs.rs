//! What stands behind the operands: one arm for each attribute, whatever opcode has it.

use super::{
    cursor::{Mistake, TokenCursor},
    lex::{HloTokenKind, Position},
    resolve::UnresolvedModule,
};
use crate::{
    base::{DType, Literal, nearest},
    hlo::{
        Attrs, AttrsKind, CompId, ComparisonDirection, CustomCall, DotDims, GatherDims, Instr, PadDim,
        ScatterDims, SideEffect, SliceDim,
    },
};

/// Attributes that change no value, and that the IR has no location for.
const SKIPPED: &[&str] = &[
    "metadata",
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

/// The payload of a form before any attribute is read.
pub(super) fn unset(form: AttrsKind) -> Attrs {
    let nothing = CompId::new(0);
    match form {
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
        AttrsKind::Reduce => Attrs::Reduce { dims: vec![], to_apply: nothing },
        AttrsKind::Gather => Attrs::Gather(GatherDims::default()),
        AttrsKind::Scatter => Attrs::Scatter { dims: ScatterDims::default(), to_apply: nothing },
        AttrsKind::Call => Attrs::Call(nothing),
        AttrsKind::While => Attrs::While { condition: nothing, body: nothing },
        AttrsKind::TupleIndex => Attrs::TupleIndex(0),
        AttrsKind::CustomCall => Attrs::CustomCall(CustomCall::default()),
    }
}

/// The attributes that a form must have, and those that it may have.
fn known(form: AttrsKind) -> (&'static [&'static str], &'static [&'static str]) {
    match form {
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
    pub parsed: &'p mut UnresolvedModule<'a>,
}

impl<'a> AttrReader<'_, 'a> {
    /// Reads `, name=value` as long as one follows.
    pub fn read(&mut self, instr: &mut Instr) -> Result<(), Mistake> {
        let opcode = instr.opcode;
        let (required, optional) = known(opcode.attrs_kind());
        let mut seen: Vec<&str> = Vec::new();
        while self.cursor.accept(',') {
            let at = self.cursor.at();
            let name = self.cursor.attr_name()?;
            if seen.contains(&name) {
                return Err(Mistake::new(at, format!("attribute `{name}` stands twice")));
            }
            if !self.value(name, instr)? {
                let near = nearest(name, required.iter().chain(optional).copied());
                return Err(Mistake::new(at, format!("unknown attribute of `{opcode}`: {name}")).meant(near));
            }
            seen.push(name);
        }
        match required.iter().find(|name| !seen.contains(name)) {
            Some(name) => Err(self.cursor.unexpected(&format!("attribute `{name}`"))),
            None => Ok(()),
        }
    }

    /// Reads a value into its location in `instr`; false if there is none for an attribute of this name.
    fn value(&mut self, name: &str, instr: &mut Instr) -> Result<bool, Mistake> {
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
            (_, name) if SKIPPED.contains(&name) => self.cursor.skip_value()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn comparison(&mut self) -> Result<ComparisonDirection, Mistake> {
        let at = self.cursor.at();
        let word = self.cursor.name("a comparison direction")?;
        word.parse()
            .map_err(|message: String| Mistake::new(at, message).hint("known: EQ, NE, GE, GT, LE, LT"))
    }

    fn side_effect(&mut self) -> Result<SideEffect, Mistake> {
        let side_effect = match self.cursor.kind() {
            HloTokenKind::Word("true") => SideEffect::Present,
            HloTokenKind::Word("false") => SideEffect::Absent,
            _ => return Err(self.cursor.unexpected("true or false")),
        };
        self.cursor.advance();
        Ok(side_effect)
    }

    /// `{[0:4], [2:8:2]}`
    fn ranges(&mut self) -> Result<Vec<SliceDim>, Mistake> {
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
    fn edges(&mut self) -> Result<Vec<PadDim>, Mistake> {
        let edges: Option<Vec<PadDim>> = match self.cursor.kind() {
            HloTokenKind::Number(text) => text.split('x').map(edge).collect(),
            _ => None,
        };
        let edges = edges.ok_or_else(|| self.cursor.unexpected("padding such as `0_1x-2_0`"))?;
        self.cursor.advance();
        Ok(edges)
    }

    fn computation(&mut self) -> Result<CompId, Mistake> {
        let at: Position = self.cursor.at();
        let name = self.cursor.name("a computation")?;
        Ok(self.parsed.mention(name, at))
    }

    /// A string, or JSON as it stands.
    fn config(&mut self) -> Result<String, Mistake> {
        match self.cursor.kind() {
            HloTokenKind::Mark('{') => self.cursor.skip_group().map(str::to_owned),
            _ => self.cursor.string(),
        }
    }
}

fn edge(text: &str) -> Option<PadDim> {
    let mut parts = text.split('_');
    let low = parts.next()?.parse().ok()?;
    let high = parts.next()?.parse().ok()?;
    let interior = parts.next().map_or(Some(0), |part| part.parse::<u32>().ok())?;
    parts.next().is_none().then_some(PadDim { low, high, interior: interior as usize })
}
