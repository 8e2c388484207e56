//! What XLA demands of an instruction beyond the form of its parts: how its operands, attributes and shape go together.

use super::{
    access,
    attr::AttrName,
    body::{Body, Head},
    cursor::{Parsed, SyntaxError},
    module::{Attr, Instr, InstrId},
    opcode::Opcode,
    primitive::PrimitiveType,
    shape::{Array, Shape, ShapeId, ShapeReader, ShapeTable},
};

/// An instruction whose parts are known.
struct Checked<'b, 't, 's> {
    head: &'b Head,
    operands: &'b [InstrId],
    attrs: &'b [Attr],
    body: &'b Body<'t, 's>,
}

impl Body<'_, '_> {
    /// Checks an instruction with its shape, which may have been inferred.
    pub(super) fn check(
        &self,
        head: &Head,
        operands: &[InstrId],
        first_attr: usize,
        shape: ShapeId,
    ) -> Parsed<()> {
        let attrs = &self.computation.attrs[first_attr..];
        let checked = Checked { head, operands, attrs, body: self };
        checked.common(shape)?;
        checked.own(shape)
    }
}

impl<'b, 't> Checked<'b, 't, '_> {
    fn refuse<T>(&self, message: impl AsRef<str>) -> Parsed<T> {
        let message = format!("{}: {}", self.head.spelling(), message.as_ref());
        Err(SyntaxError::new(self.head.at, message))
    }

    fn expect(&self, valid: bool, message: impl FnOnce() -> String) -> Parsed<()> {
        if valid { Ok(()) } else { self.refuse(message()) }
    }

    fn attr(&self, name: AttrName) -> Option<&'t str> {
        let attr = self.attrs.iter().find(|attr| attr.name == Some(name))?;
        std::str::from_utf8(self.body.cursor.bytes(attr.value.range())).ok()
    }

    fn shapes(&self) -> &'b ShapeTable {
        &self.body.task.shapes.table
    }

    fn operand(&self, position: usize) -> Option<&'b Instr> {
        self.operands.get(position).map(|id| &self.body.computation.instrs[id.index()])
    }

    fn operand_array(&self, position: usize) -> Option<&'b Array> {
        array(self.shapes(), self.operand(position)?.shape)
    }

    /// The number of references that an attribute of this instruction has.
    fn called(&self, name: AttrName) -> usize {
        let first = self.body.computation.attrs.len() - self.attrs.len();
        let is_of = |attr: u32| {
            (attr as usize).checked_sub(first).is_some_and(|index| self.attrs[index].name == Some(name))
        };
        self.body.references.iter().filter(|&&(attr, _)| is_of(attr)).count()
    }

    fn common(&self, shape: ShapeId) -> Parsed<()> {
        for attr in self.attrs {
            match attr.name {
                Some(AttrName::ControlPredecessors) => {
                    let list = self.attr(AttrName::ControlPredecessors).unwrap_or_default();
                    let is_empty = list.trim_matches(['{', '}', ' ']).is_empty();
                    self.expect(!is_empty, || {
                        "expected one control predecessor or more, found none".to_owned()
                    })?;
                }
                Some(AttrName::ParameterReplication) => {
                    let found = self.attr(AttrName::ParameterReplication).unwrap_or_default();
                    let found = found.split(',').count();
                    let leaves = leaves(self.shapes(), shape);
                    self.expect(found == leaves || leaves == 0, || {
                        format!("expected parameter_replication of {leaves} arrays, found {found}")
                    })?;
                }
                Some(AttrName::UseGlobalDeviceIds) => {
                    let is_used = self.attr(AttrName::UseGlobalDeviceIds) == Some("true");
                    self.expect(!is_used || self.attr(AttrName::ChannelId).is_some(), || {
                        "expected channel_id with use_global_device_ids, found none".to_owned()
                    })?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn own(&self, shape: ShapeId) -> Parsed<()> {
        use Opcode as O;
        match self.head.opcode {
            O::Broadcast => self.broadcast(),
            O::Concatenate | O::Sort => self.one_dimension(),
            O::AllToAll => {
                let dims =
                    self.attr(AttrName::Dimensions).and_then(access::ints).map_or(0, |dims| dims.len());
                self.expect(dims <= 1, || format!("expected at most one dimension, found {dims}"))
            }
            O::Scan => self.scan(),
            O::CollectivePermute | O::CollectivePermuteStart => self.permute(),
            O::Conditional => self.conditional(),
            O::CustomCall => self.layout_constraints(),
            O::DynamicSlice => self.dynamic_slice(),
            O::Infeed => match self.shapes().get(shape) {
                Shape::Tuple(elements) if !elements.is_empty() => Ok(()),
                _ => {
                    self.refuse(format!("expected the shape of a tuple, found {}", self.shapes().text(shape)))
                }
            },
            O::Tuple => match self.shapes().get(shape) {
                Shape::Tuple(elements) if elements.len() == self.operands.len() => Ok(()),
                _ => self.refuse(format!(
                    "expected the shape of a tuple of {}, found {}",
                    self.operands.len(),
                    self.shapes().text(shape)
                )),
            },
            O::SendDone => self.same_channel(Opcode::Send),
            O::RecvDone => self.same_channel(Opcode::Recv),
            O::AsyncStart => self.async_shape(shape),
            O::AsyncUpdate | O::AsyncDone => self.async_chain(shape),
            _ => Ok(()),
        }
    }

    fn broadcast(&self) -> Parsed<()> {
        let is_scalar = self.operand_array(0).is_none_or(|operand| operand.dims.is_empty());
        self.expect(is_scalar || self.attr(AttrName::Dimensions).is_some(), || {
            "missing attribute `dimensions`, which may be left out for a scalar only".to_owned()
        })
    }

    fn one_dimension(&self) -> Parsed<()> {
        let dims = self.attr(AttrName::Dimensions).and_then(access::ints).map_or(0, |dims| dims.len());
        self.expect(dims == 1, || format!("expected one dimension, found {dims}"))
    }

    fn scan(&self) -> Parsed<()> {
        self.one_dimension()?;
        let carries: Option<usize> =
            self.attr(AttrName::NumCarries).and_then(|text| text.trim().parse().ok());
        let operands = self.operands.len();
        self.expect(carries.is_some_and(|carries| carries <= operands), || {
            format!("expected num_carries from 0 to {operands}, the number of operands")
        })?;
        let parameters = self.body.callee_parameters(self.attrs.len());
        self.expect(parameters.is_none_or(|found| found == operands), || {
            format!("expected a computation of {operands} parameters, one for each operand")
        })
    }

    fn permute(&self) -> Parsed<()> {
        let pairs = self.attr(AttrName::SourceTargetPairs).unwrap_or_default();
        let inner =
            pairs.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or_default();
        let mut groups = inner.split_inclusive('}').map(|pair| pair.trim_start_matches([',', ' ', '\n']));
        let is_pair = |pair: &str| pair.is_empty() || access::ints(pair).is_some_and(|pair| pair.len() == 2);
        self.expect(groups.all(is_pair), || format!("expected pairs of devices, found {pairs}"))?;
        let operands = self.operands.len();
        self.expect(self.attr(AttrName::SliceSizes).is_none() || operands == 4, || {
            format!("expected four operands with slice_sizes, found {operands}")
        })
    }

    fn conditional(&self) -> Parsed<()> {
        let index = self.operand(0).map(|operand| operand.shape);
        let found = index.map_or("none", |shape| self.shapes().text(shape));
        let element = match self.operand_array(0) {
            Some(index) if index.dims.is_empty() => index.element,
            _ => return self.refuse(format!("expected a scalar as first operand, found {found}")),
        };
        let listed = self.called(AttrName::BranchComputations);
        let has_list = self.attr(AttrName::BranchComputations).is_some();
        let branches = match element {
            PrimitiveType::Pred => {
                let has_both = [AttrName::TrueComputation, AttrName::FalseComputation]
                    .iter()
                    .all(|&name| self.attr(name).is_some());
                self.expect(has_both && !has_list, || {
                    "expected true_computation and false_computation for an index of pred".to_owned()
                })?;
                2
            }
            PrimitiveType::S32 => {
                self.expect(listed > 0, || "expected branch_computations for an index of s32".to_owned())?;
                listed
            }
            _ => return self.refuse(format!("expected an index of pred[] or s32[], found {found}")),
        };
        let operands = self.operands.len();
        self.expect(operands == branches + 1, || {
            format!(
                "expected an index and {branches} operands, one for each branch, found {operands} operands"
            )
        })
    }

    fn layout_constraints(&self) -> Parsed<()> {
        let Some(attr) = self.attrs.iter().find(|attr| attr.name == Some(AttrName::OperandLayoutConstraints))
        else {
            return Ok(());
        };
        let mut cursor = self.body.cursor;
        cursor.set(attr.value.start());
        let mut reader = ShapeReader::new();
        let mut found = Vec::new();
        // The form of the list was checked when it was read.
        while cursor.accept(b'{').unwrap_or(false) || cursor.accept(b',').unwrap_or(false) {
            match reader.read(&mut cursor) {
                Ok(shape) => found.push(shape),
                Err(_) => break,
            }
        }
        let operands = self.operands.len();
        self.expect(found.len() == operands, || {
            format!("expected operand_layout_constraints of {operands} operands, found {}", found.len())
        })?;
        for (position, &constraint) in found.iter().enumerate() {
            let Some(operand) = self.operand(position) else { continue };
            let expected = self.shapes().text(operand.shape);
            let found = reader.table.text(constraint);
            self.expect(without_layout(expected) == without_layout(found), || {
                format!("expected a layout constraint for operand {position} of {expected}, found {found}")
            })?;
        }
        Ok(())
    }

    fn dynamic_slice(&self) -> Parsed<()> {
        let Some(operand) = self.operand_array(0) else {
            return self.refuse("expected an array as first operand");
        };
        let rank = operand.dims.len();
        let indices = self.operands.len() - 1;
        // The indices may also be one vector.
        let is_vector = indices == 1 && self.operand_array(1).is_some_and(|index| index.dims.len() == 1);
        self.expect(indices == rank || is_vector, || format!("expected {rank} indices, found {indices}"))
    }

    fn same_channel(&self, start: Opcode) -> Parsed<()> {
        let Some(operand) = self.operand(0).filter(|operand| operand.opcode == start) else { return Ok(()) };
        let expected = self.body.attr_of(operand, AttrName::ChannelId);
        let found = self.attr(AttrName::ChannelId);
        self.expect(expected == found, || {
            let text = |channel: Option<&str>| channel.unwrap_or("none").to_owned();
            format!("expected the channel_id of its operand, {}, found {}", text(expected), text(found))
        })
    }

    /// The shape of a start or an update is a tuple of the operands' tuple, the results and any state.
    fn async_shape(&self, shape: ShapeId) -> Parsed<()> {
        let is_state = match self.shapes().get(shape) {
            Shape::Tuple(elements) if elements.len() >= 2 => {
                matches!(self.shapes().get(elements[0]), Shape::Tuple(_))
            }
            _ => false,
        };
        self.expect(is_state, || {
            format!("expected a shape `((operands), results, state)`, found {}", self.shapes().text(shape))
        })
    }

    fn async_chain(&self, shape: ShapeId) -> Parsed<()> {
        let is_async = |operand: &&Instr| matches!(operand.opcode, Opcode::AsyncStart | Opcode::AsyncUpdate);
        let Some(before) = self.operand(0).filter(is_async) else {
            return self.refuse("expected an operand that starts or updates an async operation");
        };
        let wrapped = |opcode: Option<Opcode>| opcode.map_or("async", Opcode::name);
        if let (Some(expected), Some(found)) = (before.wrapped, self.head.wrapped) {
            self.expect(expected == found, || {
                let (expected, found) = (wrapped(Some(expected)), wrapped(Some(found)));
                format!("expected the operation of its operand, {expected}, found {found}")
            })?;
        }
        const DEFAULT: &str = "\"main\"";
        let expected = self.body.attr_of(before, AttrName::AsyncExecutionThread).unwrap_or(DEFAULT);
        let found = self.attr(AttrName::AsyncExecutionThread).unwrap_or(expected);
        self.expect(expected == found, || {
            format!("expected the execution thread of its operand, {expected}, found {found}")
        })?;
        if let (Some(expected), Some(found)) =
            (self.body.attr_of(before, AttrName::Calls), self.attr(AttrName::Calls))
        {
            let name = |text: &str| text.trim_start_matches('%').to_owned();
            self.expect(name(expected) == name(found), || {
                format!("expected the computation of its operand, {expected}, found {found}")
            })?;
        }
        if self.head.opcode == Opcode::AsyncUpdate {
            self.async_shape(shape)?;
            self.expect(self.shapes().compatible(before.shape, shape), || {
                let (expected, found) = (self.shapes().text(before.shape), self.shapes().text(shape));
                format!("expected the shape of its operand, {expected}, found {found}")
            })?;
        }
        Ok(())
    }
}

fn array(shapes: &ShapeTable, shape: ShapeId) -> Option<&Array> {
    match shapes.get(shape) {
        Shape::Array(array) => Some(array),
        _ => None,
    }
}

/// The text of a shape without its layouts.
fn without_layout(text: &str) -> String {
    let parts = text.split('{').map(|part| part.split_once('}').map_or(part, |(_, rest)| rest));
    parts.collect()
}

/// The number of arrays of a shape.
fn leaves(shapes: &ShapeTable, shape: ShapeId) -> usize {
    match shapes.get(shape) {
        Shape::Tuple(elements) => elements.iter().map(|&element| leaves(shapes, element)).sum(),
        _ => 1,
    }
}
