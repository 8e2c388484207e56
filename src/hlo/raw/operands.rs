//! What is in parentheses after an opcode.

use super::{
    attr::AttrName,
    body::{Attributes, Body, Head, UnknownOperands, no_shape},
    cursor::{Parsed, SyntaxError},
    literal,
    module::{Attr, InstrId},
    opcode::{Opcode, Operands},
    shape::{Shape, ShapeId, ShapeReader},
    span::Span,
};

/// Maximum nesting of instructions inside operands and of computations inside attributes.
const MAX_NESTING: usize = 64;

impl Body<'_, '_> {
    /// What is in parentheses after an opcode: a payload, or operands.
    pub(super) fn arguments(&mut self, head: &Head) -> Parsed<(Span, Vec<InstrId>)> {
        if head.opcode.operands() == Operands::Payload {
            return self.payload(head).map(|payload| (payload, vec![]));
        }
        let at = self.cursor.at();
        let mut operands = Vec::new();
        self.cursor.expect(b'(')?;
        // A comma may follow the last operand.
        while !self.cursor.accept(b')')? {
            operands.push(self.operand()?);
            if !self.cursor.accept(b',')? {
                self.cursor.expect(b')')?;
                break;
            }
        }
        let found = operands.len();
        let expected = match head.opcode.operands() {
            Operands::Exactly(1) if found != 1 => "1 operand".to_owned(),
            Operands::Exactly(count) if count != found => format!("{count} operands"),
            Operands::AtLeast(count) if count > found => format!("at least {count} operands"),
            Operands::Pairs if found % 2 == 1 => "an even number of operands".to_owned(),
            Operands::OddNumber if found % 2 == 0 => "an odd number of operands".to_owned(),
            _ => return Ok((Span::default(), operands)),
        };
        Err(SyntaxError::new(at, format!("expected {expected}, found {found}")))
    }

    /// `(0)` of a parameter, `({1, 2})` of a constant
    fn payload(&mut self, head: &Head) -> Parsed<Span> {
        let Some(shape) = head.shape else { return Err(no_shape(head)) };
        self.cursor.expect(b'(')?;
        self.cursor.skip_blank()?;
        let start = self.cursor.at();
        if head.opcode == Opcode::Parameter {
            if self.cursor.int("a parameter number")? < 0 {
                return Err(SyntaxError::new(start, "expected a parameter number of zero or more"));
            }
        } else {
            literal::skip(&mut self.cursor, &self.task.shapes.table, shape)?;
        }
        let payload = Span::new(start, self.cursor.at() - start);
        self.cursor.expect(b')')?;
        Ok(payload)
    }

    /// A name after an optional shape, or an instruction without a name and attributes.
    fn operand(&mut self) -> Parsed<InstrId> {
        self.cursor.skip_blank()?;
        let start = self.cursor;
        match self.named_operand()? {
            Some(id) => Ok(id),
            None => {
                self.cursor = start;
                self.nested_operand()
            }
        }
    }

    /// The instruction with the name here; `None` if what is here is an instruction itself.
    fn named_operand(&mut self) -> Parsed<Option<InstrId>> {
        let at = self.cursor.at();
        let shape =
            ShapeReader::begins(&self.cursor).then(|| self.task.shapes.read(&mut self.cursor)).transpose()?;
        self.cursor.skip_blank()?;
        if let (UnknownOperands::AreParameters, Some(shape)) = (self.unknown_operands, shape)
            && matches!(self.cursor.peek(), b',' | b')')
        {
            return self.parameter(Span::default(), at, shape).map(Some);
        }
        let name = self.cursor.name("an operand")?;
        let mut next = self.cursor;
        next.skip_blank()?;
        if next.peek() == b'(' {
            return Ok(None);
        }
        let id = match (self.unknown_operands, shape) {
            (UnknownOperands::AreParameters, Some(shape))
                if !self.ids.contains_key(self.cursor.bytes(name.range())) =>
            {
                self.parameter(name, at, shape)?
            }
            _ => self.find(name)?,
        };
        let id = self.element(id)?;
        let found = self.computation.instrs[id.index()].shape;
        match shape {
            Some(shape) if !self.task.shapes.table.compatible(shape, found) => {
                let (declared, found) =
                    (self.task.shapes.table.text(shape), self.task.shapes.table.text(found));
                Err(SyntaxError::new(at, format!("expected an operand of shape {declared}, found {found}")))
            }
            _ => Ok(Some(id)),
        }
    }

    /// The element of a tuple that `#1` after its name stands for, as XLA writes dumps: a get-tuple-element of its own.
    fn element(&mut self, tuple: InstrId) -> Parsed<InstrId> {
        let mut id = tuple;
        while self.cursor.peek() == b'#' {
            let at = self.cursor.at();
            self.cursor.advance(1);
            let start = self.cursor.at();
            let index = self.cursor.int("the index of an element")?;
            let value = Span::new(start, self.cursor.at() - start);
            let shape = self.computation.instrs[id.index()].shape;
            let element = match self.task.shapes.table.get(shape) {
                Shape::Tuple(elements) => {
                    usize::try_from(index).ok().and_then(|index| elements.get(index)).copied()
                }
                _ => None,
            };
            let Some(element) = element else {
                let shape = self.task.shapes.table.text(shape);
                return Err(SyntaxError::new(at, format!("unknown element {index} of {shape}")));
            };
            if let Some(&known) = self.elements.get(&(id, index)) {
                id = known;
                continue;
            }
            let first_attr = self.computation.attrs.len();
            let name = Some(AttrName::Index);
            self.computation.attrs.push(Attr { name, spelling: Span::default(), value });
            let opcode = Opcode::GetTupleElement;
            let head = Head { name: Span::default(), shape: Some(element), opcode, wrapped: None, at };
            let new = self.push(head, Span::default(), &[id], first_attr)?;
            self.elements.insert((id, index), new);
            id = new;
        }
        Ok(id)
    }

    fn nested_operand(&mut self) -> Parsed<InstrId> {
        self.deeper(self.cursor.at())?;
        let name = Span::default();
        let id = self.right_side(name, Attributes::None)?;
        self.depth -= 1;
        Ok(id)
    }

    pub(super) fn deeper(&mut self, at: usize) -> Parsed<()> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return Err(SyntaxError::new(
                at,
                format!("expected at most {MAX_NESTING} nested instructions, found more"),
            ));
        }
        Ok(())
    }

    /// The instruction with a name.
    pub(super) fn find(&self, span: Span) -> Parsed<InstrId> {
        let name = self.cursor.bytes(span.range());
        if let Some(&id) = self.ids.get(name) {
            return Ok(id);
        }
        let name = String::from_utf8_lossy(name);
        let message = format!("instruction `{name}` is unknown or used before it is defined");
        let error = SyntaxError::new(span.start(), message);
        let known: Vec<_> = self.ids.keys().map(|name| String::from_utf8_lossy(name)).collect();
        Err(error.suggest(&name, known.iter().map(|name| name.as_ref())))
    }

    /// The parameter that an operand of a text of one instruction stands for.
    fn parameter(&mut self, name: Span, at: usize, shape: ShapeId) -> Parsed<InstrId> {
        let number = self.computation.instrs.iter().filter(|instr| instr.opcode == Opcode::Parameter).count();
        let payload = self.computation.add_text(&number.to_string());
        let head = Head { name, shape: Some(shape), opcode: Opcode::Parameter, wrapped: None, at };
        self.push(head, payload, &[], self.computation.attrs.len())
    }
}
