//! The grammar of modules, computations and instructions. A mistake costs one instruction: reading goes on at the
//! next line that can start one.

use std::collections::HashMap;

use super::{
    attrs::{AttrReader, unset},
    cursor::{Mistake, TokenCursor},
    lex::{HloTokenKind, Position},
    resolve::{LocatedModule, UnresolvedComputation, UnresolvedModule, resolve},
};
use crate::{
    base::{Diagnostics, MemorySpace, Shape, nearest},
    hlo::{Alias, Attrs, Computation, Instr, InstrId, Module, Opcode, memory},
};

/// Reads one HLO module. `file` names the source in what is found wrong.
///
/// This reads what [`print`](super::print()) writes and more of what XLA prints: `%`, operand shapes, signatures,
/// row-major layouts, comments. Attributes that the IR has no location for and that change no value (metadata,
/// hints) are skipped; other unknown ones are mistakes. Computations may stand in any order. A module
/// without `ENTRY` must hold a single computation. Every shape is checked against that which the operands give.
///
/// # Errors
/// All mistakes of the grammar; if there are none, all of names and calls; if there are none, all of shapes.
pub fn parse(source: &str, file: &str) -> Result<Module, Diagnostics> {
    parse_located(source, file).map(|located| located.module)
}

/// Reads one HLO module as [`parse`] does, and the line of each of its instructions.
///
/// # Errors
/// As [`parse`].
pub fn parse_located(source: &str, file: &str) -> Result<LocatedModule, Diagnostics> {
    let mut parser = HloParser {
        cursor: TokenCursor::new(source),
        parsed: UnresolvedModule::default(),
        mistakes: Vec::new(),
    };
    parser.module();
    let HloParser { parsed, mistakes, .. } = parser;
    if mistakes.is_empty() { resolve(parsed) } else { Err(mistakes) }.map_err(|mut mistakes| {
        mistakes.sort_by_key(|mistake| mistake.at);
        Diagnostics(mistakes.into_iter().map(|mistake| mistake.diagnostic(file)).collect())
    })
}

/// Reading stops after this many mistakes: what follows is rarely worth reading.
pub(super) const MAX_MISTAKES: usize = 100;

struct HloParser<'a> {
    cursor: TokenCursor<'a>,
    parsed: UnresolvedModule<'a>,
    mistakes: Vec<Mistake>,
}

/// The computation being read.
#[derive(Default)]
struct ComputationScope<'a> {
    instrs: Vec<Instr>,
    spots: Vec<Position>,
    root: Option<InstrId>,
    names: HashMap<&'a str, Definition>,
}

impl ComputationScope<'_> {
    /// Parameters whose numbers do not count up from zero, each once.
    fn misnumbered(&self) -> Vec<Mistake> {
        let parameters = self.instrs.iter().zip(&self.spots).filter_map(|(instr, &at)| match instr.attrs {
            Attrs::Parameter(number) => Some((number, &instr.name, at)),
            _ => None,
        });
        let parameters: Vec<_> = parameters.collect();
        let count = parameters.len();
        let mut taken: HashMap<usize, &str> = HashMap::new();
        let mut mistakes = vec![];
        for (number, name, at) in parameters {
            let first = *taken.entry(number).or_insert(name);
            let message = if number >= count {
                format!("expected parameter numbers 0 to {}, found {number}", count - 1)
            } else if first != name {
                format!("parameter number {number} is already that of `{first}`")
            } else {
                continue;
            };
            mistakes.push(Mistake::new(at, message).on(name));
        }
        mistakes
    }
}

#[derive(Clone, Copy)]
enum Definition {
    Valid(InstrId),
    /// The instruction has a mistake: what names it is left out in silence.
    Invalid,
}

/// Why an instruction was not read.
enum Failure {
    Mistake(Mistake),
    NamesBroken,
}

impl From<Mistake> for Failure {
    fn from(mistake: Mistake) -> Self {
        Self::Mistake(mistake)
    }
}

impl<'a> HloParser<'a> {
    fn module(&mut self) {
        if let Err(mistake) = self.header() {
            self.mistakes.push(mistake);
            self.cursor.skip_line();
        }
        while self.cursor.kind() != HloTokenKind::End && self.mistakes.len() < MAX_MISTAKES {
            if let Err(mistake) = self.computation() {
                self.mistakes.push(mistake);
                self.cursor.skip_line();
            }
        }
    }

    fn header(&mut self) -> Result<(), Mistake> {
        self.cursor.keyword("HloModule")?;
        self.parsed.name = self.cursor.name("a module name")?.to_owned();
        while self.cursor.accept(',') {
            match self.cursor.attr_name()? {
                "input_output_alias" => self.parsed.aliases = self.aliases()?,
                "entry_computation_layout" => {
                    let host = self.host_parameters()?;
                    self.parsed.host_parameters.extend(host);
                }
                "frontend_attributes" => {
                    let at = self.cursor.at();
                    let mut attributes = self.cursor.frontend_attributes()?;
                    match memory::take_host_parameters(&mut attributes) {
                        Ok(host) => self.parsed.host_parameters.extend(host),
                        Err(message) => self.mistakes.push(Mistake::new(at, message)),
                    }
                    self.parsed.frontend_attributes = attributes;
                }
                _ => self.cursor.skip_value()?,
            }
        }
        Ok(())
    }

    /// `{ {0}: (2, {}, may-alias), ... }`
    fn aliases(&mut self) -> Result<Vec<Alias>, Mistake> {
        let mut aliases = Vec::new();
        self.cursor.list('{', '}', |cursor| {
            let at = cursor.at();
            let output = cursor.ints()?;
            let &[output] = output.as_slice() else {
                return Err(Mistake::new(
                    at,
                    format!("expected one element of the result, found {output:?}"),
                ));
            };
            cursor.expect(':')?;
            cursor.expect('(')?;
            let parameter = cursor.int()?;
            cursor.expect(',')?;
            let at = cursor.at();
            let inner = cursor.ints()?;
            if !inner.is_empty() {
                return Err(Mistake::new(at, format!("expected a whole parameter, found element {inner:?}")));
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

    /// `{(f32[2]{0:S(5)}, s32[])->f32[2]{0}}`, which says nothing but that all is row-major, and which parameters lie on
    /// the host.
    fn host_parameters(&mut self) -> Result<Vec<usize>, Mistake> {
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

    fn computation(&mut self) -> Result<(), Mistake> {
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
        let mistakes = self.mistakes.len();
        let mut scope = ComputationScope::default();
        while !self.cursor.accept('}') && self.mistakes.len() < MAX_MISTAKES {
            if self.cursor.kind() == HloTokenKind::End {
                return Err(self.cursor.unexpected("`}`"));
            }
            self.instr(&mut scope);
        }
        while self.cursor.accept(',') {
            self.cursor.attr_name()?;
            self.cursor.skip_value()?;
        }
        if scope.instrs.is_empty() && self.mistakes.is_empty() {
            return Err(Mistake::new(at, "expected instructions, found none").on(name));
        }
        if self.mistakes.len() == mistakes {
            self.mistakes.extend(scope.misnumbered());
        }
        let last = InstrId::new(scope.instrs.len().saturating_sub(1));
        let computation =
            Computation { name: name.to_owned(), instrs: scope.instrs, root: scope.root.unwrap_or(last) };
        let id = self.parsed.mention(name, at);
        if is_entry && self.parsed.entry.replace(id).is_some() {
            return Err(Mistake::new(at, "two computations are marked `ENTRY`").on(name));
        }
        self.parsed.define(id, UnresolvedComputation { computation, at, spots: scope.spots })
    }

    /// Reads one instruction into `scope`, or notes what is wrong with it and goes on behind it.
    fn instr(&mut self, scope: &mut ComputationScope<'a>) {
        let is_root = self.cursor.accept_word("ROOT");
        let at = self.cursor.at();
        let name = match self.cursor.name("an instruction") {
            Ok(name) => name,
            Err(mistake) => {
                self.mistakes.push(mistake);
                return self.cursor.skip_instr();
            }
        };
        let known = match self.operation(name, scope) {
            Ok(instr) => {
                let id = InstrId::new(scope.instrs.len());
                scope.instrs.push(instr);
                scope.spots.push(at);
                if is_root && scope.root.replace(id).is_some() {
                    self.mistakes.push(Mistake::new(at, "two instructions are marked `ROOT`").on(name));
                }
                Definition::Valid(id)
            }
            Err(failure) => {
                if let Failure::Mistake(mistake) = failure {
                    self.mistakes.push(mistake.on(name));
                }
                self.cursor.skip_instr();
                Definition::Invalid
            }
        };
        if scope.names.insert(name, known).is_some() {
            self.mistakes.push(Mistake::new(at, "two instructions have this name").on(name));
        }
    }

    /// What stands right of the name: `= f32[2] add(a, b), metadata={...}`.
    fn operation(&mut self, name: &str, scope: &ComputationScope<'a>) -> Result<Instr, Failure> {
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
        let mut reader = AttrReader { cursor: &mut self.cursor, parsed: &mut self.parsed };
        reader.read(&mut instr)?;
        if !self.cursor.token().leads_line
            && !matches!(self.cursor.kind(), HloTokenKind::End | HloTokenKind::Mark('}'))
        {
            return Err(self.cursor.unexpected("the end of the line").into());
        }
        Ok(instr)
    }

    fn opcode(&mut self) -> Result<Opcode, Mistake> {
        let at = self.cursor.at();
        let word = self.cursor.name("an opcode")?;
        word.parse::<Opcode>().map_err(|unknown| {
            let near = nearest(word, Opcode::ALL.iter().map(|opcode| opcode.name()));
            Mistake::new(at, unknown.to_string()).meant(near)
        })
    }

    fn operands(&mut self, scope: &ComputationScope<'a>) -> Result<Vec<InstrId>, Failure> {
        let mut operands = Vec::new();
        let mut broken = false;
        self.cursor.list('(', ')', |cursor| {
            let shape = cursor.operand_shape()?;
            let at = cursor.at();
            let name = cursor.name("an operand")?;
            match scope.names.get(name) {
                Some(&Definition::Valid(id)) => {
                    let given = scope.instrs.get(id.index()).map(|instr| &instr.shape);
                    mismatch(name, at, shape.as_ref(), given)?;
                    operands.push(id);
                }
                Some(Definition::Invalid) => broken = true,
                None => {
                    let message = format!("expected an earlier instruction as an operand, found {name}");
                    return Err(Mistake::new(at, message).meant(nearest(name, scope.names.keys().copied())));
                }
            }
            Ok(())
        })?;
        if broken { Err(Failure::NamesBroken) } else { Ok(operands) }
    }
}

/// An operand's shape may be written at its use; then it must be that of its definition.
fn mismatch(name: &str, at: Position, found: Option<&Shape>, given: Option<&Shape>) -> Result<(), Mistake> {
    match (found, given) {
        (Some(found), Some(given)) if found != given => {
            Err(Mistake::new(at, format!("operand {name} is {given}, found {found}")))
        }
        _ => Ok(()),
    }
}
