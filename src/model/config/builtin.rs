use super::architecture::Config;
use crate::base::{Diagnostic, Diagnostics, Location, nearest};

macro_rules! models {
    ($( $name:literal ),* $(,)?) => {
        const MODELS: &[(&str, &str)] =
            &[$( ($name, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/models/", $name, ".toml"))), )*];
    };
}

models![
    "llama3.1-8b",
    "llama3.1-70b",
    "llama3.1-405b",
    "llama3.2-1b",
    "llama3.2-3b",
    "smollm2-135m",
    "qwen2.5-0.5b",
    "qwen2.5-7b",
    "qwen2.5-72b",
    "mistral-7b",
    "mistral-7b-v0.1",
    "tiny",
];

/// The names that [`Config::builtin`] knows, such as `tiny`, `smollm2-135m` and `llama3.1-405b`.
pub fn builtin_names() -> impl Iterator<Item = &'static str> {
    MODELS.iter().map(|(name, _)| *name)
}

impl Config {
    /// One of the embedded configurations of `models/`, by name.
    ///
    /// # Errors
    /// One diagnostic with the known names, if the name is unknown.
    pub fn builtin(name: &str) -> Result<Self, Diagnostics> {
        match MODELS.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => Self::from_toml(text, &format!("models/{name}.toml")),
            None => Err(unknown(name)),
        }
    }
}

fn unknown(name: &str) -> Diagnostics {
    let known = builtin_names().collect::<Vec<_>>().join(", ");
    let hint = match nearest(name, builtin_names()) {
        Some(near) => format!("did you mean `{near}`? the built-in models are {known}"),
        None => format!("the built-in models are {known}"),
    };
    Diagnostics(vec![
        Diagnostic::error(Location::file(name), "not the name of a built-in model").with_hint(hint),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameter_counts_are_the_published_ones() {
        let expect = [
            ("llama3.1-8b", 8_030_261_248),
            ("llama3.1-70b", 70_553_706_496),
            ("llama3.1-405b", 405_853_388_800),
            ("llama3.2-1b", 1_235_814_400),
            ("llama3.2-3b", 3_212_749_824),
            ("smollm2-135m", 134_515_008),
            ("qwen2.5-0.5b", 494_032_768),
            ("qwen2.5-7b", 7_615_616_512),
            ("qwen2.5-72b", 72_706_203_648),
            ("mistral-7b", 7_248_023_552),
            ("mistral-7b-v0.1", 7_241_732_096),
        ];
        for (name, count) in expect {
            assert_eq!(Config::builtin(name).map(|config| config.param_count()), Ok(count), "{name}");
        }
    }

    #[test]
    fn every_built_in_model_reads() {
        for name in builtin_names() {
            assert_eq!(Config::builtin(name).err(), None);
        }
    }

    #[test]
    fn an_unknown_name_is_reported_with_the_nearest() {
        let list = "llama3.1-8b, llama3.1-70b, llama3.1-405b, llama3.2-1b, llama3.2-3b, smollm2-135m, \
                    qwen2.5-0.5b, qwen2.5-7b, qwen2.5-72b, mistral-7b, mistral-7b-v0.1, tiny";
        assert_eq!(
            Config::builtin("llama-3.1-8b").unwrap_err().to_string(),
            format!(
                "llama-3.1-8b: not the name of a built-in model\n  \
                 hint: did you mean `llama3.1-8b`? the built-in models are {list}"
            )
        );
        assert_eq!(
            Config::builtin("gpt2").unwrap_err().to_string(),
            format!("gpt2: not the name of a built-in model\n  hint: the built-in models are {list}")
        );
    }
}
