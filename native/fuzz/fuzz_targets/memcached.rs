//! See `todana_fuzz::memcached`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| todana_fuzz::memcached(data));
