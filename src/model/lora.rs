//! Low-rank adapters (LoRA, Hu et al. 2021, arXiv:2106.09685): which linears are adapted, with what rank and scale, in the
//! terms of PEFT 0.21's `LoraConfig`.

mod checks;
#[cfg(test)]
mod golden;
mod matching;
mod modules;
mod plan;
mod python;
mod report;
mod resolve;
mod selector;

use std::fmt;

pub use plan::{Adapted, LoraPlan};

/// Formula of the scale of an adapter's product, from `alpha` and the rank `r`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scaling {
    /// `alpha / r`.
    #[default]
    Classic,
    /// `alpha / sqrt(r)`: rsLoRA, Kalajdzievski 2023, arXiv:2312.03732.
    RankStabilized,
}

impl Scaling {
    /// The scale of an adapter of this rank and alpha.
    pub fn scale(self, alpha: f64, rank: usize) -> f64 {
        match self {
            Self::Classic => alpha / rank as f64,
            Self::RankStabilized => alpha / (rank as f64).sqrt(),
        }
    }
}

/// A selection of modules by their full names, such as `model.layers.0.self_attn.q_proj`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Targets {
    /// All seven linears of every layer; never the output head.
    AllLinear,
    /// Modules whose name is one of these or ends with a dot and one of these.
    Names(Vec<String>),
    /// Modules whose full name matches a regular expression.
    Regex(String),
}

/// `all-linear`, comma-separated names, or `re:` and the regular expression.
impl fmt::Display for Targets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllLinear => f.write_str("all-linear"),
            Self::Names(names) => f.write_str(&names.join(",")),
            Self::Regex(pattern) => write!(f, "re:{pattern}"),
        }
    }
}

/// The adapters of a model: the fields of PEFT's `LoraConfig` that determine them.
///
/// ```
/// use hloom::model::{Config, LoraSpec, Targets};
///
/// let spec = LoraSpec {
///     targets: Targets::Names(vec!["q_proj".into(), "v_proj".into()]),
///     rank_pattern: vec![("layers.0.self_attn.v_proj".into(), 4)],
///     ..LoraSpec::all_linear(8, 16.0)
/// };
/// let plan = spec.resolve(&Config::builtin("tiny")?)?;
/// let adapters: Vec<String> =
///     plan.iter().map(|(layer, linear, adapted)| format!("{layer} {linear} {}", adapted.rank)).collect();
/// assert_eq!(adapters, ["0 q_proj 8", "0 v_proj 4", "1 q_proj 8", "1 v_proj 8"]);
/// # Ok::<(), hloom::base::Diagnostics>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct LoraSpec {
    /// The rank of modules that match no key of `rank_pattern`.
    pub rank: usize,
    /// The numerator of the scale of modules that match no key of `alpha_pattern`.
    pub alpha: f64,
    /// The formula of the scale.
    pub scaling: Scaling,
    /// The adapted modules.
    pub targets: Targets,
    /// Targets that are not adapted.
    pub exclude: Option<Targets>,
    /// PEFT's `layers_to_transform`: numbers of the layers to adapt; empty for all. As in PEFT it needs [`Targets::Names`],
    /// and does not restrict targets that are full names.
    pub layers: Vec<usize>,
    /// Names of the module lists that `layers` indexes, as regular expressions; any list if empty. It is not used without `layers`.
    pub layers_pattern: Vec<String>,
    /// Ranks of some modules. A key is a regular expression that matches a full name or everything after one of its dots;
    /// the first key that matches determines the rank.
    pub rank_pattern: Vec<(String, usize)>,
    /// Alphas of some modules, by keys like those of `rank_pattern`.
    pub alpha_pattern: Vec<(String, f64)>,
}

impl LoraSpec {
    /// One rank and alpha for all seven linears of every layer.
    pub fn all_linear(rank: usize, alpha: f64) -> Self {
        Self {
            rank,
            alpha,
            scaling: Scaling::Classic,
            targets: Targets::AllLinear,
            exclude: None,
            layers: Vec::new(),
            layers_pattern: Vec::new(),
            rank_pattern: Vec::new(),
            alpha_pattern: Vec::new(),
        }
    }

    /// Converts the fields of an `adapter_config.json`.
    pub fn from_peft(fields: PeftFields) -> Self {
        let targets = match fields.target_modules {
            PeftModules::One(text) if text.eq_ignore_ascii_case("all-linear") => Targets::AllLinear,
            other => other.into(),
        };
        let scaling = if fields.use_rslora { Scaling::RankStabilized } else { Scaling::Classic };
        Self {
            rank: fields.r,
            alpha: fields.lora_alpha,
            scaling,
            targets,
            exclude: fields.exclude_modules.filter(|modules| !modules.is_empty()).map(Targets::from),
            layers: fields.layers_to_transform,
            layers_pattern: fields.layers_pattern,
            rank_pattern: fields.rank_pattern,
            alpha_pattern: fields.alpha_pattern,
        }
    }

    /// The fields for an `adapter_config.json`. "all-linear" becomes the seven names, which every reader of such files
    /// supports. Names are sorted and unique.
    pub fn to_peft(&self) -> PeftFields {
        let modules = |targets: &Targets| match targets {
            Targets::AllLinear => PeftModules::List(super::Linear::ALL.map(|l| l.name().to_owned()).into()),
            Targets::Names(names) => PeftModules::List(names.clone()),
            Targets::Regex(pattern) => PeftModules::One(pattern.clone()),
        };
        PeftFields {
            r: self.rank,
            lora_alpha: self.alpha,
            use_rslora: self.scaling == Scaling::RankStabilized,
            target_modules: modules(&self.targets).sorted(),
            exclude_modules: self.exclude.as_ref().map(|targets| modules(targets).sorted()),
            layers_to_transform: self.layers.clone(),
            layers_pattern: self.layers_pattern.clone(),
            rank_pattern: self.rank_pattern.clone(),
            alpha_pattern: self.alpha_pattern.clone(),
        }
    }
}

/// The JSON value of `target_modules` or `exclude_modules`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeftModules {
    /// A string: a regular expression or "all-linear".
    One(String),
    /// A list of names.
    List(Vec<String>),
}

impl PeftModules {
    fn is_empty(&self) -> bool {
        match self {
            Self::One(text) => text.is_empty(),
            Self::List(names) => names.is_empty(),
        }
    }

    fn sorted(self) -> Self {
        match self {
            Self::One(text) => Self::One(text),
            Self::List(mut names) => {
                names.sort();
                names.dedup();
                Self::List(names)
            }
        }
    }
}

impl From<PeftModules> for Targets {
    fn from(modules: PeftModules) -> Self {
        match modules {
            PeftModules::One(pattern) => Self::Regex(pattern),
            PeftModules::List(names) => Self::Names(names),
        }
    }
}

/// The fields of an `adapter_config.json` that determine the adapters, with PEFT's names.
#[derive(Clone, Debug, PartialEq)]
pub struct PeftFields {
    /// The rank.
    pub r: usize,
    /// The numerator of the scale.
    pub lora_alpha: f64,
    /// Whether the scale is that of rsLoRA.
    pub use_rslora: bool,
    /// The adapted modules.
    pub target_modules: PeftModules,
    /// Targets that are not adapted.
    pub exclude_modules: Option<PeftModules>,
    /// The only layers to adapt; empty for all (null or a single number in the file).
    pub layers_to_transform: Vec<usize>,
    /// Names of the module lists that these layers are in; empty for any (null, an empty string or a string in the file).
    pub layers_pattern: Vec<String>,
    /// Ranks of some modules, in the order of the file: the first match determines the value.
    pub rank_pattern: Vec<(String, usize)>,
    /// Alphas of some modules, in the order of the file: the first match determines the value.
    pub alpha_pattern: Vec<(String, f64)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_peft_go_round() {
        let spec = LoraSpec {
            scaling: Scaling::RankStabilized,
            targets: Targets::Regex(r".*\.q_proj".into()),
            exclude: Some(Targets::Names(vec!["model.layers.0.self_attn.q_proj".into()])),
            layers: vec![1],
            layers_pattern: vec!["layers".into()],
            rank_pattern: vec![("q_proj".into(), 4)],
            alpha_pattern: vec![("q_proj".into(), 2.0)],
            ..LoraSpec::all_linear(8, 16.0)
        };
        assert_eq!(LoraSpec::from_peft(spec.to_peft()), spec);
    }

    #[test]
    fn all_linear_is_read_as_such_and_written_as_names() {
        let spec = LoraSpec::all_linear(8, 16.0);
        let written = spec.to_peft();
        let names = ["down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"];
        assert_eq!(written.target_modules, PeftModules::List(names.map(str::to_owned).into()));
        let read = PeftFields { target_modules: PeftModules::One("All-Linear".into()), ..written };
        assert_eq!(LoraSpec::from_peft(read), spec);
    }

    #[test]
    fn scales_are_those_of_the_papers() {
        assert_eq!(Scaling::Classic.scale(16.0, 64), 0.25);
        assert_eq!(Scaling::RankStabilized.scale(16.0, 64), 2.0);
    }
}
