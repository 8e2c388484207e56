//! One binary for every integration test.

mod analyze;
mod attention;
mod autodiff;
mod bad_input;
mod chat_templates;
mod compile;
mod docs;
mod files;
mod host_memory;
mod mesh;
mod model_files;
mod outputs;
mod parity;
mod runs;
mod samples;
mod sharding;
mod smollm2;
mod step;
mod support;
mod templates;
mod tidy;
mod tokenizers;
mod training;
mod wrong_files;
mod xla_parser;
