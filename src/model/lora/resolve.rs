//! The plan of a [`LoraSpec`] for a model.

use super::{
    Adapted, LoraPlan, LoraSpec,
    checks::check_keys,
    modules::{LinearModule, linear_modules, other_modules},
    report::{field_error, report},
    selector::{LayerSelector, PatternKey, Selector},
};
use crate::{
    base::Diagnostics,
    model::{Config, Linear},
};

impl LoraSpec {
    /// Decides for every linear of every layer whether it is adapted, with what rank and scale.
    ///
    /// Stricter than PEFT, which ignores list entries and patterns that match nothing.
    ///
    /// # Errors
    /// Every problem found, each at the field's name in PEFT: ranks and alphas out of range, malformed expressions,
    /// entries and patterns that match no linear, modules that are not linears.
    pub fn resolve(&self, config: &Config) -> Result<LoraPlan, Diagnostics> {
        let (plan, unused) = self.resolve_saved(config)?;
        unused.into_result(plan)
    }

    /// As [`LoraSpec::resolve`], for an adapter that was made elsewhere, perhaps for a model with more modules: list entries
    /// and patterns that match nothing are returned beside the plan and change nothing, as in PEFT.
    ///
    /// # Errors
    /// Every other problem, and all of them if no linear is left to adapt.
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
        let (modules, others) = (linear_modules(config), other_modules(config));
        let all_names: Vec<&str> =
            modules.iter().map(|module| &module.name).chain(&others).map(String::as_str).collect();
        self.check_numbers(diagnostics);
        self.check_layers(config, diagnostics, unused);
        let layers = LayerSelector::new(self, &all_names, diagnostics);
        let targets = Selector::new("target_modules", &self.targets, &all_names, diagnostics);
        let exclude = self
            .exclude
            .as_ref()
            .and_then(|exclude| Selector::new("exclude_modules", exclude, &all_names, diagnostics));
        let ranks = PatternKey::read("rank_pattern", &self.rank_pattern, &all_names, diagnostics);
        let alphas = PatternKey::read("alpha_pattern", &self.alpha_pattern, &all_names, diagnostics);
        let targets = targets.filter(|_| diagnostics.0.is_empty())?;

        let excluded = |module: &str| exclude.as_ref().is_some_and(|exclude| exclude.matches(module));
        let adaptable: Vec<&str> = modules.iter().map(|module| module.name.as_str()).collect();
        let refused: Vec<&str> = others.iter().map(String::as_str).filter(|name| !excluded(name)).collect();
        targets.check_entries(&adaptable, &refused, diagnostics, unused);
        if let Some(exclude) = &exclude {
            exclude.check_entries(&all_names, &[], diagnostics, unused);
        }
        let is_adapted = |module: &&LinearModule| {
            targets.matches(&module.name) && layers.matches(&targets, module) && !excluded(&module.name)
        };
        let adapted: Vec<&LinearModule> = modules.iter().filter(is_adapted).collect();
        if adapted.is_empty() {
            if diagnostics.0.is_empty() && unused.0.is_empty() {
                self.report_nothing_adapted(layers.matches_no_list(&modules), diagnostics);
            }
            return None;
        }
        check_keys("rank_pattern", &ranks, &adapted, unused);
        check_keys("alpha_pattern", &alphas, &adapted, unused);
        self.check_ranks(config, &ranks, &adapted, diagnostics);
        Some(self.plan(config, &adapted, &ranks, &alphas))
    }

    fn plan(
        &self,
        config: &Config,
        adapted: &[&LinearModule],
        ranks: &[PatternKey<'_, usize>],
        alphas: &[PatternKey<'_, f64>],
    ) -> LoraPlan {
        let mut layers = vec![[None; Linear::ALL.len()]; config.num_hidden_layers];
        for module in adapted {
            let rank = PatternKey::first_match(ranks, &module.name).map_or(self.rank, |key| key.value);
            let alpha = PatternKey::first_match(alphas, &module.name).map_or(self.alpha, |key| key.value);
            let scale = self.scaling.scale(alpha, rank);
            layers[module.layer][module.linear as usize] = Some(Adapted { rank, scale });
        }
        LoraPlan::new(config, layers)
    }

    fn report_nothing_adapted(&self, matches_no_list: bool, diagnostics: &mut Diagnostics) {
        if !matches_no_list {
            return report(diagnostics, "target_modules", "no linear is left to adapt");
        }
        let message = format!("matches no list of layers: {}", self.layers_pattern.join(", "));
        let diagnostic = field_error("layers_pattern", message);
        diagnostics.push(
            diagnostic.with_hint("the list of a Llama's layers is `layers`, or in full `model.layers`"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Scaling, Targets};

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

    /// `expect`: layer, linear, rank and scale of each adapter.
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
