use std::{cell::RefCell, collections::HashMap};

use super::{
    error::TemplateError,
    library::TemplateLibrary,
    signature::Signature,
    substitute::{TemplateArg, substitute},
};
use crate::{
    autodiff::VjpTable,
    hlo::{Builder, CompId, ModuleBuilder, Value, text},
};

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
        let callee = self.instantiate(name, args)?;
        Ok(b.named_scope(name, || b.call(callee, arguments)).named(name))
    }

    /// The template `name`, which must have the given signature if it replaces a built-in one.
    fn instantiate_one(
        &self,
        name: &str,
        args: &[(&str, TemplateArg)],
        signature: impl FnOnce() -> Result<Option<Signature>, TemplateError>,
    ) -> Result<CompId, TemplateError> {
        let source =
            self.templates.find(name).ok_or_else(|| TemplateError::Unknown { name: name.to_owned() })?;
        let text = substitute(&source.text, &source.file, args)?;
        let key = (name.to_owned(), text);
        if let Some(&instance) = self.instances.borrow().get(&key) {
            return Ok(instance);
        }
        let located = text::parse_located(&key.1, &source.file).map_err(TemplateError::Parse)?;
        if self.templates.is_replaced(name)
            && let Some(signature) = signature()?
        {
            signature.check(&located, &source.file)?;
        }
        // The bytes of a module must not depend on the folder of replaced templates.
        let replaced = self.templates.is_replaced(name).then(|| format!("{name}.hlo"));
        let entry = self.module.import(&located, &source.file, replaced.as_ref().unwrap_or(&source.file));
        self.instances.borrow_mut().insert(key, entry);
        Ok(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{base::DType, templates::template_args};

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
    fn an_unknown_template_and_a_missing_argument_are_explained() {
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

    #[test]
    fn a_module_does_not_depend_on_the_folder_of_replaced_templates() {
        let source = TemplateLibrary::embedded().find("swiglu").unwrap().text;
        let module = || {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join("swiglu.hlo"), &source).unwrap();
            let templates = TemplateLibrary::replaced_from(folder.path(), None, &[]).unwrap();
            let (module, vjps) = (ModuleBuilder::new(), VjpTable::default());
            let args = template_args! { t: DType::F32, batch: 2, seq: 4, mlp: 8 };
            let entry = Instantiator::new(&templates, &module, &vjps).instantiate("swiglu", args).unwrap();
            text::print_module(&module.finish("m", entry, vec![]))
        };
        let printed = module();
        assert!(printed.contains("op_name=\"sigmoid\" source_file=\"swiglu.hlo\" source_line="), "{printed}");
        assert_eq!(printed, module());
    }
}
