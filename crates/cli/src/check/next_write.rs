//! [`NextWrite`]: whether the webhook decides the next write of a node's status, by what is wrong for everybody.

use super::{Finding, NOT_REGISTERED_CODE, REGISTRATION_DIFFERS_CODE};

/// What the next write of a node's status does with its allocatable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextWrite {
    /// The webhook decides it.
    IsDecided,
    /// It may pass without the webhook: the registration differs.
    MayPass,
    /// It passes without the webhook.
    Passes,
}

impl NextWrite {
    /// By what is wrong for everybody.
    pub(crate) fn new(findings: &[Finding]) -> Self {
        let has = |code| findings.iter().any(|finding| finding.code == code);
        if has(NOT_REGISTERED_CODE) {
            Self::Passes
        } else if has(REGISTRATION_DIFFERS_CODE) {
            Self::MayPass
        } else {
            Self::IsDecided
        }
    }

    pub(crate) const fn about(self) -> &'static str {
        match self {
            Self::IsDecided => "the next write sets it",
            Self::MayPass => "the next write may pass without the webhook, as its registration differs",
            Self::Passes => "nothing sets it while the API server does not call the webhook",
        }
    }
}
