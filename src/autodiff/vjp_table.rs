use std::{cell::RefCell, collections::BTreeMap};

use crate::hlo::CompId;

/// The vector-Jacobian products (VJPs) of the computations of one module: custom ones, which replace what autodiff would
/// derive, and a cache of those that it derived.
#[derive(Debug, Default)]
pub struct VjpTable {
    custom: RefCell<BTreeMap<CompId, CompId>>,
    derived: RefCell<BTreeMap<(CompId, Vec<usize>), CompId>>,
}

impl VjpTable {
    /// Sets the custom VJP of `primal`, like `jax.custom_vjp`. It takes the arguments of `primal`, its result and the
    /// cotangent of the result, and returns a tuple of the cotangents of the floating-point arguments.
    pub fn set_custom(&self, primal: CompId, vjp: CompId) {
        self.custom.borrow_mut().insert(primal, vjp);
    }

    /// The custom VJP of `primal`, if there is one.
    pub fn custom(&self, primal: CompId) -> Option<CompId> {
        self.custom.borrow().get(&primal).copied()
    }

    /// The VJP of `primal` with respect to the parameters `wrt`, which `derive` adds to the module on first use.
    ///
    /// # Errors
    /// The error of `derive`.
    pub(super) fn derived<E>(
        &self,
        primal: CompId,
        wrt: Vec<usize>,
        derive: impl FnOnce(&[usize]) -> Result<CompId, E>,
    ) -> Result<CompId, E> {
        let key = (primal, wrt);
        let cached = self.derived.borrow().get(&key).copied();
        if let Some(cached) = cached {
            return Ok(cached);
        }
        let derived = derive(&key.1)?;
        self.derived.borrow_mut().insert(key, derived);
        Ok(derived)
    }
}
