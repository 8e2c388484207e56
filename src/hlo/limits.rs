//! Limits of what a module may hold. Passes follow nesting by recursion, for which the stack of a thread must suffice.

use super::{CompId, Computation};

/// More dimensions than any array has; keeps hostile files from costing quadratic time.
pub(super) const MAX_DIMS: usize = 64;

/// Tuples inside each other.
pub(super) const MAX_TUPLE_NESTING: usize = 32;

/// Calls, loops and reductions inside each other, which differentiation and plugins follow; a training step nests fewer
/// than ten.
pub(crate) const MAX_CALL_DEPTH: usize = 64;

/// The first computation with calls nested deeper than [`MAX_CALL_DEPTH`], and what is wrong with it. Each computation calls
/// only earlier ones.
pub(super) fn too_deep(computations: &[Computation]) -> Option<(CompId, String)> {
    let mut depths: Vec<usize> = Vec::with_capacity(computations.len());
    for computation in computations {
        let called = computation.instrs.iter().flat_map(|instr| instr.attrs.called());
        // Other checks report callees that do not come earlier.
        let deepest = called.filter_map(|callee| depths.get(callee.index())).max();
        depths.push(deepest.map_or(0, |depth| depth + 1));
    }
    let id = CompId::new(depths.iter().position(|&depth| depth > MAX_CALL_DEPTH)?);
    Some((id, format!("expected at most {MAX_CALL_DEPTH} nested calls, found more")))
}

/// What to do about nested calls.
pub(super) const HINT: &str = "put the instructions of some callees into their callers";

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::hlo::{Module, proto, text, verify};

    /// The text of a module in which `depth` calls are nested, of four lines for each computation.
    pub(crate) fn nested_calls(depth: usize) -> String {
        let computation = |name: String, y: String| {
            format!("{name} {{\n  x = f32[] parameter(0)\n  ROOT y = f32[] {y}\n}}\n")
        };
        let call = |n: usize| {
            let entry = if n == depth { "ENTRY " } else { "" };
            computation(format!("{entry}call{n}"), format!("call(x), to_apply=call{}", n - 1))
        };
        let leaf = computation("call0".to_owned(), "sine(x)".to_owned());
        (1..=depth).fold(format!("HloModule m\n{leaf}"), |text, n| text + &call(n))
    }

    /// The same with loops.
    fn nested_loops(depth: usize) -> String {
        let condition = "stop {\n  x = f32[] parameter(0)\n  ROOT y = pred[] constant(false)\n}\n";
        let loops = nested_calls(depth).replace("call(x), to_apply=", "while(x), condition=stop, body=");
        loops.replacen('\n', &format!("\n{condition}"), 1)
    }

    #[test]
    fn deep_calls_and_loops_are_an_error_of_the_text() {
        for (nested, line) in [(nested_calls as fn(usize) -> String, 262), (nested_loops, 266)] {
            text::parse(&nested(MAX_CALL_DEPTH), "t.hlo").unwrap();
            for depth in [MAX_CALL_DEPTH + 1, 20_000] {
                let expect = format!(
                    "t.hlo:{line}: `call65`: column 1: expected at most 64 nested calls, found more\n  \
                     hint: put the instructions of some callees into their callers"
                );
                let found = text::parse(&nested(depth), "t.hlo").unwrap_err().to_string();
                assert_eq!(found, expect, "{depth}");
            }
        }
    }

    #[test]
    fn deep_calls_are_an_error_of_a_proto() {
        let module = |extra: usize| -> Module {
            let mut module = text::parse(&nested_calls(MAX_CALL_DEPTH), "t.hlo").unwrap();
            for _ in 0..extra {
                let mut caller = module.entry().clone();
                let callee = module.entry;
                caller.name = format!("call{}", module.computations.len());
                for instr in &mut caller.instrs {
                    instr.attrs = instr.attrs.clone().with_called(|_| callee);
                }
                module.entry = CompId::new(module.computations.len());
                module.computations.push(caller);
            }
            module
        };
        let decoded = proto::decode(&proto::encode(&verify(module(0)).unwrap())).unwrap();
        assert!(verify(decoded).is_ok());
        for extra in [1, 20_000] {
            let found = verify(module(extra)).unwrap_err().to_string();
            assert_eq!(
                found,
                format!("call65: expected at most 64 nested calls, found more\n  hint: {HINT}")
            );
        }
    }
}
