//! From the logical shardings of a module's values to shardings, in the terms of both of XLA's partitioners.

use super::{LogicalSharding, Mesh, Plan, Tensor, TensorGroup, TensorSharding};
use crate::{
    base::{ArrayShape, Shape},
    hlo::{
        Annotation, Annotations, Attrs, CompId, Computation, CustomCall, Instr, InstrId, MetadataTable,
        Module, Opcode, Sharding, SideEffect, shardy,
    },
};

/// The custom call that constrains the sharding of its operand; both partitioners know it.
const CONSTRAINT: &str = "Sharding";

/// Turns the logical shardings of a module's values into shardings of `plan`. A value with several logical shardings is
/// followed by a custom call for each. The results of the entry are sharded as their values.
///
/// [`step::build`](crate::step::build()) does this for a step with a mesh; its result must not be annotated again.
pub fn annotate(module: Module, plan: &Plan) -> Module {
    let entry = module.entry;
    let mut annotator = Annotator {
        plan,
        axes: plan.mesh.split_axes(),
        entry,
        logical: &module.annotations,
        metadata_before: &module.metadata,
        annotations: Annotations::default(),
        metadata: MetadataTable::default(),
    };
    let computations = module.computations.into_iter().enumerate();
    let computations =
        computations.map(|(index, computation)| annotator.computation(CompId::new(index), computation));
    let computations = computations.collect();
    let mut frontend_attributes = module.frontend_attributes;
    frontend_attributes.insert(shardy::MESHES.into(), shardy::mesh(&annotator.axes));
    let Annotator { annotations, metadata, .. } = annotator;
    Module { computations, frontend_attributes, annotations, metadata, ..module }
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
        self.dims.iter().map(|split| split.axes.iter().filter_map(number).collect()).collect()
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
        self.assign(&Tensor { name, group: TensorGroup::Activation, dims, dtype, rules })
    }
}

struct Annotator<'p> {
    plan: &'p Plan,
    axes: Vec<(&'p str, usize)>,
    entry: CompId,
    /// Logical shardings of the module as it was.
    logical: &'p Annotations,
    /// Metadata of the module as it was.
    metadata_before: &'p MetadataTable,
    /// Of the annotated module: the logical sharding that each sharding comes from.
    annotations: Annotations,
    metadata: MetadataTable,
}

impl Annotator<'_> {
    fn computation(&mut self, id: CompId, computation: Computation) -> Computation {
        let mut instrs: Vec<Instr> = Vec::with_capacity(computation.instrs.len());
        // The new id of each instruction, or of the last constraint on its value.
        let mut renumbered: Vec<InstrId> = Vec::with_capacity(computation.instrs.len());
        for (index, mut instr) in computation.instrs.into_iter().enumerate() {
            instr.operands.iter_mut().for_each(|operand| *operand = renumbered[operand.index()]);
            if id == self.entry && index == computation.root.index() && instr.opcode == Opcode::Tuple {
                // GSPMD reads the shardings of the results from the root.
                let values = instr.operands.iter().map(|id| instrs[id.index()].sharding.clone());
                let shardings = values.map(|sharding| sharding.unwrap_or(Sharding::Replicated)).collect();
                instr.sharding = Some(Sharding::Tuple(shardings));
            }
            let (name, shape) = (instr.name.clone(), instr.shape.clone());
            // A program argument carries its sharding itself. Any other value is followed by constraints, which survive
            // transformations of the instruction that defines it, such as inlining of a call.
            let is_argument = id == self.entry && instr.opcode == Opcode::Parameter;
            let metadata = self.metadata_before.get(id, InstrId::new(index)).cloned().unwrap_or_default();
            self.metadata.set(id, InstrId::new(instrs.len()), metadata.clone());
            instrs.push(instr);
            let logical = self.logical.of::<LogicalSharding>(id, InstrId::new(index));
            for (number, logical) in logical.enumerate() {
                let last = InstrId::new(instrs.len() - 1);
                let number = match (is_argument, number) {
                    (true, 0) => None,
                    (true, number) => Some(number - 1),
                    (false, number) => Some(number),
                };
                if let Some(number) = number {
                    self.metadata.set(id, InstrId::new(instrs.len()), metadata.nested("sharding_constraint"));
                    instrs.push(constraint(format!("{name}.sharding.{number}"), shape.clone(), last));
                }
                let last = instrs.len() - 1;
                self.annotate(&mut instrs[last], logical);
                self.annotations.push(id, InstrId::new(last), Annotation::new(logical.clone()));
            }
            renumbered.push(InstrId::new(instrs.len() - 1));
        }
        Computation { name: computation.name, instrs, root: renumbered[computation.root.index()] }
    }

    fn annotate(&self, instr: &mut Instr, logical: &LogicalSharding) {
        let Shape::Array(shape) = &instr.shape else { return };
        let sharding = self.plan.assign_logical(logical, shape, &instr.name);
        let dims = sharding.axis_numbers(&self.axes);
        let text = match instr.opcode {
            Opcode::Parameter => shardy::sharding(&self.axes, &dims),
            _ => shardy::sharding_per_value(&self.axes, &[dims]),
        };
        instr.sharding = Some(sharding.sharding(&self.plan.mesh));
        instr.frontend_attributes.insert(shardy::SHARDING.into(), text);
    }
}

fn constraint(name: String, shape: Shape, operand: InstrId) -> Instr {
    let (target, side_effect, backend_config) = (CONSTRAINT.into(), SideEffect::Absent, String::new());
    let call = CustomCall { target, side_effect, backend_config };
    Instr::new(name, Opcode::CustomCall, shape, vec![operand], Attrs::CustomCall(call))
}
