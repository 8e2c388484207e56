//! Shapes that a text leaves out: those for which XLA's parser infers the shape from the operands.

mod array;
mod moved;
mod operation;
mod product;
mod result;
mod several;

pub(super) use operation::Operation;
pub(super) use result::shape;
