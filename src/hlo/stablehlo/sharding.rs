//! Shardings and other annotations, for one of the partitioners.

use std::collections::{BTreeMap, HashMap};

use super::{
    StablehloError, shardy_text,
    syntax::{Quoted, dictionary, tensors},
};
use crate::{
    base::{Location, MemorySpace, Partitioner},
    hlo::{Attrs, Computation, CustomCall, Instr, InstrId, Module, Opcode, Sharding, Tiling, shardy},
};

/// The custom calls that constrain the sharding of their operand in HLO.
const CONSTRAINTS: &[&str] = &["Sharding", "xla.sdy.FuncResultSharding"];

/// Writes the annotations of a module for one partitioner.
pub(super) struct Annotator<'m> {
    module: &'m Module,
    partitioner: Partitioner,
    /// Name and axes of each mesh, for Shardy.
    pub(super) meshes: Vec<(&'m str, &'m str)>,
    /// The result of the entry that has the buffer of a donated parameter, by parameter.
    aliased: HashMap<usize, usize>,
}

impl<'m> Annotator<'m> {
    pub(super) fn new(module: &'m Module, partitioner: Partitioner) -> Result<Self, StablehloError> {
        let text = module.frontend_attributes.get(shardy::MESHES);
        let meshes = match (partitioner, text) {
            (Partitioner::Shardy, Some(text)) => {
                shardy_text::meshes(text).ok_or_else(|| StablehloError::ShardyText {
                    location: Location::file(&module.name),
                    attribute: shardy::MESHES,
                    expected: "meshes such as {mesh = #sdy.mesh<[\"fsdp\"=4]>}".into(),
                    found: text.clone(),
                })?
            }
            (Partitioner::Shardy, None) => {
                check_unsharded(module)?;
                vec![]
            }
            (Partitioner::Gspmd, _) => vec![],
        };
        Ok(Self { module, partitioner, meshes, aliased: aliased(module) })
    }

    /// The attributes of the module.
    pub(super) fn module(&self) -> Vec<String> {
        let mut attributes = Vec::new();
        let other = self.module.frontend_attributes.iter().filter(|(key, _)| *key != shardy::MESHES);
        let other: BTreeMap<&str, &str> = other.map(|(key, value)| (key.as_str(), value.as_str())).collect();
        if !other.is_empty() {
            attributes.push(format!("mhlo.frontend_attributes = {}", dictionary(&other)));
        }
        if let Some(count) = self.num_partitions() {
            attributes.push(format!("mhlo.num_partitions = {count} : i32"));
            attributes.push("mhlo.num_replicas = 1 : i32".to_owned());
        }
        attributes
    }

    /// The number of devices of the first tiled sharding.
    fn num_partitions(&self) -> Option<usize> {
        let instrs = self.module.computations.iter().flat_map(|computation| &computation.instrs);
        let shardings = instrs.filter_map(|instr| instr.sharding.as_ref()).flat_map(arrays);
        shardings.filter_map(tiling).map(|tiling| tiling.grid().iter().product()).next()
    }

    /// The attributes of each array of an entry parameter.
    pub(super) fn arguments(&self, parameter: &'m Instr) -> Result<Vec<Vec<String>>, StablehloError> {
        let entry = self.module.entry();
        let Attrs::Parameter(number) = parameter.attrs else { return Ok(vec![]) };
        let count = tensors(&parameter.shape).len();
        let mut attributes = self.per_value(entry, parameter, count)?;
        let frontend = self.frontend(parameter);
        for attributes in &mut attributes {
            attributes.extend(frontend.clone());
            if self.module.parameter_memory(number) == MemorySpace::Host {
                let kind = Quoted(MemorySpace::Host.kind());
                attributes.push(format!("mhlo.memory_kind = {kind}"));
            }
            if let Some(output) = self.aliased.get(&number) {
                attributes.push(format!("tf.aliasing_output = {output} : i32"));
            }
        }
        Ok(attributes)
    }

    /// The attributes of each result of the entry.
    pub(super) fn results(&self) -> Result<Vec<Vec<String>>, StablehloError> {
        let entry = self.module.entry();
        let root = entry.instr(entry.root);
        if self.partitioner == Partitioner::Gspmd || root.opcode != Opcode::Tuple {
            return self.per_value(entry, root, tensors(&root.shape).len());
        }
        let operand = |id: &InstrId| {
            let operand = entry.instr(*id);
            self.per_value(entry, operand, tensors(&operand.shape).len())
        };
        Ok(root.operands.iter().map(operand).collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// The sharding attribute of each of the `count` arrays of a value, as functions have them.
    pub(super) fn per_value(
        &self,
        computation: &Computation,
        instr: &'m Instr,
        count: usize,
    ) -> Result<Vec<Vec<String>>, StablehloError> {
        let mut attributes = vec![vec![]; count];
        match self.partitioner {
            Partitioner::Gspmd => {
                let shardings = instr.sharding.iter().flat_map(arrays);
                for (attributes, sharding) in attributes.iter_mut().zip(shardings) {
                    attributes.push(gspmd(sharding));
                }
            }
            Partitioner::Shardy => {
                let shardings = self.shardy(computation, instr, count)?;
                for (attributes, sharding) in attributes.iter_mut().zip(shardings) {
                    attributes.push(format!("sdy.sharding = #sdy.sharding{sharding}"));
                }
            }
        }
        Ok(attributes)
    }

    /// The attributes of an operation with `count` results.
    pub(super) fn operation(
        &self,
        computation: &Computation,
        instr: &'m Instr,
        count: usize,
    ) -> Result<Vec<String>, StablehloError> {
        let mut attributes = self.frontend(instr);
        match (self.partitioner, &instr.sharding) {
            // A list of one value is the value.
            (Partitioner::Gspmd, Some(Sharding::Tuple(elements))) if count == 1 && !keeps_tuple(instr) => {
                attributes.extend(elements.iter().map(gspmd));
            }
            (Partitioner::Gspmd, Some(Sharding::Tuple(_))) if count == 0 => {}
            (Partitioner::Gspmd, sharding) => attributes.extend(sharding.iter().map(gspmd)),
            // Shardy knows no tuples, which custom calls keep: their arrays have constraints.
            (Partitioner::Shardy, _) if self.constrains_arrays(instr) => {}
            (Partitioner::Shardy, _) => {
                let shardings = self.shardy(computation, instr, count)?;
                if !shardings.is_empty() {
                    let shardings = shardings.join(", ");
                    attributes.push(format!("sdy.sharding = #sdy.sharding_per_value<[{shardings}]>"));
                }
            }
        }
        Ok(attributes)
    }

    /// Whether the arrays of an operation have constraints in place of a sharding of the operation.
    pub(super) fn constrains_arrays(&self, instr: &Instr) -> bool {
        self.partitioner == Partitioner::Shardy && keeps_tuple(instr)
    }

    /// Shardy's sharding of an instruction that does nothing but constrain the sharding of its operand.
    pub(super) fn constraint(
        &self,
        computation: &Computation,
        instr: &'m Instr,
    ) -> Result<Option<&'m str>, StablehloError> {
        let Attrs::CustomCall(CustomCall { target, .. }) = &instr.attrs else { return Ok(None) };
        if self.partitioner == Partitioner::Gspmd || !CONSTRAINTS.contains(&target.as_str()) {
            return Ok(None);
        }
        Ok(self.shardy(computation, instr, 1)?.first().copied())
    }

    /// The sharding of each of the `count` arrays of a value, for [`Annotator::constrained`]; an empty list for a value without.
    pub(super) fn constraints(
        &self,
        computation: &Computation,
        instr: &'m Instr,
        count: usize,
    ) -> Result<Vec<String>, StablehloError> {
        Ok(match self.partitioner {
            Partitioner::Gspmd => instr.sharding.iter().flat_map(arrays).map(gspmd).take(count).collect(),
            Partitioner::Shardy => {
                self.shardy(computation, instr, count)?.into_iter().map(str::to_owned).collect()
            }
        })
    }

    /// The operation that constrains an array to a sharding.
    pub(super) fn constrained(&self, name: &str, of: &str, sharding: &str) -> String {
        match self.partitioner {
            Partitioner::Gspmd => {
                format!("stablehlo.custom_call @Sharding({name}) {{{sharding}}} : ({of}) -> {of}")
            }
            Partitioner::Shardy => format!("sdy.sharding_constraint {name} {sharding} : {of}"),
        }
    }

    /// The frontend attributes of an instruction, apart from Shardy's.
    fn frontend(&self, instr: &Instr) -> Vec<String> {
        let other = instr.frontend_attributes.iter().filter(|(key, _)| *key != shardy::SHARDING);
        let other: BTreeMap<&str, &str> = other.map(|(key, value)| (key.as_str(), value.as_str())).collect();
        if other.is_empty() {
            vec![]
        } else {
            vec![format!("mhlo.frontend_attributes = {}", dictionary(&other))]
        }
    }

    /// Shardy's sharding of each of the `count` arrays of a value, or an empty list for a value without.
    fn shardy(
        &self,
        computation: &Computation,
        instr: &'m Instr,
        count: usize,
    ) -> Result<Vec<&'m str>, StablehloError> {
        let text = instr.frontend_attributes.get(shardy::SHARDING);
        let Some(text) = text.filter(|_| !self.meshes.is_empty()) else { return Ok(vec![]) };
        let shardings = shardy_text::shardings(text).filter(|shardings| shardings.len() == count);
        shardings.ok_or_else(|| StablehloError::ShardyText {
            location: Location::file(&computation.name).at(&instr.name),
            attribute: shardy::SHARDING,
            expected: match count {
                1 => "one sharding such as #sdy.sharding<@mesh, [{}]>".into(),
                _ => format!("{count} shardings such as #sdy.sharding_per_value<[<@mesh, [{{}}]>]>"),
            },
            found: text.clone(),
        })
    }
}

/// Checks that a module without a mesh for Shardy has no sharding, which Shardy would ignore.
fn check_unsharded(module: &Module) -> Result<(), StablehloError> {
    for computation in &module.computations {
        for instr in &computation.instrs {
            let mut shardings = instr.sharding.iter().flat_map(arrays);
            if let Some(found) = shardings.find(|sharding| tiling(sharding).is_some()) {
                return Err(StablehloError::NoMesh {
                    location: Location::file(&computation.name).at(&instr.name),
                    attribute: shardy::MESHES,
                    found: found.to_string(),
                });
            }
        }
    }
    Ok(())
}

/// The aliases of a module, with the number of an output among all arrays of the results.
fn aliased(module: &Module) -> HashMap<usize, usize> {
    let outputs = module.entry().result().as_tuple().unwrap_or(&[]);
    let first = outputs.iter().scan(0, |next, output| {
        let first = *next;
        *next += tensors(output).len();
        Some(first)
    });
    let first: Vec<usize> = first.collect();
    module.aliases.iter().map(|alias| (alias.parameter, first[alias.output])).collect()
}

/// Whether the result of an operation is a tuple of MLIR.
fn keeps_tuple(instr: &Instr) -> bool {
    instr.opcode == Opcode::CustomCall && instr.shape.as_tuple().is_some()
}

/// The shardings of the arrays of a value.
fn arrays(sharding: &Sharding) -> &[Sharding] {
    match sharding {
        Sharding::Tuple(elements) => elements,
        Sharding::Replicated | Sharding::Maximal(_) | Sharding::Tiled(_) => std::slice::from_ref(sharding),
    }
}

fn tiling(sharding: &Sharding) -> Option<&Tiling> {
    match sharding {
        Sharding::Tiled(tiling) => Some(tiling),
        Sharding::Replicated | Sharding::Maximal(_) | Sharding::Tuple(_) => None,
    }
}

fn gspmd(sharding: &Sharding) -> String {
    format!("mhlo.sharding = {}", Quoted(&sharding.to_string()))
}
