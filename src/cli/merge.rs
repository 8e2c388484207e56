use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::{Answer, Env, Failure, Output, progress::Reporter, render, write_json};
use crate::{
    app::{
        Parsed, Status,
        merge::{self, Merged},
        resources::{NamedModel, Resources},
    },
    base::DType,
    store::Network,
    train::open_adapter,
    weights::read_adapter,
};

#[derive(Args)]
pub(super) struct Merge {
    /// The base model: a Hugging Face folder, a GGUF file, or `smollm2-135m`
    #[arg(long, value_name = "NAME|DIR")]
    model: String,
    /// Folder of the adapter
    #[arg(long, value_name = "DIR")]
    adapter: PathBuf,
    /// Hugging Face folder to write the merged model to; it must not exist
    #[arg(long, value_name = "DIR", required_unless_present = "gguf")]
    out: Option<PathBuf>,
    /// Write the adapter itself to this file, for llama.cpp
    #[arg(long, value_name = "F.gguf", conflicts_with_all = ["out", "dtype"])]
    gguf: Option<PathBuf>,
    /// Element type of the weights: float32 or bfloat16 [default: bfloat16]
    #[arg(long, value_name = "TYPE")]
    dtype: Option<Parsed<DType>>,
    #[command(flatten)]
    output: Output,
}

impl Merge {
    pub(super) fn run(self, env: &mut Env<'_>) -> Result<Answer, Failure> {
        let Self { model, adapter, out, gguf, dtype, output } = self;
        let mut reporter = Reporter::new(&mut *env.err, env.err_kind, output);
        let resources = Resources::new(&env.store, Network::Allowed);
        let NamedModel { model, .. } = resources.model(Some(&model), &mut reporter)?;
        let opened = open_adapter(read_adapter(&adapter)?, &model.config, &adapter.display().to_string())?;
        opened.warnings.iter().for_each(|warning| reporter.warning(&warning.to_string()));
        if let Some(path) = gguf {
            let tensors = merge::write_gguf(&model, &opened, &path)?;
            if output.json {
                write_json(&mut *env.out, &json!({ "out": path, "tensors": tensors }))?;
            } else {
                writeln!(env.out, "{}: {tensors} tensors", path.display())?;
            }
            return Ok(Answer::Yes);
        }
        let Some(out) = out else { unreachable!("the arguments require a folder or a file") };
        let dtype = dtype.map_or(DType::BF16, |dtype| dtype.0);
        let done = merge::merge(&model, &opened, dtype, &out, &mut reporter);
        reporter.done();
        let Merged { tensors, bytes, merged } = done?;
        if output.json {
            let object = json!({ "out": out, "tensors": tensors, "bytes": bytes, "merged": merged });
            write_json(&mut *env.out, &object)?;
        } else {
            let size = render::bytes(bytes as u64);
            writeln!(env.out, "{}: {tensors} tensors, {size}, {merged} of them merged", out.display())?;
        }
        Ok(Answer::Yes)
    }
}
