use super::syntax::Names;
use crate::hlo::{Attrs, CompId, Module, Verified};

/// Which computations are functions, and their symbols. Every computation is printed once, apart from reducers of a single
/// operation, so that the text is as long as the module.
pub(super) struct Functions {
    symbols: Vec<Option<String>>,
    single: Vec<bool>,
}

/// The references to a computation.
#[derive(Clone, Copy, Default)]
struct Uses {
    calls: usize,
    regions: usize,
}

impl Functions {
    /// `names` are the symbols that are taken. Computations that the entry does not reach have none.
    pub(super) fn new(module: &Verified, names: &mut Names) -> Self {
        let (module, entry) = (module.module(), module.module().entry);
        let uses = count(module);
        let single = module.computations.iter().map(|computation| computation.reducer_opcode().is_some());
        let single: Vec<bool> = single.collect();
        // XLA takes no other name for the entry.
        let main = names.unique("main");
        let symbols = module.computations.iter().enumerate().map(|(index, computation)| {
            let Uses { calls, regions } = uses[index];
            if index == entry.index() {
                return Some(main.clone());
            }
            (calls > 0 || regions > 1 && !single[index]).then(|| names.unique(&computation.name))
        });
        Self { symbols: symbols.collect(), single }
    }

    /// The symbol of a function.
    pub(super) fn symbol(&self, id: CompId) -> Option<&str> {
        self.symbols[id.index()].as_deref()
    }

    /// The function that a region calls, or `None` for a region with the instructions of the computation.
    pub(super) fn called_in_region(&self, id: CompId) -> Option<&str> {
        self.symbol(id).filter(|_| !self.single[id.index()])
    }
}

/// Counts references by computations that the entry reaches. A computation calls only earlier ones.
fn count(module: &Module) -> Vec<Uses> {
    let mut uses = vec![Uses::default(); module.computations.len()];
    for id in (0..=module.entry.index()).rev() {
        let Uses { calls, regions } = uses[id];
        if id != module.entry.index() && calls + regions == 0 {
            continue;
        }
        for instr in &module.computations[id].instrs {
            let is_call = matches!(instr.attrs, Attrs::Call(_));
            for callee in instr.attrs.callees() {
                let uses = &mut uses[callee.index()];
                if is_call { uses.calls += 1 } else { uses.regions += 1 }
            }
        }
    }
    uses
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use crate::{
        base::Partitioner,
        hlo::{MAX_CALL_DEPTH, stablehlo, testing::nested_calls, text, verify},
    };

    fn print(module: &str) -> String {
        let module = text::parse(module, "t.hlo").and_then(verify);
        let module = module.unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        stablehlo::print(&module, Partitioner::Gspmd).unwrap()
    }

    /// Each computation has two loops whose bodies are the one before.
    fn doubled_loops(depth: usize) -> String {
        let mut text = String::from(
            "HloModule m\nstop {\n  x = f32[] parameter(0)\n  ROOT y = pred[] constant(false)\n}\n",
        );
        text.push_str("body0 {\n  ROOT x = f32[] parameter(0)\n}\n");
        for level in 1..=depth {
            let entry = if level == depth { "ENTRY " } else { "" };
            let body = format!("condition=stop, body=body{}", level - 1);
            let lines = [
                "x = f32[] parameter(0)".to_owned(),
                format!("y = f32[] while(x), {body}"),
                format!("ROOT z = f32[] while(y), {body}"),
            ];
            writeln!(text, "{entry}body{level} {{\n  {}\n}}", lines.join("\n  ")).unwrap();
        }
        text
    }

    #[test]
    fn the_text_is_as_long_as_the_module() {
        let lengths = [20, 40].map(|depth| print(&doubled_loops(depth)).lines().count());
        assert!(lengths[1] < 2 * lengths[0], "{lengths:?}");
    }

    #[test]
    fn the_deepest_loops_are_printed() {
        let condition = "stop {\n  x = f32[] parameter(0)\n  ROOT y = pred[] constant(false)\n}\n";
        let loops =
            nested_calls(MAX_CALL_DEPTH).replace("call(x), to_apply=", "while(x), condition=stop, body=");
        let text = print(&loops.replacen('\n', &format!("\n{condition}"), 1));
        assert_eq!(text.matches("stablehlo.while").count(), MAX_CALL_DEPTH);
    }
}
