//! What the step relies on: the parameters and the result that any template has, built-in or replaced.

use super::{Hole, TemplateError, fill::fill};
use crate::{
    base::{Finding, Findings, Place, Shape},
    hlo::{
        CompId, Computation, Module,
        text::{self, Located},
        verify,
    },
};

/// The shapes that go into a template and come out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Signature {
    parameters: Vec<Shape>,
    result: Shape,
}

/// The templates without a text of ours, as calls of something unknown.
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
    pub fn of(computation: &Computation) -> Self {
        let parameters = computation.parameter_shapes().into_iter().cloned().collect();
        Self { parameters, result: computation.result().clone() }
    }

    /// That of the template of ours with this name; `None` if there is none.
    ///
    /// # Errors
    /// As filling and reading the template.
    pub fn of_template(name: &str, holes: &[(&str, Hole)]) -> Result<Option<Self>, TemplateError> {
        let known = super::EMBEDDED.iter().chain(&KERNELS).find(|(known, _)| *known == name);
        let Some(&(_, source)) = known else { return Ok(None) };
        let module = text::parse(&fill(source, name, holes)?, name).map_err(TemplateError::Parse)?;
        Ok(Some(Self::of(module.entry())))
    }

    /// That of the gradient: the arguments, the result and its cotangent to the cotangents of the floating-point
    /// arguments.
    pub fn gradient(&self) -> Self {
        let parameters = self.parameters.iter().chain([&self.result, &self.result]).cloned().collect();
        let cotangents = self.parameters.iter().filter(|shape| shape.holds_float()).cloned().collect();
        Self { parameters, result: Shape::Tuple(cotangents) }
    }

    /// Checks that a template, read from `file`, has this signature and nothing that no compiler takes.
    ///
    /// # Errors
    /// Every difference and every problem, each with its line.
    pub fn check(&self, located: &Located, file: &str) -> Result<(), Findings> {
        let Located { module, .. } = located;
        verify(module.clone()).map_err(|findings| placed(findings, located, file))?;
        let (id, entry) = (module.entry, module.entry());
        let place = |index: usize| {
            let line = located.lines(id).get(index).copied();
            let name = entry.instrs.get(index).map(|instr| instr.name.clone());
            Place { file: file.to_owned(), line, item: name }
        };
        let mut findings = Findings::default();
        let found = entry.parameters();
        for (number, wanted) in self.parameters.iter().enumerate() {
            let Some(&parameter) = found.get(number) else {
                let place = Place { line: located.line_of(id), ..Place::file(file) }.at(&entry.name);
                let message = format!("parameter {number} is missing: expected {wanted}");
                findings.push(Finding::new(place, message));
                continue;
            };
            let shape = &entry.instr(parameter).shape;
            if shape != wanted {
                let message = format!("expected {wanted} as parameter {number}, found {shape}");
                findings.push(Finding::new(place(parameter.index()), message));
            }
        }
        for parameter in found.iter().skip(self.parameters.len()) {
            let message = format!("expected {} parameters, found another", self.parameters.len());
            findings.push(Finding::new(place(parameter.index()), message));
        }
        if *entry.result() != self.result {
            let message = format!("expected {} as the result, found {}", self.result, entry.result());
            findings.push(Finding::new(place(entry.root.index()), message));
        }
        findings.into_result(())
    }
}

/// What verification found, at lines of `file` instead of names.
fn placed(findings: Findings, located: &Located, file: &str) -> Findings {
    let Module { computations, .. } = &located.module;
    let line = |place: &Place| {
        let index = computations.iter().position(|computation| computation.name == place.file)?;
        let id = CompId::new(index);
        let instr =
            computations[index].instrs.iter().position(|instr| Some(&instr.name) == place.item.as_ref());
        instr.map_or_else(|| located.line_of(id), |instr| located.lines(id).get(instr).copied())
    };
    let placed = |finding: Finding| {
        let Place { file: computation, item, .. } = finding.place.clone();
        let line = Some(line(&finding.place).unwrap_or(1));
        let place = Place { file: file.to_owned(), line, item: item.or(Some(computation)) };
        Finding { place, ..finding }
    };
    Findings(findings.0.into_iter().map(placed).collect())
}
