//! The grammar of modules, computations and instructions. After an invalid instruction, parsing continues at the next
//! line that can start one.

use std::collections::{BTreeMap, HashMap};

use super::{
    attrs::{AttrReader, unset},
    cursor::TokenCursor,
    lex::{HloTokenKind, Position},
    resolve::{LocatedModule, resolve},
    unresolved::{MAX_ERRORS, UnresolvedComputation, UnresolvedModule},
};
use crate::{
    base::{Diagnostic, Diagnostics, Location, MemorySpace, Shape, nearest_hint},
    hlo::{Alias, Attrs, Computation, Instr, InstrId, Module, OpMetadata, Opcode, UnknownOpcode, memory},
};

/// Parses an HLO module. `file` is the name of the source in diagnostics.
///
/// It accepts what [`print`](super::print()) writes and more of what XLA prints: `%`, operand shapes, signatures,
/// row-major layouts, comments. Attributes that the IR does not represent and that change no result (hints, parts of the
/// metadata that are not in [`OpMetadata`]) are skipped; other unknown attributes are errors. Computations may be in any order. A module without `ENTRY` must
/// have a single computation. Every shape is checked against the one that follows from the operands.
///
/// # Errors
/// Every syntax error; if there are none, every error of names and calls; if there are none, every error of shapes.
pub fn parse(source: &str, file: &str) -> Result<Module, Diagnostics> {
    parse_located(source, file).map(|located| located.module)
}

/// Parses an HLO module like [`parse`], and returns it with the lines of its instructions.
///
/// # Errors
/// As [`parse`].
pub fn parse_located(source: &str, file: &str) -> Result<LocatedModule, Diagnostics> {
    let mut parser = HloParser {
        cursor: TokenCursor::new(source),
        module: UnresolvedModule::default(),
        errors: Diagnostics::default(),
    };
    parser.module();
    let HloParser { module, errors, .. } = parser;
    errors.into_result(module).and_then(resolve).map_err(|Diagnostics(mut errors)| {
        errors.sort_by_key(|error| (error.location.line, error.location.column));
        let in_file = |error: Diagnostic| {
            let location = Location { file: file.to_owned(), ..error.location.clone() };
            error.located(location)
        };
        Diagnostics(errors.into_iter().map(in_file).collect())
    })
}

struct HloParser<'a> {
    cursor: TokenCursor<'a>,
    module: UnresolvedModule<'a>,
    errors: Diagnostics,
}

/// The computation that is being parsed.
#[derive(Default)]
struct ComputationScope<'a> {
    instrs: Vec<Instr>,
    positions: Vec<Position>,
    metadata: Vec<(InstrId, OpMetadata)>,
    root: Option<InstrId>,
    /// In order, so that the hint about an unknown name is the same in every run.
    names: BTreeMap<&'a str, Definition>,
}

impl ComputationScope<'_> {
    /// The errors of parameters that are not numbered from zero, each number once.
    fn parameter_number_errors(&self) -> Vec<Diagnostic> {
        let parameters = self.instrs.iter().zip(&self.positions);
        let parameters = parameters.filter_map(|(instr, &at)| match instr.attrs {
            Attrs::Parameter(number) => Some((number, &instr.name, at)),
            _ => None,
        });
        let parameters: Vec<_> = parameters.collect();
        let count = parameters.len();
        let mut taken: HashMap<usize, &str> = HashMap::new();
        let mut errors = vec![];
        for (number, name, at) in parameters {
            let first = *taken.entry(number).or_insert(name);
            let message = if number >= count {
                format!("expected parameter numbers 0 to {}, found {number}", count - 1)
            } else if first != name {
                format!("duplicate parameter number {number}; first used by `{first}`")
            } else {
                continue;
            };
            errors.push(at.error(message).on(name));
        }
        errors
    }
}

/// What an instruction name refers to.
#[derive(Clone, Copy)]
enum Definition {
    Valid(InstrId),
    /// An instruction with an error. Its users are skipped without an error of their own.
    Invalid,
}

/// The reason why an instruction was not parsed.
enum InstrError {
    Invalid(Diagnostic),
    /// An operand is an invalid instruction, whose error is already reported.
    DependsOnInvalid,
}

impl From<Diagnostic> for InstrError {
    fn from(error: Diagnostic) -> Self {
        Self::Invalid(error)
    }
}

impl<'a> HloParser<'a> {
    fn module(&mut self) {
        if let Err(error) = self.header() {
            self.errors.push(error);
            self.cursor.skip_line();
        }
        while self.cursor.kind() != HloTokenKind::End && self.errors.len() < MAX_ERRORS {
            if let Err(error) = self.computation() {
                self.errors.push(error);
                self.cursor.skip_line();
            }
        }
    }

    fn header(&mut self) -> Result<(), Diagnostic> {
        self.cursor.keyword("HloModule")?;
        self.module.name = self.cursor.name("a module name")?.to_owned();
        while self.cursor.accept(',') {
            match self.cursor.attr_name()? {
                "input_output_alias" => self.module.aliases = self.aliases()?,
                "entry_computation_layout" => {
                    let host = self.host_parameters()?;
                    self.module.host_parameters.extend(host);
                }
                "frontend_attributes" => {
                    let at = self.cursor.at();
                    let mut attributes = self.cursor.frontend_attributes()?;
                    match memory::take_host_parameters(&mut attributes) {
                        Ok(host) => self.module.host_parameters.extend(host),
                        Err(error) => self.errors.push(error.located(at.location())),
                    }
                    self.module.frontend_attributes = attributes;
                }
                _ => self.cursor.skip_value()?,
            }
        }
        Ok(())
    }

    /// `{ {0}: (2, {}, may-alias), ... }`
    fn aliases(&mut self) -> Result<Vec<Alias>, Diagnostic> {
        let mut aliases = Vec::new();
        self.cursor.list('{', '}', |cursor| {
            let at = cursor.at();
            let output = cursor.ints()?;
            let &[output] = output.as_slice() else {
                return Err(at.error(format!("expected one element of the result, found {output:?}")));
            };
            cursor.expect(':')?;
            cursor.expect('(')?;
            let parameter = cursor.int()?;
            cursor.expect(',')?;
            let at = cursor.at();
            let inner = cursor.ints()?;
            if !inner.is_empty() {
                return Err(at.error(format!("expected a parameter, found its element {inner:?}")));
            }
            if cursor.accept(',') {
                cursor.keyword("may-alias")?;
            }
            cursor.expect(')')?;
            aliases.push(Alias { output, parameter });
            Ok(())
        })?;
        Ok(aliases)
    }

    /// `{(f32[2]{0:S(5)}, s32[])->f32[2]{0}}`: the numbers of the parameters in host memory. All layouts are row-major.
    fn host_parameters(&mut self) -> Result<Vec<usize>, Diagnostic> {
        self.cursor.expect('{')?;
        let mut memories = Vec::new();
        self.cursor.list('(', ')', |cursor| cursor.memory().map(|memory| memories.push(memory)))?;
        self.cursor.expect('-')?;
        self.cursor.expect('>')?;
        self.cursor.shape()?;
        self.cursor.expect('}')?;
        let host = memories.into_iter().enumerate().filter(|&(_, memory)| memory == MemorySpace::Host);
        Ok(host.map(|(number, _)| number).collect())
    }

    fn computation(&mut self) -> Result<(), Diagnostic> {
        let is_entry = self.cursor.accept_word("ENTRY");
        let at = self.cursor.at();
        let name = self.cursor.name("a computation")?;
        if self.cursor.kind() == HloTokenKind::Mark('(') {
            self.cursor.skip_group()?;
            self.cursor.expect('-')?;
            self.cursor.expect('>')?;
            self.cursor.shape()?;
        }
        self.cursor.expect('{')?;
        let errors_before = self.errors.len();
        let mut scope = ComputationScope::default();
        while !self.cursor.accept('}') && self.errors.len() < MAX_ERRORS {
            if self.cursor.kind() == HloTokenKind::End {
                return Err(self.cursor.unexpected("`}`"));
            }
            self.instr(&mut scope);
        }
        while self.cursor.accept(',') {
            self.cursor.attr_name()?;
            self.cursor.skip_value()?;
        }
        if scope.instrs.is_empty() && self.errors.is_empty() {
            return Err(at.error("expected instructions, found none").on(name));
        }
        if self.errors.len() == errors_before {
            self.errors.0.extend(scope.parameter_number_errors());
        }
        let last = InstrId::new(scope.instrs.len().saturating_sub(1));
        let computation =
            Computation { name: name.to_owned(), instrs: scope.instrs, root: scope.root.unwrap_or(last) };
        let id = self.module.mention(name, at);
        if is_entry && self.module.entry.replace(id).is_some() {
            return Err(at.error("duplicate `ENTRY`").on(name));
        }
        let ComputationScope { positions, metadata, .. } = scope;
        self.module.define(id, UnresolvedComputation { computation, at, positions, metadata })
    }

    /// Parses one instruction into `scope`, or reports its error and skips it.
    fn instr(&mut self, scope: &mut ComputationScope<'a>) {
        let is_root = self.cursor.accept_word("ROOT");
        let at = self.cursor.at();
        let name = match self.cursor.name("an instruction") {
            Ok(name) => name,
            Err(error) => {
                self.errors.push(error);
                return self.cursor.skip_instr();
            }
        };
        let definition = match self.operation(name, scope) {
            Ok((instr, metadata)) => {
                let id = InstrId::new(scope.instrs.len());
                scope.metadata.extend(metadata.map(|metadata| (id, metadata)));
                scope.instrs.push(instr);
                scope.positions.push(at);
                if is_root && scope.root.replace(id).is_some() {
                    self.errors.push(at.error("duplicate `ROOT`").on(name));
                }
                Definition::Valid(id)
            }
            Err(error) => {
                if let InstrError::Invalid(error) = error {
                    self.errors.push(error.on(name));
                }
                self.cursor.skip_instr();
                Definition::Invalid
            }
        };
        if scope.names.insert(name, definition).is_some() {
            self.errors.push(at.error("duplicate instruction name").on(name));
        }
    }

    /// `= f32[2] add(a, b), metadata={...}`, the part of an instruction after its name.
    fn operation(
        &mut self,
        name: &str,
        scope: &ComputationScope<'a>,
    ) -> Result<(Instr, Option<OpMetadata>), InstrError> {
        self.cursor.expect('=')?;
        let shape = self.cursor.shape()?;
        let opcode = self.opcode()?;
        let mut instr = Instr::new(name.to_owned(), opcode, shape, vec![], unset(opcode.attrs_kind()));
        match &mut instr.attrs {
            Attrs::Parameter(number) => {
                self.cursor.expect('(')?;
                *number = self.cursor.int()?;
                self.cursor.expect(')')?;
            }
            Attrs::Constant(literal) => {
                self.cursor.expect('(')?;
                *literal = self.cursor.literal(&instr.shape)?;
                self.cursor.expect(')')?;
            }
            _ => instr.operands = self.operands(scope)?,
        }
        let mut reader = AttrReader { cursor: &mut self.cursor, module: &mut self.module, metadata: None };
        reader.read(&mut instr)?;
        let metadata = reader.metadata;
        let at_end = matches!(self.cursor.kind(), HloTokenKind::End | HloTokenKind::Mark('}'));
        if !self.cursor.token().leads_line && !at_end {
            return Err(self.cursor.unexpected("the end of the line").into());
        }
        Ok((instr, metadata))
    }

    fn opcode(&mut self) -> Result<Opcode, Diagnostic> {
        let at = self.cursor.at();
        let word = self.cursor.name("an opcode")?;
        word.parse().map_err(|unknown: UnknownOpcode| Diagnostic::from(unknown).located(at.location()))
    }

    fn operands(&mut self, scope: &ComputationScope<'a>) -> Result<Vec<InstrId>, InstrError> {
        let mut operands = Vec::new();
        let mut depends_on_invalid = false;
        self.cursor.list('(', ')', |cursor| {
            let shape = cursor.operand_shape()?;
            let at = cursor.at();
            let name = cursor.name("an operand")?;
            match scope.names.get(name) {
                Some(&Definition::Valid(id)) => {
                    check_operand_shape(name, at, shape.as_ref(), &scope.instrs[id.index()].shape)?;
                    operands.push(id);
                }
                Some(Definition::Invalid) => depends_on_invalid = true,
                None => {
                    let error = at.error(format!("operand {name} is not defined before its use"));
                    let hint = nearest_hint(name, scope.names.keys().copied());
                    return Err(Diagnostic { hint, ..error });
                }
            }
            Ok(())
        })?;
        if depends_on_invalid { Err(InstrError::DependsOnInvalid) } else { Ok(operands) }
    }
}

/// Checks the shape that is written before an operand, if there is one, against that of its definition.
fn check_operand_shape(
    name: &str,
    at: Position,
    found: Option<&Shape>,
    expected: &Shape,
) -> Result<(), Diagnostic> {
    match found {
        Some(found) if found != expected => {
            Err(at.error(format!("expected {expected} for operand {name}, found {found}")))
        }
        _ => Ok(()),
    }
}
