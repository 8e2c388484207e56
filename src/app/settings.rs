//! Settings of the application: keys of a run file and flags of a command line.
//!
//! The types derive clap's `Args` so that each setting is declared once: its field is the key of the run file, and `cli`
//! flattens the types into its commands, where the field's doc is the help of the flag.

use std::{fmt, num::NonZeroUsize, path::PathBuf};

use serde::{Deserialize, Deserializer, de};

use super::parsed::{AttentionKind, Parsed};
use crate::{
    base::{DType, Setting},
    model::{BaseStorage, Targets},
    optim::ScheduleKind,
    step::Remat,
    targets::Target,
};

/// Defines `Settings`, and for each group of settings a struct with these alone, for the commands that take no others.
macro_rules! settings {
    (
        struct Settings { $( $(#[$attribute:meta])* $name:ident: $type:ty, )* }
        $(
            $(#[$of_group:meta])*
            struct $group:ident { $( $(#[$of_member:meta])* $member:ident: $of:ty, )* }
        )*
    ) => {
        /// Settings of a run; those that are not set have defaults.
        #[derive(Clone, Debug, Default, PartialEq, clap::Args, Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case")]
        pub struct Settings {
            $( $(#[$attribute])* pub $name: Option<$type>, )*
            $( $( $(#[$of_member])* pub $member: Option<$of>, )* )*
        }

        impl Settings {
            /// Returns these settings, with those of `other` where they are not set.
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
                $( $(#[$of_member])* pub $member: Option<$of>, )*
            }

            impl $group {
                /// The names of the group's settings, with their values in `settings`.
                pub fn values(settings: &Settings) -> Vec<(Setting, Option<String>)> {
                    vec![$( (setting(stringify!($member)), settings.$member.as_ref().map(SettingValue::text)), )*]
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
        /// A Hugging Face folder, a GGUF file, or a built-in model
        #[arg(long, value_name = "NAME|DIR", help_heading = "Model and data")]
        model: String,
        /// Training samples, one JSON object a line
        #[arg(long, value_name = "F.jsonl", help_heading = "Model and data")]
        data: PathBuf,
        /// Number of samples held out for evaluation; 0 disables it
        #[arg(long, value_name = "N", help_heading = "Model and data")]
        held_out: usize,
        /// A question to answer before and after training
        #[arg(long, value_name = "TEXT", help_heading = "Model and data")]
        question: String,

        /// Number of optimizer updates
        #[arg(long, value_name = "N", help_heading = "Training")]
        steps: usize,
        /// Gradient accumulation steps: batches that make one update
        #[arg(long, value_name = "N", help_heading = "Training")]
        accumulate: usize,
        /// Peak learning rate, after the warmup
        #[arg(long, value_name = "RATE", help_heading = "Training")]
        lr: f64,
        /// Learning rate schedule after the warmup: cosine, linear or constant
        #[arg(long, value_name = "CURVE", help_heading = "Training")]
        schedule: Parsed<ScheduleKind>,
        /// Number of updates over which the learning rate rises linearly from zero
        #[arg(long, value_name = "N", help_heading = "Training")]
        warmup: usize,
        /// Seed of the order of the samples and of the initial adapters
        #[arg(long, value_name = "N", help_heading = "Training")]
        seed: u64,

        /// Scale adapters by alpha / sqrt(rank) instead of alpha / rank
        #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL",
              hide_possible_values = true, help_heading = "Adapters")]
        rslora: bool,
        /// Ranks of some modules, by regular expression; the first match decides.
        #[arg(skip)]
        rank_pattern: Ordered<usize>,
        /// Alphas of some modules, by regular expression; the first match decides.
        #[arg(skip)]
        alpha_pattern: Ordered<f64>,

        /// Maximum share of GPU memory to allocate, above 0 and up to 1
        #[arg(long, value_name = "X", help_heading = "Device")]
        memory_fraction: f32,
        /// Allocate that share of GPU memory at the start
        #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL",
              hide_possible_values = true, help_heading = "Device")]
        preallocate: bool,
        /// Run the step of a compiled bundle, with its mesh, batch, adapters and optimizer
        #[arg(long, value_name = "DIR", help_heading = "Device")]
        bundle: PathBuf,
        /// Compile the bundle's module instead of loading its executables
        #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL",
              hide_possible_values = true, help_heading = "Device")]
        recompile: bool,

        /// Output folder for the adapter, metrics and checkpoints
        #[arg(long, value_name = "DIR", help_heading = "Output")]
        out: PathBuf,
        /// Resume from the last checkpoint in the output folder
        #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL",
              hide_possible_values = true, help_heading = "Output")]
        resume: bool,
        /// Number of updates between checkpoints; 0 saves only the last
        #[arg(long, value_name = "N", help_heading = "Output")]
        save_every: usize,
    }

    /// Settings of the tensors of a step.
    struct WorkloadArgs {
        /// Rows of a batch
        #[arg(long, value_name = "N", help_heading = "Training")]
        batch: usize,
        /// Tokens of a row; longer samples are truncated
        #[arg(long, value_name = "N", help_heading = "Training")]
        seq: usize,
        /// Pack several samples into each row; a token attends to its own sample only
        #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL",
              hide_possible_values = true, help_heading = "Training")]
        pack: bool,
        /// Element type of weights and activations: float32 or bfloat16
        #[arg(long, value_name = "TYPE", help_heading = "Training")]
        dtype: Parsed<DType>,
        /// Storage of frozen weights: nf4, nf4-double, int8, hqq4, q4_0, q8_0, bf16 or f32 [default: quantized as the model's
        /// files are, else the element type of activations]
        #[arg(long, value_name = "FORMAT", help_heading = "Training")]
        base: Parsed<BaseStorage>,
        /// LoRA rank
        #[arg(long, value_name = "N", help_heading = "Adapters")]
        rank: usize,
        /// LoRA alpha: adapters are scaled by alpha / rank
        #[arg(long, value_name = "X", help_heading = "Adapters")]
        alpha: f64,
        /// Linears to adapt: comma-separated names, `all-linear`, or `re:` and a regular expression
        #[arg(long, value_name = "NAMES", help_heading = "Adapters")]
        targets: Parsed<Targets>,
    }

    /// Settings of the devices that a command runs on.
    struct DeviceArgs {
        /// Devices to run on: `cpu:8`, `mi300x:8`, `h100`, `v5e:2x4`, or `rocm:8` for those present
        #[arg(long, value_name = "TARGET", help_heading = "Device")]
        target: Parsed<Target>,
        /// Mesh config that shards the tensors over several devices
        #[arg(long, value_name = "F.toml", help_heading = "Device")]
        mesh: PathBuf,
        /// Seconds that the plugin may take to start
        #[arg(long, value_name = "S", help_heading = "Device")]
        timeout: f64,
    }

    /// Settings of the plugin and the templates.
    struct PluginArgs {
        /// PJRT plugin file
        #[arg(long, value_name = "PATH", help_heading = "Device")]
        plugin: PathBuf,
        /// Do not fetch anything
        #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL",
              hide_possible_values = true, help_heading = "Device")]
        offline: bool,
        /// Folder of templates that replace built-in ones of the same name
        #[arg(long, value_name = "DIR", help_heading = "Device")]
        templates: PathBuf,
    }

    /// Settings of the optimizer.
    struct OptimizerArgs {
        /// Weight decay of the adapters
        #[arg(long, value_name = "X", help_heading = "Optimizer")]
        weight_decay: f64,
        /// Decay rate of the first moment
        #[arg(long, value_name = "X", help_heading = "Optimizer")]
        beta1: f64,
        /// Decay rate of the second moment
        #[arg(long, value_name = "X", help_heading = "Optimizer")]
        beta2: f64,
        /// AdamW's epsilon
        #[arg(long, value_name = "X", help_heading = "Optimizer")]
        eps: f64,
        /// Clip gradients to this global norm; `inf` disables clipping
        #[arg(long, value_name = "X", help_heading = "Optimizer")]
        max_grad_norm: f64,
    }

    /// Settings that trade time for memory.
    struct StepOptionArgs {
        /// Attention algorithm: dense, or blocks, which needs less memory
        #[arg(long, value_name = "KIND", help_heading = "Step options")]
        attention: Parsed<AttentionKind>,
        /// Queries and keys in a block of attention
        #[arg(long, value_name = "N", help_heading = "Step options")]
        attention_block: NonZeroUsize,
        /// Chunk size of the loss: positions of each row whose logits are in memory at once
        #[arg(long, value_name = "N", help_heading = "Step options")]
        loss_chunk: NonZeroUsize,
        /// Rematerialization policy: the forward pass of a layer saves its input (full), also the results of matrix
        /// products (dots), all that the backward pass reads (none), or its input in host memory (offload)
        #[arg(long, value_name = "POLICY", help_heading = "Step options")]
        remat: Parsed<Remat>,
        /// Save only the input of every K-th layer and run K layers forward again in the backward pass
        #[arg(long, value_name = "K", help_heading = "Step options")]
        remat_every: NonZeroUsize,
        /// Keep the frozen matrices of the layers in host memory; copy one layer at a time to the device
        #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL",
              hide_possible_values = true, help_heading = "Step options")]
        offload_weights: bool,
        /// Number of micro-batches: equal parts of a batch that a step computes one after the other
        #[arg(long, value_name = "N", help_heading = "Step options")]
        micro_batches: NonZeroUsize,
    }
}

/// Formats the value of a setting as on a command line.
trait SettingValue {
    fn text(&self) -> String;
}

macro_rules! setting_values {
    ($( $type:ty ),*) => {
        $( impl SettingValue for $type {
            fn text(&self) -> String {
                self.to_string()
            }
        } )*
    };
}

setting_values![usize, f64, bool, NonZeroUsize];

impl<T: fmt::Display> SettingValue for Parsed<T> {
    fn text(&self) -> String {
        self.to_string()
    }
}

impl SettingValue for PathBuf {
    fn text(&self) -> String {
        self.display().to_string()
    }
}

/// The setting of a field.
fn setting(field: &str) -> Setting {
    let name = field.replace('_', "-");
    let found = Setting::ALL.iter().copied().find(|setting| setting.name() == name);
    found.expect("every field of `Settings` has a `Setting`")
}

/// A TOML table in the order of the file.
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
    fn flags_override_the_run_file() {
        let file = Settings { rslora: Some(true), ..flags(&["--steps", "9", "--seq", "64"]) };
        let merged = flags(&["--steps", "3", "--rslora=false"]).or(file);
        assert_eq!((merged.steps, merged.seq, merged.rslora), (Some(3), Some(64), Some(false)));
    }
}
