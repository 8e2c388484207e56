use super::{INVALID_ATTRS, Vjp};
use crate::{
    autodiff::{
        AutodiffError, SavePolicy, backward,
        tape::{Step, zeros},
    },
    base::Shape,
    hlo::{Attrs, Value},
};

pub fn tuple<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    let part = |index| step.when_wanted(index, || step.cotangent.get(index));
    Vjp::Rule((0..step.instr.operands.len()).map(part).collect())
}

/// The other elements of the tuple have a zero cotangent.
pub fn get_tuple_element<'b>(step: &Step<'_, 'b>) -> Vjp<'b> {
    let (Attrs::TupleIndex(taken), Shape::Tuple(elements)) = (&step.instr.attrs, step.operand_shape(0))
    else {
        return Vjp::Unsupported(INVALID_ATTRS);
    };
    let b = step.builder();
    let part = |(index, shape)| if index == *taken { step.cotangent } else { zeros(b, shape) };
    let parts: Vec<Value<'b>> = elements.iter().enumerate().map(part).collect();
    Vjp::Rule(vec![Some(b.tuple(&parts))])
}

/// A callee with a custom VJP is differentiated by that; any other callee is differentiated too, once for all its calls.
pub fn call<'b>(step: &Step<'_, 'b>) -> Result<Vjp<'b>, AutodiffError> {
    let Attrs::Call(callee) = step.instr.attrs else {
        return Ok(Vjp::Unsupported(INVALID_ATTRS));
    };
    let b = step.builder();
    let mut arguments: Vec<Value<'b>> =
        (0..step.instr.operands.len()).map(|index| step.operand(index)).collect();
    let vjps = step.tape.vjps;
    if let Some(vjp) = vjps.custom(callee) {
        arguments.extend([step.result(), step.cotangent]);
        let all = b.call(vjp, &arguments);
        let mut position = 0..;
        let part = |index| {
            let at = step.operand_shape(index).holds_float().then(|| position.next())??;
            step.when_wanted(index, || all.get(at))
        };
        return Ok(Vjp::Rule((0..step.instr.operands.len()).map(part).collect()));
    }
    let wanted: Vec<usize> = (0..step.wanted.len()).filter(|&index| step.wanted[index]).collect();
    let derive = |wanted: &[usize]| {
        backward(b.module(), vjps, callee, wanted, SavePolicy::Nothing).map(|found| found.computation)
    };
    let vjp = vjps.derived(callee, wanted.clone(), derive)?;
    arguments.push(step.cotangent);
    let found = b.call(vjp, &arguments);
    let mut parts = vec![None; step.instr.operands.len()];
    wanted.iter().enumerate().for_each(|(at, &index)| parts[index] = Some(found.get(at)));
    Ok(Vjp::Rule(parts))
}
