//! The `hloom` program.

fn main() {}
