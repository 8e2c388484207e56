//! HLO text, as XLA's own parser reads it and its printer writes it.

mod attrs;
mod cursor;
mod lex;
mod parse;
mod print;
mod resolve;
mod sharding;
mod value;
mod word;

pub use parse::{parse, parse_located};
pub use print::{print, print_module};
pub use resolve::LocatedModule;
pub(super) use word::is_name;

#[cfg(test)]
mod tests;
