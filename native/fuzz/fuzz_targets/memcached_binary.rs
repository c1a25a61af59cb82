//! See `todana_fuzz::memcached_binary`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| todana_fuzz::memcached_binary(data));
