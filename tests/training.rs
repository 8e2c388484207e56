//! What a training step has to keep, on a tiny model and the CPU plugin.

use std::path::Path;

use hloom::{
    base::{DType, Literal},
    data::Batch,
    model::{AdapterId, LoraPlan, LoraSpec, Targets, TrainableId},
    pjrt::{Client, ProgramFormat},
    runtime::Engine,
    step::{Packing, Role, StepSpec, Workload},
    targets::Target,
    templates::TemplateLibrary,
    testing::{CpuBuild, cpu_plugin},
    train::{Model, Trainer, initial_factors, peft_tensors, stack_factors},
};

use crate::support::{Random, relative_error};

type Factors = std::collections::BTreeMap<TrainableId, Literal>;

const SEQ: usize = 8;

/// A model of two layers.
struct Fixture {
    model: Model,
    templates: TemplateLibrary,
}

impl Fixture {
    fn new() -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/llama31");
        Self { model: Model::open(&folder).unwrap(), templates: TemplateLibrary::embedded() }
    }

    fn plan(&self, spec: &LoraSpec) -> LoraPlan {
        spec.resolve(&self.model.config).unwrap_or_else(|diagnostics| panic!("{diagnostics}"))
    }

    fn trainer<'a>(&'a self, lora: &'a LoraPlan, batch: usize) -> (Trainer<'a>, Client) {
        self.trainer_of(lora, batch, Packing::Off)
    }

    fn trainer_of<'a>(&'a self, lora: &'a LoraPlan, batch: usize, packing: Packing) -> (Trainer<'a>, Client) {
        let engine =
            Engine::start(cpu_plugin(CpuBuild::Pinned), &Target::default(), ProgramFormat::Hlo).unwrap();
        let client = engine.client().clone();
        let workload =
            Workload { packing, ..Workload::new(&self.model.config, lora, DType::F32, batch, SEQ) };
        let spec = StepSpec::new(workload, &self.templates);
        (Trainer::new(engine, spec, &self.model.checkpoint, |_| ()).unwrap(), client)
    }

    /// Random factors, of which none is zero but the padding.
    fn factors(&self, plan: &LoraPlan) -> Factors {
        let mut random = Random::named("factors");
        let mut tensors =
            peft_tensors(&initial_factors(&self.model.config, plan, 0), &self.model.config, plan);
        for tensor in tensors.values_mut() {
            *tensor = random.array(DType::F32, &tensor.shape().dims, 0.1);
        }
        stack_factors(&tensors, &self.model.config, plan, "random").unwrap()
    }

    /// Rows of random tokens, so many of which count in each.
    fn batch(&self, name: &str, num_label_tokens: &[usize]) -> Batch {
        let mut random = Random::named(name);
        let ids: Vec<i32> = (0..num_label_tokens.len() * SEQ)
            .map(|_| random.below(self.model.config.vocab_size) as i32)
            .collect();
        let labels = ids.iter().enumerate().map(|(place, &id)| {
            if place % SEQ > SEQ - 1 - num_label_tokens[place / SEQ] { id } else { Batch::IGNORED }
        });
        let labels: Vec<i32> = labels.collect();
        let dims = [num_label_tokens.len(), SEQ];
        Batch::new(Literal::s32s(dims, &ids), Literal::s32s(dims, &labels))
    }

    /// Rows of samples of these lengths, the same samples for the same name however they stand in rows.
    fn samples(&self, name: &str, rows: &[&[usize]]) -> Batch {
        let mut random = Random::named(name);
        let (mut ids, mut segments) = (vec![], vec![]);
        for row in rows {
            for (&length, segment) in row.iter().zip(1..) {
                ids.extend((0..length).map(|_| random.below(self.model.config.vocab_size) as i32));
                segments.extend(vec![segment; length]);
            }
            let end = ids.len().next_multiple_of(SEQ);
            ids.resize(end, 0);
            segments.resize(end, 0);
        }
        let labels = ids.iter().zip(&segments).map(|(&id, &s)| if s == 0 { Batch::IGNORED } else { id });
        let labels: Vec<i32> = labels.collect();
        let [ids, segments, labels] =
            [ids, segments, labels].map(|values| Literal::s32s([rows.len(), SEQ], &values));
        Batch::with_segments(ids, segments, labels)
    }
}

fn all_linear() -> LoraSpec {
    LoraSpec::all_linear(3, 6.0)
}

/// Adapters and optimizer, as they are on the device.
fn state(trainer: &Trainer<'_>) -> (Vec<Factors>, Literal) {
    let roles = [Role::Trainable, Role::Moment1, Role::Moment2];
    let factors = roles.into_iter().map(|role| trainer.download(role).unwrap());
    (factors.collect(), trainer.get(Role::Updates).unwrap())
}

#[track_caller]
fn close(what: &str, found: &Factors, expected: &Factors, limit: f64) {
    assert_eq!(found.len(), expected.len());
    for (id, expected) in expected {
        let error = relative_error(&found[id].to_f64s(), &expected.to_f64s());
        assert!(error <= limit, "{what} of {id:?}: relative error {error:e}, the limit is {limit:e}");
    }
}

#[test]
fn a_batch_in_which_nothing_counts_changes_nothing() {
    let fixture = Fixture::new();
    let plan = fixture.plan(&all_linear());
    let (mut trainer, _) = fixture.trainer(&plan, 2);
    trainer.start(&fixture.factors(&plan)).unwrap();
    let fresh = state(&trainer);
    let something = fixture.batch("something", &[5, 2]);
    let nothing = fixture.batch("nothing", &[0, 0]);
    for _ in 0..2 {
        let before = state(&trainer);
        let step = trainer.step(&nothing, 1e-2).unwrap();
        assert_eq!((step.loss, step.grad_norm, step.num_label_tokens), (0.0, 0.0, 0));
        let step = trainer.step_accumulated(&[nothing.clone(), nothing.clone()], 1e-2).unwrap();
        assert_eq!((step.loss, step.grad_norm, step.num_label_tokens), (0.0, 0.0, 0));
        assert_eq!(trainer.evaluate([nothing.clone()]).unwrap(), 0.0);
        assert_eq!(state(&trainer), before);
        assert!(trainer.step(&something, 1e-2).unwrap().loss > 1.0);
    }
    let after = state(&trainer);
    assert_eq!(after.1, Literal::s32s([], &[2]));
    assert!(after.0.iter().zip(&fresh.0).all(|(after, fresh)| after != fresh));
}

#[test]
fn gradients_that_are_not_finite_change_nothing() {
    let fixture = Fixture::new();
    let plan = fixture.plan(&all_linear());
    let (mut trainer, _) = fixture.trainer(&plan, 1);
    let sane = fixture.factors(&plan);
    let huge = |literal: &Literal| {
        let values = literal.to_f64s().into_iter().map(|value| value * 1e30);
        Literal::from_f64s(literal.shape().clone(), values)
    };
    let insane: Factors = sane.iter().map(|(id, factor)| (*id, huge(factor))).collect();
    trainer.start(&insane).unwrap();
    let before = state(&trainer);
    let batch = fixture.batch("overflow", &[5]);
    assert!(!trainer.step(&batch, 1e-2).unwrap().grad_norm.is_finite());
    assert!(!trainer.step_accumulated(std::slice::from_ref(&batch), 1e-2).unwrap().grad_norm.is_finite());
    assert_eq!(state(&trainer), before);

    // Nothing of it is left in the accumulated gradients either.
    trainer.start(&sane).unwrap();
    assert!(trainer.step_accumulated(&[batch], 1e-2).unwrap().grad_norm.is_finite());
    assert_eq!(trainer.get(Role::Updates).unwrap(), Literal::s32s([], &[1]));
}

#[test]
fn micro_batches_are_the_one_batch_whatever_counts_in_each() {
    let fixture = Fixture::new();
    let plan = fixture.plan(&all_linear());
    let factors = fixture.factors(&plan);
    let whole = fixture.batch("uneven", &[7, 1, 4, 0]);
    let (mut at_once, _) = fixture.trainer(&plan, 4);
    let (mut row_by_row, _) = fixture.trainer(&plan, 1);
    at_once.start(&factors).unwrap();
    row_by_row.start(&factors).unwrap();

    let (loss, gradients) = at_once.gradients(std::slice::from_ref(&whole)).unwrap();
    let (loss_by_row, gradients_by_row) = row_by_row.gradients(&whole.rows()).unwrap();
    assert!((loss - loss_by_row).abs() < 1e-5 * loss);
    close("gradients", &gradients_by_row, &gradients, 1e-5);

    for _ in 0..3 {
        let step = at_once.step(&whole, 1e-3).unwrap();
        let by_row = row_by_row.step_accumulated(&whole.rows(), 1e-3).unwrap();
        assert_eq!((step.num_label_tokens, by_row.num_label_tokens), (12, 12));
        assert!((step.loss - by_row.loss).abs() < 1e-5 * step.loss);
        assert!((step.grad_norm - by_row.grad_norm).abs() < 1e-4 * step.grad_norm);
    }
    close("adapters", &row_by_row.trained().unwrap(), &at_once.trained().unwrap(), 1e-4);
}

#[test]
fn packed_samples_train_as_those_that_have_a_row_each() {
    let fixture = Fixture::new();
    let plan = fixture.plan(&all_linear());
    let factors = fixture.factors(&plan);
    let alone = fixture.samples("samples", &[&[5], &[3], &[4], &[2]]);
    let packed = fixture.samples("samples", &[&[5, 3], &[4, 2]]);
    assert_eq!((packed.num_label_tokens, alone.num_label_tokens), (10, 10));
    let (mut by_row, _) = fixture.trainer(&plan, 4);
    let (mut in_rows, _) = fixture.trainer_of(&plan, 2, Packing::On);
    by_row.start(&factors).unwrap();
    in_rows.start(&factors).unwrap();

    let expected = by_row.evaluate([alone.clone()]).unwrap();
    let found = in_rows.evaluate([packed.clone()]).unwrap();
    assert!((found - expected).abs() < 1e-5 * expected, "{found} instead of {expected}");
    let (_, expected) = by_row.gradients(std::slice::from_ref(&alone)).unwrap();
    let (_, found) = in_rows.gradients(std::slice::from_ref(&packed)).unwrap();
    close("gradients", &found, &expected, 1e-4);

    for _ in 0..3 {
        let expected = by_row.step(&alone, 1e-3).unwrap();
        let found = in_rows.step(&packed, 1e-3).unwrap();
        assert_eq!((found.num_label_tokens, expected.num_label_tokens), (10, 10));
        assert!((found.loss - expected.loss).abs() < 1e-5 * expected.loss, "{found:?}, not {expected:?}");
    }
    // Logits are asked of one sequence a row, whatever the step packs.
    let ids = &fixture.samples("more", &[&[8], &[8]]).input_ids;
    let (mut plain, _) = fixture.trainer(&plan, 2);
    plain.start(&in_rows.trained().unwrap()).unwrap();
    assert_eq!(in_rows.logits(ids).unwrap(), plain.logits(ids).unwrap());
}

#[test]
#[should_panic(expected = "a packed batch for a step that packs nothing")]
fn a_step_that_packs_nothing_takes_no_packed_batch() {
    let fixture = Fixture::new();
    let plan = fixture.plan(&all_linear());
    let (mut trainer, _) = fixture.trainer(&plan, 1);
    let _ = trainer.step(&fixture.samples("samples", &[&[5, 3]]), 1e-3);
}

/// Ranks and scales that differ from layer to layer, and linears that only one layer adapts.
fn uneven() -> LoraSpec {
    LoraSpec {
        targets: Targets::Names(vec![
            "q_proj".into(),
            "v_proj".into(),
            "model.layers.1.mlp.down_proj".into(),
        ]),
        rank_pattern: vec![("layers.0.self_attn.q_proj".into(), 2), ("layers.1.self_attn.v_proj".into(), 1)],
        alpha_pattern: vec![("layers.0.self_attn.v_proj".into(), 9.0)],
        ..LoraSpec::all_linear(4, 4.0)
    }
}

/// Checks that the rows past a layer's rank are zero, and that all others are not.
#[track_caller]
fn check_padding(factors: &Factors, plan: &LoraPlan) {
    for (id, stack) in factors {
        let rank = stack.shape().dims[1];
        let values = stack.to_f64s();
        let rows = values.chunks(values.len() / plan.layer_count() / rank);
        for (place, row) in rows.enumerate() {
            let (layer, row_of_layer) = (place / rank, place % rank);
            let TrainableId::Adapter(AdapterId { linear, .. }) = *id else { panic!("{id} is no factor") };
            let own = plan.get(layer, linear).map_or(0, |adapted| adapted.rank);
            let zero = row.iter().all(|&value| value == 0.0);
            assert_eq!(zero, row_of_layer >= own, "{id:?}, layer {layer}, row {row_of_layer}");
        }
    }
}

#[test]
fn padded_ranks_and_layers_without_adapter_stay_zero() {
    let fixture = Fixture::new();
    let plan = fixture.plan(&uneven());
    assert_eq!(plan.iter().count(), 5);
    let (mut trainer, _) = fixture.trainer(&plan, 2);
    trainer.start(&fixture.factors(&plan)).unwrap();
    let batch = fixture.batch("padding", &[6, 3]);
    let (_, gradients) = trainer.gradients(std::slice::from_ref(&batch)).unwrap();
    check_padding(&gradients, &plan);
    for _ in 0..3 {
        trainer.step(&batch, 1e-2).unwrap();
    }
    for factors in state(&trainer).0 {
        check_padding(&factors, &plan);
    }
}

#[test]
fn gradients_of_uneven_adapters_agree_with_the_difference_quotient_of_the_loss() {
    const STEP: f64 = 1e-3;
    let fixture = Fixture::new();
    let plan = fixture.plan(&uneven());
    let (mut trainer, _) = fixture.trainer(&plan, 2);
    let factors = fixture.factors(&plan);
    trainer.start(&factors).unwrap();
    let batch = fixture.batch("quotient", &[7, 4]);
    let (_, gradients) = trainer.gradients(std::slice::from_ref(&batch)).unwrap();
    for (id, gradient) in &gradients {
        // Along its own gradient, where the loss changes most.
        let size = gradient.to_f64s().iter().map(|g| g * g).sum::<f64>().sqrt();
        let mut loss = |step: f64| {
            let values = factors[id].to_f64s().into_iter().zip(gradient.to_f64s());
            let moved = values.map(|(x, g)| x + step * g / size);
            let moved = Literal::from_f64s(gradient.shape().clone(), moved);
            trainer.put(Role::Trainable(*id), &moved).unwrap();
            trainer.evaluate([batch.clone()]).unwrap()
        };
        // The loss carries seven digits: the step has to grow where it changes little.
        let step = STEP.max(1e-4 / size);
        let quotient = (loss(step) - loss(-step)) / (2.0 * step);
        loss(0.0);
        assert!((quotient - size).abs() < 0.01 * size, "{id:?}: gradient {size}, quotient {quotient}");
    }
}

#[test]
fn an_adapter_on_one_layer_trains_as_one_on_both_whose_other_half_is_zero() {
    let fixture = Fixture::new();
    let names = || Targets::Names(vec!["k_proj".into(), "up_proj".into()]);
    let one = fixture.plan(&LoraSpec { targets: names(), layers: vec![1], ..all_linear() });
    let both = fixture.plan(&LoraSpec { targets: names(), ..all_linear() });
    let factors = fixture.factors(&one);
    let batch = fixture.batch("layers", &[6, 5]);
    let train = |plan: &LoraPlan| {
        let (mut trainer, _) = fixture.trainer(plan, 2);
        trainer.start(&factors).unwrap();
        let losses: Vec<f64> = (0..5).map(|_| f64::from(trainer.step(&batch, 1e-2).unwrap().loss)).collect();
        (losses, trainer.trained().unwrap())
    };
    let (losses_of_one, of_one) = train(&one);
    let (losses_of_both, of_both) = train(&both);
    assert!(relative_error(&losses_of_one, &losses_of_both) < 1e-6);
    assert!(losses_of_one[4] < losses_of_one[0]);
    close("adapters", &of_one, &of_both, 1e-4);
    check_padding(&of_both, &one);
}

#[test]
fn steps_leave_no_buffer_behind() {
    let fixture = Fixture::new();
    let plan = fixture.plan(&all_linear());
    let (mut trainer, client) = fixture.trainer(&plan, 1);
    trainer.start(&fixture.factors(&plan)).unwrap();
    let batch = fixture.batch("leak", &[5]);
    let mut turn = || {
        trainer.step(&batch, 1e-3).unwrap();
        trainer.step_accumulated(&[batch.clone(), batch.clone()], 1e-3).unwrap();
        trainer.evaluate([batch.clone()]).unwrap();
        trainer.logits(&batch.input_ids).unwrap();
        client.live_buffers()
    };
    let after_one = turn();
    let after_many = (0..20).map(|_| turn()).last();
    assert_eq!(after_many, Some(after_one));
    drop(trainer);
    assert_eq!(client.live_buffers(), 0);
}

#[test]
fn two_runs_are_the_same_bit_for_bit() {
    let fixture = Fixture::new();
    let plan = fixture.plan(&all_linear());
    let train = || {
        let (mut trainer, _) = fixture.trainer(&plan, 2);
        trainer.start(&initial_factors(&fixture.model.config, &plan, 7)).unwrap();
        let batches = (0..5).map(|step| fixture.batch(&format!("batch {step}"), &[6, 3]));
        let losses: Vec<u32> =
            batches.map(|batch| trainer.step(&batch, 1e-2).unwrap().loss.to_bits()).collect();
        (losses, state(&trainer))
    };
    assert_eq!(train(), train());
}
