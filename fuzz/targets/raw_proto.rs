#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| hloom_fuzz::run(hloom_fuzz::targets::raw_proto, input));
