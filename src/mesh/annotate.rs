//! From the logical shardings of a module's values to shardings, in the terms of both of XLA's partitioners.

use super::{Group, Mesh, Plan, Tensor, TensorSharding};
use crate::{
    base::{ArrayShape, LogicalSharding, Shape},
    hlo::{
        Attrs, CompId, Computation, CustomCall, Instr, InstrId, Module, Opcode, Sharding, SideEffect, shardy,
    },
};

/// The custom call that says how its operand is to lie; both partitioners know it.
const CONSTRAINT: &str = "Sharding";

/// Gives every value with a logical sharding of `module` the sharding that `plan` has for it: an instruction with a sharding has the one
/// logical sharding that it comes from. The results of the entry are split as their values are.
pub fn annotate(module: Module, plan: &Plan) -> Module {
    let entry = module.entry;
    let marks = Marks { plan, axes: plan.mesh.split_axes() };
    let computations = module.computations.into_iter().enumerate().map(|(index, computation)| {
        let role = if CompId::new(index) == entry { Role::Entry } else { Role::Called };
        marks.computation(computation, role)
    });
    let mut frontend_attributes = module.frontend_attributes;
    frontend_attributes.insert(shardy::MESHES.into(), shardy::mesh(&marks.axes));
    Module { computations: computations.collect(), frontend_attributes, ..module }
}

impl TensorSharding {
    /// The same in XLA's terms.
    pub fn sharding(&self, mesh: &Mesh) -> Sharding {
        let axes = mesh.split_axes();
        let sizes: Vec<usize> = axes.iter().map(|&(_, size)| size).collect();
        Sharding::on_mesh(&sizes, &self.axis_numbers(&axes))
    }

    /// The axes of each dimension as positions in `axes`, without those that are not there.
    fn axis_numbers(&self, axes: &[(&str, usize)]) -> Vec<Vec<usize>> {
        let number = |axis: &String| axes.iter().position(|(name, _)| name == axis);
        self.splits.iter().map(|split| split.axes.iter().filter_map(number).collect()).collect()
    }
}

impl Plan {
    /// How a value with this logical sharding is laid out.
    pub fn assign_logical(
        &self,
        logical: &LogicalSharding,
        shape: &ArrayShape,
        name: &str,
    ) -> TensorSharding {
        let dims = logical.dims.iter().copied().zip(shape.dims.iter().copied()).collect();
        let (name, rules, dtype) = (name.to_owned(), logical.rules.clone(), shape.dtype);
        self.assign(&Tensor { name, group: Group::Activation, dims, dtype, rules })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Entry,
    Called,
}

struct Marks<'p> {
    plan: &'p Plan,
    axes: Vec<(&'p str, usize)>,
}

impl Marks<'_> {
    fn computation(&self, computation: Computation, role: Role) -> Computation {
        let mut instrs: Vec<Instr> = Vec::with_capacity(computation.instrs.len());
        // What the users of each instruction now use.
        let mut moved: Vec<InstrId> = Vec::with_capacity(computation.instrs.len());
        for (index, mut instr) in computation.instrs.into_iter().enumerate() {
            instr.operands.iter_mut().for_each(|operand| *operand = moved[operand.index()]);
            if role == Role::Entry && index == computation.root.index() && instr.opcode == Opcode::Tuple {
                // What the results are split like is said once more, where the older partitioner looks for it.
                let values = instr.operands.iter().map(|id| instrs[id.index()].sharding.clone());
                let shardings = values.map(|sharding| sharding.unwrap_or(Sharding::Replicated)).collect();
                instr.sharding = Some(Sharding::Tuple(shardings));
            }
            let logical_shardings = std::mem::take(&mut instr.logical_shardings);
            let (name, shape) = (instr.name.clone(), instr.shape.clone());
            // An argument of the program carries its sharding itself. Any other value is followed by constraints, which
            // hold whatever becomes of the instruction that made it: what is called, say, is inlined.
            let is_argument = role == Role::Entry && instr.opcode == Opcode::Parameter;
            let (own, following) =
                logical_shardings.split_at(usize::from(is_argument).min(logical_shardings.len()));
            instrs.push(own.iter().fold(instr, |instr, logical| self.mark(instr, logical)));
            for (number, logical) in following.iter().enumerate() {
                let operand = InstrId::new(instrs.len() - 1);
                let constraint = constraint(format!("{name}.sharding.{number}"), shape.clone(), operand);
                instrs.push(self.mark(constraint, logical));
            }
            moved.push(InstrId::new(instrs.len() - 1));
        }
        Computation { name: computation.name, instrs, root: moved[computation.root.index()] }
    }

    fn mark(&self, mut instr: Instr, logical: &LogicalSharding) -> Instr {
        let Shape::Array(shape) = &instr.shape else { return instr };
        let assigned = self.plan.assign_logical(logical, shape, &instr.name);
        let dims = assigned.axis_numbers(&self.axes);
        let text = match instr.opcode {
            Opcode::Parameter => shardy::sharding(&self.axes, &dims),
            _ => shardy::sharding_per_value(&self.axes, &[dims]),
        };
        instr.sharding = Some(assigned.sharding(&self.plan.mesh));
        instr.frontend_attributes.insert(shardy::SHARDING.into(), text);
        instr.logical_shardings = vec![logical.clone()];
        instr
    }
}

fn constraint(name: String, shape: Shape, operand: InstrId) -> Instr {
    let (target, side_effect, backend_config) = (CONSTRAINT.into(), SideEffect::Absent, String::new());
    let call = CustomCall { target, side_effect, backend_config };
    Instr::new(name, Opcode::CustomCall, shape, vec![operand], Attrs::CustomCall(call))
}
