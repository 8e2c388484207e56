use std::{
    io::{self, Write},
    path::PathBuf,
};

use serde_json::json;

use super::{
    Answer, Env, Failure, Output, check_out_folder,
    device_args::network,
    progress::{Answers, ConsoleObserver, Reporter},
    render, run_file, worker, write_json,
};
use crate::{
    app::{
        AppError, ComputeType, Status,
        resolve::{self, BatchShards},
        resources::{NamedModel, Resources, templates},
        settings::Settings,
        train_from_bundle::{self, StepSource},
    },
    pjrt::ProgramFormat,
    runtime::Engine,
    step::StepSpec,
    train::{
        Encoded, RunConfig, Summary,
        run::{self, Ready, RunInput},
    },
};

/// Train a LoRA adapter.
///
/// Without arguments, runs the quick start: SmolLM2-135M-Instruct learns to answer like an old weaver, on the CPU.
/// Missing packages are fetched with `python3 -m pip`.
#[derive(clap::Args, Debug)]
pub(super) struct Train {
    /// TOML file with any of these settings; flags override it
    #[arg(long, value_name = "run.toml")]
    config: Option<PathBuf>,
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    output: Output,
}

impl Train {
    pub(super) fn run(self, env: &mut Env<'_>) -> Result<Answer, Failure> {
        let Self { config, settings, output } = self;
        let settings = match config {
            Some(file) => settings.or(run_file::read(&file, &env.home)?),
            None => settings,
        };
        settings.out.as_deref().map_or(Ok(()), check_out_folder)?;
        let bundle = train_from_bundle::open(&settings)?;
        let settings = match &bundle {
            Some(bundle) => train_from_bundle::settings(settings, bundle)?,
            None => settings,
        };
        let devices = resolve::devices(resolve::target(&settings)?.as_ref(), settings.mesh.as_deref())?;
        let data = resolve::data(&settings)?;
        let requested = resolve::run_settings(&settings, BatchShards::from(&devices), &env.folder)?;
        let templates = templates(settings.templates.as_deref(), Some(devices.target().platform()))?;
        if let Some(bundle) = &bundle {
            train_from_bundle::check_templates(&templates, bundle)?;
        }

        let resources = Resources::new(&env.store, network(settings.offline));
        let starter = worker::starter(env, settings.timeout)?;
        let mut reporter = Reporter::new(&mut *env.err, env.err_kind, output);
        let NamedModel { mut model, base } = resources.model(settings.model.as_deref(), &mut reporter)?;
        if let Some(bundle) = &bundle {
            bundle.check_model(&model.config)?;
        }
        let platforms = [devices.target().platform()];
        let compute_type = ComputeType::new(settings.dtype.as_ref(), model.config.dtype, &platforms);
        let base_storage = resolve::base_storage(settings.base.as_ref(), &model.config, compute_type.dtype);
        resources.quantize(&mut model, base_storage, &mut reporter)?;
        let lora =
            resolve::lora_plan(&requested.lora, &model.config).map_err(|diagnostics| match &bundle {
                Some(bundle) => train_from_bundle::wrong_manifest(bundle, &diagnostics),
                None => diagnostics.into(),
            })?;
        let workload = requested.workload(&model.config, &lora, compute_type.dtype, base_storage);
        let mesh = devices.plan(workload)?;
        let plugin =
            resources.plugin(devices.target(), settings.plugin.as_deref(), &starter, &mut reporter)?;
        let source = |bundle| StepSource::of(bundle, &settings, devices.target(), plugin.path());
        let source = bundle.as_ref().map(source).transpose()?;
        if let Some(source) = &source {
            reporter.line(&source.line(devices.target()));
        }

        let data = Encoded::new(&requested, &model, &data)?;
        // The number of rows is known only now: several samples may share one, and some are left out.
        let config = RunConfig {
            schedule: resolve::schedule(&settings, requested.size.updates_per_epoch(data.sequences()))?,
            settings: requested,
            dtype: compute_type.dtype,
            base_storage,
            base_model: Some(base),
        };

        compute_type.notice().iter().for_each(|notice| reporter.line(notice));
        let weight_bytes = workload.base_bytes();
        let mut observer = ConsoleObserver::new(&mut reporter, &config, weight_bytes, env.signals);
        let ready = |spec: &StepSpec<'_>| {
            let engine = Engine::start(plugin, devices.target(), ProgramFormat::Hlo)?;
            let step = bundle.as_ref().zip(source.as_ref());
            let step = step.map(|(bundle, source)| source.step(bundle, &engine, spec)).transpose()?;
            Ok::<_, AppError>(Ready { engine, step })
        };
        let input = RunInput { model: &model, data: &data, mesh: mesh.as_ref(), templates: &templates };
        let ran = run::run(&config, input, ready, &mut observer);
        let answers = observer.into_answers();
        reporter.done();
        let summary = ran?;
        if summary.steps < config.steps() {
            reporter.line(&format!(
                "stopped after step {} of {}\nto resume, run the same command with --resume --out {}",
                summary.steps,
                config.steps(),
                config.settings.out.display()
            ));
        }
        write_summary(&mut *env.out, &summary, answers.as_ref(), output)?;
        Ok(Answer::Yes)
    }
}

fn write_summary(
    out: &mut dyn Write,
    summary: &Summary,
    answers: Option<&Answers>,
    output: Output,
) -> io::Result<()> {
    if !output.json {
        return out.write_all(text(summary, answers).as_bytes());
    }
    let mut object = serde_json::to_value(summary)?;
    object["answers"] = json!(answers);
    write_json(out, &object)
}

fn text(summary: &Summary, answers: Option<&Answers>) -> String {
    let Summary {
        steps,
        steps_planned,
        steps_before,
        samples_seen,
        label_tokens_seen,
        loss_first,
        loss_last,
        held_out_before,
        held_out_after,
        tokens_per_second,
        adapter,
    } = summary;
    let mut text = String::new();
    let mut row = |name: &str, value: String| text.push_str(&format!("{name:<15}{value}\n"));
    let stopped = if steps < steps_planned { format!(" of {steps_planned}") } else { String::new() };
    let resumed = if *steps_before > 0 { format!(", {steps_before} of them before") } else { String::new() };
    row("steps", format!("{steps}{stopped}{resumed}"));
    let tokens = render::count(*label_tokens_seen as usize, "labelled token", "labelled tokens");
    row("samples", format!("{samples_seen} seen, {tokens}"));
    if let (Some(first), Some(last)) = (loss_first, loss_last) {
        row("loss", format!("{first:.4} -> {last:.4}"));
    }
    match (held_out_before, held_out_after) {
        (Some(before), Some(after)) => row("held-out loss", format!("{before:.4} -> {after:.4}")),
        (Some(before), None) => row("held-out loss", format!("{before:.4} before training")),
        (None, _) => {}
    }
    if let Some(rate) = tokens_per_second {
        row("tokens/s", format!("{rate:.0}"));
    }
    row("adapter", adapter.display().to_string());
    if let Some(Answers { question, before, after }) = answers {
        text.push_str(&format!("\n{question}\n"));
        let first = if *steps_before > 0 { "resumed:" } else { "before:" };
        let answers = [(first, before), ("after:", after)];
        for (when, answer) in answers.into_iter().filter_map(|(when, answer)| Some((when, answer.as_ref()?)))
        {
            let answer = answer.trim().replace('\n', "\n           ");
            text.push_str(&format!("  {when:<9}{answer}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> Summary {
        Summary {
            steps: 60,
            steps_planned: 60,
            steps_before: 0,
            samples_seen: 240,
            label_tokens_seen: 4807,
            loss_first: Some(2.5),
            loss_last: Some(0.75),
            held_out_before: Some(2.25),
            held_out_after: Some(0.875),
            tokens_per_second: Some(511.6),
            adapter: "out".into(),
        }
    }

    #[test]
    fn a_summary_shows_what_training_did() {
        let answers = Answers {
            question: "why?".into(),
            before: Some("so".into()),
            after: Some(" because\nof that".into()),
        };
        let expect = "steps          60\n\
                      samples        240 seen, 4807 labelled tokens\n\
                      loss           2.5000 -> 0.7500\n\
                      held-out loss  2.2500 -> 0.8750\n\
                      tokens/s       512\n\
                      adapter        out\n\
                      \n\
                      why?\n  before:  so\n  after:   because\n           of that\n";
        assert_eq!(text(&summary(), Some(&answers)), expect);
    }

    #[test]
    fn what_did_not_happen_is_left_out() {
        let stopped = Summary {
            steps: 40,
            steps_before: 30,
            held_out_after: None,
            loss_first: None,
            tokens_per_second: None,
            ..summary()
        };
        let expect = "steps          40 of 60, 30 of them before\n\
                      samples        240 seen, 4807 labelled tokens\nheld-out loss  2.2500 before training\nadapter        out\n";
        assert_eq!(text(&stopped, None), expect);
    }

    #[test]
    fn the_json_object_has_the_fields_that_scripts_rely_on() {
        let mut out = Vec::new();
        write_summary(&mut out, &summary(), None, Output { json: true, quiet: true }).unwrap();
        let object: serde_json::Value = serde_json::from_slice(&out).unwrap();
        let expect = json!({
            "steps": 60, "steps_planned": 60, "steps_before": 0, "samples_seen": 240, "label_tokens_seen": 4807,
            "loss_first": 2.5, "loss_last": 0.75, "held_out_before": 2.25, "held_out_after": 0.875,
            "tokens_per_second": 511.6, "adapter": "out", "answers": null,
        });
        assert_eq!(object, expect);
    }
}
