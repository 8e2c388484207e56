//! Limits on a module. Passes recurse over nested calls and tuples, and must not overflow the stack of a thread.

use super::{CompId, Computation};
use crate::base::Diagnostic;

/// Maximum rank. No real array has as many dimensions; the limit bounds the quadratic time of checks on a malicious file.
pub(super) const MAX_DIMS: usize = 64;

/// Maximum nesting of tuples.
pub(super) const MAX_TUPLE_NESTING: usize = 32;

/// Maximum nesting of calls, loops and reducers, along which autodiff and plugins recurse; a training step nests fewer
/// than ten.
pub(crate) const MAX_CALL_DEPTH: usize = 64;

/// The first computation with calls nested deeper than [`MAX_CALL_DEPTH`], and the error without its location. Each
/// computation calls only earlier ones.
pub(super) fn call_depth_error(computations: &[Computation]) -> Option<(CompId, Diagnostic)> {
    let mut depths: Vec<usize> = Vec::with_capacity(computations.len());
    for computation in computations {
        let called = computation.instrs.iter().flat_map(|instr| instr.attrs.callees());
        // Other checks report callees that are not defined earlier.
        let deepest = called.filter_map(|callee| depths.get(callee.index())).max();
        depths.push(deepest.map_or(0, |depth| depth + 1));
    }
    let id = CompId::new(depths.iter().position(|&depth| depth > MAX_CALL_DEPTH)?);
    let error = Diagnostic::from(format!("expected at most {MAX_CALL_DEPTH} nested calls, found more"));
    Some((id, error.with_hint("inline some callees into their callers")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hlo::{Module, proto, testing::nested_calls, text, verify};

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
                // `call65` is the entry of the first module, after the word `ENTRY`.
                let column = if depth == MAX_CALL_DEPTH + 1 { 7 } else { 1 };
                let expect = format!(
                    "t.hlo:{line}:{column}: `call65`: expected at most 64 nested calls, found more\n  \
                     hint: inline some callees into their callers"
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
                    instr.attrs.callees_mut().into_iter().for_each(|called| *called = callee);
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
                format!(
                    "call65: expected at most 64 nested calls, found more\n  hint: inline some callees into their callers"
                )
            );
        }
    }
}
