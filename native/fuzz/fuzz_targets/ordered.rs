//! See `todana_fuzz::ordered`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| todana_fuzz::ordered(data));
