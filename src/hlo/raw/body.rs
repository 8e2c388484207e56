//! The instructions of computations.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    attr::AttrName,
    cursor::{Cursor, Parsed, SyntaxError},
    infer,
    module::{Attr, Computation, Instr, InstrId, opcode_parts},
    opcode::Opcode,
    primitive::PrimitiveType,
    shape::{ShapeId, ShapeReader},
    span::Span,
    task::{Callee, Outline, References, SINGLE, Task},
    value::{self, Form},
};

/// A computation while its instructions are read.
pub(super) struct Body<'t, 's> {
    pub(super) cursor: Cursor<'t>,
    pub(super) task: &'s mut Task<'t>,
    pub(super) depth: usize,
    pub(super) computation: Computation,
    pub(super) references: References,
    pub(super) ids: FxHashMap<&'t [u8], InstrId>,
    /// Elements of tuples that operands name by their index.
    pub(super) elements: FxHashMap<(InstrId, i128), InstrId>,
    pub(super) root: Option<usize>,
    pub(super) unknown_operands: UnknownOperands,
}

/// What an instruction consists of before its attributes.
pub(super) struct Head {
    pub(super) name: Span,
    pub(super) shape: Option<ShapeId>,
    pub(super) opcode: Opcode,
    pub(super) wrapped: Option<Opcode>,
    pub(super) at: usize,
}

impl<'t, 's> Body<'t, 's> {
    pub(super) fn new(cursor: Cursor<'t>, task: &'s mut Task<'t>, depth: usize) -> Self {
        Self {
            cursor,
            task,
            depth,
            computation: Computation::default(),
            references: vec![],
            ids: FxHashMap::default(),
            elements: FxHashMap::default(),
            root: None,
            unknown_operands: UnknownOperands::AreErrors,
        }
    }

    /// All instructions up to the end of the cursor.
    pub(super) fn instructions(mut self, outline: &Outline) -> Parsed<(Computation, References)> {
        match outline.name {
            Some(name) => {
                self.all()?;
                self.computation.name = name;
            }
            None => self.single()?,
        }
        self.computation.thread = outline.thread;
        let result = outline.result.map(|at| (at, self.cursor));
        let (computation, references, task) = self.finish()?;
        if let Some((at, cursor)) = result {
            let shapes = &mut task.shapes;
            let declared = shapes.read_at(&cursor, at)?;
            let root = computation.instrs[computation.root].shape;
            if !shapes.table.compatible(declared, root) {
                let (declared, root) = (shapes.table.text(declared), shapes.table.text(root));
                let message = format!("expected a root of shape {declared}, found {root}");
                return Err(SyntaxError::new(at, message));
            }
        }
        Ok((computation, references))
    }

    fn all(&mut self) -> Parsed<()> {
        self.cursor.skip_blank()?;
        while !self.cursor.is_end() {
            self.instruction()?;
            self.cursor.skip_blank()?;
        }
        Ok(())
    }

    /// A text of one instruction, whose operands are parameters: `f32[2] add(f32[2] x, f32[2] y)`
    fn single(&mut self) -> Parsed<()> {
        self.unknown_operands = UnknownOperands::AreParameters;
        let mut named = self.cursor;
        named.accept_word(b"ROOT")?;
        if named.name("").is_ok() && named.accept(b'=')? {
            self.instruction()?;
        } else {
            self.cursor.skip_blank()?;
            self.right_side(Span::default(), Attributes::Follow)?;
        }
        self.cursor.skip_blank()?;
        if self.cursor.is_end() {
            return Ok(());
        }
        let error = self.cursor.unexpected("the end of the text after one instruction");
        Err(error.with_hint("put the instructions into a computation: `ENTRY main { ... }`"))
    }

    fn finish(mut self) -> Parsed<(Computation, References, &'s mut Task<'t>)> {
        let Some(last) = self.computation.instrs.len().checked_sub(1) else {
            return Err(SyntaxError::new(
                self.cursor.at(),
                "expected an instruction, found an empty computation",
            ));
        };
        self.computation.root = self.root.unwrap_or(last);
        self.check_parameters()?;
        self.add_names();
        Ok((self.computation, self.references, self.task))
    }

    /// No two parameters have the same number.
    fn check_parameters(&self) -> Parsed<()> {
        let mut numbers = FxHashSet::default();
        let parameters = self.computation.instrs.iter().filter(|instr| instr.opcode == Opcode::Parameter);
        for parameter in parameters.filter(|parameter| !parameter.payload.is_added()) {
            let number = self.cursor.bytes(parameter.payload.range()).trim_ascii();
            if !numbers.insert(number) {
                let number = String::from_utf8_lossy(number);
                let message = format!("duplicate parameter number: {number}");
                return Err(SyntaxError::new(parameter.payload.start(), message));
            }
        }
        Ok(())
    }

    /// `ROOT name = shape opcode(operands), attributes`
    fn instruction(&mut self) -> Parsed<()> {
        let at = self.cursor.at();
        let is_root = self.cursor.accept_word(b"ROOT")?;
        let name = self.cursor.name("the name of an instruction")?;
        let text = self.cursor.bytes(name.range());
        if !is_instruction_name(text) {
            let text = String::from_utf8_lossy(text);
            return Err(SyntaxError::new(name.start(), format!("invalid instruction name: {text}")));
        }
        self.cursor.expect(b'=')?;
        self.cursor.skip_blank()?;
        let id = self.right_side(name, Attributes::Follow)?;
        if is_root && self.root.replace(id.index()).is_some() {
            return Err(SyntaxError::new(at, "expected one ROOT instruction, found a second"));
        }
        Ok(())
    }

    /// `shape opcode(operands), attributes`
    pub(super) fn right_side(&mut self, name: Span, attributes: Attributes) -> Parsed<InstrId> {
        let at = self.cursor.at();
        let shape =
            ShapeReader::begins(&self.cursor).then(|| self.task.shapes.read(&mut self.cursor)).transpose()?;
        let (opcode, wrapped) = self.opcode()?;
        let head = Head { name, shape, opcode, wrapped, at };
        let (payload, operands) = self.arguments(&head)?;
        let first_attr = self.computation.attrs.len();
        if attributes == Attributes::Follow {
            self.attributes(&head)?;
        }
        self.check_attributes(&head, first_attr)?;
        self.push(head, payload, &operands, first_attr)
    }

    /// An opcode, or the spelling of an async one that wraps another: `fusion-start`.
    fn opcode(&mut self) -> Parsed<(Opcode, Option<Opcode>)> {
        const ASYNC: &[(&str, Opcode)] =
            &[("-start", Opcode::AsyncStart), ("-update", Opcode::AsyncUpdate), ("-done", Opcode::AsyncDone)];
        let span = self.cursor.word("a shape or an opcode")?;
        let text = std::str::from_utf8(self.cursor.bytes(span.range())).unwrap_or_default();
        if let Some(opcode) = Opcode::from_name(text) {
            return Ok((opcode, None));
        }
        for &(suffix, opcode) in ASYNC {
            if let Some(wrapped) = text.strip_suffix(suffix).and_then(Opcode::from_name) {
                return Ok((opcode, Some(wrapped)));
            }
        }
        let error = SyntaxError::new(span.start(), format!("unknown opcode: {text}"));
        Err(error.suggest(text, Opcode::ALL.iter().map(|opcode| opcode.name())))
    }

    /// `, name=value` as long as there are any.
    fn attributes(&mut self, head: &Head) -> Parsed<()> {
        let first = self.computation.attrs.len();
        while self.cursor.accept(b',')? {
            let spelling = self.cursor.attribute_name("an attribute")?;
            let text = self.cursor.bytes(spelling.range());
            let name = AttrName::from_name(text);
            let seen = &self.computation.attrs[first..];
            let is_seen = |attr: &Attr| attr.name == name && self.cursor.bytes(attr.spelling.range()) == text;
            if seen.iter().any(is_seen) {
                let message = format!("duplicate attribute `{}`", String::from_utf8_lossy(text));
                return Err(SyntaxError::new(spelling.start(), message));
            }
            if name.is_some_and(|name| !head.allows(name)) {
                let text = String::from_utf8_lossy(text);
                let message =
                    format!("unexpected attribute `{text}`: `{}` has no such attribute", head.opcode.name());
                return Err(SyntaxError::new(spelling.start(), message));
            }
            self.cursor.skip_blank()?;
            let start = self.cursor.at();
            let index = self.computation.attrs.len() as u32;
            match name {
                None => value::skip_unknown(&mut self.cursor)?,
                Some(name) => match name.form() {
                    Form::Computation => self.callee(index)?,
                    Form::Computations => self.list(|body| body.callee(index))?,
                    Form::Instructions => self.list(|body| body.predecessor(index))?,
                    _ => name.skip_value(&mut self.cursor)?,
                },
            }
            let value = Span::new(start, self.cursor.at() - start);
            self.computation.attrs.push(Attr { name, spelling, value });
        }
        Ok(())
    }

    /// `{` items with commas between them `}`
    fn list(&mut self, mut item: impl FnMut(&mut Self) -> Parsed<()>) -> Parsed<()> {
        self.cursor.expect(b'{')?;
        if self.cursor.accept(b'}')? {
            return Ok(());
        }
        loop {
            item(self)?;
            if !self.cursor.accept(b',')? {
                return self.cursor.expect(b'}');
            }
        }
    }

    /// The name of a computation, or its instructions in braces.
    fn callee(&mut self, attr: u32) -> Parsed<()> {
        self.cursor.skip_blank()?;
        if self.cursor.peek() != b'{' {
            let name = self.cursor.name("a computation")?;
            self.references.push((attr, Callee::Named(name)));
            return Ok(());
        }
        let at = self.cursor.at();
        self.deeper(at)?;
        let mut end = self.cursor;
        end.skip_body()?;
        let mut inner = end;
        inner.set(at + 1);
        let inner = inner.until(end.at() - 1);
        let mut body = Body::new(inner, &mut *self.task, self.depth);
        body.all()?;
        let (computation, references, _) = body.finish()?;
        self.references.push((attr, Callee::Inline(self.task.known.inline.len())));
        self.task.known.inline.push((computation, references));
        self.cursor = end;
        self.depth -= 1;
        Ok(())
    }

    fn predecessor(&mut self, attr: u32) -> Parsed<()> {
        let name = self.cursor.name("an instruction")?;
        let id = self.find(name)?;
        self.computation.predecessors.push((attr, id));
        Ok(())
    }

    /// Checks that no required attribute is missing.
    fn check_attributes(&self, head: &Head, first: usize) -> Parsed<()> {
        let found = &self.computation.attrs[first..];
        let has = |name: &AttrName| found.iter().any(|attr| attr.name == Some(*name));
        // The computation of an async opcode with a wrapped one is not in the text.
        let required = head.wrapped.unwrap_or(head.opcode).required();
        let required =
            if head.opcode == Opcode::AsyncStart || head.wrapped.is_none() { required } else { &[] };
        match required.iter().find(|name| !has(name)) {
            Some(missing) => {
                let message = format!("missing attribute `{}` of `{}`", missing.name(), head.opcode.name());
                Err(SyntaxError::new(head.at, message))
            }
            None => Ok(()),
        }
    }

    pub(super) fn push(
        &mut self,
        head: Head,
        payload: Span,
        operands: &[InstrId],
        first_attr: usize,
    ) -> Parsed<InstrId> {
        let id = InstrId::new(self.computation.instrs.len());
        let shape = match head.shape {
            Some(shape) => shape,
            None => self.infer(&head, operands, first_attr).ok_or_else(|| no_shape(&head))?,
        };
        self.check(&head, operands, first_attr, shape)?;
        let num_attrs = self.computation.attrs.len() - first_attr;
        let instr = Instr {
            name: head.name,
            payload,
            shape,
            opcode: head.opcode,
            wrapped: head.wrapped,
            num_attrs: u16::try_from(num_attrs)
                .map_err(|_| SyntaxError::new(head.at, "expected at most 65535 attributes, found more"))?,
            first_operand: self.computation.operands.len() as u32,
            num_operands: operands.len() as u32,
            first_attr: first_attr as u32,
        };
        self.computation.operands.extend_from_slice(operands);
        self.computation.instrs.push(instr);
        if !head.name.is_empty() {
            let text = self.cursor.bytes(head.name.range());
            if self.ids.insert(text, id).is_some() {
                let message = format!("duplicate instruction: {}", String::from_utf8_lossy(text));
                return Err(SyntaxError::new(head.name.start(), message));
            }
        }
        Ok(id)
    }

    /// The shape of an instruction without one.
    fn infer(&mut self, head: &Head, operands: &[InstrId], first_attr: usize) -> Option<ShapeId> {
        if head.wrapped.is_some() {
            return None;
        }
        let operands: Vec<ShapeId> =
            operands.iter().map(|id| self.computation.instrs[id.index()].shape).collect();
        let attrs = &self.computation.attrs;
        let Task { shapes, known, .. } = &mut *self.task;
        let called = self.references.iter().filter(|&&(attr, _)| attr as usize >= first_attr);
        let called = called
            .map(|&(attr, callee)| Some((attrs[attr as usize].name?, known.get(callee, &self.cursor)?)));
        let called: Vec<_> = called.collect::<Option<_>>()?;
        let attr = |name| {
            let attr = attrs[first_attr..].iter().find(|attr| attr.name == Some(name))?;
            std::str::from_utf8(self.cursor.bytes(attr.value.range())).ok()
        };
        let number = |payload: Span| {
            let payload = if payload.is_added() { None } else { Some(self.cursor.bytes(payload.range())) };
            std::str::from_utf8(payload?).ok()?.trim().parse().ok()
        };
        let operation = infer::Operation {
            opcode: head.opcode,
            operands: &operands,
            attr: &attr,
            called: &called,
            parameter_number: &number,
        };
        infer::shape(&operation, &mut shapes.table)
    }

    /// An attribute of an earlier instruction, as it is in the text.
    pub(super) fn attr_of(&self, instr: &Instr, name: AttrName) -> Option<&'t str> {
        let attr = self.computation.attrs[instr.attr_range()].iter().find(|attr| attr.name == Some(name))?;
        std::str::from_utf8(self.cursor.bytes(attr.value.range())).ok()
    }

    /// The number of parameters of the computation that the last attributes name; `None` if they name none or it is not known.
    pub(super) fn callee_parameters(&self, attrs: usize) -> Option<usize> {
        let first = self.computation.attrs.len() - attrs;
        let &(_, callee) = self.references.iter().find(|&&(attr, _)| attr as usize >= first)?;
        let computation = self.task.known.get(callee, &self.cursor)?;
        Some(computation.instrs.iter().filter(|instr| instr.opcode == Opcode::Parameter).count())
    }

    /// Names the instructions that have no name, as XLA does: nested ones `add.anon`.
    fn add_names(&mut self) {
        let mut numbers: FxHashMap<Opcode, usize> = FxHashMap::default();
        for index in 0..self.computation.instrs.len() {
            let instr = self.computation.instrs[index];
            if !instr.name.is_empty() {
                continue;
            }
            let is_single =
                self.unknown_operands == UnknownOperands::AreParameters && index == self.computation.root;
            let base = if is_single { SINGLE.to_owned() } else { format!("{}.anon", instr.opcode.name()) };
            let number = numbers.entry(instr.opcode).or_default();
            let mut name = base.clone();
            while *number > 0 || self.ids.contains_key(name.as_bytes()) {
                name = format!("{base}.{number}");
                *number += 1;
                if !self.ids.contains_key(name.as_bytes()) {
                    break;
                }
            }
            *number = (*number).max(1);
            self.computation.instrs[index].name = self.computation.add_text(&name);
        }
    }
}

/// Names with two underscores in front are XLA's own, those of element types are no names of instructions, even after `%`.
fn is_instruction_name(name: &[u8]) -> bool {
    let is_reserved = name.starts_with(b"__") && !name.starts_with(b"__xla");
    !is_reserved && PrimitiveType::from_name(name).is_none()
}

/// What an operand is that no instruction has defined.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum UnknownOperands {
    AreErrors,
    AreParameters,
}

/// Whether attributes may follow the operands of an instruction. Inside of an operand they would be ambiguous.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Attributes {
    Follow,
    None,
}

impl Head {
    /// The spelling of the opcode.
    pub(super) fn spelling(&self) -> String {
        opcode_parts(self.opcode, self.wrapped).concat()
    }

    /// Whether the instruction may have the attribute: its own, or that of the opcode which it wraps.
    fn allows(&self, name: AttrName) -> bool {
        self.opcode.allows(name) || self.wrapped.is_some_and(|wrapped| wrapped.allows(name))
    }
}

pub(super) fn no_shape(head: &Head) -> SyntaxError {
    let message =
        format!("missing shape of `{}`, which does not follow from the operands", head.opcode.name());
    SyntaxError::new(head.at, message)
}
