use std::{collections::BTreeMap, path::Path};

use super::{
    embedded::{EMBEDDED, names},
    error::TemplateError,
    info::TemplateInfo,
    source::TemplateSource,
};
use crate::base::read_text;

/// Where templates come from: the embedded ones, and those that replace them.
#[derive(Clone, Debug, Default)]
pub struct TemplateLibrary {
    replaced: BTreeMap<String, TemplateSource>,
}

impl TemplateLibrary {
    /// The embedded templates.
    pub fn embedded() -> Self {
        Self::default()
    }

    /// The embedded templates, with those of `dir` instead of those of the same name, and those of `dir` for `platform`
    /// before others; `platforms` are all that a file can be for. A template that is replaced is differentiated by the
    /// `.grad` beside it in `dir`, else by autodiff.
    ///
    /// # Errors
    /// If the folder cannot be read, or a `.hlo` file in it has a name that no template has.
    pub fn replaced_from(
        dir: &Path,
        platform: Option<&str>,
        platforms: &[&str],
    ) -> Result<Self, TemplateError> {
        let unreadable = |path: &Path| {
            let path = path.to_owned();
            move |source| TemplateError::Read { path, source }
        };
        let (mut replaced, mut of_platform) = (BTreeMap::new(), BTreeMap::new());
        for entry in std::fs::read_dir(dir).map_err(unreadable(dir))? {
            let path = entry.map_err(unreadable(dir))?.path();
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            let Some(stem) = file.strip_suffix(".hlo") else { continue };
            let (whole, grad) = stem.strip_suffix(".grad").map_or((stem, ""), |whole| (whole, ".grad"));
            let (name, only) = whole.split_once('@').map_or((whole, None), |(name, only)| (name, Some(only)));
            if !names().contains(&name) || only.is_some_and(|only| !platforms.contains(&only)) {
                return Err(TemplateError::ReplacesNothing { path });
            }
            let text = read_text(&path, "HLO text").map_err(unreadable(&path))?;
            let source = TemplateSource { file: path.display().to_string(), text };
            let found = if only.is_some() { &mut of_platform } else { &mut replaced };
            if only.is_none() || only == platform {
                found.insert(format!("{name}{grad}"), source);
            }
        }
        // The gradient of the general one does not fit the one of the platform.
        for name in of_platform.keys().filter(|name| !name.ends_with(".grad")) {
            replaced.remove(&format!("{name}.grad"));
        }
        replaced.append(&mut of_platform);
        Ok(Self { replaced })
    }

    /// Whether `name` is replaced.
    pub(super) fn is_replaced(&self, name: &str) -> bool {
        self.replaced.contains_key(name)
    }

    /// The names and texts of the templates that replace embedded ones.
    pub fn replaced(&self) -> impl Iterator<Item = (&str, &str)> {
        self.replaced.iter().map(|(name, source)| (name.as_str(), source.text.as_str()))
    }

    /// The template that differentiates `name`. That of an embedded template does not fit one that replaces it.
    pub(super) fn gradient(&self, name: &str) -> Option<String> {
        let gradient = format!("{name}.grad");
        let beside = if self.replaced.contains_key(name) {
            self.replaced.contains_key(&gradient)
        } else {
            self.find(&gradient).is_some()
        };
        beside.then_some(gradient)
    }

    /// Every template, by name: the built-in ones and those that replace or add to them.
    pub fn list(&self) -> Vec<TemplateInfo> {
        let mut names: Vec<&str> = EMBEDDED.iter().map(|&(name, _)| name).collect();
        names.extend(self.replaced.keys().map(String::as_str));
        names.sort_unstable();
        names.dedup();
        let sources = names.into_iter().filter_map(|name| Some((name, self.find(name)?)));
        sources.map(|(name, source)| TemplateInfo::of(name, &source, self.is_replaced(name))).collect()
    }

    pub(super) fn find(&self, name: &str) -> Option<TemplateSource> {
        let embedded = || {
            let &(_, text) = EMBEDDED.iter().find(|(known, _)| *known == name)?;
            Some(TemplateSource { file: format!("hlo-templates/{name}.hlo"), text: text.to_owned() })
        };
        self.replaced.get(name).cloned().or_else(embedded)
    }
}
