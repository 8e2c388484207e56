use crate::{
    app::{
        defaults,
        settings::{Ordered, Settings},
    },
    base::{Diagnostic, Diagnostics, Location, Setting},
    model::{Config, LoraPlan, LoraSpec, Scaling, Targets},
};

/// The adapters to train.
pub fn lora(settings: &Settings) -> LoraSpec {
    fn entries<T: Clone>(table: &Option<Ordered<T>>) -> Vec<(String, T)> {
        table.as_ref().map(|table| table.0.clone()).unwrap_or_default()
    }
    LoraSpec {
        scaling: if settings.rslora == Some(true) { Scaling::RankStabilized } else { Scaling::Classic },
        targets: settings.targets.as_ref().map_or(Targets::AllLinear, |word| word.0.clone()),
        rank_pattern: entries(&settings.rank_pattern),
        alpha_pattern: entries(&settings.alpha_pattern),
        ..LoraSpec::all_linear(
            settings.rank.unwrap_or(defaults::RANK),
            settings.alpha.unwrap_or(defaults::ALPHA),
        )
    }
}

/// Resolves which linears of a model are adapted, with what rank and scale.
///
/// # Errors
/// Every problem, each at its setting.
pub fn lora_plan(spec: &LoraSpec, config: &Config) -> Result<LoraPlan, Diagnostics> {
    const SETTINGS: [(&str, Setting); 3] =
        [("r", Setting::Rank), ("lora_alpha", Setting::Alpha), ("target_modules", Setting::Targets)];
    let named = |mut diagnostic: Diagnostic| {
        let setting = SETTINGS.iter().find(|(field, _)| diagnostic.location.item.as_deref() == Some(field));
        if let Some((_, setting)) = setting {
            diagnostic.location = Location::file(setting.to_string());
        }
        diagnostic
    };
    spec.resolve(config).map_err(|diagnostics| Diagnostics(diagnostics.0.into_iter().map(named).collect()))
}
