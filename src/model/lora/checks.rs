//! Checks of the numbers of a [`LoraSpec`], alone and against the model.

use std::collections::BTreeSet;

use super::{
    LoraSpec, Targets,
    modules::LinearModule,
    report::{field_error, report},
    selector::PatternKey,
};
use crate::{base::Diagnostics, model::Config};

/// Largest rank that is accepted for every linear. A larger one is accepted up to the width of the linear, since it would
/// otherwise be noticed only when an allocation fails.
const MIN_LIMIT: usize = 1024;

impl LoraSpec {
    /// Ranks must be at least 1; alphas finite and above 0.
    pub(super) fn check_numbers(&self, diagnostics: &mut Diagnostics) {
        let rank = [("r".to_owned(), self.rank)];
        let ranks = self.rank_pattern.iter().map(|(key, rank)| (format!("rank_pattern.{key}"), *rank));
        for (field, _) in rank.into_iter().chain(ranks).filter(|&(_, rank)| rank == 0) {
            report(diagnostics, &field, "expected a rank of at least 1, found 0");
        }
        let alpha = [("lora_alpha".to_owned(), self.alpha)];
        let alphas = self.alpha_pattern.iter().map(|(key, alpha)| (format!("alpha_pattern.{key}"), *alpha));
        let is_valid = |alpha: f64| alpha.is_finite() && alpha > 0.0;
        for (field, alpha) in alpha.into_iter().chain(alphas).filter(|&(_, alpha)| !is_valid(alpha)) {
            report(diagnostics, &field, format!("expected a number above 0, found {alpha}"));
        }
    }

    /// Layers need a list of names beside them. Those that the model lacks are reported as unused.
    pub(super) fn check_layers(
        &self,
        config: &Config,
        diagnostics: &mut Diagnostics,
        unused: &mut Diagnostics,
    ) {
        const FIELD: &str = "layers_to_transform";
        if !self.layers.is_empty() && !matches!(self.targets, Targets::Names(_)) {
            let diagnostic = field_error(FIELD, "expected target_modules to be a list of names beside it");
            diagnostics.push(diagnostic.with_hint("name the linears, as in q_proj, v_proj"));
        }
        let count = config.num_hidden_layers;
        for layer in self.layers.iter().filter(|&&layer| layer >= count) {
            let last = count.saturating_sub(1);
            report(unused, FIELD, format!("expected a layer from 0 to {last}, found {layer}"));
        }
    }

    /// The rank of each adapted linear must be within its limit. Each field is reported once, with the first linear.
    pub(super) fn check_ranks(
        &self,
        config: &Config,
        keys: &[PatternKey<'_, usize>],
        adapted: &[&LinearModule],
        diagnostics: &mut Diagnostics,
    ) {
        let mut refused = BTreeSet::new();
        for module in adapted {
            let (field, rank) = match PatternKey::first_match(keys, &module.name) {
                Some(key) => (format!("rank_pattern.{}", key.text), key.value),
                None => ("r".to_owned(), self.rank),
            };
            let (inputs, outputs) = module.linear.features(config);
            let limit = inputs.max(outputs).max(MIN_LIMIT);
            if rank > limit && refused.insert(field.clone()) {
                let message = format!("expected a rank from 1 to {limit} for {}, found {rank}", module.name);
                let full = inputs.min(outputs);
                let hint = format!("a rank of {full} is the full rank of this layer, [{outputs}, {inputs}]");
                diagnostics.push(field_error(&field, message).with_hint(hint));
            }
        }
    }
}

/// Reports keys that match none of the adapted linears.
pub(super) fn check_keys<T: Copy>(
    field: &str,
    keys: &[PatternKey<'_, T>],
    adapted: &[&LinearModule],
    unused: &mut Diagnostics,
) {
    let is_unused = |key: &&PatternKey<'_, T>| !adapted.iter().any(|module| key.matches(&module.name));
    for key in keys.iter().filter(is_unused) {
        report(unused, field, format!("matches no adapted linear: {}", key.text));
    }
}
