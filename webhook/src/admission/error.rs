//! Errors and denials of admission requests, and the HTTP answer to each.

use std::{error::Error, str::Utf8Error, time::Duration};

use headroom_kit::log::{Chain, chain};
use headroom_rules::{
    change::ChangeError, fluid::TermError, pod_quota::AffinityError, profile::BlockingProfile,
};
use http::StatusCode;

use crate::{
    admission::{
        draft::{MAX_OPENED, PutBackError, RewriteError, ScanError, WriteError},
        refusal::{Denial, Refusal},
    },
    store::pending_limit::PendingLimit,
};

/// Outcome of an admission request, for metrics and the audit line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReviewOutcome {
    /// The request may go on, changed or unchanged.
    Allowed,
    /// A rule refuses; the client sees the reason.
    Denied,
    /// A call that gives no verdict, so the entry's `failurePolicy` decides.
    Failed,
    /// Not something to admit: a malformed, misdirected or surplus request.
    Rejected,
}

/// Why a step could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// A part of the object does not have the shape the API gives it.
    #[error("{field} cannot be read")]
    Read {
        /// The field, as a path from the outside in.
        field: String,
        source: serde_json::Error,
    },
    /// A part of the object is wider than any value that users or controllers write.
    #[error("{field} contains more than {MAX_OPENED} values")]
    TooWide {
        /// The field, as a path from the outside in.
        field: String,
    },
    /// A write that the object has no place for.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A change of a part that is not there.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// A change of a part that cannot be read or written.
    #[error(transparent)]
    Rewrite(#[from] RewriteError),
    /// A colocation profile that is for the pod, and cannot be applied to it.
    #[error(transparent)]
    Profile(#[from] BlockingProfile),
    /// The pod's node affinity is unreadable.
    #[error(transparent)]
    Affinity(#[from] AffinityError),
    /// Node affinity of a pod to which no term can be added.
    #[error(transparent)]
    Terms(#[from] TermError),
    /// A pod that has room in its quota, and cannot be counted there.
    #[error(transparent)]
    PendingLimit(#[from] PendingLimit),
    /// Something that the step has come to need is not known.
    #[error("{0} are not known to this replica")]
    Unknown(&'static str),
    /// A stored value that cannot be put back.
    #[error(transparent)]
    PutBack(#[from] PutBackError),
}

#[derive(Debug, thiserror::Error)]
pub enum AdmissionError {
    #[error("{0}")]
    Denied(Refusal),
    /// A step could not do its work.
    #[error("step {step} failed")]
    Step { step: &'static str, source: StepError },
    /// A step has a defect.
    #[error("step {step} panicked")]
    Panicked { step: &'static str },
    /// A step reads objects that are not known yet, or no longer.
    #[error("step {step} cannot decide: {resource} are not known to this replica")]
    UnknownSource {
        step: &'static str,
        /// The objects, as their source is named.
        resource: &'static str,
    },
    /// The time the API server gives us is over.
    #[error("no answer within {limit:?}")]
    Deadline { limit: Duration },
    /// The response could not be written as JSON.
    #[error("the response could not be encoded")]
    Encode(#[source] serde_json::Error),
    /// More requests at once than are served.
    #[error("more than {limit} requests at once")]
    TooMany { limit: usize },
    /// Only API servers with a client certificate may call.
    #[error("the caller has no client certificate of an API server")]
    Caller,
    /// No endpoint has this path.
    #[error("there is no endpoint {path:?}")]
    UnknownPath { path: String },
    #[error("method {method} is not POST")]
    Method {
        /// The method of the request.
        method: http::Method,
    },
    /// The content type is not JSON.
    #[error("content type {found:?} is not application/json")]
    ContentType {
        /// Header of the request, empty if it is missing.
        found: String,
    },
    /// A field outside the objects is longer than an API server can send.
    #[error("{field} is longer than {limit} bytes")]
    TooLong { field: String, limit: usize },
    /// The body is longer than accepted.
    #[error("the body is longer than {limit} bytes")]
    TooLarge { limit: usize },
    /// The body did not come in time.
    #[error("the body did not arrive within {limit:?}")]
    SlowBody {
        /// The time there was for it.
        limit: Duration,
    },
    /// The body gave way to others.
    #[error("the body was dropped in favour of others: the limit of all bodies is {limit} KiB")]
    GivenUp {
        /// Memory reserved for all bodies of its size, in KiB.
        limit: usize,
    },
    /// The connection gave no whole body.
    #[error("the body could not be read")]
    Body(#[source] Box<dyn Error + Send + Sync>),
    /// The body is not text.
    #[error("the body is not UTF-8")]
    NotText(#[source] Utf8Error),
    /// The body is not JSON, or nested too deep.
    #[error("the body is not an AdmissionReview")]
    NotJson(#[source] ScanError),
    /// A part of a review has another type than it should.
    #[error("{field} cannot be read")]
    Field {
        /// The field, as a path from the outside in.
        field: String,
        source: serde_json::Error,
    },
    /// A part of a review holds more than is opened or read.
    #[error("{field} contains more than {MAX_OPENED} values")]
    TooWide {
        /// The field, as a path from the outside in.
        field: String,
    },
    /// A review of a version that we do not speak.
    #[error("{kind:?} of {api_version:?} is not an AdmissionReview of admission.k8s.io/v1 or v1beta1")]
    Version { kind: String, api_version: String },
    /// An object of a review is text, a list or the like.
    #[error("{field} is not an object")]
    NotAnObject {
        /// The field, as a path from the outside in.
        field: &'static str,
    },
    /// An object of another kind than the path is for.
    #[error("{field} is {found:?}, must be {expected:?}")]
    WrongKind {
        /// The field, as a path from the outside in.
        field: &'static str,
        /// The kind as sent, shortened.
        found: String,
        /// The kind of the review.
        expected: String,
    },
    /// A review without something that its operation needs.
    #[error("{field} is missing")]
    Missing {
        /// The field, as a path from the outside in.
        field: &'static str,
    },
}

impl ReviewOutcome {
    pub const fn label(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Failed => "failed",
            Self::Rejected => "rejected",
        }
    }
}

impl From<Denial> for AdmissionError {
    fn from(denial: Denial) -> Self {
        Self::Denied(denial.into())
    }
}

impl AdmissionError {
    /// The HTTP status and the outcome of each error; the one place that decides it.
    ///
    /// A denial is a good answer with status 200 and its own code inside. A failure must not be one: to the API
    /// server `allowed: false` is a verdict that no `failurePolicy` softens.
    pub fn answer(&self) -> (StatusCode, ReviewOutcome) {
        match self {
            Self::Denied(_) => (StatusCode::OK, ReviewOutcome::Denied),
            Self::Step {
                source: StepError::Unknown(_),
                ..
            } => (StatusCode::SERVICE_UNAVAILABLE, ReviewOutcome::Failed),
            Self::Step { .. } | Self::Panicked { .. } | Self::Encode(_) => {
                (StatusCode::INTERNAL_SERVER_ERROR, ReviewOutcome::Failed)
            }
            Self::Deadline { .. } | Self::UnknownSource { .. } => {
                (StatusCode::SERVICE_UNAVAILABLE, ReviewOutcome::Failed)
            }
            Self::TooMany { .. } | Self::GivenUp { .. } => {
                (StatusCode::SERVICE_UNAVAILABLE, ReviewOutcome::Rejected)
            }
            Self::SlowBody { .. } => (StatusCode::REQUEST_TIMEOUT, ReviewOutcome::Rejected),
            Self::Caller => (StatusCode::FORBIDDEN, ReviewOutcome::Rejected),
            Self::UnknownPath { .. } => (StatusCode::NOT_FOUND, ReviewOutcome::Rejected),
            Self::Method { .. } => (StatusCode::METHOD_NOT_ALLOWED, ReviewOutcome::Rejected),
            Self::TooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, ReviewOutcome::Rejected),
            Self::ContentType { .. }
            | Self::Body(_)
            | Self::NotText(_)
            | Self::NotJson(_)
            | Self::Field { .. }
            | Self::TooWide { .. }
            | Self::TooLong { .. }
            | Self::Version { .. }
            | Self::NotAnObject { .. }
            | Self::WrongKind { .. }
            | Self::Missing { .. } => (StatusCode::BAD_REQUEST, ReviewOutcome::Rejected),
        }
    }

    /// The error with its causes, outermost first.
    pub fn reason(&self) -> Chain<'_> {
        chain(self)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn json_error() -> serde_json::Error {
        serde_json::from_str::<u8>("x").unwrap_err()
    }

    fn denial() -> Denial {
        Denial::Value {
            field: "spec.x".to_owned(),
            value: "7".to_owned(),
            reason: "is odd".to_owned(),
        }
    }

    #[rstest]
    #[case::denied(denial().into(), 200, ReviewOutcome::Denied)]
    #[case::step(AdmissionError::Step { step: "s", source: StepError::Read { field: "f".to_owned(), source: json_error() } }, 500, ReviewOutcome::Failed)]
    #[case::unknown(AdmissionError::Step { step: "s", source: StepError::Unknown("pods") }, 503, ReviewOutcome::Failed)]
    #[case::panicked(AdmissionError::Panicked { step: "s" }, 500, ReviewOutcome::Failed)]
    #[case::encode(AdmissionError::Encode(json_error()), 500, ReviewOutcome::Failed)]
    #[case::deadline(AdmissionError::Deadline { limit: Duration::from_secs(1) }, 503, ReviewOutcome::Failed)]
    #[case::unknown_source(AdmissionError::UnknownSource { step: "s", resource: "pods" }, 503, ReviewOutcome::Failed)]
    #[case::wrong_kind(AdmissionError::WrongKind { field: "request.object.kind", found: "A".to_owned(), expected: "B".to_owned() }, 400, ReviewOutcome::Rejected)]
    #[case::too_many(AdmissionError::TooMany { limit: 1 }, 503, ReviewOutcome::Rejected)]
    #[case::caller(AdmissionError::Caller, 403, ReviewOutcome::Rejected)]
    #[case::path(AdmissionError::UnknownPath { path: "/".to_owned() }, 404, ReviewOutcome::Rejected)]
    #[case::method(AdmissionError::Method { method: http::Method::GET }, 405, ReviewOutcome::Rejected)]
    #[case::content_type(AdmissionError::ContentType { found: String::new() }, 400, ReviewOutcome::Rejected)]
    #[case::too_large(AdmissionError::TooLarge { limit: 1 }, 413, ReviewOutcome::Rejected)]
    #[case::slow_body(AdmissionError::SlowBody { limit: Duration::from_secs(1) }, 408, ReviewOutcome::Rejected)]
    #[case::given_up(AdmissionError::GivenUp { limit: 1 }, 503, ReviewOutcome::Rejected)]
    #[case::body(AdmissionError::Body("reset".into()), 400, ReviewOutcome::Rejected)]
    #[case::not_text(AdmissionError::NotText(String::from_utf8(vec![0xff]).unwrap_err().utf8_error()), 400, ReviewOutcome::Rejected)]
    #[case::not_json(AdmissionError::NotJson(ScanError::End), 400, ReviewOutcome::Rejected)]
    #[case::field(AdmissionError::Field { field: "f".to_owned(), source: json_error() }, 400, ReviewOutcome::Rejected)]
    #[case::version(AdmissionError::Version { kind: String::new(), api_version: String::new() }, 400, ReviewOutcome::Rejected)]
    #[case::too_wide(AdmissionError::TooWide { field: "request".to_owned() }, 400, ReviewOutcome::Rejected)]
    #[case::too_long(AdmissionError::TooLong { field: "request.dryRun".to_owned(), limit: 1 }, 400, ReviewOutcome::Rejected)]
    #[case::not_an_object(AdmissionError::NotAnObject { field: "request.object" }, 400, ReviewOutcome::Rejected)]
    #[case::missing(AdmissionError::Missing { field: "request" }, 400, ReviewOutcome::Rejected)]
    fn each_error_answers_what_the_table_says(
        #[case] error: AdmissionError,
        #[case] status: u16,
        #[case] outcome: ReviewOutcome,
    ) {
        let (answered, ended) = error.answer();
        assert_eq!((answered.as_u16(), ended), (status, outcome));
    }

    #[test]
    fn a_reason_says_each_cause_once() {
        assert_eq!(
            AdmissionError::NotJson(ScanError::Syntax { at: 0 })
                .reason()
                .to_string(),
            "the body is not an AdmissionReview: byte 0: not JSON"
        );
        assert_eq!(
            AdmissionError::from(denial()).reason().to_string(),
            r#"spec.x: invalid value "7": is odd"#
        );
    }
}
