//! Layer 1: the layer mathematics, as HLO text with parameters in `hlo-templates/`.
//!
//! `NAME.hlo` holds one computation, `NAME.grad.hlo` beside it the gradient that replaces what autodiff would derive.
//! `NAME@PLATFORM.hlo` and `NAME@PLATFORM.grad.hlo` are for one platform only, where a vendor's kernel stands in, say.
//! A parameter is `$name`; it stands for an element type, a size, several sizes or a number. The files are embedded in the
//! binary; a folder given by the user replaces them by name.

mod signature;
mod substitute;

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
};

use signature::Signature;
pub use substitute::TemplateArg;

use crate::{
    autodiff::VjpTable,
    base::{Diagnostics, Setting, nearest, read_text},
    hlo::{Builder, CompId, ModuleBuilder, Value, text},
};

/// What is wrong with a template.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// No template has this name.
    #[error("unknown template: {name}")]
    Unknown {
        /// The name asked for.
        name: String,
    },
    /// The template has a parameter without an argument.
    #[error("{file}:{line}: no argument for template parameter: ${parameter}")]
    MissingArgument {
        /// The template.
        file: String,
        /// Counted from one.
        line: usize,
        /// Its name.
        parameter: String,
        /// Template parameters that have an argument here.
        known: Vec<String>,
    },
    /// The instantiated template is not HLO.
    #[error(transparent)]
    Parse(Diagnostics),
    /// It does not fit where it is used.
    #[error(transparent)]
    Fit(#[from] Diagnostics),
    /// Attention is replaced, but not that of rows with several sequences.
    #[error("expected a template `{}` beside `{}`, since rows are packed", KERNELS[1], KERNELS[0])]
    NotPacked,
    /// The user's folder cannot be read.
    #[error("cannot read template: {}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file of the user's folder replaces nothing.
    #[error("{}: replaces no template", path.display())]
    ReplacesNothing {
        /// The file.
        path: PathBuf,
    },
}

impl TemplateError {
    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown { name } => Some(match nearest(name, EMBEDDED.iter().map(|(known, _)| *known)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are: {}", names().join(", ")),
            }),
            Self::MissingArgument { parameter, known, .. } => {
                Some(match nearest(parameter, known.iter().map(String::as_str)) {
                    Some(near) => format!("did you mean `${near}`?"),
                    None => format!("there are: ${}", known.join(", $")),
                })
            }
            Self::ReplacesNothing { .. } => Some(format!("there are: {}", names().join(", "))),
            Self::NotPacked => {
                Some(format!("it takes the segments as its fourth parameter; or leave out {}", Setting::Pack))
            }
            Self::Fit(_) => Some(FIT.to_owned()),
            Self::Parse(_) | Self::Read { .. } => None,
        }
    }
}

/// What to do where a template does not fit.
pub const FIT: &str = "a replaced template must keep its parameters and result";

macro_rules! embedded {
    ($( $name:literal ),* $(,)?) => {
        /// Every template, by name.
        const EMBEDDED: &[(&str, &str)] =
            &[$( ($name, include_str!(concat!("../../hlo-templates/", $name, ".hlo"))), )*];
    };
}

embedded![
    "adamw",
    "attention_block",
    "attention_block_back",
    "attention_mask",
    "attention_mix",
    "attention_weights",
    "attention_weights.grad",
    "bias_correction",
    "cross_entropy",
    "dense",
    "embed",
    "log_sum_exp",
    "log_sum_exp.grad",
    "lora_dense",
    "next_token",
    "rms_norm",
    "rope",
    "rope_table",
    "segment_mask",
    "swiglu",
];

/// Names without a template of ours: where one is given, it replaces a computation that is built in Rust.
///
/// They compute all of attention, whatever way was asked for: `(o, log_sum_exp)` from `q [batch, seq, heads, head_dim]` and
/// `k` and `v [batch, seq, kv_heads, head_dim]`, already turned by their positions, where `log_sum_exp` is
/// `f32[batch, seq, heads]`. The second is for rows with several sequences, and takes the segments too. The `.grad` takes
/// `q`, `k`, `v`, the segments, the result and its cotangent, the latter two as tuples, and gives `(dq, dk, dv)`.
pub const KERNELS: [&str; 2] = ["attention", "attention_packed"];

fn names() -> Vec<&'static str> {
    EMBEDDED.iter().map(|&(name, _)| name).chain(KERNELS).collect()
}

/// Where templates come from: the embedded ones, and those that replace them.
#[derive(Clone, Debug, Default)]
pub struct TemplateLibrary {
    replaced: BTreeMap<String, TemplateSource>,
}

#[derive(Clone, Debug)]
struct TemplateSource {
    file: String,
    text: String,
}

impl TemplateLibrary {
    /// The embedded templates.
    pub fn embedded() -> Self {
        Self::default()
    }

    /// The embedded templates, with those of `dir` in location of the ones of the same name, and those of `dir` for `platform`
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

    /// The names and texts of the templates that replace embedded ones.
    pub fn replaced(&self) -> impl Iterator<Item = (&str, &str)> {
        self.replaced.iter().map(|(name, source)| (name.as_str(), source.text.as_str()))
    }

    /// The template that differentiates `name`. That of an embedded template does not fit one that replaces it.
    fn gradient(&self, name: &str) -> Option<String> {
        let gradient = format!("{name}.grad");
        let beside = if self.replaced.contains_key(name) {
            self.replaced.contains_key(&gradient)
        } else {
            self.find(&gradient).is_some()
        };
        beside.then_some(gradient)
    }

    fn find(&self, name: &str) -> Option<TemplateSource> {
        let embedded = || {
            let &(_, text) = EMBEDDED.iter().find(|(known, _)| *known == name)?;
            Some(TemplateSource { file: format!("hlo-templates/{name}.hlo"), text: text.to_owned() })
        };
        self.replaced.get(name).cloned().or_else(embedded)
    }
}

/// Instantiates templates in one module, once for each set of arguments.
pub struct Instantiator<'m> {
    templates: &'m TemplateLibrary,
    module: &'m ModuleBuilder,
    vjps: &'m VjpTable,
    instances: RefCell<HashMap<(String, String), CompId>>,
}

impl<'m> Instantiator<'m> {
    /// Creates an instantiator for `module`, which sets the gradients of templates in `vjps`.
    pub fn new(templates: &'m TemplateLibrary, module: &'m ModuleBuilder, vjps: &'m VjpTable) -> Self {
        Self { templates, module, vjps, instances: RefCell::default() }
    }

    /// The custom VJPs of the module.
    pub fn vjps(&self) -> &'m VjpTable {
        self.vjps
    }

    /// The module that templates are instantiated in.
    pub fn module(&self) -> &'m ModuleBuilder {
        self.module
    }

    /// The computation of template `name` with its arguments substituted, and its gradient if the template has one.
    ///
    /// # Errors
    /// If there is no such template, a parameter stays open, or the resulting text is not HLO.
    pub fn instantiate(&self, name: &str, args: &[(&str, TemplateArg)]) -> Result<CompId, TemplateError> {
        let primal = self.instantiate_one(name, args, || Signature::of_template(name, args))?;
        if self.vjps.custom(primal).is_none()
            && let Some(gradient) = self.templates.gradient(name)
        {
            let signature = || Ok(Some(Signature::of(&self.module.get(primal)).gradient()));
            self.vjps.set_custom(primal, self.instantiate_one(&gradient, args, signature)?);
        }
        Ok(primal)
    }

    /// Whether there is a template of this name.
    pub fn has(&self, name: &str) -> bool {
        self.templates.find(name).is_some()
    }

    /// The result of template `name` on `arguments`.
    ///
    /// # Errors
    /// As [`Instantiator::instantiate`].
    #[track_caller]
    pub fn call<'b>(
        &self,
        b: &'b Builder<'b>,
        name: &str,
        args: &[(&str, TemplateArg)],
        arguments: &[Value<'b>],
    ) -> Result<Value<'b>, TemplateError> {
        Ok(b.call(self.instantiate(name, args)?, arguments).named(name))
    }

    /// The template `name`, which must have the signature that is asked for where it replaces one of ours.
    fn instantiate_one(
        &self,
        name: &str,
        args: &[(&str, TemplateArg)],
        signature: impl FnOnce() -> Result<Option<Signature>, TemplateError>,
    ) -> Result<CompId, TemplateError> {
        let source =
            self.templates.find(name).ok_or_else(|| TemplateError::Unknown { name: name.to_owned() })?;
        let text = substitute::substitute(&source.text, &source.file, args)?;
        let key = (name.to_owned(), text);
        if let Some(&instances) = self.instances.borrow().get(&key) {
            return Ok(instances);
        }
        let located = text::parse_located(&key.1, &source.file).map_err(TemplateError::Parse)?;
        if self.templates.replaced.contains_key(name)
            && let Some(signature) = signature()?
        {
            signature.check(&located, &source.file)?;
        }
        let entry = self.module.import(&located, &source.file);
        self.instances.borrow_mut().insert(key, entry);
        Ok(entry)
    }
}

/// The args of a template: `template_args! { t: dtype, batch, seq }`; a bare name takes the variable of that name.
macro_rules! template_args {
    (@value $name:ident) => { $crate::templates::TemplateArg::from($name.clone()) };
    (@value $name:ident $value:expr) => { $crate::templates::TemplateArg::from($value) };
    ($( $name:ident $(: $value:expr)? ),* $(,)?) => {
        &[$( (stringify!($name), $crate::templates::template_args!(@value $name $($value)?)), )*]
    };
}
pub(crate) use template_args;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::DType;

    #[test]
    fn an_instance_is_made_once_and_brings_its_gradient() {
        let (templates, module) = (TemplateLibrary::embedded(), ModuleBuilder::new());
        let vjps = VjpTable::default();
        let instantiator = Instantiator::new(&templates, &module, &vjps);
        let (t, batch, seq) = (DType::F32, 2, 4);
        let first =
            instantiator.instantiate("log_sum_exp", template_args! { t, batch, seq, vocab: 8 }).unwrap();
        let again =
            instantiator.instantiate("log_sum_exp", template_args! { t, batch, seq, vocab: 8 }).unwrap();
        let other =
            instantiator.instantiate("log_sum_exp", template_args! { t, batch, seq, vocab: 9 }).unwrap();
        assert_eq!(first, again);
        assert_ne!(first, other);
        assert_ne!(vjps.custom(first), vjps.custom(other));
        assert!(vjps.custom(first).is_some());
    }

    #[test]
    fn an_unknown_template_and_an_open_hole_are_explained() {
        let (templates, module) = (TemplateLibrary::embedded(), ModuleBuilder::new());
        let vjps = VjpTable::default();
        let instantiator = Instantiator::new(&templates, &module, &vjps);
        let error = instantiator.instantiate("rms_nrm", template_args! {}).unwrap_err();
        assert_eq!(error.to_string(), "unknown template: rms_nrm");
        assert_eq!(error.hint().unwrap(), "did you mean `rms_norm`?");
        let error = instantiator
            .instantiate("swiglu", template_args! { t: DType::F32, batch: 2, seqq: 4, mlp: 8 })
            .unwrap_err();
        assert_eq!(error.to_string(), "hlo-templates/swiglu.hlo:5: no argument for template parameter: $seq");
        assert_eq!(error.hint().unwrap(), "did you mean `$seqq`?");
    }
}
