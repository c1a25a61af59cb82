//! See `todana_fuzz::entry`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| todana_fuzz::entry(data));
