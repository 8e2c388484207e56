//! What the step relies on: the parameters and the result that any template has, built-in or replaced.

use super::{
    embedded::EMBEDDED,
    error::TemplateError,
    substitute::{TemplateArg, substitute},
};
use crate::{
    base::{Diagnostic, Diagnostics, Location, Shape},
    hlo::{
        CompId, Computation, Module,
        text::{self, LocatedModule},
        verify,
    },
};

/// The shapes that go into a template and come out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Signature {
    parameters: Vec<Shape>,
    result: Shape,
}

/// Signatures of the templates that are not built in, each as a module with a custom call.
const KERNELS: [(&str, &str); 2] = [
    (
        "attention",
        "HloModule attention

ENTRY attention {
  q = $t[$batch,$seq,$heads,$head_dim] parameter(0)
  k = $t[$batch,$seq,$kv_heads,$head_dim] parameter(1)
  v = $t[$batch,$seq,$kv_heads,$head_dim] parameter(2)
  ROOT both = ($t[$batch,$seq,$heads,$head_dim], f32[$batch,$seq,$heads]) custom-call(q, k, v), custom_call_target=\"\"
}
",
    ),
    (
        "attention_packed",
        "HloModule attention_packed

ENTRY attention_packed {
  q = $t[$batch,$seq,$heads,$head_dim] parameter(0)
  k = $t[$batch,$seq,$kv_heads,$head_dim] parameter(1)
  v = $t[$batch,$seq,$kv_heads,$head_dim] parameter(2)
  segments = s32[$batch,$seq] parameter(3)
  ROOT both = ($t[$batch,$seq,$heads,$head_dim], f32[$batch,$seq,$heads]) custom-call(q, k, v, segments), custom_call_target=\"\"
}
",
    ),
];

impl Signature {
    /// That of a computation.
    pub(super) fn of(computation: &Computation) -> Self {
        let parameters = computation.parameter_shapes().into_iter().cloned().collect();
        Self { parameters, result: computation.result().clone() }
    }

    /// The signature of the built-in template with this name; `None` if there is none.
    ///
    /// # Errors
    /// As substituting into the template and parsing it.
    pub(super) fn of_template(
        name: &str,
        args: &[(&str, TemplateArg)],
    ) -> Result<Option<Self>, TemplateError> {
        let known = EMBEDDED.iter().chain(&KERNELS).find(|(known, _)| *known == name);
        let Some(&(_, source)) = known else { return Ok(None) };
        let module = text::parse(&substitute(source, name, args)?, name).map_err(TemplateError::Parse)?;
        Ok(Some(Self::of(module.entry())))
    }

    /// That of the gradient: the arguments, the result and its cotangent to the cotangents of the floating-point
    /// arguments.
    pub(super) fn gradient(&self) -> Self {
        let parameters = self.parameters.iter().chain([&self.result, &self.result]).cloned().collect();
        let cotangents = self.parameters.iter().filter(|shape| shape.holds_float()).cloned().collect();
        Self { parameters, result: Shape::Tuple(cotangents) }
    }

    /// Checks that a template, read from `file`, has this signature and nothing that no compiler takes.
    ///
    /// # Errors
    /// Every difference and every problem, each with its line.
    pub(super) fn check(&self, located: &LocatedModule, file: &str) -> Result<(), Diagnostics> {
        let LocatedModule { module, .. } = located;
        verify(module.clone()).map_err(|diagnostics| placed(diagnostics, located, file))?;
        let (id, entry) = (module.entry, module.entry());
        let location = |index: usize| {
            let line = located.lines(id).get(index).copied();
            let name = entry.instrs.get(index).map(|instr| instr.name.clone());
            Location { line, item: name, ..Location::file(file) }
        };
        let mut diagnostics = Diagnostics::default();
        let found = entry.parameters();
        for (number, wanted) in self.parameters.iter().enumerate() {
            let Some(&parameter) = found.get(number) else {
                let location = Location { line: located.line_of(id), ..Location::file(file) }.at(&entry.name);
                let message = format!("parameter {number} is missing: expected {wanted}");
                diagnostics.push(Diagnostic::error(location, message));
                continue;
            };
            let shape = &entry.instr(parameter).shape;
            if shape != wanted {
                let message = format!("expected {wanted} as parameter {number}, found {shape}");
                diagnostics.push(Diagnostic::error(location(parameter.index()), message));
            }
        }
        for parameter in found.iter().skip(self.parameters.len()) {
            let message = format!("expected {} parameters, found another", self.parameters.len());
            diagnostics.push(Diagnostic::error(location(parameter.index()), message));
        }
        if *entry.result() != self.result {
            let message = format!("expected {} as the result, found {}", self.result, entry.result());
            diagnostics.push(Diagnostic::error(location(entry.root.index()), message));
        }
        diagnostics.into_result(())
    }
}

/// What verification found, at lines of `file` instead of names.
fn placed(diagnostics: Diagnostics, located: &LocatedModule, file: &str) -> Diagnostics {
    let Module { computations, .. } = &located.module;
    let line = |location: &Location| {
        let index = computations.iter().position(|computation| computation.name == location.file)?;
        let id = CompId::new(index);
        let instr =
            computations[index].instrs.iter().position(|instr| Some(&instr.name) == location.item.as_ref());
        instr.map_or_else(|| located.line_of(id), |instr| located.lines(id).get(instr).copied())
    };
    let placed = |diagnostic: Diagnostic| {
        let Location { file: computation, item, .. } = diagnostic.location.clone();
        let line = Some(line(&diagnostic.location).unwrap_or(1));
        let location = Location { line, item: item.or(Some(computation)), ..Location::file(file) };
        Diagnostic { location, ..diagnostic }
    };
    Diagnostics(diagnostics.0.into_iter().map(placed).collect())
}
