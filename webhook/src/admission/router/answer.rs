//! [`HttpAnswer`] to an admission request, with the [`ReviewDecision`] that metrics and the audit line record.

use bytes::Bytes;
use http::StatusCode;
use json_patch::Patch;

use crate::{
    admission::{
        endpoint::Admitted,
        error::{AdmissionError, ReviewOutcome},
        review,
    },
    store::pending_admissions::PendingAdmissions,
};

/// The answer to a request.
#[derive(Debug)]
pub struct HttpAnswer {
    /// HTTP status: 200 for every verdict.
    pub status: StatusCode,
    /// An AdmissionReview for a verdict, else the reason as text.
    pub body: Bytes,
    /// Decision, for metrics and the audit line.
    pub decision: ReviewDecision,
    /// Records in the stores. They end with the answer unless they are kept.
    pub pending: PendingAdmissions,
}

/// Decision about a request.
#[derive(Debug)]
pub struct ReviewDecision {
    /// The request, if it could be read.
    pub request: Option<review::Request>,
    pub outcome: ReviewOutcome,
    pub operations: usize,
    /// True if the result differs from the stored object in more than heartbeats.
    pub changes: bool,
    /// Names of the steps that acted.
    pub acted: Vec<&'static str>,
    /// Why it was not allowed, or which step was passed over.
    pub errors: Vec<AdmissionError>,
}

/// Results of the steps, ready to be encoded.
pub(super) struct StepResults {
    pub(super) patch: Patch,
    pub(super) admitted: Admitted,
    /// True if the result differs from the stored object only in heartbeats.
    pub(super) is_renewal: bool,
}

impl Default for StepResults {
    fn default() -> Self {
        Self {
            patch: Patch(Vec::new()),
            admitted: Admitted::default(),
            is_renewal: false,
        }
    }
}

impl HttpAnswer {
    pub(super) fn allowed(request: review::Request, results: StepResults, body: Vec<u8>) -> Self {
        let StepResults {
            patch,
            admitted:
                Admitted {
                    acted,
                    skipped,
                    pending,
                },
            is_renewal,
        } = results;
        let outcome = if skipped.is_empty() {
            ReviewOutcome::Allowed
        } else {
            ReviewOutcome::Failed
        };
        let decision = ReviewDecision {
            request: Some(request),
            outcome,
            operations: patch.0.len(),
            changes: !patch.0.is_empty() && !is_renewal,
            acted,
            errors: skipped,
        };
        Self {
            status: StatusCode::OK,
            body: body.into(),
            decision,
            pending,
        }
    }

    /// Anything else; `verdict` is the encoded one of a denial and empty for errors.
    pub(super) fn refused(error: AdmissionError, request: Option<review::Request>, verdict: Vec<u8>) -> Self {
        let (status, outcome) = error.answer();
        let body = if verdict.is_empty() {
            format!("{}\n", error.reason()).into()
        } else {
            verdict.into()
        };
        let decision = ReviewDecision {
            request,
            outcome,
            operations: 0,
            changes: false,
            acted: Vec::new(),
            errors: vec![error],
        };
        Self {
            status,
            body,
            decision,
            pending: PendingAdmissions::default(),
        }
    }
}

impl From<AdmissionError> for HttpAnswer {
    fn from(error: AdmissionError) -> Self {
        Self::refused(error, None, Vec::new())
    }
}
