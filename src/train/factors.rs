//! The LoRA factors of a step, each with its layers stacked, and their conversion from and to PEFT's tensors.

use std::collections::{BTreeMap, BTreeSet};

use ndarray::{Array2, Array3, s};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;

use crate::{
    base::{Diagnostic, Diagnostics, Literal, Location},
    model::{AdapterId, Config, Factor, Linear, LoraPlan, TrainableId, TrainableSpec, adapter_params, sizes},
};

/// One value for each trainable tensor: the tensor itself or its gradient.
pub type TrainableValues = BTreeMap<TrainableId, Literal>;

/// Initial adapters as in PEFT: `A` uniform within 1 / sqrt(in) (Kaiming with a = sqrt(5)), `B` zero, so that
/// the initial model is the base model. The numbers depend only on `seed`.
pub fn initial_factors(config: &Config, plan: &LoraPlan, seed: u64) -> TrainableValues {
    let mut random = ChaCha12Rng::seed_from_u64(seed);
    let mut stacks = Stacks::zeros(config, plan);
    for (layer, linear, adapted) in plan.iter() {
        let (inputs, _) = linear.features(config);
        let bound = 1.0 / (inputs as f32).sqrt();
        let stack = stacks.get_mut(factor_id(linear, Factor::A));
        for element in stack.slice_mut(s![layer, ..adapted.rank, ..]) {
            *element = random.random_range(-bound..bound);
        }
    }
    stacks.into_factors()
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
) -> Result<TrainableValues, Diagnostics> {
    check_tensors(tensors, config, plan, file).grouped(file).into_result(())?;
    // Memory is allocated only now that tensors of such ranks exist.
    let mut stacks = Stacks::zeros(config, plan);
    for tensor in peft_factors(config, plan) {
        let matrix = Array2::from_shape_vec(tensor.dims(), tensors[&tensor.name].to_f32s())
            .expect("the dimensions of every tensor are checked");
        let matrix = match tensor.factor {
            Factor::A => matrix.view(),
            Factor::B => matrix.t(),
        };
        stacks.get_mut(tensor.id).slice_mut(s![tensor.layer, ..tensor.rank, ..]).assign(&matrix);
    }
    Ok(stacks.into_factors())
}

fn check_tensors(
    tensors: &BTreeMap<String, Literal>,
    config: &Config,
    plan: &LoraPlan,
    file: &str,
) -> Diagnostics {
    let mut diagnostics = Diagnostics::default();
    let mut report = |name: &str, message: String| {
        diagnostics.push(Diagnostic::error(Location::file(file).at(name), message));
    };
    let mut known = BTreeSet::new();
    for tensor in peft_factors(config, plan) {
        let expected = tensor.dims();
        match tensors.get(&tensor.name) {
            None => report(&tensor.name, "this tensor is missing".into()),
            Some(found) if found.shape().dims != expected => {
                report(
                    &tensor.name,
                    format!("expected the sizes {expected:?}, found {:?}", found.shape().dims),
                );
            }
            Some(_) => {}
        }
        known.insert(tensor.name);
    }
    for name in tensors.keys().filter(|name| !known.contains(*name)) {
        report(name, "belongs to no adapted module of this model".into());
    }
    diagnostics
}

/// PEFT's tensors of stacked factors (or of their gradients): the inverse of [`stack_factors`].
///
/// # Panics
/// If the factors or shapes of `factors` are not those of `plan`.
pub fn peft_tensors(
    factors: &TrainableValues,
    config: &Config,
    plan: &LoraPlan,
) -> BTreeMap<String, Literal> {
    let stacks = Stacks::from_factors(factors);
    let to_literal = |tensor: PeftFactor| {
        let rows = stacks.get(tensor.id).slice(s![tensor.layer, ..tensor.rank, ..]);
        let matrix = match tensor.factor {
            Factor::A => rows,
            Factor::B => rows.reversed_axes(),
        };
        let values: Vec<f32> = matrix.iter().copied().collect();
        let literal = Literal::f32s(tensor.dims(), &values);
        (tensor.name, literal)
    };
    peft_factors(config, plan).map(to_literal).collect()
}

/// Names of the tensors of an adapter in PEFT's files.
pub(super) fn peft_names(config: &Config, plan: &LoraPlan) -> Vec<String> {
    peft_factors(config, plan).map(|tensor| tensor.name).collect()
}

/// The stack of one factor of a linear's adapters.
fn factor_id(linear: Linear, factor: Factor) -> TrainableId {
    TrainableId::Adapter(AdapterId { linear, factor })
}

/// A factor of one linear of one layer, as PEFT stores it.
struct PeftFactor {
    name: String,
    /// The stack that it is a slice of.
    id: TrainableId,
    factor: Factor,
    layer: usize,
    rank: usize,
    /// Input features of `A`, output features of `B`.
    features: usize,
}

impl PeftFactor {
    /// `A` is `[rank, in]`, `B` is `[out, rank]`.
    fn dims(&self) -> [usize; 2] {
        match self.factor {
            Factor::A => [self.rank, self.features],
            Factor::B => [self.features, self.rank],
        }
    }
}

fn peft_factors<'a>(config: &'a Config, plan: &'a LoraPlan) -> impl Iterator<Item = PeftFactor> + 'a {
    plan.iter().flat_map(|(layer, linear, adapted)| {
        let (inputs, outputs) = linear.features(config);
        [(Factor::A, inputs), (Factor::B, outputs)].map(|(factor, features)| PeftFactor {
            name: factor.peft_name(layer, linear),
            id: factor_id(linear, factor),
            factor,
            layer,
            rank: adapted.rank,
            features,
        })
    })
}

/// Factors as arrays.
struct Stacks(BTreeMap<TrainableId, Stack>);

struct Stack {
    /// Dimensions on the device; features may be several: heads and features of a head.
    dims: Vec<usize>,
    /// `[layers, rank, features]`.
    array: Array3<f32>,
}

impl Stack {
    fn new(dims: Vec<usize>, values: Vec<f32>) -> Self {
        let array = Array3::from_shape_vec([dims[0], dims[1], dims[2..].iter().product()], values);
        Self { dims, array: array.expect("as many values as elements") }
    }
}

impl Stacks {
    fn zeros(config: &Config, plan: &LoraPlan) -> Self {
        let zeros = |TrainableSpec { id, dims, .. }: TrainableSpec| {
            let dims = sizes(&dims);
            let values = vec![0.0; dims.iter().product()];
            (id, Stack::new(dims, values))
        };
        Self(adapter_params(config, plan).into_iter().map(zeros).collect())
    }

    fn from_factors(factors: &TrainableValues) -> Self {
        let stack = |(&id, literal): (&TrainableId, &Literal)| {
            (id, Stack::new(literal.shape().dims.clone(), literal.to_f32s()))
        };
        Self(factors.iter().map(stack).collect())
    }

    fn into_factors(self) -> TrainableValues {
        let literal = |(id, Stack { dims, array }): (TrainableId, Stack)| {
            let (values, _) = array.into_raw_vec_and_offset();
            (id, Literal::f32s(dims, &values))
        };
        self.0.into_iter().map(literal).collect()
    }

    fn get(&self, id: TrainableId) -> &Array3<f32> {
        &self.0.get(&id).expect("every adapted linear has both factors").array
    }

    fn get_mut(&mut self, id: TrainableId) -> &mut Array3<f32> {
        &mut self.0.get_mut(&id).expect("every adapted linear has both factors").array
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{LoraSpec, Targets};

    /// Ranks that differ between layers, and a linear that only one layer adapts.
    fn uneven() -> (Config, LoraPlan) {
        let config = Config::builtin("tiny").unwrap();
        let spec = LoraSpec {
            rank_pattern: vec![("layers.1.self_attn.q_proj".into(), 3)],
            targets: Targets::Names(vec!["q_proj".into(), "model.layers.1.mlp.down_proj".into()]),
            ..LoraSpec::all_linear(2, 4.0)
        };
        let plan = spec.resolve(&config).unwrap();
        (config, plan)
    }

    #[test]
    fn factors_survive_a_round_trip_to_peft() {
        let (config, plan) = uneven();
        let mut tensors = peft_tensors(&initial_factors(&config, &plan, 3), &config, &plan);
        for (index, literal) in tensors.values_mut().enumerate() {
            let values: Vec<f32> = (0..literal.shape().elements()).map(|i| (i + index) as f32).collect();
            *literal = Literal::f32s(literal.shape().dims.clone(), &values);
        }
        let factors = stack_factors(&tensors, &config, &plan, "f").unwrap();
        assert_eq!(peft_tensors(&factors, &config, &plan), tensors);
        let q = &factors[&factor_id(Linear::Query, Factor::A)];
        assert_eq!(q.shape().dims, [2, 3, 64]);
    }

    #[test]
    fn initial_factors_are_random_in_a_and_zero_in_b() {
        let (config, plan) = uneven();
        let factors = initial_factors(&config, &plan, 3);
        for (id, literal) in &factors {
            let values = literal.to_f32s();
            let moved = values.iter().filter(|value| **value != 0.0).count();
            let TrainableId::Adapter(AdapterId { factor, .. }) = id else { panic!("{id} is no factor") };
            match factor {
                Factor::A => assert!(moved > 0 && values.iter().all(|value| value.abs() <= 0.125)),
                Factor::B => assert_eq!(moved, 0),
            }
        }
        assert_ne!(factors, initial_factors(&config, &plan, 4));
    }

    #[test]
    fn wrong_tensors_are_all_named() {
        let (config, plan) = uneven();
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
    fn numbers_are_drawn_in_row_major_order_by_layer_and_linear() {
        let (config, plan) = uneven();
        let factors = initial_factors(&config, &plan, 3);
        let mut random = ChaCha12Rng::seed_from_u64(3);
        for (layer, linear, adapted) in plan.iter() {
            let inputs = linear.features(&config).0;
            let bound = 1.0 / (inputs as f32).sqrt();
            let values = factors[&factor_id(linear, Factor::A)].to_f32s();
            let start = layer * plan.max_rank(linear) * inputs;
            for value in &values[start..start + adapted.rank * inputs] {
                assert_eq!(value.to_bits(), random.random_range(-bound..bound).to_bits());
            }
        }
    }

    #[test]
    fn b_is_transposed_into_its_layer_and_padded_to_the_largest_rank() {
        let (config, plan) = uneven();
        let mut tensors = peft_tensors(&initial_factors(&config, &plan, 3), &config, &plan);
        let name = "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight";
        let values: Vec<f32> = (0..128).map(|i| i as f32 + 0.5).collect();
        tensors.insert(name.to_owned(), Literal::f32s([64, 2], &values));
        let factors = stack_factors(&tensors, &config, &plan, "f").unwrap();
        let stack = &factors[&factor_id(Linear::Query, Factor::B)];
        assert_eq!(stack.shape().dims, [2, 3, 4, 16]);
        let stack = stack.to_f32s();
        for (rank, feature) in (0..3).flat_map(|rank| (0..64).map(move |feature| (rank, feature))) {
            let expected = if rank < 2 { values[feature * 2 + rank] } else { 0.0 };
            assert_eq!(stack[rank * 64 + feature], expected, "{rank} {feature}");
        }
    }
}
