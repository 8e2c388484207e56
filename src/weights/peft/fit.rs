//! Check of an adapter's tensors against those of a model.

use std::collections::BTreeSet;

use super::{
    super::names::{Prefix, describe_missing, find_prefix},
    adapter::{Adapter, PREFIX},
};
use crate::base::{Diagnostic, Diagnostics, Location};

const OWN_WEIGHTS: &str =
    "if they were not trained, save the adapter again with `save_embedding_layers=False`";

impl Adapter {
    /// Keeps the tensors with `expected` names, which are PEFT's, and drops the others, as PEFT does. Names that differ by a
    /// prefix only are renamed. `is_base` selects names of base weights; diagnostics are located in `file`. Returns
    /// warnings about ignored and renamed tensors.
    ///
    /// # Errors
    /// One diagnostic, if no tensor has an expected name, if names are missing without another prefix, or if there are base
    /// weights, with which PEFT would replace the model's.
    pub fn fit_names(
        &mut self,
        expected: &BTreeSet<&str>,
        is_base: impl Fn(&str) -> bool,
        file: &str,
    ) -> Result<Vec<Diagnostic>, Diagnostics> {
        let fail = |diagnostic: Diagnostic| Err(Diagnostics(vec![diagnostic]));
        let place = || Location::file(file);
        let mut warnings = Vec::new();
        if let Some(prefix) = self.find_prefix(expected) {
            let message = prefix.describe(PREFIX);
            let renamed = |name: &str| prefix.renamed.get(name).map(|new| format!("{PREFIX}{new}"));
            let tensors = std::mem::take(&mut self.tensors).into_iter();
            self.tensors = tensors.map(|(name, tensor)| (renamed(&name).unwrap_or(name), tensor)).collect();
            let missing: Vec<&str> =
                expected.iter().copied().filter(|name| !self.tensors.contains_key(*name)).collect();
            if let Some(missing) = describe_missing(&missing) {
                let message = format!("{message}; apart from the prefix, {missing}");
                return fail(Diagnostic::error(place(), message));
            }
            warnings.push(Diagnostic::error(place(), format!("{message}; this difference is ignored")));
        }
        let unexpected: Vec<String> =
            self.tensors.keys().filter(|name| !expected.contains(name.as_str())).cloned().collect();
        let wanted = expected.first().copied().unwrap_or_default();
        if unexpected.len() == self.tensors.len() {
            let found = unexpected.first().map_or("none".to_owned(), |name| format!("`{name}`"));
            let message = format!(
                "no tensor belongs to an adapted module of this model: expected names such as `{wanted}`, found {found}"
            );
            return fail(Diagnostic::error(place(), message));
        }
        if let Some(own) = unexpected.iter().find(|name| name.strip_prefix(PREFIX).is_some_and(&is_base)) {
            let message = "unsupported: a base model weight, which the adapter would replace";
            return fail(Diagnostic::error(place().at(own), message).with_hint(OWN_WEIGHTS));
        }
        unexpected.iter().for_each(|name| drop(self.tensors.remove(name)));
        if let Some(first) = unexpected.first() {
            let which = match unexpected.len() {
                1 => "1 tensor belongs to no adapted module of this model and is ignored".to_owned(),
                count => format!("{count} tensors belong to no adapted module of this model and are ignored"),
            };
            warnings
                .push(Diagnostic::error(place(), format!("{which}: `{first}`{}", dots(unexpected.len()))));
        }
        Ok(warnings)
    }

    /// The prefix by which names differ from the expected ones, apart from [`PREFIX`].
    fn find_prefix(&self, expected: &BTreeSet<&str>) -> Option<Prefix> {
        let names = self.tensors.keys().map(String::as_str);
        if names.clone().any(|name| expected.contains(name)) {
            return None;
        }
        let bare: BTreeSet<&str> = expected.iter().filter_map(|name| name.strip_prefix(PREFIX)).collect();
        if names.clone().any(|name| bare.contains(name)) {
            let whole = |name: &str| (name.to_owned(), name.to_owned());
            let renamed = names.filter(|name| bare.contains(name)).map(whole).collect();
            return Some(Prefix { found: String::new(), expected: String::new(), renamed });
        }
        find_prefix(names, &bare)
    }
}

fn dots(count: usize) -> &'static str {
    if count > 1 { ", ..." } else { "" }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{AdapterConfig, TargetModules},
        *,
    };
    use crate::base::Literal;

    const EXPECTED: [&str; 2] = [
        "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight",
        "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight",
    ];

    fn fit(names: impl IntoIterator<Item = String>) -> Result<Vec<String>, Diagnostics> {
        let config = AdapterConfig::new(1, 1.0, TargetModules::Names(vec![]));
        let tensors = names.into_iter().map(|name| (name, Literal::f32s([1, 1], &[0.0]))).collect();
        let mut adapter = Adapter { config, tensors };
        let is_base = |name: &str| name == "lm_head.weight";
        let warnings = adapter.fit_names(&EXPECTED.into(), is_base, "f")?;
        assert!(adapter.tensors.keys().eq(EXPECTED.iter()), "{:?}", adapter.tensors.keys());
        Ok(warnings.iter().map(ToString::to_string).collect())
    }

    fn with(others: &[&str]) -> Result<Vec<String>, Diagnostics> {
        fit(EXPECTED.iter().chain(others).map(|&name| name.to_owned()))
    }

    #[test]
    fn tensors_of_other_modules_are_ignored_in_one_line() {
        assert_eq!(with(&[]), Ok(vec![]));
        let one = "f: 1 tensor belongs to no adapted module of this model and is ignored: `x`";
        assert_eq!(with(&["x"]), Ok(vec![one.to_owned()]));
        let (a, b) = ("base_model.model.visual.q.lora_A.weight", "base_model.model.visual.q.lora_B.weight");
        let two =
            format!("f: 2 tensors belong to no adapted module of this model and are ignored: `{a}`, ...");
        assert_eq!(with(&[a, b]), Ok(vec![two]));
    }

    #[test]
    fn the_models_own_weights_are_refused() {
        let expect = "f: `base_model.model.lm_head.weight`: unsupported: a base model weight, which the \
                      adapter would replace\n  hint: if they were not trained, save the adapter again with \
                      `save_embedding_layers=False`";
        assert_eq!(with(&["base_model.model.lm_head.weight"]).unwrap_err().to_string(), expect);
    }

    #[test]
    fn a_foreign_prefix_is_left_out_in_one_line() {
        let check = |instead: &str, found: &str, wanted: &str| {
            let names = EXPECTED.map(|name| name.replace("base_model.model.model.", instead));
            let message = match found {
                "" => format!("the tensor names lack the prefix `{wanted}`"),
                found => format!("the tensor names have the prefix `{found}`, expected `{wanted}`"),
            };
            let expect = format!("f: {message}; this difference is ignored");
            assert_eq!(fit(names), Ok(vec![expect]));
        };
        for wrapper in [
            "_orig_mod.base_model.model.",
            "module.base_model.model.",
            "base_model.model.base_model.model.",
            "base_model.model.language_model.",
            "base_model.model._orig_mod.",
            "language_model.",
        ] {
            check(&format!("{wrapper}model."), wrapper, PREFIX);
        }
        let inner = format!("{PREFIX}model.");
        check("base_model.model.model.language_model.", "base_model.model.model.language_model.", &inner);
        check("model.", "", PREFIX);
        check("layers_of.", "layers_of.", &inner);
        check("", "", &inner);
    }

    #[test]
    fn what_does_not_fit_is_one_line() {
        let expect = format!(
            "f: the tensor names have the prefix `module.base_model.model.`, expected `base_model.model.`; apart from \
             the prefix, `{}` is missing",
            EXPECTED[1]
        );
        assert_eq!(fit([format!("module.{}", EXPECTED[0])]).unwrap_err().to_string(), expect);
        let none = |names: &[&str], found: &str| {
            let expect = format!(
                "f: no tensor belongs to an adapted module of this model: expected names such as `{}`, found {found}",
                EXPECTED[0]
            );
            let names = names.iter().map(|&name| name.to_owned());
            assert_eq!(fit(names).unwrap_err().to_string(), expect);
        };
        none(&["visual.q"], "`visual.q`");
        none(&[], "none");
    }
}
