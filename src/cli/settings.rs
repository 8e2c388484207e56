//! The settings of a run, as flags and as a file say them.

use std::{fmt, num::NonZeroUsize, path::PathBuf};

use serde::{Deserialize, Deserializer, de};

use super::value_parsers::{AttentionKind, Parsed};
use crate::{base::DType, model::Targets, optim::ScheduleKind, step::Remat, targets::Target};

/// Defines the settings once: as flags, as the keys of a run file, with a way to merge the two, and each group of them as
/// flags of its own, for the commands that take only these.
macro_rules! settings {
    (
        struct Settings { $( $(#[$attribute:meta])* $name:ident: $type:ty, )* }
        $(
            $(#[$of_group:meta])*
            struct $group:ident { $( $(#[$of_member:meta])* $member:ident: $of:ty, )* }
        )*
    ) => {
        /// What a run can be told; what is left out has a default.
        #[derive(Clone, Debug, Default, PartialEq, clap::Args, Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case")]
        pub struct Settings {
            $( $(#[$attribute])* pub $name: Option<$type>, )*
            $( $( $(#[$of_member])* pub $member: Option<$of>, )* )*
        }

        impl Settings {
            /// These settings, and those of `other` where these say nothing.
            pub fn or(self, other: Self) -> Self {
                Self {
                    $( $name: self.$name.or(other.$name), )*
                    $( $( $member: self.$member.or(other.$member), )* )*
                }
            }
        }

        $(
            $(#[$of_group])*
            #[derive(Clone, Debug, Default, PartialEq, clap::Args)]
            pub struct $group {
                $( $(#[$of_member])* $member: Option<$of>, )*
            }

            impl $group {
                /// The flags of the group, with what settings say of them.
                pub fn spelled(settings: &Settings) -> Vec<(String, Option<String>)> {
                    vec![$( (flag(stringify!($member)), settings.$member.as_ref().map(ToString::to_string)), )*]
                }
            }

            impl From<$group> for Settings {
                fn from($group { $( $member, )* }: $group) -> Self {
                    Self { $( $member, )* ..Self::default() }
                }
            }
        )*
    };
}

settings! {
    struct Settings {
        /// A Hugging Face folder, a GGUF file, or `smollm2-135m`, which hloom fetches [default: smollm2-135m]
        #[arg(long, value_name = "NAME|DIR", help_heading = "Model and data")]
        model: String,
        /// Rows to learn from, one JSON object a line [default: the quick start's conversations]
        #[arg(long, value_name = "F.jsonl", help_heading = "Model and data")]
        data: PathBuf,
        /// Rows kept from training to measure on; 0 for none [default: the last 16 of the quick start; of --data a
        /// twentieth, at most 64, chosen with the seed]
        #[arg(long, value_name = "N", help_heading = "Model and data")]
        held_out: usize,
        /// A question whose answer is shown before and after training [default: one for the quick start, else none]
        #[arg(long, value_name = "TEXT", help_heading = "Model and data")]
        question: String,

        /// Updates [default: 60 for the quick start, else one pass over the rows]
        #[arg(long, value_name = "N", help_heading = "Training")]
        steps: usize,
        /// Sequences of a batch [default: 4, or the next number that --mesh divides]
        #[arg(long, value_name = "N", help_heading = "Training")]
        batch: usize,
        /// Tokens of a sequence; longer rows are cut [default: 128 for the quick start, else 512]
        #[arg(long, value_name = "N", help_heading = "Training")]
        seq: usize,
        /// Put several rows into each sequence, each seeing itself only, so that little is padding
        #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL",
              hide_possible_values = true, help_heading = "Training")]
        pack: bool,
        /// Batches whose gradients make one update [default: 1]
        #[arg(long, value_name = "N", help_heading = "Training")]
        accumulate: usize,
        /// The learning rate after the warm-up [default: 1e-3]
        #[arg(long, value_name = "RATE", help_heading = "Training")]
        lr: f64,
        /// What the learning rate does then: cosine, linear or constant [default: cosine]
        #[arg(long, value_name = "CURVE", help_heading = "Training")]
        schedule: Parsed<ScheduleKind>,
        /// Updates over which the learning rate rises, from zero in the first [default: 5, or a tenth of a
        /// shorter run]
        #[arg(long, value_name = "N", help_heading = "Training")]
        warmup: usize,
        /// The element type of weights and activations: float32 or bfloat16 [default: float32 on CPUs, else the type
        /// that the model's config names]
        #[arg(long, value_name = "TYPE", help_heading = "Training")]
        dtype: Parsed<DType>,
        /// Decides the order of the rows and the start of the adapters [default: 0]
        #[arg(long, value_name = "N", help_heading = "Training")]
        seed: u64,

        /// The rank of the adapters [default: 8]
        #[arg(long, value_name = "N", help_heading = "Adapters")]
        rank: usize,
        /// The numerator of their scale, which is alpha / rank [default: 16]
        #[arg(long, value_name = "X", help_heading = "Adapters")]
        alpha: f64,
        /// Scale by alpha / sqrt(rank) instead
        #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL",
              hide_possible_values = true, help_heading = "Adapters")]
        rslora: bool,
        /// Which linears: names with commas between them, `all-linear`, or `re:` and a regular expression
        /// [default: all-linear]
        #[arg(long, value_name = "NAMES", help_heading = "Adapters")]
        targets: Parsed<Targets>,
        /// Ranks of some modules, by regular expression; the first that matches counts.
        #[arg(skip)]
        rank_pattern: Ordered<usize>,
        /// Alphas of some modules, by regular expression; the first that matches counts.
        #[arg(skip)]
        alpha_pattern: Ordered<f64>,

        /// Where to run: `cpu:8`, `mi300x:8`, `h100`, `v5e:2x4`, or `rocm:8` for what is there [default: cpu, with as many
        /// devices as --mesh makes]
        #[arg(long, value_name = "TARGET", help_heading = "Device")]
        target: Parsed<Target>,
        /// The share of a GPU's memory that is used at most, from above 0 to 1 [default: the plugin's, mostly 0.75]
        #[arg(long, value_name = "X", help_heading = "Device")]
        memory_fraction: f32,
        /// Take all of that memory at the start [default: the plugin's, mostly true]
        #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL",
              hide_possible_values = true, help_heading = "Device")]
        preallocate: bool,
        /// How the tensors lie on several devices
        #[arg(long, value_name = "F.toml", help_heading = "Device")]
        mesh: PathBuf,
        /// A step that `hloom compile` made: it brings its mesh, batch, adapters and optimizer
        #[arg(long, value_name = "DIR", help_heading = "Device")]
        bundle: PathBuf,
        /// With --bundle, ignore its executables and compile its module
        #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL",
              hide_possible_values = true, help_heading = "Device")]
        recompile: bool,
        /// The PJRT plugin to use, instead of the store's
        #[arg(long, value_name = "PATH", help_heading = "Device")]
        plugin: PathBuf,
        /// Seconds that the plugin may take to start [default: 120]
        #[arg(long, value_name = "S", help_heading = "Device")]
        timeout: f64,
        /// Fetch nothing
        #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL",
              hide_possible_values = true, help_heading = "Device")]
        offline: bool,
        /// A folder of templates that replace the built-in ones of the same name
        #[arg(long, value_name = "DIR", help_heading = "Device")]
        templates: PathBuf,

        /// Where the adapter, metrics and checkpoints go [default: the first of out, out-2, out-3 ... without an adapter]
        #[arg(long, value_name = "DIR", help_heading = "Output")]
        out: PathBuf,
        /// Go on from the last checkpoint in --out
        #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL",
              hide_possible_values = true, help_heading = "Output")]
        resume: bool,
        /// Updates between two checkpoints; 0 for none but the last [default: 100]
        #[arg(long, value_name = "N", help_heading = "Output")]
        save_every: usize,
    }

    /// What a step holds of the optimizer.
    struct OptimizerArgs {
        /// Decay of the adapters [default: 0]
        #[arg(long, value_name = "X", help_heading = "Optimizer")]
        weight_decay: f64,
        /// Decay of the mean of gradients [default: 0.9]
        #[arg(long, value_name = "X", help_heading = "Optimizer")]
        beta1: f64,
        /// Decay of the mean of squared gradients [default: 0.999]
        #[arg(long, value_name = "X", help_heading = "Optimizer")]
        beta2: f64,
        /// Keeps the quotient finite [default: 1e-8]
        #[arg(long, value_name = "X", help_heading = "Optimizer")]
        eps: f64,
        /// The largest norm of the gradients; `inf` clips nothing [default: 1]
        #[arg(long, value_name = "X", help_heading = "Optimizer")]
        max_grad_norm: f64,
    }

    /// How a step is computed.
    struct StepOptionArgs {
        /// How attention is computed: dense, or in blocks, which needs less memory [default: dense up to a --seq of
        /// 1024, else blocks]
        #[arg(long, value_name = "HOW", help_heading = "Step options")]
        attention: Parsed<AttentionKind>,
        /// Queries and keys of a block of attention [default: 512]
        #[arg(long, value_name = "N", help_heading = "Step options")]
        attention_block: NonZeroUsize,
        /// Positions of each sequence whose logits are there at one time [default: as many as take 128 MiB of a device]
        #[arg(long, value_name = "N", help_heading = "Step options")]
        loss_chunk: NonZeroUsize,
        /// What the forward pass leaves for the backward one, which computes the rest again: full (only the input of
        /// each layer), dots (the results of matrix products too), none (all that is needed), or offload (the
        /// input of each layer, in the host's memory) [default: dots where it keeps at most 1 GiB on a device, else full]
        #[arg(long, value_name = "POLICY", help_heading = "Step options")]
        remat: Parsed<Remat>,
        /// Leave only the input of every so many layers, which then run forward once more under --remat
        #[arg(long, value_name = "K", help_heading = "Step options")]
        remat_every: NonZeroUsize,
        /// Keep the frozen matrices of the layers in the host's memory, and bring those of a layer to the device while it
        /// is computed
        #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL",
              hide_possible_values = true, help_heading = "Step options")]
        offload_weights: bool,
        /// Parts of a batch that a step computes one after the other [default: 1]
        #[arg(long, value_name = "N", help_heading = "Step options")]
        micro_batches: NonZeroUsize,
    }
}

/// The flag of a member.
fn flag(member: &str) -> String {
    format!("--{}", member.replace('_', "-"))
}

/// A table whose order counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Ordered<T>(pub Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Ordered<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OrderedVisitor(std::marker::PhantomData))
    }
}

struct OrderedVisitor<T>(std::marker::PhantomData<T>);

impl<'de, T: Deserialize<'de>> de::Visitor<'de> for OrderedVisitor<T> {
    type Value = Ordered<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Ordered<T>, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Ordered(entries))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        settings: Settings,
    }

    fn flags(args: &[&str]) -> Settings {
        Flags::try_parse_from([&["train"], args].concat()).unwrap().settings
    }

    #[test]
    fn flags_are_read() {
        let settings = flags(&[
            "--steps",
            "3",
            "--lr",
            "1e-4",
            "--rslora",
            "--pack",
            "--dtype",
            "bfloat16",
            "--offline=false",
        ]);
        let expect = Settings {
            steps: Some(3),
            lr: Some(1e-4),
            rslora: Some(true),
            pack: Some(true),
            dtype: Some(Parsed(DType::BF16)),
            offline: Some(false),
            ..Settings::default()
        };
        assert_eq!(settings, expect);
    }

    #[test]
    fn flags_win_over_the_file() {
        let file = Settings { rslora: Some(true), ..flags(&["--steps", "9", "--seq", "64"]) };
        let merged = flags(&["--steps", "3", "--rslora=false"]).or(file);
        assert_eq!((merged.steps, merged.seq, merged.rslora), (Some(3), Some(64), Some(false)));
    }
}
