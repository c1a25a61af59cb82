//! See `todana_fuzz::scripts`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| todana_fuzz::scripts(data));
