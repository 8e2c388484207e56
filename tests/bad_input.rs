//! What hloom says of input that is not right: the file, the place in it, and what would be right. Every case also
//! checks the exit code, that no results are given and that no file has changed.

mod bundle;
mod data;
mod devices;
mod mesh;
mod model;
mod output;
mod parity;
mod plugins;
mod settings;
mod store;
