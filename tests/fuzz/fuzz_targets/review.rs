//! See `headroom_fuzz::review`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| headroom_fuzz::review::check(data));
