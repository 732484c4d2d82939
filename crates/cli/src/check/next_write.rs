//! [`NextWrite`]: tells from the findings if the webhook decides the next status write of a node.

use super::{Finding, NOT_REGISTERED_CODE, REGISTRATION_DIFFERS_CODE};

/// Path of a node's next status write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextWrite {
    IsDecided,
    /// The registration differs, so the write may bypass the webhook.
    MayPass,
    /// The webhook is not registered, so the write bypasses it.
    Passes,
}

impl NextWrite {
    /// Derives the path from the findings of the installation.
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
            Self::IsDecided => "the next status write updates it",
            Self::MayPass => "the next status write may bypass the webhook, because its registration differs",
            Self::Passes => "no write updates it until the API server calls the webhook",
        }
    }
}
