use super::{
    Dim, DimSharding, Loaded, Mesh, MeshCode, OnViolation, Policy, RuleSet, Rules, Tensor, TensorGroup,
    TensorSharding, Violation, assign,
    assign::assign_along,
    grid::{alternatives, divisors},
    short,
};
use crate::base::{DType, Diagnostics, Location, Partitioner};

/// The result of a check: all problems of a mesh config, and how it shards the tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshReport {
    /// Every problem: those of the files, of the mesh, of the rules, of the tensors.
    pub problems: Diagnostics,
    /// Rules that the policy allows not to be followed, with their costs.
    pub notes: Vec<PolicyNote>,
    /// The sharding of every tensor; `None` if the sizes of the mesh are unknown. Valid only if there are no problems.
    pub plan: Option<Plan>,
}

/// A rule that is not followed, because the policy allows that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyNote {
    /// The line of the rule.
    pub location: Location,
    /// What is done instead.
    pub message: String,
    /// Additional bytes that each device stores.
    pub device_bytes: u64,
}

/// Every tensor on a mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The mesh.
    pub mesh: Mesh,
    /// Which partitioner goes by it.
    pub partitioner: Partitioner,
    /// The tensors, in the order in which they were given.
    pub tensors: Vec<TensorSharding>,
    rules: Rules,
    policy: Policy,
}

/// Bytes that each device stores between steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceBytes {
    /// Bytes of frozen parameters.
    pub base: u64,
    /// Bytes of LoRA factors.
    pub adapters: u64,
    /// Bytes of the optimizer state.
    pub optimizer: u64,
}

/// Stored tensors of which several devices hold identical copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replicated {
    /// The kind of tensors.
    pub group: TensorGroup,
    /// The axes along which they are replicated.
    pub axes: Vec<String>,
    /// Number of identical copies.
    pub copies: usize,
    /// The tensors.
    pub tensors: Vec<String>,
    /// Bytes that each device holds of them.
    pub bytes: u64,
    /// Bytes that each device would save if the tensors were sharded over all devices.
    pub extra_bytes: u64,
}

impl Plan {
    /// The sharding of the tensor with this name.
    pub fn get(&self, name: &str) -> Option<&TensorSharding> {
        self.tensors.iter().find(|sharding| sharding.tensor.name == name)
    }

    /// The sharding that the rules of this plan give another tensor, such as an activation.
    pub fn assign(&self, tensor: &Tensor) -> TensorSharding {
        let along = match &tensor.rules {
            RuleSet::ComputeAsStored { param, dim } => self.get(param).and_then(|param| param.dim(*dim)),
            RuleSet::AtRest { .. } | RuleSet::Compute => None,
        };
        let along = along.filter(|split| !split.axes.is_empty());
        assign_along(&self.mesh, &self.rules, &self.policy, tensor, along)
    }

    /// Number of shards of a batch of `batch` rows, under the policy for indivisible sizes.
    pub fn batch_shards(&self, batch: usize) -> usize {
        batch_shards(&self.mesh, &self.rules, &self.policy, batch)
    }

    /// Bytes that each device holds at rest.
    pub fn device_bytes(&self) -> DeviceBytes {
        let of = |group| {
            let tensors = self.stored().filter(|sharding| sharding.tensor.group == group);
            tensors.map(TensorSharding::shard_bytes).fold(0, u64::saturating_add)
        };
        DeviceBytes {
            base: of(TensorGroup::Base),
            adapters: of(TensorGroup::Adapter),
            optimizer: of(TensorGroup::Optimizer),
        }
    }

    /// The stored tensors that are replicated along axes, by group and axes.
    pub fn replicated(&self) -> Vec<Replicated> {
        let mut found: Vec<Replicated> = vec![];
        for sharding in self.stored() {
            let axes = sharding.replicated_over(&self.mesh);
            if axes.is_empty() {
                continue;
            }
            let (group, name) = (sharding.tensor.group, sharding.tensor.name.clone());
            let (bytes, extra_bytes) = (sharding.shard_bytes(), sharding.replicated_bytes(&self.mesh));
            match found.iter_mut().find(|entry| entry.group == group && entry.axes == axes) {
                Some(entry) => {
                    entry.tensors.push(name);
                    entry.bytes = entry.bytes.saturating_add(bytes);
                    entry.extra_bytes = entry.extra_bytes.saturating_add(extra_bytes);
                }
                None => {
                    let axes: Vec<String> = axes.into_iter().map(str::to_owned).collect();
                    let copies = self.mesh.num_shards(&axes);
                    found.push(Replicated { group, axes, copies, tensors: vec![name], bytes, extra_bytes });
                }
            }
        }
        found
    }

    fn stored(&self) -> impl Iterator<Item = &TensorSharding> {
        self.tensors.iter().filter(|sharding| sharding.tensor.is_stored())
    }
}

/// Lays `tensors` on the mesh of a config with `devices` devices (`None`: as many as its sizes say), and finds everything
/// that is wrong.
pub fn check(loaded: &Loaded, tensors: &[Tensor], devices: Option<usize>) -> MeshReport {
    let Loaded { config, problems } = loaded;
    let mut problems = problems.clone();
    let mesh = Mesh::resolve(config, devices, &mut problems);
    let rules = Rules::new(config, tensors, &mut problems);
    let Some(mesh) = mesh else { return MeshReport { problems, notes: vec![], plan: None } };
    let tensors: Vec<TensorSharding> =
        tensors.iter().map(|t| assign(&mesh, &rules, &config.policy, t)).collect();
    let mut report = MeshReport { problems, notes: vec![], plan: None };
    for case in cases(&tensors) {
        case.report(&mesh, &config.policy, &mut report);
    }
    for axis in &config.axes {
        let Some(size) = mesh.axis(&axis.name).map(|axis| axis.size).filter(|&size| size > 1) else {
            continue;
        };
        let asks = |split: &DimSharding| {
            let conflicts = split.violations.iter().any(|violation| match violation {
                Violation::Conflict { axis: name, .. } => *name == axis.name,
                Violation::Indivisible { axes } => axes.contains(&axis.name),
            });
            conflicts || split.axes.contains(&axis.name)
        };
        if tensors.iter().flat_map(|sharding| &sharding.dims).any(asks) {
            continue;
        }
        let message = format!("shards nothing: {size} groups of devices would do the same work");
        if config.policy.unused_axis == OnViolation::Error {
            let hint = match rules.names(&axis.name) {
                Some(location) => format!("the rule is about no tensor: {location}"),
                None => format!("write `{}` in [store] or [compute], or give it the size 1", axis.name),
            };
            report.problems.push(MeshCode::UnusedAxis.error(axis.location.clone(), message).with_hint(hint));
        } else {
            report.notes.push(PolicyNote { location: axis.location.clone(), message, device_bytes: 0 });
        }
    }
    report.plan = Some(Plan { mesh, partitioner: config.partitioner, tensors, rules, policy: config.policy });
    report
}

impl Loaded {
    /// The plan for these tensors on `devices` devices.
    ///
    /// # Errors
    /// Every problem.
    pub fn plan(&self, tensors: &[Tensor], devices: usize) -> Result<Plan, Diagnostics> {
        match check(self, tensors, Some(devices)) {
            MeshReport { problems, plan: Some(plan), .. } if problems.is_empty() => Ok(plan),
            MeshReport { problems, .. } => Err(problems),
        }
    }

    /// The mesh on `devices` devices, whatever the rules say.
    ///
    /// # Errors
    /// Names and sizes of axes that make no mesh of this number of devices.
    pub fn mesh(&self, devices: usize) -> Result<Mesh, Diagnostics> {
        let mut problems = Diagnostics::default();
        match Mesh::resolve(&self.config, Some(devices), &mut problems) {
            Some(mesh) if problems.is_empty() => Ok(mesh),
            _ => Err(if problems.is_empty() { self.problems.clone() } else { problems }),
        }
    }

    /// Number of shards on `devices` devices of a batch that divides evenly; a batch should be a multiple of it. One if the
    /// config is invalid.
    pub fn batch_shards(&self, devices: usize) -> usize {
        let mut problems = self.problems.clone();
        let Some(mesh) = Mesh::resolve(&self.config, Some(devices), &mut problems) else { return 1 };
        let rules = Rules::new(&self.config, &[], &mut problems);
        batch_shards(&mesh, &rules, &self.config.policy, mesh.devices())
    }

    /// Number that the rows of a batch on `devices` devices must be a multiple of: [`Self::batch_shards`], or one where the
    /// policy replicates or pads a batch that does not divide evenly.
    pub fn batch_multiple(&self, devices: usize) -> usize {
        match self.config.policy.indivisible {
            OnViolation::Error => self.batch_shards(devices),
            OnViolation::Replicate | OnViolation::Pad => 1,
        }
    }
}

/// Number of shards of a batch of `batch` rows. Every number of devices that shards it divides the size of the mesh.
fn batch_shards(mesh: &Mesh, rules: &Rules, policy: &Policy, batch: usize) -> usize {
    let dims = vec![(Dim::Batch, batch)];
    let (group, dtype, rules_of) = (TensorGroup::Batch, DType::S32, RuleSet::Compute);
    let tensor = Tensor { name: "batch".to_owned(), group, dims, dtype, rules: rules_of };
    assign(mesh, rules, policy, &tensor).num_shards()
}

/// A rule that cannot be followed, with all the tensors it hits in the same way.
struct Case<'a> {
    location: &'a Location,
    dim: Dim,
    size: usize,
    violation: &'a Violation,
    hit: Vec<&'a TensorSharding>,
}

fn cases(tensors: &[TensorSharding]) -> Vec<Case<'_>> {
    let mut cases: Vec<Case<'_>> = vec![];
    for sharding in tensors {
        for DimSharding { dim, size, location, violations, .. } in &sharding.dims {
            for (violation, location) in
                violations.iter().filter_map(|violation| Some((violation, location.as_ref()?)))
            {
                let same = |case: &&mut Case<'_>| {
                    (case.location, case.dim, case.size, case.violation) == (location, *dim, *size, violation)
                };
                match cases.iter_mut().find(same) {
                    Some(case) => case.hit.push(sharding),
                    None => {
                        cases.push(Case { location, dim: *dim, size: *size, violation, hit: vec![sharding] })
                    }
                }
            }
        }
    }
    cases
}

impl Case<'_> {
    fn report(&self, mesh: &Mesh, policy: &Policy, report: &mut MeshReport) {
        let Self { location, dim, size, violation, .. } = self;
        let tensors = self.tensors();
        let location = (*location).clone();
        let (choice, code, message, hint, lost) = match violation {
            Violation::Conflict { axis, outer } => {
                let message = format!(
                    "mesh axis {} already shards {outer} and cannot shard {dim}: {tensors}",
                    named(mesh, axis)
                );
                let hint = format!(
                    "replicate one of the two with \"none\", by an [[override]] if only for these tensors, or set \
                     `axis_conflict = \"replicate\"` under [policy] to replicate {dim}"
                );
                // The axis shards the outer dimension, so no device stores more.
                (policy.axis_conflict, MeshCode::AxisConflict, message, hint, 1)
            }
            Violation::Indivisible { axes } => {
                let num_shards = mesh.num_shards(axes);
                let over: Vec<String> = axes.iter().map(|axis| named(mesh, axis)).collect();
                let over = over.join(" x ");
                let message = format!("{dim} of {size} cannot be sharded over {over}: {tensors}");
                if *dim == Dim::Batch {
                    let hint =
                        format!("take a batch of {}, {}, {} ...", num_shards, 2 * num_shards, 3 * num_shards);
                    (policy.indivisible, MeshCode::BatchIndivisible, message, hint, num_shards)
                } else {
                    let works = alternatives(divisors(*size, mesh.devices()));
                    let hint = format!(
                        "it can be sharded into {works}; or write `{dim} = \"none\"`, or set `indivisible = \"replicate\"` or \
                         `\"pad\"` under [policy]"
                    );
                    (policy.indivisible, MeshCode::Indivisible, message, hint, num_shards)
                }
            }
        };
        let stored = self.hit.iter().filter(|sharding| sharding.tensor.is_stored());
        let bytes = stored.map(|sharding| sharding.shard_bytes()).fold(0, u64::saturating_add);
        match choice {
            OnViolation::Error => report.problems.push(code.error(location, message).with_hint(hint)),
            OnViolation::Replicate => {
                let device_bytes = bytes - bytes / lost.max(1) as u64;
                report.notes.push(PolicyNote {
                    location,
                    message: format!("is replicated: {message}"),
                    device_bytes,
                });
            }
            OnViolation::Pad => {
                let shard = size.div_ceil(lost.max(1));
                let filled = (shard * lost - size) as u128;
                let device_bytes = u128::from(bytes) * filled / (shard * lost).max(1) as u128;
                let message = format!("is padded to {}: {message}", shard * lost);
                report.notes.push(PolicyNote { location, message, device_bytes: device_bytes as u64 });
            }
        }
    }

    /// The first few tensors hit.
    fn tensors(&self) -> String {
        const SHOWN: usize = 3;
        let names: Vec<&str> = self.hit.iter().map(|sharding| short(&sharding.tensor.name)).collect();
        match names.len() {
            0..=SHOWN => names.join(", "),
            more => format!("{} and {} more", names[..SHOWN].join(", "), more - SHOWN),
        }
    }
}

/// `tensor (2)`.
fn named(mesh: &Mesh, axis: &str) -> String {
    let size = mesh.axis(axis).map_or(1, |axis| axis.size);
    format!("{axis} ({size})")
}
