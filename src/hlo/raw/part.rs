//! A computation of a module as a module of its own.

use super::{
    module::{CompId, Module},
    parse::parse,
    print::print_part,
};

/// The module that a computation and those that it calls make up. Its entry is the computation; shardings, aliases and the layout
/// of the other entry are not in its header.
pub fn part(module: &Module, entry: CompId) -> Module {
    parse(print_part(module, entry), module.file()).expect("computations of a valid module are valid")
}
