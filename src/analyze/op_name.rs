//! Parts of the source program, from the `op_name` of metadata.

use std::collections::VecDeque;

use crate::hlo::raw::{AttrName, CompId, InstrRef, Module};

/// Maximum number of instructions of a fusion, from its root, that are searched for a name.
const MAX_FUSED: usize = 64;

/// The pass of a training step that an operation belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pass {
    /// Forward.
    Forward,
    /// Backward.
    Backward,
    /// Forward again in the backward pass (rematerialization).
    Recomputed,
}

/// The parts of an `op_name`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpPath<'t> {
    /// The pass, where the name says it: `backward/...`, or `transpose(jvp(...))` of JAX.
    pub pass: Option<Pass>,
    /// The scopes, without those that JAX adds for transformations and control flow: `layers`, `attn`, `q_proj`.
    pub scopes: Vec<&'t str>,
    /// The operation in the innermost scope.
    pub op: &'t str,
}

impl<'t> OpPath<'t> {
    /// Splits a name such as `backward/layers/attn/q_proj/dot` or `jit(step)/transpose(jvp(Llama))/attn/dot_general`. Of several
    /// names, which XLA writes as `(a:b)`, the first counts.
    pub fn split(op_name: &'t str) -> Self {
        let mut parts = components(op_name);
        let mut path = Self { op: parts.pop().unwrap_or_default(), ..Self::default() };
        let mut is_recomputed = false;
        for (index, part) in parts.into_iter().enumerate() {
            match part {
                "forward" if index == 0 => path.pass = Some(Pass::Forward),
                "backward" if index == 0 => path.pass = Some(Pass::Backward),
                "rematted_computation" => is_recomputed = true,
                part if is_scaffold(part) => {}
                part => path.enter(part, index == 0),
            }
        }
        if is_recomputed {
            path.pass = Some(Pass::Recomputed);
        }
        path
    }

    /// The scopes as a path: `layers/attn/q_proj`.
    pub fn part(&self) -> String {
        self.scopes.join("/")
    }

    /// Adds a scope, out of the transformations around it: `transpose(jvp(Llama))`.
    fn enter(&mut self, scope: &'t str, is_outermost: bool) {
        let mut scope = scope;
        while let Some((transform, inner)) = scope.strip_suffix(')').and_then(|scope| scope.split_once('(')) {
            match transform {
                "transpose" => self.pass = Some(Pass::Backward),
                "jvp" if self.pass.is_none() => self.pass = Some(Pass::Forward),
                // The name of the program.
                "jit" | "pjit" | "pmap" if is_outermost => return,
                "jvp" | "jit" | "pjit" | "pmap" | "vmap" | "remat" | "checkpoint" | "custom_jvp"
                | "custom_vjp" | "shard_map" | "xmap" => {}
                _ => break,
            }
            scope = inner;
        }
        if !scope.is_empty() && !is_scaffold(scope) {
            self.scopes.push(scope);
        }
    }
}

/// The components of a path, and of `(a:b)` the first. Slashes in parentheses do not separate.
fn components(op_name: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = op_name;
    loop {
        if let Some(names) = rest.strip_prefix('(') {
            rest = &names[..names.find([':', ')']).unwrap_or(names.len())];
        }
        let mut depth = 0_usize;
        let end = rest.bytes().position(|byte| {
            match byte {
                b'(' => depth += 1,
                b')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            byte == b'/' && depth == 0
        });
        let Some(end) = end else { break };
        parts.push(&rest[..end]);
        rest = &rest[end + 1..];
    }
    parts.push(rest);
    parts
}

/// Whether JAX adds a scope for control flow or a transformation.
fn is_scaffold(scope: &str) -> bool {
    matches!(
        scope,
        "while"
            | "body"
            | "cond"
            | "scan"
            | "closed_call"
            | "core_call"
            | "pjit"
            | "jit"
            | "checkpoint"
            | "remat"
            | "remat2"
            | "shard_map"
            | "custom_jvp_call"
            | "custom_vjp_call"
            | "custom_vjp_call_jaxpr"
    ) || scope.strip_prefix("branch_").is_some_and(|branch| branch.ends_with("_fun"))
}

/// The `op_name` of an instruction; of a fusion that has none, that of the last instruction in it which has one.
pub fn op_name<'m>(module: &'m Module, instr: InstrRef<'m>) -> Option<&'m str> {
    let own = |instr: InstrRef<'m>| instr.metadata("op_name").filter(|name| !name.is_empty());
    own(instr).or_else(|| {
        let fused = instr.called(AttrName::Calls).next()?;
        module.instructions(fused).rev().take(MAX_FUSED).find_map(own)
    })
}

/// The `op_name` of each instruction of a computation; of one that has none, that of the nearest operand or user which has one.
pub fn nearest_op_names(module: &Module, computation: CompId) -> Vec<Option<&str>> {
    let instrs: Vec<_> = module.instructions(computation).collect();
    let mut names: Vec<Option<&str>> = instrs.iter().map(|&instr| op_name(module, instr)).collect();
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); instrs.len()];
    for (index, instr) in instrs.iter().enumerate() {
        instr.operands().iter().for_each(|operand| users[operand.index()].push(index));
    }
    let mut queue: VecDeque<usize> = (0..instrs.len()).filter(|&index| names[index].is_some()).collect();
    while let Some(index) = queue.pop_front() {
        let operands = instrs[index].operands().iter().map(|operand| operand.index());
        for neighbour in operands.chain(users[index].iter().copied()) {
            if names[neighbour].is_none() {
                names[neighbour] = names[index];
                queue.push_back(neighbour);
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hlo::raw::parse;

    #[track_caller]
    fn check(op_name: &str, pass: Option<Pass>, part: &str, op: &str) {
        let path = OpPath::split(op_name);
        assert_eq!((path.pass, path.part().as_str(), path.op), (pass, part, op), "{op_name}");
    }

    #[test]
    fn names_of_steps() {
        let (forward, backward) = (Some(Pass::Forward), Some(Pass::Backward));
        check("forward/layers/attn/q_proj/lora_a/dot", forward, "layers/attn/q_proj/lora_a", "dot");
        check("backward/layers/mlp/up_proj/dot", backward, "layers/mlp/up_proj", "dot");
        check("backward/layers/rematted_computation/mlp/dot", Some(Pass::Recomputed), "layers/mlp", "dot");
        check("adamw/forward/multiply", None, "adamw/forward", "multiply");
        check("dot", None, "", "dot");
        check("", None, "", "");
    }

    #[test]
    fn names_of_jax() {
        let (forward, backward) = (Some(Pass::Forward), Some(Pass::Backward));
        check("jit(step)/jvp(Llama)/attn/dot_general", forward, "Llama/attn", "dot_general");
        check("jit(step)/transpose(jvp(Llama))/attn/dot_general", backward, "Llama/attn", "dot_general");
        check("jit(step)/jvp()/while/body/closed_call/jit(relu)/max", forward, "relu", "max");
        check(
            "jit(f)/transpose(jvp())/checkpoint/rematted_computation/tanh",
            Some(Pass::Recomputed),
            "",
            "tanh",
        );
        check("jit(f)/cond/branch_1_fun/bhqd,bhkd->bhqk/dot_general", None, "bhqd,bhkd->bhqk", "dot_general");
        check("jit(f(a/b))/mul", None, "", "mul");
    }

    #[test]
    fn of_several_names_the_first_counts() {
        check("forward/layers/(q_proj/dot:k_proj/dot)", Some(Pass::Forward), "layers/q_proj", "dot");
        check("(forward/embed/gather:step/x)", Some(Pass::Forward), "embed", "gather");
        check("a/(", None, "a", "");
    }

    #[test]
    fn an_instruction_without_a_name_takes_the_nearest() {
        let text = "ENTRY e { x = f32[4] parameter(0) a = f32[4] negate(x), metadata={op_name=\"near\"}\n\
                    b = f32[4] copy(a) c = f32[4] copy(b) d = f32[4] copy(c)\n\
                    ROOT r = f32[4] negate(d), metadata={op_name=\"far\"} }";
        let module = parse(text, "names.hlo").unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        let names = nearest_op_names(&module, module.entry());
        assert_eq!(names, ["near", "near", "near", "near", "far", "far"].map(Some));
        let module = parse("ENTRY e { ROOT x = f32[4] parameter(0) }", "names.hlo").unwrap();
        assert_eq!(nearest_op_names(&module, module.entry()), [None]);
        let text = "f { a = f32[4] parameter(0) b = f32[4] negate(a), metadata={op_name=\"inside\"} ROOT c = f32[4] copy(b) }\n\
                    ENTRY e { x = f32[4] parameter(0) ROOT r = f32[4] fusion(x), kind=kLoop, calls=f }";
        let module = parse(text, "names.hlo").unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        assert_eq!(nearest_op_names(&module, module.entry()), [Some("inside"); 2]);
    }
}
