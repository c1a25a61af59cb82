//! See `todana_fuzz::table`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| todana_fuzz::table(data));
