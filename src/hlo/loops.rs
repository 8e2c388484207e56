use super::{Builder, ComparisonDirection, Value, ValueTree};
use crate::base::{DType, Diagnostic, Diagnostics, Location};

/// The arguments of a loop body in one iteration.
pub struct Iteration<'b, C, K> {
    /// The builder of the body.
    pub b: &'b Builder<'b>,
    /// `s32[]`, counted from zero.
    pub index: Value<'b>,
    /// The result of the previous iteration, or the initial value in the first.
    pub carry: C,
    /// Loop invariants.
    pub captures: K,
}

impl<'b> Builder<'b> {
    /// Runs `body` `trip_count` times, like `jax.lax.fori_loop`: it takes the carry and returns the next one. A body that
    /// runs once is built inline, without a loop.
    ///
    /// # Errors
    /// The error of `body`, an error of shape inference in it, or a trip count that overflows `s32`.
    pub fn fori_loop<C, K, E>(
        &'b self,
        name: &str,
        trip_count: usize,
        init: C,
        captures: K,
        body: impl for<'t> FnOnce(Iteration<'t, C::In<'t>, K::In<'t>>) -> Result<C::In<'t>, E>,
    ) -> Result<C::In<'b>, E>
    where
        C: ValueTree<'b>,
        K: ValueTree<'b>,
        E: From<Diagnostics>,
    {
        let zero = self.scalar(DType::S32, 0.0);
        if trip_count == 1 {
            let carry = init.unflatten(&mut init.flatten().into_iter());
            let captures = captures.unflatten(&mut captures.flatten().into_iter());
            return body(Iteration { b: self, index: zero, carry, captures });
        }
        if trip_count > i32::MAX as usize {
            let message = format!("expected at most {} iterations of a loop, found {trip_count}", i32::MAX);
            return Err(Diagnostics::from(Diagnostic::error(Location::file(name), message)).into());
        }
        let module = self.module();
        let state = self.tuple(&[&[zero], &init.flatten()[..], &captures.flatten()].concat());
        let shape = state.shape();
        let scope = self.current_scope();
        let condition = module.define(&format!("{name}.condition"), |b| {
            b.in_scope(scope.clone(), || {
                let index = b.parameter("state", shape.clone()).get(0);
                index.compare(ComparisonDirection::Lt, b.scalar(DType::S32, trip_count as f64))
            })
        })?;
        let body = module.try_define(&format!("{name}.body"), |b| {
            b.in_scope(scope, || {
                let values = b.parameter("state", shape.clone()).elements();
                let index = values[0];
                let mut rest = values.iter().copied().skip(1);
                let carry = init.unflatten(&mut rest);
                let invariants: Vec<Value<'_>> = rest.clone().collect();
                let captures = captures.unflatten(&mut rest);
                let next = body(Iteration { b, index, carry, captures })?;
                Ok::<_, E>(b.tuple(&[&[index + 1.0], &next.flatten()[..], &invariants].concat()))
            })
        })?;
        let last = self.while_loop(condition, body, state);
        let count = init.flatten().len();
        Ok(init.unflatten(&mut (1..=count).map(|index| last.get(index))))
    }
}
