//! What stands behind the operands: one arm for each attribute, whatever opcode has it.

use super::{
    cursor::{Cursor, Mistake},
    lex::{Kind, Spot},
    resolve::Parsed,
};
use crate::{
    base::{DType, Literal, nearest},
    hlo::{
        Attrs, CompId, Comparison, CustomCall, DotDims, Form, GatherDims, Instr, PadDim, ScatterDims,
        SideEffect, SliceDim,
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
pub(super) fn unset(form: Form) -> Attrs {
    let nothing = CompId::new(0);
    match form {
        Form::Plain => Attrs::Plain,
        Form::Parameter => Attrs::Parameter(0),
        Form::Constant => Attrs::Constant(Literal::scalar(DType::Pred, 0.0)),
        Form::Iota => Attrs::Iota(0),
        Form::Dims => Attrs::Dims(vec![]),
        Form::Compare => Attrs::Compare(Comparison::Eq),
        Form::Dot => Attrs::Dot(DotDims::default()),
        Form::Slice => Attrs::Slice(vec![]),
        Form::DynamicSlice => Attrs::DynamicSlice(vec![]),
        Form::Pad => Attrs::Pad(vec![]),
        Form::Reduce => Attrs::Reduce { dims: vec![], to_apply: nothing },
        Form::Gather => Attrs::Gather(GatherDims::default()),
        Form::Scatter => Attrs::Scatter { dims: ScatterDims::default(), to_apply: nothing },
        Form::Call => Attrs::Call(nothing),
        Form::While => Attrs::While { condition: nothing, body: nothing },
        Form::TupleIndex => Attrs::TupleIndex(0),
        Form::CustomCall => Attrs::CustomCall(CustomCall::default()),
    }
}

/// The attributes that a form must have, and those that it may have.
fn known(form: Form) -> (&'static [&'static str], &'static [&'static str]) {
    match form {
        Form::Plain | Form::Parameter | Form::Constant => (&[], &[]),
        Form::Iota => (&["iota_dimension"], &[]),
        Form::Dims => (&["dimensions"], &[]),
        Form::Compare => (&["direction"], &[]),
        Form::Dot => {
            (&[], &["lhs_batch_dims", "lhs_contracting_dims", "rhs_batch_dims", "rhs_contracting_dims"])
        }
        Form::Slice => (&["slice"], &[]),
        Form::DynamicSlice => (&["dynamic_slice_sizes"], &[]),
        Form::Pad => (&["padding"], &[]),
        Form::Reduce => (&["dimensions", "to_apply"], &[]),
        Form::Gather => (
            &["offset_dims", "collapsed_slice_dims", "start_index_map", "index_vector_dim", "slice_sizes"],
            &[],
        ),
        Form::Scatter => (
            &[
                "update_window_dims",
                "inserted_window_dims",
                "scatter_dims_to_operand_dims",
                "index_vector_dim",
                "to_apply",
            ],
            &[],
        ),
        Form::Call => (&["to_apply"], &[]),
        Form::While => (&["condition", "body"], &[]),
        Form::TupleIndex => (&["index"], &[]),
        Form::CustomCall => (&["custom_call_target"], &["custom_call_has_side_effect", "backend_config"]),
    }
}

pub(super) struct AttrReader<'p, 'a> {
    pub cursor: &'p mut Cursor<'a>,
    pub parsed: &'p mut Parsed<'a>,
}

impl<'a> AttrReader<'_, 'a> {
    /// Reads `, name=value` as long as one follows.
    pub fn read(&mut self, instr: &mut Instr) -> Result<(), Mistake> {
        let opcode = instr.opcode;
        let (required, optional) = known(opcode.form());
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

    fn comparison(&mut self) -> Result<Comparison, Mistake> {
        let at = self.cursor.at();
        let word = self.cursor.name("a comparison direction")?;
        word.parse()
            .map_err(|message: String| Mistake::new(at, message).hint("known: EQ, NE, GE, GT, LE, LT"))
    }

    fn side_effect(&mut self) -> Result<SideEffect, Mistake> {
        let side_effect = match self.cursor.kind() {
            Kind::Word("true") => SideEffect::Present,
            Kind::Word("false") => SideEffect::Absent,
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
            Kind::Number(text) => text.split('x').map(edge).collect(),
            _ => None,
        };
        let edges = edges.ok_or_else(|| self.cursor.unexpected("padding such as `0_1x-2_0`"))?;
        self.cursor.advance();
        Ok(edges)
    }

    fn computation(&mut self) -> Result<CompId, Mistake> {
        let at: Spot = self.cursor.at();
        let name = self.cursor.name("a computation")?;
        Ok(self.parsed.mention(name, at))
    }

    /// A string, or JSON as it stands.
    fn config(&mut self) -> Result<String, Mistake> {
        match self.cursor.kind() {
            Kind::Mark('{') => self.cursor.skip_group().map(str::to_owned),
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
