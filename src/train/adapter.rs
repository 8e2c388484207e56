//! Converts PEFT's adapters, one pair of matrices per module, to and from the stacked factors of a step.

use std::collections::{BTreeMap, BTreeSet};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;

use crate::{
    base::{ArrayShape, DType, Diagnostic, Diagnostics, Literal, Location},
    model::{
        AdapterId, AdapterSpec, Config, Factor, Linear, LoraPlan, LoraSpec, ParamSpec, PeftFields,
        PeftModules, adapter_params, base_params, layer_params, sizes,
    },
    weights::{Adapter, AdapterConfig, Patterns, Targets},
};

/// The stacked factors, by role.
pub type Factors = BTreeMap<AdapterId, Literal>;

/// Initial adapters as in PEFT: `A` uniform within 1 / sqrt(in) (Kaiming with a = sqrt(5)), `B` zero, so that
/// the model starts unchanged. The numbers depend only on `seed`.
pub fn initial_factors(config: &Config, plan: &LoraPlan, seed: u64) -> Factors {
    let mut random = ChaCha12Rng::seed_from_u64(seed);
    let mut factors = empty_factors(config, plan);
    for (layer, linear, adapted) in plan.iter() {
        let (inputs, _) = linear.features(config);
        let bound = 1.0 / (inputs as f32).sqrt();
        let stack = factors.get_mut(&AdapterId { linear, factor: Factor::A });
        let rows = stack.map(|stack| layer_rows(stack, layer, adapted.rank, inputs)).unwrap_or_default();
        for element in rows.chunks_exact_mut(4) {
            element.copy_from_slice(&random.random_range(-bound..bound).to_le_bytes());
        }
    }
    factors
}

/// Stacks PEFT's tensors for a step. `B` is transposed so that the rank comes first; smaller ranks are padded
/// with zeros.
///
/// # Errors
/// Every tensor that is missing, has the wrong shape, or belongs to no adapted module. `file` is their file.
pub fn stack_factors(
    tensors: &BTreeMap<String, Literal>,
    config: &Config,
    plan: &LoraPlan,
    file: &str,
) -> Result<Factors, Diagnostics> {
    let mut diagnostics = Diagnostics::default();
    check_tensors(tensors, config, plan, file, &mut diagnostics);
    diagnostics.grouped(file).into_result(())?;
    // Ranks are trusted only now that tensors of such sizes exist.
    let mut factors = empty_factors(config, plan);
    for (name, id, layer, [rank, features]) in entries(config, plan) {
        let Some(tensor) = tensors.get(&name) else { continue };
        let values = tensor.to_f32s();
        let Some(stack) = factors.get_mut(&id) else { continue };
        let rows = layer_rows(stack, layer, rank, features);
        for (location, element) in rows.chunks_exact_mut(4).enumerate() {
            let source = match id.factor {
                Factor::A => location,
                Factor::B => location % features * rank + location / features,
            };
            element.copy_from_slice(&values[source].to_le_bytes());
        }
    }
    Ok(factors)
}

fn check_tensors(
    tensors: &BTreeMap<String, Literal>,
    config: &Config,
    plan: &LoraPlan,
    file: &str,
    diagnostics: &mut Diagnostics,
) {
    let mut find = |name: &str, message: String| {
        diagnostics.push(Diagnostic::error(Location::file(file).at(name), message));
    };
    let mut known = BTreeSet::new();
    for (name, id, _, [rank, features]) in entries(config, plan) {
        let expected = match id.factor {
            Factor::A => [rank, features],
            Factor::B => [features, rank],
        };
        match tensors.get(&name) {
            None => find(&name, "this tensor is missing".into()),
            Some(tensor) if tensor.shape().dims != expected => {
                find(&name, format!("expected the sizes {expected:?}, found {:?}", tensor.shape().dims));
            }
            Some(_) => {}
        }
        known.insert(name);
    }
    for name in tensors.keys().filter(|name| !known.contains(*name)) {
        find(name, "belongs to no adapted module of this model".into());
    }
}

/// PEFT's tensors of stacked factors (or of their gradients): the inverse of [`stack_factors`].
pub fn peft_tensors(factors: &Factors, config: &Config, plan: &LoraPlan) -> BTreeMap<String, Literal> {
    let tensor = |(name, id, layer, [rank, features]): Entry| {
        let stack = factors.get(&id)?;
        let each = stack.shape().bytes() / config.num_hidden_layers;
        let rows = &stack.bytes()[layer * each..layer * each + rank * features * 4];
        let rows = Literal::from_bytes(ArrayShape::new(DType::F32, [rank, features]), rows.to_vec());
        let literal = match id.factor {
            Factor::A => rows,
            Factor::B => {
                let rows = rows.to_f32s();
                let turned: Vec<f32> = (0..rows.len())
                    .map(|location| rows[location % rank * features + location / rank])
                    .collect();
                Literal::f32s([features, rank], &turned)
            }
        };
        Some((name, literal))
    };
    entries(config, plan).filter_map(tensor).collect()
}

/// The adapters that an adapter_config.json describes.
pub fn lora_spec(config: &AdapterConfig) -> LoraSpec {
    let modules = |targets: &Targets| match targets {
        Targets::Names(names) => PeftModules::List(names.clone()),
        Targets::Pattern(pattern) => PeftModules::One(pattern.clone()),
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
        PeftModules::One(pattern) => Targets::Pattern(pattern),
        PeftModules::List(names) => Targets::Names(names),
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
    pub factors: Factors,
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
    let placed = |diagnostics: Diagnostics| {
        let placed = |mut diagnostic: Diagnostic| {
            diagnostic.location.file = format!("{folder}/adapter_config.json");
            diagnostic
        };
        Diagnostics(diagnostics.0.into_iter().map(placed).collect())
    };
    let (plan, unused) = lora_spec(&adapter.config).resolve_saved(config).map_err(placed)?;
    let mut warnings = placed(unused).0;
    warnings.iter_mut().for_each(|warning| warning.message.push_str("; ignored"));
    let file = format!("{folder}/adapter_model.safetensors");
    let names: Vec<String> = entries(config, &plan).map(|(name, ..)| name).collect();
    let own: BTreeSet<String> =
        base_params(config).iter().chain(&layer_params(config)).flat_map(ParamSpec::stored_names).collect();
    let expected = names.iter().map(String::as_str).collect();
    warnings.extend(adapter.fit_names(&expected, |name| own.contains(name), &file)?);
    adapter.check_pairs(&file)?;
    let factors = stack_factors(&adapter.tensors, config, &plan, &file)?;
    Ok(OpenedAdapter { plan, factors, warnings })
}

/// A tensor of a PEFT adapter: its name, which stack it goes to, the layer, and its rank and features.
type Entry = (String, AdapterId, usize, [usize; 2]);

fn entries<'a>(config: &'a Config, plan: &'a LoraPlan) -> impl Iterator<Item = Entry> + 'a {
    plan.iter().flat_map(|(layer, linear, adapted)| {
        let (inputs, outputs) = linear.features(config);
        [(Factor::A, inputs), (Factor::B, outputs)].map(|(factor, features)| {
            (
                module_tensor(layer, linear, factor),
                AdapterId { linear, factor },
                layer,
                [adapted.rank, features],
            )
        })
    })
}

fn module_tensor(layer: usize, linear: Linear, factor: Factor) -> String {
    format!("base_model.model.{}{}", linear.module_name(layer), factor.tensor_suffix())
}

fn empty_factors(config: &Config, plan: &LoraPlan) -> Factors {
    let zeros = |spec: AdapterSpec| (spec.id, Literal::zeros(ArrayShape::new(DType::F32, sizes(&spec.dims))));
    adapter_params(config, plan).into_iter().map(zeros).collect()
}

/// The bytes of the first `rank` rows of a stack at `layer`.
fn layer_rows(stack: &mut Literal, layer: usize, rank: usize, features: usize) -> &mut [u8] {
    let each = stack.shape().bytes() / stack.shape().dims[0];
    &mut stack.bytes_mut()[layer * each..layer * each + rank * features * 4]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranks that differ between layers, and a linear that only one layer adapts.
    fn uneven() -> (Config, LoraSpec, LoraPlan) {
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
        (config, spec, plan)
    }

    #[test]
    fn factors_survive_the_way_to_peft_and_back() {
        let (config, _, plan) = uneven();
        let mut tensors = peft_tensors(&initial_factors(&config, &plan, 3), &config, &plan);
        for (index, literal) in tensors.values_mut().enumerate() {
            let values: Vec<f32> = (0..literal.shape().elements()).map(|i| (i + index) as f32).collect();
            *literal = Literal::f32s(literal.shape().dims.clone(), &values);
        }
        let factors = stack_factors(&tensors, &config, &plan, "f").unwrap();
        assert_eq!(peft_tensors(&factors, &config, &plan), tensors);
        let q = &factors[&AdapterId { linear: Linear::Query, factor: Factor::A }];
        assert_eq!(q.shape().dims, [2, 3, 64]);
    }

    #[test]
    fn a_start_is_random_in_a_and_zero_in_b() {
        let (config, _, plan) = uneven();
        let factors = initial_factors(&config, &plan, 3);
        for (id, literal) in &factors {
            let values = literal.to_f32s();
            let moved = values.iter().filter(|value| **value != 0.0).count();
            match id.factor {
                Factor::A => assert!(moved > 0 && values.iter().all(|value| value.abs() <= 0.125)),
                Factor::B => assert_eq!(moved, 0),
            }
        }
        assert_ne!(factors, initial_factors(&config, &plan, 4));
    }

    #[test]
    fn wrong_tensors_are_all_named() {
        let (config, _, plan) = uneven();
        let mut tensors = peft_tensors(&initial_factors(&config, &plan, 3), &config, &plan);
        let q = "base_model.model.model.layers.0.self_attn.q_proj";
        tensors.remove(&format!("{q}.lora_A.weight"));
        tensors.insert(format!("{q}.lora_B.weight"), Literal::f32s([2, 64], &[0.0; 128]));
        tensors.insert("x.lora_A.weight".into(), Literal::f32s([1], &[0.0]));
        let diagnostics = stack_factors(&tensors, &config, &plan, "f").unwrap_err();
        let expected = format!(
            "f: `{q}.lora_A.weight`: this tensor is missing\n\
             f: `{q}.lora_B.weight`: expected the sizes [64, 2], found [2, 64]\n\
             f: `x.lora_A.weight`: belongs to no adapted module of this model"
        );
        assert_eq!(diagnostics.to_string(), expected);
    }

    #[test]
    fn an_adapter_config_keeps_what_the_spec_says() {
        let (config, spec, plan) = uneven();
        let again = lora_spec(&adapter_config(&spec, None));
        assert_eq!(again.resolve(&config).unwrap(), plan);
    }
}
