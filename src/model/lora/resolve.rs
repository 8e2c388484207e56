use std::collections::BTreeSet;

use super::{
    Adapted, LoraPlan, LoraSpec, Targets,
    matching::{LayerPattern, Pattern, names},
};
use crate::{
    base::{Diagnostic, Diagnostics, Location, nearest},
    model::{Config, Linear},
};

/// A rank that any layer may have; beyond it, a rank above the width of the layer is a mistake that would only show as a
/// failed allocation.
const MIN_LIMIT: usize = 1024;

const LINEARS_ONLY: &str = "only the seven linears inside the layers can be adapted";

impl LoraSpec {
    /// Decides for every linear of every layer whether it is adapted, with what rank and scale.
    ///
    /// Stricter than PEFT, which ignores a part of a list or a pattern that matches nothing.
    ///
    /// # Errors
    /// Every problem found, each at the field's name in PEFT: ranks and alphas out of range, expressions
    /// that cannot be read, entries and patterns that match no linear, modules that are not linears.
    pub fn resolve(&self, config: &Config) -> Result<LoraPlan, Diagnostics> {
        let (plan, unused) = self.resolve_saved(config)?;
        unused.into_result(plan)
    }

    /// As [`LoraSpec::resolve`], for an adapter that was made elsewhere, perhaps for a model with more modules: the parts
    /// of lists and patterns that match nothing are returned beside the plan and change nothing, as in PEFT.
    ///
    /// # Errors
    /// Every other problem, and all of them where no linear is left to adapt.
    pub fn resolve_saved(&self, config: &Config) -> Result<(LoraPlan, Diagnostics), Diagnostics> {
        let (mut diagnostics, mut unused) = (Diagnostics::default(), Diagnostics::default());
        let plan = self.decide(config, &mut diagnostics, &mut unused);
        match plan {
            Some(plan) if diagnostics.0.is_empty() => Ok((plan, unused)),
            _ => {
                diagnostics.0.append(&mut unused.0);
                Err(diagnostics)
            }
        }
    }

    /// `None` after a diagnostic or something unused.
    fn decide(
        &self,
        config: &Config,
        diagnostics: &mut Diagnostics,
        unused: &mut Diagnostics,
    ) -> Option<LoraPlan> {
        let (modules, others) = (linears(config), other_modules(config));
        let universe: Vec<&str> =
            modules.iter().map(|module| &module.name).chain(&others).map(String::as_str).collect();
        self.check_numbers(diagnostics);
        self.check_layers(config, diagnostics, unused);
        let lists = layer_patterns(&self.layers_pattern, &universe, diagnostics);
        let targets = Selector::new("target_modules", &self.targets, &universe, diagnostics);
        let exclude = self
            .exclude
            .as_ref()
            .and_then(|exclude| Selector::new("exclude_modules", exclude, &universe, diagnostics));
        let ranks = keys("rank_pattern", &self.rank_pattern, &universe, diagnostics);
        let alphas = keys("alpha_pattern", &self.alpha_pattern, &universe, diagnostics);
        let targets = targets.filter(|_| diagnostics.0.is_empty())?;

        let excluded = |module: &str| exclude.as_ref().is_some_and(|exclude| exclude.matches(module));
        let adaptable: Vec<&str> = modules.iter().map(|module| module.name.as_str()).collect();
        let refused: Vec<&str> = others.iter().map(String::as_str).filter(|name| !excluded(name)).collect();
        targets.check_entries(&adaptable, &refused, diagnostics, unused);
        if let Some(exclude) = &exclude {
            exclude.check_entries(&universe, &[], diagnostics, unused);
        }
        let is_target = |module: &Module| {
            targets.matches(&module.name)
                && self.takes_layer(&targets, &lists, module)
                && !excluded(&module.name)
        };
        let chosen: Vec<&Module> = modules.iter().filter(|module| is_target(module)).collect();
        if chosen.is_empty() {
            if diagnostics.0.is_empty() && unused.0.is_empty() {
                self.nothing_left(&modules, &lists, diagnostics);
            }
            return None;
        }
        check_keys("rank_pattern", &ranks, &chosen, unused);
        check_keys("alpha_pattern", &alphas, &chosen, unused);
        self.check_ranks(config, &ranks, &chosen, diagnostics);
        let mut layers = vec![[None; Linear::ALL.len()]; config.num_hidden_layers];
        for module in chosen {
            let rank = first_match(&ranks, &module.name).unwrap_or(self.rank);
            let alpha = first_match(&alphas, &module.name).unwrap_or(self.alpha);
            let scale = self.scaling.scale(alpha, rank);
            layers[module.layer][module.linear as usize] = Some(Adapted { rank, scale });
        }
        Some(LoraPlan::new(config, layers))
    }

    fn check_numbers(&self, diagnostics: &mut Diagnostics) {
        let rank = [("r".to_owned(), self.rank)];
        let ranks = self.rank_pattern.iter().map(|(key, rank)| (format!("rank_pattern.{key}"), *rank));
        for (location, _) in rank.into_iter().chain(ranks).filter(|&(_, rank)| rank == 0) {
            report(diagnostics, &location, "expected a rank of at least 1, found 0");
        }
        let alpha = [("lora_alpha".to_owned(), self.alpha)];
        let alphas = self.alpha_pattern.iter().map(|(key, alpha)| (format!("alpha_pattern.{key}"), *alpha));
        for (location, alpha) in alpha.into_iter().chain(alphas).filter(|(_, a)| !(a.is_finite() && *a > 0.0))
        {
            report(diagnostics, &location, format!("expected a number above 0, found {alpha}"));
        }
    }

    /// Each rank must be of use to the widest of the linears that have it; the first that is not is named.
    fn check_ranks(
        &self,
        config: &Config,
        patterns: &[Key<'_, usize>],
        chosen: &[&Module],
        diagnostics: &mut Diagnostics,
    ) {
        let mut refused = BTreeSet::new();
        for module in chosen {
            let key = patterns.iter().find(|key| key.pattern.matches(&module.name));
            let (field, rank) = match key {
                Some(key) => (format!("rank_pattern.{}", key.text), key.value),
                None => ("r".to_owned(), self.rank),
            };
            let (inputs, outputs) = module.linear.features(config);
            let limit = inputs.max(outputs).max(MIN_LIMIT);
            if rank > limit && refused.insert(field.clone()) {
                let message = format!("expected a rank from 1 to {limit} for {}, found {rank}", module.name);
                let full = inputs.min(outputs);
                let hint = format!("a rank of {full} is the full rank of this layer, [{outputs}, {inputs}]");
                diagnostics.push(Diagnostic::error(location(&field), message).with_hint(hint));
            }
        }
    }

    fn check_layers(&self, config: &Config, diagnostics: &mut Diagnostics, unused: &mut Diagnostics) {
        const PLACE: &str = "layers_to_transform";
        if !self.layers.is_empty() && !matches!(self.targets, Targets::Names(_)) {
            let diagnostic =
                Diagnostic::error(location(PLACE), "expected target_modules to be a list of names beside it");
            diagnostics.push(diagnostic.with_hint("name the linears, as in q_proj, v_proj"));
        }
        let count = config.num_hidden_layers;
        for layer in self.layers.iter().filter(|&&layer| layer >= count) {
            report(
                unused,
                PLACE,
                format!("expected a layer from 0 to {}, found {layer}", count.saturating_sub(1)),
            );
        }
    }

    /// PEFT asks for the layer only where a list entry is not the module's full name.
    fn takes_layer(&self, targets: &Selector<'_>, lists: &[LayerPattern], module: &Module) -> bool {
        self.layers.is_empty()
            || targets.has_full_name(&module.name)
            || layer_of(module, lists).is_some_and(|layer| self.layers.contains(&layer))
    }

    fn nothing_left(&self, modules: &[Module], lists: &[LayerPattern], diagnostics: &mut Diagnostics) {
        if self.layers.is_empty() || modules.iter().any(|module| layer_of(module, lists).is_some()) {
            return report(diagnostics, "target_modules", "no linear is left to adapt");
        }
        let message = format!("matches no list of layers: {}", self.layers_pattern.join(", "));
        let diagnostic = Diagnostic::error(location("layers_pattern"), message);
        diagnostics.push(
            diagnostic.with_hint("the list of a Llama's layers is `layers`, or in full `model.layers`"),
        );
    }
}

/// One linear of one layer.
struct Module {
    name: String,
    layer: usize,
    linear: Linear,
}

/// The layer that `layers_to_transform` counts a linear to, by the first pattern that matches.
fn layer_of(module: &Module, lists: &[LayerPattern]) -> Option<usize> {
    match lists {
        [] => Some(module.layer),
        lists => lists.iter().find_map(|list| list.layer(&module.name)).flatten(),
    }
}

fn layer_patterns(
    patterns: &[String],
    universe: &[&str],
    diagnostics: &mut Diagnostics,
) -> Vec<LayerPattern> {
    let mut lists = Vec::new();
    for pattern in patterns {
        match LayerPattern::new(pattern, universe) {
            Ok(list) => lists.push(list),
            Err(message) => report(diagnostics, "layers_pattern", message),
        }
    }
    lists
}

fn linears(config: &Config) -> Vec<Module> {
    (0..config.num_hidden_layers)
        .flat_map(|layer| Linear::ALL.map(|linear| Module { name: linear.module_name(layer), layer, linear }))
        .collect()
}

/// The names of all other modules that transformers gives a Llama.
fn other_modules(config: &Config) -> Vec<String> {
    let layers = (0..config.num_hidden_layers).flat_map(|layer| {
        ["", ".self_attn", ".mlp", ".mlp.act_fn", ".input_layernorm", ".post_attention_layernorm"]
            .map(|part| format!("model.layers.{layer}{part}"))
    });
    ["lm_head", "model.embed_tokens", "model", "model.layers", "model.norm", "model.rotary_emb"]
        .map(str::to_owned)
        .into_iter()
        .chain(layers)
        .collect()
}

/// [`Targets`] ready to match, with the field they come from.
enum Selector<'a> {
    All,
    Names { field: &'static str, entries: &'a [String] },
    Regex { field: &'static str, text: &'a str, pattern: Pattern },
}

impl<'a> Selector<'a> {
    /// `None` after a diagnostic, if an expression cannot be read.
    fn new(
        field: &'static str,
        targets: &'a Targets,
        universe: &[&str],
        diagnostics: &mut Diagnostics,
    ) -> Option<Self> {
        match targets {
            Targets::AllLinear => Some(Self::All),
            Targets::Names(entries) => Some(Self::Names { field, entries }),
            Targets::Regex(text) => match Pattern::whole(text, universe) {
                Ok(pattern) => Some(Self::Regex { field, text, pattern }),
                Err(message) => {
                    report(diagnostics, field, message);
                    None
                }
            },
        }
    }

    fn matches(&self, module: &str) -> bool {
        match self {
            Self::All => true,
            Self::Names { entries, .. } => entries.iter().any(|entry| names(entry, module)),
            Self::Regex { pattern, .. } => pattern.matches(module),
        }
    }

    fn has_full_name(&self, module: &str) -> bool {
        match self {
            Self::Names { entries, .. } => entries.iter().any(|entry| entry == module),
            Self::All | Self::Regex { .. } => false,
        }
    }

    /// Notes entries that match one of the `refused` names, or as unused that match none of the `allowed` ones.
    fn check_entries(
        &self,
        allowed: &[&str],
        refused: &[&str],
        diagnostics: &mut Diagnostics,
        unused: &mut Diagnostics,
    ) {
        match self {
            Self::All => {}
            Self::Names { field, entries } => {
                if entries.is_empty() {
                    report(diagnostics, field, "the list is empty");
                }
                for entry in entries.iter().collect::<BTreeSet<_>>() {
                    if let Some(name) = refused.iter().find(|name| names(entry, name)) {
                        refuse_module(field, entry, name, diagnostics);
                    } else if !allowed.iter().any(|name| names(entry, name)) {
                        refuse_entry(field, entry, nearest_linear(entry, allowed), unused);
                    }
                }
            }
            Self::Regex { field, text, pattern } => {
                if let Some(name) = refused.iter().find(|name| pattern.matches(name)) {
                    refuse_module(field, text, name, diagnostics);
                } else if !allowed.iter().any(|name| pattern.matches(name)) {
                    let example = Linear::Query.module_name(0);
                    let hint = format!("an expression must match a whole name, such as {example}");
                    refuse_entry(field, text, hint, unused);
                }
            }
        }
    }
}

fn refuse_module(field: &str, entry: &str, module: &str, diagnostics: &mut Diagnostics) {
    let message = format!("{entry} matches a module that cannot be adapted: {module}");
    diagnostics.push(Diagnostic::error(location(field), message).with_hint(LINEARS_ONLY));
}

fn refuse_entry(field: &str, entry: &str, hint: String, diagnostics: &mut Diagnostics) {
    let message = format!("matches no linear of the model: {entry}");
    diagnostics.push(Diagnostic::error(location(field), message).with_hint(hint));
}

/// The name that was probably meant, or the names there are.
fn nearest_linear(entry: &str, full_names: &[&str]) -> String {
    let short = Linear::ALL.map(Linear::name);
    match nearest(entry, short.into_iter().chain(full_names.iter().copied())) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("the linears are {}", short.join(", ")),
    }
}

/// A pattern of `rank_pattern` or `alpha_pattern`, ready to match.
struct Key<'a, T> {
    text: &'a str,
    pattern: Pattern,
    value: T,
}

fn keys<'a, T: Copy>(
    field: &str,
    patterns: &'a [(String, T)],
    universe: &[&str],
    diagnostics: &mut Diagnostics,
) -> Vec<Key<'a, T>> {
    let mut keys = Vec::new();
    for (text, value) in patterns {
        match Pattern::key(text, universe) {
            Ok(pattern) => keys.push(Key { text, pattern, value: *value }),
            Err(message) => report(diagnostics, field, message),
        }
    }
    keys
}

fn check_keys<T>(field: &str, keys: &[Key<'_, T>], chosen: &[&Module], diagnostics: &mut Diagnostics) {
    for key in keys.iter().filter(|key| !chosen.iter().any(|module| key.pattern.matches(&module.name))) {
        report(diagnostics, field, format!("matches no adapted linear: {}", key.text));
    }
}

fn first_match<T: Copy>(keys: &[Key<'_, T>], module: &str) -> Option<T> {
    keys.iter().find(|key| key.pattern.matches(module)).map(|key| key.value)
}

fn location(field: &str) -> Location {
    Location::default().at(field)
}

fn report(diagnostics: &mut Diagnostics, field: &str, message: impl Into<String>) {
    diagnostics.push(Diagnostic::error(location(field), message));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::lora::Scaling;

    fn tiny() -> Config {
        Config::builtin("tiny").unwrap()
    }

    fn of_names(entries: &[&str]) -> LoraSpec {
        let targets = Targets::Names(entries.iter().map(|&entry| entry.to_owned()).collect());
        LoraSpec { targets, ..LoraSpec::all_linear(8, 16.0) }
    }

    fn of_regex(pattern: &str) -> LoraSpec {
        LoraSpec { targets: Targets::Regex(pattern.into()), ..LoraSpec::all_linear(8, 16.0) }
    }

    fn patterns<T: Copy>(pairs: &[(&str, T)]) -> Vec<(String, T)> {
        pairs.iter().map(|&(key, value)| (key.to_owned(), value)).collect()
    }

    /// `expect` has one entry an adapter: layer, linear, rank and scale.
    #[track_caller]
    fn check(spec: &LoraSpec, expect: &[&str]) {
        let plan = spec.resolve(&tiny()).map_err(|diagnostics| diagnostics.to_string()).unwrap();
        let got: Vec<String> =
            plan.iter().map(|(l, n, a)| format!("{l} {n} {} {}", a.rank, a.scale)).collect();
        assert_eq!(got, expect);
    }

    #[track_caller]
    fn refuse(spec: &LoraSpec, expect: &[&str]) {
        let diagnostics = spec.resolve(&tiny()).unwrap_err();
        assert_eq!(diagnostics.to_string(), expect.join("\n"));
    }

    #[test]
    fn all_linear_is_the_seven_of_every_layer() {
        let plan = LoraSpec::all_linear(8, 16.0).resolve(&tiny()).unwrap();
        assert_eq!((plan.layer_count(), plan.iter().count()), (2, 14));
        assert_eq!(plan.trainable_params(), 2 * 8 * (128 + 96 + 96 + 128 + 3 * 192));
        assert_eq!(plan.scales(Linear::Gate), [2.0, 2.0]);
    }

    #[test]
    fn a_list_matches_names_and_their_ends() {
        check(
            &of_names(&["self_attn.q_proj", "model.layers.1.mlp.down_proj", "q_proj", "q_proj"]),
            &["0 q_proj 8 2", "1 q_proj 8 2", "1 down_proj 8 2"],
        );
    }

    #[test]
    fn an_expression_matches_whole_names() {
        check(&of_regex(r".*layers\.1\..*(q|v)_proj"), &["1 q_proj 8 2", "1 v_proj 8 2"]);
        check(&of_regex(r"(?!.*mlp)(?!.*(k|v|o)_proj).*\.\w+_proj"), &["0 q_proj 8 2", "1 q_proj 8 2"]);
    }

    #[test]
    fn the_first_pattern_that_matches_counts() {
        let spec = LoraSpec {
            scaling: Scaling::RankStabilized,
            rank_pattern: patterns(&[("layers.0.self_attn.q_proj", 4), ("q_proj", 16), (".*q_proj", 64)]),
            alpha_pattern: patterns(&[("^model.layers.1.*", 32.0)]),
            ..of_names(&["q_proj", "v_proj"])
        };
        let eighth = (16.0 / 8f64.sqrt()).to_string();
        let eighth_of_double = (32.0 / 8f64.sqrt()).to_string();
        check(
            &spec,
            &[
                "0 q_proj 4 8",
                &format!("0 v_proj 8 {eighth}"),
                "1 q_proj 16 8",
                &format!("1 v_proj 8 {eighth_of_double}"),
            ],
        );
        let plan = spec.resolve(&tiny()).unwrap();
        assert_eq!((plan.max_rank(Linear::Query), plan.max_rank(Linear::Key)), (16, 0));
        assert!(plan.is_adapted(Linear::Value) && !plan.is_adapted(Linear::Output));
        assert_eq!(plan.scales(Linear::Down), [0.0, 0.0]);
        assert_eq!(plan.get(2, Linear::Query), None);
    }

    #[test]
    fn excluded_modules_and_other_layers_are_left_out() {
        let exclude = Some(Targets::Names(vec!["layers.0.self_attn.q_proj".into()]));
        check(&LoraSpec { exclude, ..of_names(&["q_proj"]) }, &["1 q_proj 8 2"]);
        let exclude = Some(Targets::Regex(r".*\.(0|1)\.mlp.*".into()));
        check(&LoraSpec { exclude, ..of_regex(r".*\.1\..*(o|up)_proj") }, &["1 o_proj 8 2"]);
        check(
            &LoraSpec { layers: vec![1], ..of_names(&["v_proj", "model.layers.0.mlp.up_proj"]) },
            &["0 up_proj 8 2", "1 v_proj 8 2"],
        );
    }

    #[test]
    fn numbers_out_of_range_are_all_named() {
        let spec = LoraSpec {
            rank: 0,
            alpha: f64::NAN,
            rank_pattern: patterns(&[("q_proj", 0)]),
            alpha_pattern: patterns(&[("q_proj", -1.0)]),
            ..of_names(&["q_proj"])
        };
        refuse(
            &spec,
            &[
                "`r`: expected a rank of at least 1, found 0",
                "`rank_pattern.q_proj`: expected a rank of at least 1, found 0",
                "`lora_alpha`: expected a number above 0, found NaN",
                "`alpha_pattern.q_proj`: expected a number above 0, found -1",
            ],
        );
    }

    #[test]
    fn a_rank_beyond_the_width_of_its_layer_is_refused() {
        let hint = "hint: a rank of 32 is the full rank of this layer, [32, 64]";
        let spec = LoraSpec {
            rank: 1 << 20,
            rank_pattern: patterns(&[("k_proj", 1 << 20), ("v_proj", 8)]),
            ..of_names(&["q_proj", "k_proj", "v_proj"])
        };
        refuse(
            &spec,
            &[
                "`r`: expected a rank from 1 to 1024 for model.layers.0.self_attn.q_proj, found 1048576\n  \
                 hint: a rank of 64 is the full rank of this layer, [64, 64]",
                &format!(
                    "`rank_pattern.k_proj`: expected a rank from 1 to 1024 for model.layers.0.self_attn.k_proj, \
                     found 1048576\n  {hint}"
                ),
            ],
        );
        // More than the full rank is of no use, but small.
        let plan = LoraSpec { rank: 1024, ..of_names(&["k_proj"]) }.resolve(&tiny()).unwrap();
        assert_eq!(plan.max_rank(Linear::Key), 1024);
        // A default that no layer takes does not count.
        let spec =
            LoraSpec { rank: 1 << 20, rank_pattern: patterns(&[("k_proj", 4)]), ..of_names(&["k_proj"]) };
        assert_eq!(spec.resolve(&tiny()).unwrap().max_rank(Linear::Key), 4);
        let wide = Config { hidden_size: 8192, ..tiny() };
        assert!(LoraSpec { rank: 8192, ..of_names(&["k_proj"]) }.resolve(&wide).is_ok());
    }

    #[test]
    fn what_matches_nothing_is_named() {
        let list = "the linears are q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj";
        refuse(
            &of_names(&["q_proj", "vproj", "query_key_value", "model.layers.7.mlp.up_proj"]),
            &[
                "`target_modules`: matches no linear of the model: model.layers.7.mlp.up_proj\n  \
             hint: did you mean `model.layers.0.mlp.up_proj`?",
                &format!("`target_modules`: matches no linear of the model: query_key_value\n  hint: {list}"),
                "`target_modules`: matches no linear of the model: vproj\n  hint: did you mean `v_proj`?",
            ],
        );
        refuse(
            &of_regex("q_proj"),
            &["`target_modules`: matches no linear of the model: q_proj\n  \
               hint: an expression must match a whole name, such as model.layers.0.self_attn.q_proj"],
        );
        refuse(&of_names(&[]), &["`target_modules`: the list is empty"]);
        let spec = LoraSpec {
            rank_pattern: patterns(&[("k_proj", 4)]),
            alpha_pattern: patterns(&[("proj", 4.0)]),
            ..of_names(&["q_proj"])
        };
        refuse(
            &spec,
            &[
                "`rank_pattern`: matches no adapted linear: k_proj",
                "`alpha_pattern`: matches no adapted linear: proj",
            ],
        );
        let exclude = Some(Targets::AllLinear);
        refuse(
            &LoraSpec { exclude, ..of_names(&["q_proj"]) },
            &["`target_modules`: no linear is left to adapt"],
        );
        let exclude = Some(Targets::Names(vec!["q_prj".into()]));
        refuse(
            &LoraSpec { exclude, ..of_names(&["q_proj"]) },
            &["`exclude_modules`: matches no linear of the model: q_prj\n  hint: did you mean `q_proj`?"],
        );
    }

    #[test]
    fn modules_that_are_no_linears_are_refused() {
        let hint = "hint: only the seven linears inside the layers can be adapted";
        for (entry, module) in [
            ("lm_head", "lm_head"),
            ("embed_tokens", "model.embed_tokens"),
            ("mlp", "model.layers.0.mlp"),
            ("input_layernorm", "model.layers.0.input_layernorm"),
        ] {
            let message = format!(
                "`target_modules`: {entry} matches a module that cannot be adapted: {module}\n  {hint}"
            );
            refuse(&of_names(&["q_proj", entry]), &[&message]);
        }
        refuse(
            &of_regex(".*(head|q_proj)"),
            &[&format!(
                "`target_modules`: .*(head|q_proj) matches a module that cannot be adapted: lm_head\n  {hint}"
            )],
        );
        let exclude = Some(Targets::Regex("lm_head|.*[vk]_proj".into()));
        check(&LoraSpec { exclude, ..of_regex(".*(head|[qvk]_proj)") }, &["0 q_proj 8 2", "1 q_proj 8 2"]);
    }

    #[test]
    fn layers_need_names_and_must_exist() {
        refuse(
            &LoraSpec { layers: vec![2], ..LoraSpec::all_linear(8, 16.0) },
            &[
                "`layers_to_transform`: expected target_modules to be a list of names beside it\n  \
             hint: name the linears, as in q_proj, v_proj",
                "`layers_to_transform`: expected a layer from 0 to 1, found 2",
            ],
        );
    }

    #[test]
    fn broken_expressions_are_named_by_field() {
        let spec = LoraSpec { rank_pattern: patterns(&[("q(", 4)]), ..of_regex("[") };
        let diagnostics = spec.resolve(&tiny()).unwrap_err();
        let places: Vec<_> = diagnostics.0.iter().map(|diagnostic| diagnostic.location.to_string()).collect();
        assert_eq!(places, ["`target_modules`", "`rank_pattern`"]);
    }
}
