//! HLO text, as XLA's parser and printer have it.

mod attrs;
mod cursor;
mod lex;
mod parse;
mod print;
mod resolve;
mod sharding;
mod unresolved;
mod value;
mod word;

pub use parse::{parse, parse_located};
pub use print::{print, print_module};
pub use resolve::LocatedModule;

#[cfg(test)]
mod tests;
