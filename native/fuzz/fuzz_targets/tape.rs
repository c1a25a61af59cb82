//! See `todana_fuzz::tape`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| todana_fuzz::tape(data));
