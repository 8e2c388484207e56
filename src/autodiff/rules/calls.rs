use super::vjp::{INVALID_ATTRS, Vjp};
use crate::{
    autodiff::tape::{CalleeVjp, Step, zeros},
    base::Shape,
    hlo::{Attrs, Value},
};

pub(super) fn tuple<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    let part = |index| step.when_wanted(index, || step.cotangent.get(index));
    Vjp::Rule((0..step.instr.operands.len()).map(part).collect())
}

/// The other elements of the tuple have a zero cotangent.
pub(super) fn get_tuple_element<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    let (Attrs::TupleIndex(taken), Shape::Tuple(elements)) = (&step.instr.attrs, step.operand_shape(0))
    else {
        return Vjp::Unsupported(INVALID_ATTRS);
    };
    let b = step.builder();
    let part = |(index, shape)| if index == *taken { step.cotangent } else { zeros(b, shape) };
    let parts: Vec<Value<'b>> = elements.iter().enumerate().map(part).collect();
    Vjp::Rule(vec![Some(b.tuple(&parts))])
}

/// The cotangents of the arguments are results of the VJP of the callee.
pub(super) fn call<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    let Some(callee) = step.callee else { return Vjp::Unsupported(INVALID_ATTRS) };
    let b = step.builder();
    let count = step.instr.operands.len();
    let mut arguments: Vec<Value<'b>> = (0..count).map(|index| step.operand(index)).collect();
    match callee {
        CalleeVjp::Custom(vjp) => {
            arguments.extend([step.result(), step.cotangent]);
            let all = b.call(vjp, &arguments);
            let mut position = 0..;
            let part = |index: usize| {
                let at = step.operand_shape(index).holds_float().then(|| position.next())??;
                step.when_wanted(index, || all.get(at))
            };
            Vjp::Rule((0..count).map(part).collect())
        }
        CalleeVjp::Derived(vjp) => {
            arguments.push(step.cotangent);
            let found = b.call(vjp, &arguments);
            let mut position = 0..;
            let part = |index: usize| {
                let at = step.wanted[index].then(|| position.next())??;
                Some(found.get(at))
            };
            Vjp::Rule((0..count).map(part).collect())
        }
    }
}
