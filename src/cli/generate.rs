use std::path::PathBuf;

use serde_json::json;

use super::{Answer, Env, Failure, Output, device_args::RunArgs, invalid, progress::Reporter, write_json};
use crate::{
    app::{AppError, ComputeType, Parsed, Status, resolve, resources::NamedModel},
    base::{DType, Setting},
    data::{DataError, Ending, Message, MessageRole, SpecialTokens, TemplateInputs, Tokenizer},
    model::{BaseStorage, LoraPlan},
    optim::AdamW,
    pjrt::ProgramFormat,
    runtime::Engine,
    step::{StepOptions, StepSpec, Workload},
    train::{Trainer, generate, open_adapter},
    weights::read_adapter,
};

/// Row lengths are rounded up to a multiple of this number of tokens.
const LENGTH_STEP: usize = 64;

/// Generate text greedily, with or without an adapter.
///
/// Appends the most likely token at each step. There is no KV cache: each step runs over the entire row, so this is slow.
#[derive(clap::Args, Debug)]
pub(super) struct Generate {
    /// A Hugging Face folder, a GGUF file, or `smollm2-135m`
    #[arg(long, value_name = "NAME|DIR")]
    model: String,
    /// Adapter folder
    #[arg(long, value_name = "DIR")]
    adapter: Option<PathBuf>,
    /// Prompt: a user message, or text to continue with --raw
    #[arg(long, value_name = "TEXT")]
    prompt: String,
    /// Continue the prompt as it is, without the chat template
    #[arg(long)]
    raw: bool,
    /// Maximum number of tokens to generate
    #[arg(long, value_name = "N", default_value_t = 64)]
    max_new_tokens: usize,
    /// Row length in tokens [default: prompt and new tokens, rounded up to a multiple of 64]
    #[arg(long, value_name = "N")]
    seq: Option<usize>,
    /// The element type of weights and activations: float32 or bfloat16 [default: float32 on CPUs, else the type that
    /// the model's config names]
    #[arg(long, value_name = "TYPE")]
    dtype: Option<Parsed<DType>>,
    /// Storage of the weights: nf4, nf4-double, int8, hqq4, q4_0, q8_0, bf16 or f32 [default: quantized as the model's files
    /// are, else the element type of activations]
    #[arg(long, value_name = "FORMAT")]
    base: Option<Parsed<BaseStorage>>,
    #[command(flatten)]
    device: RunArgs,
    #[command(flatten)]
    output: Output,
}

impl Generate {
    pub(super) fn run(self, env: &mut Env<'_>) -> Result<Answer, Failure> {
        let Self { model, adapter, prompt, raw, max_new_tokens, seq, dtype, base, device, output } = self;
        let devices = device.devices()?;
        let templates = device.templates(&devices)?;
        let starter = device.starter(env)?;
        let mut reporter = Reporter::new(&mut *env.err, env.err_kind, output);
        let resources = device.resources(&env.store);
        let NamedModel { mut model, .. } = resources.model(Some(&model), &mut reporter)?;
        let platforms = [devices.target().platform()];
        let compute_type = ComputeType::new(dtype.as_ref(), model.config.dtype, &platforms);
        let base = resolve::base_storage(base.as_ref(), &model.config, compute_type.dtype);
        resources.quantize(&mut model, base, &mut reporter)?;
        let config = &model.config;
        let tokenizer = model.tokenizer(std::time::SystemTime::now())?;
        let prompt = encode(&tokenizer, &prompt, if raw { Form::Raw } else { Form::Chat })?;
        if let Some(&id) = prompt.iter().max().filter(|id| **id as usize >= config.vocab_size) {
            let file = model.files.path().display().to_string();
            return Err(DataError::BeyondModel { file, vocab: config.vocab_size, id }.into());
        }
        let seq = length(prompt.len(), max_new_tokens, seq, config.max_position_embeddings)?;
        generate::check_room(prompt.len(), seq, Setting::Prompt)?;
        let (plan, factors) = match &adapter {
            Some(folder) => {
                let opened = open_adapter(read_adapter(folder)?, config, &folder.display().to_string())?;
                opened.warnings.iter().for_each(|warning| reporter.warning(&warning.to_string()));
                (opened.plan, opened.factors)
            }
            None => (LoraPlan::none(config), Default::default()),
        };

        compute_type.notice().iter().for_each(|notice| reporter.line(notice));
        let dtype = compute_type.dtype;

        let workload = Workload { base, ..Workload::new(config, &plan, dtype, 1, seq) };
        // A single row is not sharded over the batch axes of the mesh.
        let mesh = devices.plan(Workload { batch: devices.batch_shards(), ..workload })?;
        let plugin = device.plugin(&devices, &resources, &starter, &mut reporter)?;
        let spec = StepSpec {
            workload,
            options: StepOptions::for_length(seq),
            optimizer: AdamW::default(),
            max_grad_norm: f64::INFINITY,
            templates: &templates,
            mesh: mesh.as_ref(),
        };
        let weight_bytes = workload.base_bytes();
        let engine = Engine::start(plugin, devices.target(), ProgramFormat::Hlo)?;
        let mut trainer =
            Trainer::new(engine, spec, &model.checkpoint, |bytes| reporter.loaded(bytes, weight_bytes))?;
        trainer.start(&factors)?;
        reporter.phase("generating");
        let ids = generate::greedy(&mut trainer, &prompt, max_new_tokens, &tokenizer)?;
        trainer.take_warnings().iter().for_each(|warning| reporter.warning(warning));
        reporter.done();

        let text = tokenizer.decode(&ids, SpecialTokens::Skip)?;
        if output.json {
            write_json(&mut *env.out, &json!({ "ids": ids, "text": text }))?;
        } else {
            writeln!(env.out, "{text}")?;
        }
        Ok(Answer::Yes)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// As a user message, if the model has a chat template.
    Chat,
    Raw,
}

fn encode(tokenizer: &Tokenizer, prompt: &str, form: Form) -> Result<Vec<u32>, DataError> {
    match tokenizer.chat_template() {
        Ok(template) if form == Form::Chat => {
            let text = template.render(
                &[Message::new(MessageRole::User, prompt)],
                &TemplateInputs::default(),
                Ending::Prompt,
            )?;
            tokenizer.encode_plain(&text)
        }
        Err(error @ DataError::NoDefaultTemplate { .. }) if form == Form::Chat => Err(error),
        _ => tokenizer.encode(prompt),
    }
}

/// Returns the row length in tokens: the given one, else the next multiple of [`LENGTH_STEP`] that fits `prompt` tokens and
/// `new` more.
fn length(prompt: usize, new: usize, given: Option<usize>, max: usize) -> Result<usize, AppError> {
    if let Some(seq) = given {
        return match i32::try_from(seq) {
            Ok(2..) => Ok(seq),
            _ => Err(invalid(
                Setting::Seq,
                format!("expected 2 to {}, found: {seq}", i32::MAX),
                "leave it out: the default fits the prompt and the new tokens",
            )),
        };
    }
    let needed = prompt.saturating_add(new);
    if needed > max {
        let problem =
            format!("expected at most {} after this prompt, found: {new}", max.saturating_sub(prompt));
        let hint = format!("the model supports {max} tokens; {} allows more", Setting::Seq);
        return Err(invalid(Setting::MaxNewTokens, problem, &hint));
    }
    Ok(needed.max(1).next_multiple_of(LENGTH_STEP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_fits_the_prompt_and_the_new_tokens() {
        let check = |prompt, new, given, expect| {
            assert!(length(prompt, new, given, 2048).is_ok_and(|found| found == expect));
        };
        check(10, 64, None, 128);
        check(64, 64, None, 128);
        check(10, 64, Some(32), 32);
        let error = length(48, usize::MAX, None, 2048).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "setting `max-new-tokens`: expected at most 2000 after this prompt, found: {}",
                usize::MAX
            )
        );
    }
}
