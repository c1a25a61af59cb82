//! See `todana_fuzz::kyoto`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| todana_fuzz::kyoto(data));
