//! Trip counts of `while` loops.

use crate::hlo::raw::{AttrName, CompId, InstrRef, Module, Opcode, Shape};

/// Maximum nesting of operands and calls that an evaluation follows.
const MAX_DEPTH: usize = 16;

/// Maximum number of instructions that are evaluated for one loop.
const MAX_STEPS: u32 = 1 << 22;

/// The number of iterations of a `while`: XLA's `known_trip_count` where the backend config has it, else what follows from a
/// counter that begins at a constant. `None` where the number depends on data.
pub fn trip_count(module: &Module, instr: InstrRef<'_>) -> Option<u64> {
    if instr.opcode() != Opcode::While {
        return None;
    }
    annotated(instr).or_else(|| counted(module, instr))
}

/// `backend_config={"known_trip_count":{"n":"126"}}`
fn annotated(instr: InstrRef<'_>) -> Option<u64> {
    let config = instr.attr(AttrName::BackendConfig)?;
    let (_, rest) = config.split_once("known_trip_count")?;
    let digits = rest.trim_start_matches(|c: char| !c.is_ascii_digit() && c != '}');
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}

/// Runs the condition for the values that a counter takes.
fn counted(module: &Module, instr: InstrRef<'_>) -> Option<u64> {
    let condition = root(module, instr.called(AttrName::Condition).next()?);
    let body = root(module, instr.called(AttrName::Body).next()?);
    let initial = instr.operand(0)?;
    let Shape::Tuple(elements) = module.shapes().get(instr.shape()) else { return None };
    let mut evaluator = Evaluator { module, steps: 0 };
    (0..elements.len()).find_map(|index| {
        let mut value = evaluator.element(initial, index)?;
        let mut count = 0;
        // The condition depends on this element only, and the next value of it on the present one.
        loop {
            let argument = [Value::Tuple { index, value }];
            match evaluator.run(condition, &argument, 0)? {
                Value::Int(0) => return Some(count),
                Value::Int(_) => count += 1,
                Value::Tuple { .. } => return None,
            }
            value = match evaluator.run(body, &argument, 0)? {
                Value::Tuple { index: found, value } if found == index => value,
                _ => return None,
            };
        }
    })
}

/// A value of which an evaluation knows something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Int(i128),
    /// A tuple of which one element is known.
    Tuple {
        index: usize,
        value: i128,
    },
}

fn root(module: &Module, computation: CompId) -> InstrRef<'_> {
    module.instruction(computation, module.root(computation))
}

/// Evaluates scalar integers.
struct Evaluator<'m> {
    module: &'m Module,
    /// Instructions evaluated so far.
    steps: u32,
}

impl Evaluator<'_> {
    /// The constant that an element of a tuple is.
    fn element(&mut self, instr: InstrRef<'_>, index: usize) -> Option<i128> {
        let mut instr = instr;
        while matches!(instr.opcode(), Opcode::Copy | Opcode::OptBarrier) {
            instr = instr.operand(0)?;
        }
        match instr.opcode() {
            Opcode::Tuple => self.int(instr, index, &[], 0),
            _ => None,
        }
    }

    /// The integer that an operand is.
    fn int(
        &mut self,
        instr: InstrRef<'_>,
        position: usize,
        arguments: &[Value],
        depth: usize,
    ) -> Option<i128> {
        match self.run(instr.operand(position)?, arguments, depth + 1)? {
            Value::Int(value) => Some(value),
            Value::Tuple { .. } => None,
        }
    }

    /// The value of an instruction; `None` if it depends on anything but constants and the arguments.
    fn run(&mut self, instr: InstrRef<'_>, arguments: &[Value], depth: usize) -> Option<Value> {
        self.steps += 1;
        if depth > MAX_DEPTH || self.steps > MAX_STEPS {
            return None;
        }
        let mut int = |position: usize| self.int(instr, position, arguments, depth);
        match instr.opcode() {
            Opcode::Parameter => arguments.get(instr.payload().parse::<usize>().ok()?).copied(),
            Opcode::Constant => match instr.payload() {
                "true" => Some(Value::Int(1)),
                "false" => Some(Value::Int(0)),
                payload => payload.parse().ok().map(Value::Int),
            },
            Opcode::Copy | Opcode::Bitcast | Opcode::Convert | Opcode::Reshape => {
                self.run(instr.operand(0)?, arguments, depth + 1)
            }
            Opcode::GetTupleElement => match self.run(instr.operand(0)?, arguments, depth + 1)? {
                Value::Tuple { index, value } if instr.int(AttrName::Index) == i64::try_from(index).ok() => {
                    Some(Value::Int(value))
                }
                _ => None,
            },
            Opcode::Tuple => {
                // The element in the place of the argument's known one.
                let index = arguments.iter().find_map(|argument| match argument {
                    Value::Tuple { index, .. } => Some(*index),
                    Value::Int(_) => None,
                })?;
                Some(Value::Tuple { index, value: int(index)? })
            }
            Opcode::Add => Some(Value::Int(int(0)?.checked_add(int(1)?)?)),
            Opcode::Subtract => Some(Value::Int(int(0)?.checked_sub(int(1)?)?)),
            Opcode::Multiply => Some(Value::Int(int(0)?.checked_mul(int(1)?)?)),
            Opcode::Not => Some(Value::Int(i128::from(int(0)? == 0))),
            Opcode::Compare => {
                let (a, b) = (int(0)?, int(1)?);
                let result = match instr.attr(AttrName::Direction)? {
                    "EQ" => a == b,
                    "NE" => a != b,
                    "LT" => a < b,
                    "LE" => a <= b,
                    "GT" => a > b,
                    "GE" => a >= b,
                    _ => return None,
                };
                Some(Value::Int(i128::from(result)))
            }
            Opcode::Fusion | Opcode::Call => {
                let (_, callee) = instr.callees().next()?;
                let operands = 0..instr.operands().len();
                let values =
                    operands.map(|position| self.run(instr.operand(position)?, arguments, depth + 1));
                let arguments: Vec<Value> = values.collect::<Option<_>>()?;
                self.run(root(self.module, callee), &arguments, depth + 1)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hlo::raw::parse;

    fn counts(condition: &str, body: &str, start: &str, config: &str) -> Option<u64> {
        let text = format!(
            "less {{ a = s32[] parameter(0) b = s32[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }}\n\
             condition {{ t = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(t), index=0 n = s32[] constant(12)\n {condition} }}\n\
             body {{ t = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(t), index=0\n\
               x = f32[4] get-tuple-element(t), index=1 step = s32[] constant(5)\n {body}\n ROOT r = (s32[], f32[4]) tuple(next, x) }}\n\
             ENTRY e {{ x = f32[4] parameter(0) d = s32[] parameter(1)\n zero = s32[] constant(0)\n\
               init = (s32[], f32[4]) tuple({start}, x)\n ROOT w = (s32[], f32[4]) while(init), condition=condition, body=body{config} }}"
        );
        let module = parse(text, "loop.hlo").unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        trip_count(&module, root(&module, module.entry()))
    }

    #[test]
    fn counters() {
        let plain = "ROOT c = pred[] compare(i, n), direction=LT";
        let add = "next = s32[] add(i, step)";
        assert_eq!(counts(plain, add, "zero", ""), Some(3));
        assert_eq!(counts("ROOT c = pred[] fusion(i, n), kind=kLoop, calls=less", add, "zero", ""), Some(3));
        assert_eq!(counts("ROOT c = pred[] compare(n, i), direction=GE", add, "zero", ""), Some(3));
        assert_eq!(counts("ROOT c = pred[] compare(i, n), direction=GT", add, "zero", ""), Some(0));
        assert_eq!(counts(plain, add, "d", ""), None, "the start is data");
        assert_eq!(counts(plain, "next = s32[] subtract(i, step)", "zero", ""), None, "it never ends");
        let known = r#", backend_config={"known_trip_count":{"n":"126"},"other":7}"#;
        assert_eq!(counts(plain, add, "d", known), Some(126));
    }
}
