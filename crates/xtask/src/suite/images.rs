//! The tests that build images. They are skipped where buildah cannot run, except in CI.

use std::env;

use super::Kind;
use crate::images;

/// Start of their names in the test program `process`.
const TESTS: &str = "images::";

/// Tests of this kind that this machine cannot run, and the reason.
pub(super) fn not_run(kind: Kind) -> Option<(&'static str, String)> {
    if kind != Kind::Process || env::var_os("CI").is_some() {
        return None;
    }
    Some((TESTS, images::obstacle()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_process_tests_build_images() {
        assert_eq!(not_run(Kind::Unit), None);
        assert_eq!(not_run(Kind::Apiserver), None);
    }
}
