//! Messages about invalid input: the file, the location, and what was expected. Every case also checks the exit code, that
//! standard output is empty and that no file has changed.

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
