use std::{num::NonZeroUsize, path::Path};

use super::{run::out_folder, *};
use crate::{
    app::{AppError, Parsed, settings::Settings},
    base::DType,
    data::{HELD_OUT_QUESTION, QUICKSTART_HELD_OUT},
    model::{Config, LoraSpec},
    optim::{AdamW, Schedule},
    step::{Packing, StepOptions, Workload},
    train::{RunSettings, Start, TrainError},
};

fn plan(settings: Settings) -> Result<RunSettings, AppError> {
    let folder = tempfile::tempdir().unwrap();
    run_settings(&settings, BatchShards::ONE, folder.path())
}

/// The schedule of a run on 100 rows.
fn of_hundred(settings: Settings) -> Schedule {
    let size = plan(settings.clone()).unwrap().size;
    schedule(&settings, size.updates_per_epoch(100)).unwrap()
}

fn own_data() -> Settings {
    Settings { data: Some("rows.jsonl".into()), ..Settings::default() }
}

#[test]
fn the_quick_start_needs_no_settings() {
    let config = plan(Settings::default()).unwrap();
    assert_eq!((config.size.batch.get(), config.seq, config.size.accumulate.get()), (4, 128, 1));
    let schedule = of_hundred(Settings::default());
    assert_eq!((schedule.warmup_steps, schedule.total_steps), (5, 60));
    assert_eq!(config.lora, LoraSpec::all_linear(8, 16.0));
    assert_eq!(config.optimizer, AdamW { weight_decay: 0.0, ..AdamW::default() });
    assert_eq!(config.question.as_deref(), Some(HELD_OUT_QUESTION));
    let data = data(&Settings::default()).unwrap();
    assert_eq!((data.train.samples.len(), data.held_out.unwrap().samples.len()), (144, QUICKSTART_HELD_OUT));
}

#[test]
fn own_data_are_trained_on_for_one_epoch() {
    let config = plan(own_data()).unwrap();
    assert_eq!((config.seq, config.question), (512, None));
    let thirds = of_hundred(Settings { accumulate: Some(3), ..own_data() });
    assert_eq!((thirds.total_steps, thirds.warmup_steps), (9, 0));
    assert_eq!(of_hundred(Settings { batch: Some(1000), ..own_data() }).total_steps, 1);
    let fewer = schedule(&own_data(), 60).unwrap();
    assert_eq!((fewer.total_steps, fewer.warmup_steps), (60, 5));
    assert_eq!(schedule(&Settings { steps: Some(7), ..own_data() }, 60).unwrap().total_steps, 7);
}

#[test]
fn rows_are_packed_on_request() {
    let found =
        [None, Some(false), Some(true)].map(|pack| plan(Settings { pack, ..own_data() }).unwrap().packing);
    assert_eq!(found, [Packing::Off, Packing::Off, Packing::On]);
}

#[test]
fn a_twentieth_of_own_data_is_held_out() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.jsonl");
    let check = |rows: usize, held_out: Option<usize>, expect: [usize; 2]| {
        std::fs::write(&file, "{\"text\": \"a\"}\n".repeat(rows)).unwrap();
        let data = data(&Settings { data: Some(file.clone()), held_out, ..Settings::default() }).unwrap();
        assert_eq!([data.train.samples.len(), data.held_out.map_or(0, |rows| rows.samples.len())], expect);
    };
    check(19, None, [19, 0]);
    check(40, None, [38, 2]);
    check(2000, None, [1936, 64]);
    check(40, Some(0), [40, 0]);
    check(40, Some(10), [30, 10]);
}

#[test]
fn an_invalid_value_is_reported_with_its_setting() {
    let check = |settings: Settings, expect: &str| {
        assert_eq!(plan(settings).unwrap_err().to_string(), expect);
    };
    let none = Settings::default;
    check(Settings { steps: Some(0), ..none() }, "setting `steps`: expected at least 1, found: 0");
    check(Settings { batch: Some(0), ..none() }, "setting `batch`: expected at least 1, found: 0");
    check(Settings { accumulate: Some(0), ..none() }, "setting `accumulate`: expected at least 1, found: 0");
    check(Settings { seq: Some(1), ..none() }, "setting `seq`: expected at least 2, found: 1");
    check(
        Settings { batch: Some(usize::MAX), ..none() },
        "setting `batch`: expected at most 2147483647 tokens in a batch, found 18446744073709551615 rows of 128 tokens",
    );
    check(
        Settings { lr: Some(0.0), ..none() },
        "setting `lr`: expected a finite number above zero, found: 0",
    );
    check(
        Settings { lr: Some(f64::NAN), ..none() },
        "setting `lr`: expected a finite number above zero, found: NaN",
    );
    check(
        Settings { eps: Some(-1.0), ..none() },
        "setting `eps`: expected a finite number above zero, found: -1",
    );
    check(
        Settings { beta1: Some(1.0), ..none() },
        "setting `beta1`: expected a number from 0 to below 1, found: 1",
    );
    check(
        Settings { beta2: Some(-0.5), ..none() },
        "setting `beta2`: expected a number from 0 to below 1, found: -0.5",
    );
    check(
        Settings { weight_decay: Some(-0.1), ..none() },
        "setting `weight-decay`: expected zero or more, found: -0.1",
    );
    check(
        Settings { max_grad_norm: Some(0.0), ..none() },
        "setting `max-grad-norm`: expected a number above zero, found: 0",
    );
    check(Settings { resume: Some(true), ..none() }, "setting `resume`: requires setting `out`");
    assert!(plan(Settings { max_grad_norm: Some(f64::INFINITY), ..none() }).is_ok());
}

#[test]
fn several_devices_need_a_mesh() {
    assert_eq!(devices(None, None).unwrap().target().to_string(), "cpu:1");
    let several = Parsed("cpu:8".parse().unwrap());
    let error = devices(Some(&several), None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "setting `target`: expected a mesh config for the devices of cpu:8, found none"
    );
    let hint = "set one with setting `mesh`, such as mesh-configs/fsdp8.toml for eight devices, or setting `target = cpu`";
    assert_eq!(error.hint().as_deref(), Some(hint));
    let fsdp8 = Path::new(env!("CARGO_MANIFEST_DIR")).join("mesh-configs/fsdp8.toml");
    let found = devices(None, Some(&fsdp8)).unwrap();
    assert_eq!((found.target().to_string().as_str(), found.batch_shards()), ("cpu:8", 8));
}

#[test]
fn only_gpus_have_memory_options() {
    let found = |name: &str, fraction| {
        let named = Some(Parsed(name.parse().unwrap()));
        let settings = Settings { target: named, memory_fraction: Some(fraction), ..Settings::default() };
        target(&settings).map(|word| word.unwrap().0.client_options()).map_err(|error| error.to_string())
    };
    let options = vec![("memory_fraction", crate::pjrt::NamedValue::Float(0.5))];
    assert_eq!(found("mi300x:8", 0.5), Ok(options));
    let expect = "setting `target`: memory options apply to GPUs only, found: cpu:1";
    assert_eq!(found("cpu", 0.5), Err(expect.to_owned()));
    let expect = "setting `target`: expected a fraction of memory above 0 and at most 1, found: 1.5";
    assert_eq!(found("h100", 1.5), Err(expect.to_owned()));
}

#[test]
fn the_first_free_folder_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let free = || out_folder(None, Start::Fresh, folder).unwrap();
    assert_eq!(free(), folder.join("out"));
    for name in ["out", "out-2"] {
        std::fs::create_dir(folder.join(name)).unwrap();
    }
    std::fs::write(folder.join("out/adapter_model.safetensors"), "").unwrap();
    // A run that has only begun, or was killed.
    std::fs::write(folder.join("out-2/metrics.jsonl"), "").unwrap();
    assert_eq!(free(), folder.join("out-3"));
    let occupied = folder.join("out");
    let error = out_folder(Some(&occupied), Start::Fresh, folder).unwrap_err();
    assert!(matches!(error, AppError::Train(TrainError::Occupied(_))));
    assert_eq!(out_folder(Some(&occupied), Start::Resume, folder).unwrap(), occupied);
}

#[test]
fn micro_batches_must_divide_the_batch_and_what_the_mesh_shards() {
    let options = |shape: usize, micro_batches: usize, shards| {
        let micro_batches = NonZeroUsize::new(micro_batches);
        let settings = Settings { micro_batches, ..Settings::default() };
        options(&settings, BatchShape { batch: shape, seq: 16 }, shards).map(|_: StepOptions| ())
    };
    let check = |error: AppError, problem: &str, hint: &str| {
        assert_eq!(error.to_string(), format!("setting `micro-batches`: {problem}"));
        assert_eq!(error.hint().as_deref(), Some(hint));
    };
    assert!(options(6, 2, BatchShards::ONE).is_ok());
    check(
        options(6, 4, BatchShards::ONE).unwrap_err(),
        "4 micro-batches do not divide a batch of 6 rows",
        "for example setting `batch = 8`, the next batch that they divide",
    );
    let data4 = BatchShards { num_shards: 4, multiple: 4 };
    assert!(options(8, 2, data4).is_ok());
    check(
        options(6, 2, data4).unwrap_err(),
        "2 micro-batches of 4 shards each do not divide a batch of 6 rows",
        "for example setting `batch = 8`, the next batch that they divide",
    );
}

/// A plan for the micro-batches exists exactly where the settings are accepted.
#[test]
fn micro_batches_are_accepted_where_the_policy_allows_their_plan() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    let config = Config::builtin("tiny").unwrap();
    let lora = LoraSpec::all_linear(8, 16.0).resolve(&config).unwrap();
    let micro_batches = NonZeroUsize::new(2);
    for (policy, [even, uneven]) in
        [("error", [true, false]), ("replicate", [true, true]), ("pad", [true, true])]
    {
        let mesh = "[mesh]\ndata = 4\n[compute]\nbatch = \"data\"\n[policy]\nindivisible = ";
        std::fs::write(&file, format!("{mesh}{policy:?}\n")).unwrap();
        let devices = devices(None, Some(&file)).unwrap();
        let shards = BatchShards::from(&devices);
        for (batch, expect) in [(8, even), (6, uneven)] {
            let settings = Settings { batch: Some(batch), micro_batches, ..Settings::default() };
            let shape = batch_shape(&settings, DataSource::Own, shards).unwrap();
            let workload = Workload::new(&config, &lora, DType::F32, batch / 2, shape.seq);
            let accepted = options(&settings, shape, shards).is_ok();
            assert_eq!((accepted, devices.plan(workload).is_ok()), (expect, expect), "{policy}: {batch}");
        }
    }
}
