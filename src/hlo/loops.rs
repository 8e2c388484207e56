use super::{Builder, Comparison, Value};
use crate::base::{DType, Diagnostic, Diagnostics, Location};

/// What the body of a loop sees.
pub struct Iteration<'b> {
    /// The builder of the body.
    pub b: &'b Builder<'b>,
    /// `s32[]`, counted from zero.
    pub number: Value<'b>,
    /// What the last turn returned.
    pub carried: Vec<Value<'b>>,
    /// What stays as it is.
    pub fixed: Vec<Value<'b>>,
}

impl<'b> Builder<'b> {
    /// Runs `body` as often as `turns` says; it returns the next carried values, and this the last ones. What is to run once
    /// needs no loop.
    ///
    /// # Errors
    /// What `body` returns, or a mistake made while building it; or if there are more turns than an `s32` counts.
    pub fn fori_loop<E: From<Diagnostics>>(
        &'b self,
        name: &str,
        turns: usize,
        carried: &[Value<'b>],
        fixed: &[Value<'b>],
        body: impl for<'t> FnOnce(Iteration<'t>) -> Result<Vec<Value<'t>>, E>,
    ) -> Result<Vec<Value<'b>>, E> {
        if turns == 1 {
            let (carried, fixed) = (carried.to_vec(), fixed.to_vec());
            return body(Iteration { b: self, number: self.scalar(DType::S32, 0.0), carried, fixed });
        }
        if turns > i32::MAX as usize {
            let message = format!("expected at most {} turns of a loop, found {turns}", i32::MAX);
            return Err(Diagnostics(vec![Diagnostic::new(Location::file(name), message)]).into());
        }
        let module = self.module();
        let init = self.tuple(&[&[self.scalar(DType::S32, 0.0)], carried, fixed].concat());
        let state = init.shape();
        let condition = module.define(&format!("{name}.condition"), |b| {
            let number = b.parameter("state", state.clone()).get(0);
            number.compare(Comparison::Lt, b.scalar(DType::S32, turns as f64))
        })?;
        let body = module.try_define(&format!("{name}.body"), |b| {
            let mut values = b.parameter("state", state.clone()).elements();
            let fixed = values.split_off(1 + carried.len());
            let carried = values.split_off(1);
            let number = values[0];
            let next = body(Iteration { b, number, carried, fixed: fixed.clone() })?;
            Ok::<_, E>(b.tuple(&[&[number + 1.0], &next[..], &fixed].concat()))
        })?;
        let last = self.while_loop(condition, body, init);
        Ok((0..carried.len()).map(|index| last.get(index + 1)).collect())
    }
}
