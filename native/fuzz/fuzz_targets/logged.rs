//! See `todana_fuzz::logged`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| todana_fuzz::logged(data));
