//! The fields of a [`LoraSpec`] that select modules, ready to match: targets, layers, and the keys of patterns.

use std::collections::BTreeSet;

use super::{
    LoraSpec, Targets,
    matching::{LayerPattern, Pattern, entry_matches},
    modules::LinearModule,
    report::{field_error, report},
};
use crate::{
    base::{Diagnostics, nearest_hint},
    model::Linear,
};

const LINEARS_ONLY: &str = "only the seven linears inside the layers can be adapted";

/// [`Targets`] ready to match, with the field they come from.
pub(super) enum Selector<'a> {
    All,
    Names { field: &'static str, entries: &'a [String] },
    Regex { field: &'static str, text: &'a str, pattern: Pattern },
}

impl<'a> Selector<'a> {
    /// `None` after a diagnostic, if an expression is malformed. `all_names`: the names of all modules.
    pub(super) fn new(
        field: &'static str,
        targets: &'a Targets,
        all_names: &[&str],
        diagnostics: &mut Diagnostics,
    ) -> Option<Self> {
        match targets {
            Targets::AllLinear => Some(Self::All),
            Targets::Names(entries) => Some(Self::Names { field, entries }),
            Targets::Regex(text) => match Pattern::full(text, all_names) {
                Ok(pattern) => Some(Self::Regex { field, text, pattern }),
                Err(error) => {
                    report(diagnostics, field, error.to_string());
                    None
                }
            },
        }
    }

    /// Whether a module is selected.
    pub(super) fn matches(&self, module: &str) -> bool {
        match self {
            Self::All => true,
            Self::Names { entries, .. } => entries.iter().any(|entry| entry_matches(entry, module)),
            Self::Regex { pattern, .. } => pattern.matches(module),
        }
    }

    fn has_full_name(&self, module: &str) -> bool {
        match self {
            Self::Names { entries, .. } => entries.iter().any(|entry| entry == module),
            Self::All | Self::Regex { .. } => false,
        }
    }

    /// Reports entries that match one of the `refused` names; reports as unused those that match none of the `allowed` ones.
    pub(super) fn check_entries(
        &self,
        allowed: &[&str],
        refused: &[&str],
        diagnostics: &mut Diagnostics,
        unused: &mut Diagnostics,
    ) {
        match self {
            Self::All => {}
            Self::Names { field, entries } => {
                if entries.is_empty() {
                    report(diagnostics, field, "the list is empty");
                }
                for entry in entries.iter().collect::<BTreeSet<_>>() {
                    if let Some(name) = refused.iter().find(|name| entry_matches(entry, name)) {
                        refuse_module(field, entry, name, diagnostics);
                    } else if !allowed.iter().any(|name| entry_matches(entry, name)) {
                        refuse_entry(field, entry, nearest_linear(entry, allowed), unused);
                    }
                }
            }
            Self::Regex { field, text, pattern } => {
                if let Some(name) = refused.iter().find(|name| pattern.matches(name)) {
                    refuse_module(field, text, name, diagnostics);
                } else if !allowed.iter().any(|name| pattern.matches(name)) {
                    let example = Linear::Query.module_name(0);
                    let hint = format!("an expression must match a whole name, such as {example}");
                    refuse_entry(field, text, hint, unused);
                }
            }
        }
    }
}

fn refuse_module(field: &str, entry: &str, module: &str, diagnostics: &mut Diagnostics) {
    let message = format!("{entry} matches a module that cannot be adapted: {module}");
    diagnostics.push(field_error(field, message).with_hint(LINEARS_ONLY));
}

fn refuse_entry(field: &str, entry: &str, hint: String, diagnostics: &mut Diagnostics) {
    let message = format!("matches no linear of the model: {entry}");
    diagnostics.push(field_error(field, message).with_hint(hint));
}

/// The name that was probably meant, else all names.
fn nearest_linear(entry: &str, full_names: &[&str]) -> String {
    let short = Linear::ALL.map(Linear::name);
    nearest_hint(entry, short.into_iter().chain(full_names.iter().copied()))
        .unwrap_or_else(|| format!("the linears are {}", short.join(", ")))
}

/// `layers_to_transform` and `layers_pattern`, ready to match.
pub(super) struct LayerSelector<'a> {
    layers: &'a [usize],
    /// Empty for any list of layers.
    lists: Vec<LayerPattern>,
}

impl<'a> LayerSelector<'a> {
    /// Malformed expressions are reported and left out.
    pub(super) fn new(spec: &'a LoraSpec, all_names: &[&str], diagnostics: &mut Diagnostics) -> Self {
        let mut lists = Vec::new();
        for pattern in &spec.layers_pattern {
            match LayerPattern::new(pattern, all_names) {
                Ok(list) => lists.push(list),
                Err(error) => report(diagnostics, "layers_pattern", error.to_string()),
            }
        }
        Self { layers: &spec.layers, lists }
    }

    /// Whether a target is in a selected layer. PEFT compares the layer only if no list entry is the module's full name.
    pub(super) fn matches(&self, targets: &Selector<'_>, module: &LinearModule) -> bool {
        self.layers.is_empty()
            || targets.has_full_name(&module.name)
            || self.layer_of(module).is_some_and(|layer| self.layers.contains(&layer))
    }

    /// Whether layers are selected, but none of `modules` is in a list that matches a pattern.
    pub(super) fn matches_no_list(&self, modules: &[LinearModule]) -> bool {
        !self.layers.is_empty() && modules.iter().all(|module| self.layer_of(module).is_none())
    }

    /// The layer number by the first pattern that matches.
    fn layer_of(&self, module: &LinearModule) -> Option<usize> {
        match &self.lists[..] {
            [] => Some(module.layer),
            lists => lists.iter().find_map(|list| list.layer(&module.name)).flatten(),
        }
    }
}

/// A key of `rank_pattern` or `alpha_pattern` with its value, ready to match.
pub(super) struct PatternKey<'a, T> {
    pub text: &'a str,
    pattern: Pattern,
    pub value: T,
}

impl<'a, T: Copy> PatternKey<'a, T> {
    /// The keys of a field; malformed ones are reported and left out.
    pub(super) fn read(
        field: &str,
        patterns: &'a [(String, T)],
        all_names: &[&str],
        diagnostics: &mut Diagnostics,
    ) -> Vec<Self> {
        let mut keys = Vec::new();
        for (text, value) in patterns {
            match Pattern::key(text, all_names) {
                Ok(pattern) => keys.push(Self { text, pattern, value: *value }),
                Err(error) => report(diagnostics, field, error.to_string()),
            }
        }
        keys
    }

    /// The first key that matches a module.
    pub(super) fn first_match<'k>(keys: &'k [Self], module: &str) -> Option<&'k Self> {
        keys.iter().find(|key| key.matches(module))
    }

    /// Whether it matches a module.
    pub(super) fn matches(&self, module: &str) -> bool {
        self.pattern.matches(module)
    }
}
