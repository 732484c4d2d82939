//! See `headroom_fuzz::slo`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| headroom_fuzz::slo::check(data));
