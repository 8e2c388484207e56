//! PEFT adapters: conversion between `adapter_config.json` and a [`LoraSpec`], and matching of their tensors with a model.

use std::collections::BTreeSet;

use super::factors::{TrainableValues, peft_names, stack_factors};
use crate::{
    base::{Diagnostic, Diagnostics},
    model::{Config, LoraPlan, LoraSpec, ParamSpec, PeftFields, PeftModules, base_params, layer_params},
    weights::{Adapter, AdapterConfig, Patterns, TargetModules},
};

/// The adapters that an adapter_config.json describes.
pub fn lora_spec(config: &AdapterConfig) -> LoraSpec {
    let modules = |targets: &TargetModules| match targets {
        TargetModules::Names(names) => PeftModules::List(names.clone()),
        TargetModules::Pattern(pattern) => PeftModules::One(pattern.clone()),
    };
    LoraSpec::from_peft(PeftFields {
        r: config.r,
        lora_alpha: config.lora_alpha,
        use_rslora: config.use_rslora,
        target_modules: config.target_modules.as_ref().map_or(PeftModules::List(vec![]), modules),
        exclude_modules: config.exclude_modules.as_ref().map(modules),
        layers_to_transform: config.layers_to_transform.clone().unwrap_or_default(),
        layers_pattern: config.layers_pattern.clone().unwrap_or_default(),
        rank_pattern: config.rank_pattern.0.clone(),
        alpha_pattern: config.alpha_pattern.0.clone(),
    })
}

/// The adapter_config.json for `spec`: the inverse of [`lora_spec`].
pub fn adapter_config(spec: &LoraSpec, base_model: Option<String>) -> AdapterConfig {
    let targets = |modules: PeftModules| match modules {
        PeftModules::One(pattern) => TargetModules::Pattern(pattern),
        PeftModules::List(names) => TargetModules::Names(names),
    };
    let fields = spec.to_peft();
    AdapterConfig {
        peft_type: "LORA".to_owned(),
        task_type: Some("CAUSAL_LM".to_owned()),
        base_model_name_or_path: base_model,
        r: fields.r,
        lora_alpha: fields.lora_alpha,
        use_rslora: fields.use_rslora,
        lora_dropout: 0.0,
        target_modules: Some(targets(fields.target_modules)),
        exclude_modules: fields.exclude_modules.map(targets),
        layers_to_transform: Some(fields.layers_to_transform).filter(|layers| !layers.is_empty()),
        layers_pattern: Some(fields.layers_pattern).filter(|patterns| !patterns.is_empty()),
        rank_pattern: Patterns(fields.rank_pattern),
        alpha_pattern: Patterns(fields.alpha_pattern),
    }
}

/// An adapter that was matched with a model.
#[derive(Debug)]
pub struct OpenedAdapter {
    /// The adapted linears.
    pub plan: LoraPlan,
    /// Its tensors, stacked.
    pub factors: TrainableValues,
    /// Warnings about entries that the model lacks, which are ignored as in PEFT, and about renamed tensors.
    pub warnings: Vec<Diagnostic>,
}

/// Matches an adapter of `folder` with a model.
///
/// # Errors
/// If its config is unsupported, or tensors of the adapted modules are missing or have wrong shapes.
pub fn open_adapter(
    mut adapter: Adapter,
    config: &Config,
    folder: &str,
) -> Result<OpenedAdapter, Diagnostics> {
    let located = |diagnostics: Diagnostics| {
        let located = |mut diagnostic: Diagnostic| {
            diagnostic.location.file = format!("{folder}/adapter_config.json");
            diagnostic
        };
        Diagnostics(diagnostics.0.into_iter().map(located).collect())
    };
    let (plan, unused) = lora_spec(&adapter.config).resolve_saved(config).map_err(located)?;
    let mut warnings = located(unused).0;
    warnings.iter_mut().for_each(|warning| warning.message.push_str("; ignored"));
    let file = format!("{folder}/adapter_model.safetensors");
    let names = peft_names(config, &plan);
    let own: BTreeSet<String> =
        base_params(config).iter().chain(&layer_params(config)).flat_map(ParamSpec::stored_names).collect();
    let expected = names.iter().map(String::as_str).collect();
    warnings.extend(adapter.fit_names(&expected, |name| own.contains(name), &file)?);
    adapter.check_pairs(&file)?;
    let factors = stack_factors(&adapter.tensors, config, &plan, &file)?;
    Ok(OpenedAdapter { plan, factors, warnings })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adapter_config_keeps_what_the_spec_says() {
        let config = Config::builtin("tiny").unwrap();
        let spec = LoraSpec {
            rank_pattern: vec![("layers.1.self_attn.q_proj".into(), 3)],
            targets: crate::model::Targets::Names(vec![
                "q_proj".into(),
                "model.layers.1.mlp.down_proj".into(),
            ]),
            ..LoraSpec::all_linear(2, 4.0)
        };
        let plan = spec.resolve(&config).unwrap();
        let again = lora_spec(&adapter_config(&spec, None));
        assert_eq!(again.resolve(&config).unwrap(), plan);
    }
}
