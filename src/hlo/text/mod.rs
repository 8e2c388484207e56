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
pub use print::{MetadataText, print, print_module, print_with};
pub use resolve::LocatedModule;

#[cfg(test)]
mod tests;
