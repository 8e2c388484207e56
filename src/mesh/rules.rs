use super::{
    Dim, MeshCode, MeshConfig, Override, Rule, RuleSet, Tensor, TensorGroup, grid::line, matches, short,
};
use crate::base::{Diagnostics, Location, did_you_mean};

/// The rules of a config as far as they can be followed: every axis they name is one of the mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    store: Vec<Rule>,
    compute: Vec<Rule>,
    overrides: Vec<Override>,
}

impl Rules {
    /// The rules of `config` without axes that `mesh` lacks, each of which is a problem; so is a rule that is about none of
    /// `tensors`.
    pub(super) fn new(config: &MeshConfig, tensors: &[Tensor], problems: &mut Diagnostics) -> Self {
        let mut rules = Self {
            store: config.store.clone(),
            compute: config.compute.clone(),
            overrides: config.overrides.clone(),
        };
        let known = config.axes.iter().map(|axis| axis.name.as_str());
        let overridden = rules.overrides.iter_mut().flat_map(|entry| &mut entry.rules);
        for rule in rules.store.iter_mut().chain(&mut rules.compute).chain(overridden) {
            let Rule { axes, location, .. } = rule;
            axes.retain(|axis| {
                let is_known = config.axes.iter().any(|known| known.name == *axis);
                if !is_known {
                    let hint = did_you_mean(axis, known.clone(), "axes of the mesh");
                    let problem =
                        MeshCode::UnknownAxis.error(location.clone(), format!("unknown mesh axis: {axis}"));
                    problems.push(problem.with_hint(hint));
                }
                is_known
            });
        }
        rules.check_use(tensors, problems);
        rules
    }

    /// The rule for a dimension of a tensor; without one it stays whole.
    pub fn find(&self, tensor: &Tensor, dim: Dim) -> Option<&Rule> {
        match &tensor.rules {
            RuleSet::AtRest { param } => self.find_at_rest(param, dim),
            RuleSet::Compute | RuleSet::ComputeAsStored { .. } => {
                self.compute.iter().find(|rule| rule.dim == dim)
            }
        }
    }

    fn find_at_rest(&self, param: &str, dim: Dim) -> Option<&Rule> {
        let about = |rule: &&Rule| rule.dim == dim;
        let exact = self.overrides.iter().rev().filter(|entry| matches(&entry.param, param));
        exact.flat_map(|entry| &entry.rules).find(about).or_else(|| self.store.iter().find(about))
    }

    /// The first line that has this axis in a rule.
    pub(super) fn names(&self, axis: &str) -> Option<Location> {
        let overridden = self.overrides.iter().flat_map(|entry| &entry.rules);
        let mut all = self.store.iter().chain(&self.compute).chain(overridden);
        all.find(|rule| rule.axes.iter().any(|name| name == axis)).map(|rule| line(&rule.location))
    }

    fn check_use(&self, tensors: &[Tensor], problems: &mut Diagnostics) {
        let (stored, computed): (Vec<&Tensor>, Vec<&Tensor>) =
            tensors.iter().partition(|tensor| tensor.is_stored());
        let uses = [
            (&self.store, &stored, "parameter, adapter or optimizer tensor", "[compute]"),
            (&self.compute, &computed, "batch or activation", "[store]"),
        ];
        for (rules, tensors, what, other) in uses {
            let has = |dim| tensors.iter().any(|tensor| tensor.has(dim));
            for Rule { dim, location, .. } in
                rules.iter().filter(|rule| !rule.axes.is_empty() && !has(rule.dim))
            {
                let problem = MeshCode::UnusedRule
                    .error(location.clone(), format!("no {what} has this dimension: {dim}"));
                problems.push(problem.with_hint(format!("leave it out, or move it to {other}")));
            }
        }
        for Override { param, location, rules } in &self.overrides {
            let base = stored.iter().copied().filter(|tensor| tensor.group == TensorGroup::Base);
            let params = || base.clone().filter_map(|tensor| Some((tensor, tensor.param()?)));
            let hit = params().filter(|(_, name)| matches(param, name));
            let hit: Vec<&Tensor> = hit.map(|(tensor, _)| tensor).collect();
            if hit.is_empty() {
                let names = params().map(|(_, name)| short(name));
                let hint = did_you_mean(param, names, "parameters");
                let problem = MeshCode::OverrideUnmatched
                    .error(location.clone(), format!("matches no parameter: {param}"));
                problems.push(problem.with_hint(hint));
                continue;
            }
            for Rule { dim, location, .. } in rules.iter().filter(|rule| !hit.iter().any(|t| t.has(rule.dim)))
            {
                let message = format!("no parameter that `{param}` matches has this dimension: {dim}");
                let dims = Dim::ALL.iter().filter(|dim| hit.iter().any(|t| t.has(**dim)));
                let dims: Vec<&str> = dims.map(|dim| dim.name()).collect();
                let problem = MeshCode::OverrideDim.error(location.clone(), message);
                problems.push(problem.with_hint(format!("they have {}", dims.join(", "))));
            }
        }
    }
}
