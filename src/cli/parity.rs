use std::path::PathBuf;

use serde_json::json;

use super::{
    Answer, Env, Failure, Output, device_args::RunArgs, invalid, progress::Reporter, render, write_json,
};
use crate::{
    app::{
        Parsed, Status,
        resolve::{self, BatchShape, BatchShards},
        resources::NamedModel,
        settings::{Settings, StepOptionArgs},
    },
    base::{DType, Setting},
    model::BaseStorage,
    pjrt::ProgramFormat,
    runtime::Engine,
    train::parity::{CaseFiles, ParityCase, ParityReport, ParityRow, ParitySetup},
};

/// Compare logits, losses, gradients and training with reference values.
///
/// Exits with 1 if any error exceeds its limit. `tests/golden/generate.py` computes reference values of any model.
#[derive(clap::Args, Debug)]
pub(super) struct Parity {
    /// A Hugging Face folder, a GGUF file, or `smollm2-135m`
    #[arg(long, value_name = "NAME|DIR")]
    model: String,
    /// Adapter folder [default: the model's folder, if it contains one]
    #[arg(long, value_name = "DIR")]
    adapter: Option<PathBuf>,
    /// What the case trains: `lora`, an adapter, or `all` weights
    #[arg(long, value_name = "WHAT", default_value = "lora", conflicts_with = "adapter")]
    train: TrainedPart,
    /// Reference values; the .json file of the same name contains the optimizer's settings
    #[arg(long, value_name = "F.safetensors")]
    expected: PathBuf,
    #[command(flatten)]
    options: StepOptionArgs,
    /// The element type of weights and activations: float32 or bfloat16 [default: float32, which the limits assume]
    #[arg(long, value_name = "TYPE")]
    dtype: Option<Parsed<DType>>,
    /// Storage of frozen weights: nf4, nf4-double, int8, hqq4, q4_0, q8_0, bf16 or f32
    #[arg(long, value_name = "FORMAT")]
    base: Option<Parsed<BaseStorage>>,
    #[command(flatten)]
    device: RunArgs,
    #[command(flatten)]
    output: Output,
}

/// What a case trains.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum TrainedPart {
    Lora,
    All,
}

impl Parity {
    pub(super) fn run(self, env: &mut Env<'_>) -> Result<Answer, Failure> {
        let Self { model, adapter, train, expected, options, dtype, base, device, output } = self;
        let settings = Settings::from(options);
        let missing = || {
            let problem = format!("expected an adapter, found none in: {model}");
            let hint = "set the folder of the adapter with --adapter, or --train all if the case has none";
            invalid(Setting::Adapter, problem, hint)
        };
        let adapter = match train {
            TrainedPart::All => None,
            TrainedPart::Lora => {
                let beside = PathBuf::from(&model);
                let beside = || beside.join("adapter_config.json").is_file().then_some(beside);
                Some(adapter.or_else(beside).ok_or_else(missing)?)
            }
        };
        let devices = device.devices()?;
        let templates = device.templates(&devices)?;
        let starter = device.starter(env)?;
        let mut reporter = Reporter::new(&mut *env.err, env.err_kind, output);
        let resources = device.resources(&env.store);
        let NamedModel { model, .. } = resources.model(Some(&model), &mut reporter)?;
        let plugin = device.plugin(&devices, &resources, &starter, &mut reporter)?;

        reporter.phase("comparing");
        let case = ParityCase::open(&model, CaseFiles { adapter: adapter.as_deref(), expected: &expected })?;
        let [batch, seq] = case.batch_size(devices.batch_shards());
        let dtype = dtype.map_or(DType::F32, |dtype| dtype.0);
        let setup = ParitySetup {
            devices: &devices,
            dtype,
            base: resolve::base_storage(base.as_ref(), &model.config, dtype),
            options: resolve::options(&settings, BatchShape { batch, seq }, BatchShards::from(&devices))?,
            templates: &templates,
        };
        let engine = || Ok(Engine::start(plugin.clone(), devices.target(), ProgramFormat::Hlo)?);
        let ParityReport { mut rows, warnings } = case.compare(setup, engine)?;
        warnings.iter().for_each(|warning| reporter.warning(warning));
        reporter.done();

        let passed = rows.iter().all(ParityRow::passed);
        if output.json {
            write_json(&mut *env.out, &json!({ "passed": passed, "tensors": rows }))?;
        } else {
            rows.sort_by(|a, b| limit_ratio(a).total_cmp(&limit_ratio(b)));
            env.out.write_all(table(&rows).as_bytes())?;
        }
        Ok(passed.into())
    }
}

/// The error divided by its limit; infinite for NaN, which sorts last.
fn limit_ratio(row: &ParityRow) -> f64 {
    if row.error.is_nan() { f64::INFINITY } else { row.error / row.limit }
}

/// Formats a line for each row, then the number of values beyond their limits.
fn table(rows: &[ParityRow]) -> String {
    // The common prefix of adapter tensors would make the lines too long for a terminal.
    let short = |row: &ParityRow| row.name.replace("base_model.model.model.", "");
    let width = rows.iter().map(|row| short(row).len()).max().unwrap_or(0);
    let mut text = String::new();
    text.push_str(&format!("{:<width$}  {:>9}  {:>9}\n", "", "error", "limit"));
    for row in rows {
        let (name, ParityRow { name: _, error, limit }) = (short(row), row);
        let status = if row.passed() { "ok" } else { "FAILED" };
        text.push_str(&format!("{name:<width$}  {error:>9.2e}  {limit:>9.2e}  {status}\n"));
    }
    let failed = rows.iter().filter(|row| !row.passed()).count();
    let all = render::count(rows.len(), "value", "values");
    text.push_str(&match failed {
        0 => format!("\n{all} compared, all within their limits\n"),
        _ => format!("\n{failed} of {all} beyond their limits\n"),
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_by_error_with_nan_last() {
        let row = |name: &str, error, limit| ParityRow { name: name.into(), error, limit };
        let mut rows = vec![row("nan", f64::NAN, 1.0), row("bad", 2.0, 1.0), row("good", 1e-7, 1e-4)];
        rows.sort_by(|a, b| limit_ratio(a).total_cmp(&limit_ratio(b)));
        let expect = concat!(
            "          error      limit\n",
            "good    1.00e-7    1.00e-4  ok\n",
            "bad      2.00e0     1.00e0  FAILED\n",
            "nan         NaN     1.00e0  FAILED\n",
            "\n2 of 3 values beyond their limits\n",
        );
        assert_eq!(table(&rows), expect);
        assert!(table(&rows[..1]).ends_with("\n1 value compared, all within their limits\n"));
    }
}
