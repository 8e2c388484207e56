//! `hloom diff`: two HLO modules compared.

mod computations;
mod format;
mod json;
mod page;
mod sides;
mod text;

use std::path::PathBuf;

use clap::{ValueEnum, builder::PossibleValue};

use super::{Answer, Env, Failure, write_json, write_output};
use crate::{
    app::{hlo_files, module_page},
    diff::{Ignore, IgnoreSet, diff},
};
use json::json;
use sides::Sides;
use text::text;

/// Compare two HLO modules by what they compute: instructions, shapes, shardings, collectives, FLOPs.
///
/// Computations and instructions are matched by their dataflow, whatever their names and order. Exits with 0 if the modules are
/// equal in all that is not ignored, and with 1 if they differ.
#[derive(clap::Args, Debug)]
pub(super) struct Diff {
    /// The first module: HLO text or a proto, also compressed; of a folder or a bundle the last stage
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// The second module
    #[arg(value_name = "AFTER")]
    after: PathBuf,
    /// Parts to ignore, besides ids, names, order, layouts and metadata; several with commas
    #[arg(long, value_enum, value_name = "PARTS", value_delimiter = ',')]
    ignore: Vec<Ignore>,
    /// Parts to compare that are ignored otherwise; several with commas
    #[arg(long, value_enum, value_name = "PARTS", value_delimiter = ',')]
    keep: Vec<Ignore>,
    /// Number of computations to show, and of changes in each [default: 6]
    #[arg(long, value_name = "N", default_value_t = 6, hide_default_value = true)]
    top: usize,
    /// Also write a page with both modules in step to this file
    #[arg(long, value_name = "F")]
    html: Option<PathBuf>,
    /// Print one JSON object with every change to standard output
    #[arg(long)]
    json: bool,
}

impl Diff {
    pub(super) fn run(self, env: &mut Env<'_>) -> Result<Answer, Failure> {
        let Self { before, after, ignore, keep, top, html, json: as_json } = self;
        let ignored = ignore.into_iter().fold(IgnoreSet::default(), IgnoreSet::with);
        let ignored = keep.into_iter().fold(ignored, IgnoreSet::without);
        let (before, after) = (hlo_files::open(&before)?, hlo_files::open(&after)?);
        let sides = Sides { before: &before.module, after: &after.module, ignored };
        let found = diff(&before.module, &after.module, ignored);
        if let Some(path) = &html {
            write_output(path, module_page::of_two(&before, &after, Some(&found)).as_bytes())?;
        }
        if as_json {
            write_json(&mut *env.out, &json(&found, &sides))?;
        } else {
            env.out.write_all(text(&found, &sides, top, env.out_style).as_bytes())?;
        }
        Ok(found.equal.into())
    }
}

impl ValueEnum for Ignore {
    fn value_variants<'a>() -> &'a [Self] {
        Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self {
            Self::Ids => "Channel ids",
            Self::Names => "Names of modules, computations and instructions",
            Self::Order => "Order of instructions, and control predecessors",
            Self::Layouts => "Layouts, tiles and memory spaces",
            Self::Metadata => "Metadata, origins, statistics and fingerprints",
            Self::Shardings => "Shardings of HLO and Shardy, and custom calls that annotate them",
            Self::BackendConfig => "Configurations of backends",
            Self::FrontendAttributes => "Frontend attributes other than those of Shardy",
        };
        Some(PossibleValue::new(self.name()).help(help))
    }
}
