//! Hint service: receives reports from agents, sends them directives, and answers debug queries about this replica.

pub mod agent_authorities;
pub mod agent_version;
pub mod auth;
mod call_limits;
pub mod debug;
mod debug_access;
pub mod directive;
pub mod metrics;
pub mod quota_debug;
pub mod server;
pub mod service;
pub mod session;
pub mod stream_context;
pub mod streams;
pub mod token_review;

use std::time::Duration;

use headroom_domain::names;
use headroom_kit::log::LineLimit;
use tonic::{Code, Status};

use self::token_review::ReviewError;

/// Connections that the hint port takes: one for each agent of a large fleet.
const CONNECTIONS: usize = 20_000;

/// Log lines about refused calls of a service: one a second, and enough at once that a misconfigured fleet is visible.
fn refusal_lines() -> LineLimit {
    LineLimit::new(Duration::from_secs(1), 50)
}

/// Why a stream or call is refused, or ends.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// Neither token nor client certificate.
    #[error("no credential: send a bearer token, or a client certificate if the server accepts them")]
    NoCredential,
    /// The API server does not know the token, or it is not for us.
    #[error("the token is not valid for this webhook")]
    BadToken,
    /// The token's audience is another server.
    #[error(
        "the token's audience is {found:?}, not the webhook's: an agent's token needs the audience {}",
        names::TOKEN_AUDIENCE
    )]
    ForeignAudience {
        /// The audiences of the token, shortened.
        found: String,
    },
    /// The token or certificate was good until now.
    #[error("the credential has expired")]
    Expired,
    /// A viewer's token that is valid for too long.
    #[error(
        "the token is valid for {} s, and tokens of this account may be valid for at most {} s: request one with \
         --duration=10m",
        validity.as_secs(),
        longest.as_secs()
    )]
    LongValidity {
        /// Time from the token's creation to its expiry.
        validity: Duration,
        /// Limit of this time.
        longest: Duration,
    },
    /// The token's pod no longer exists.
    #[error("the pod of this token no longer exists")]
    PodGone,
    /// Valid credential of a user that is not an agent.
    #[error("{user} is not a Headroom agent")]
    NotAnAgent { user: String },
    /// An agent's token that is not bound to a node.
    #[error(
        "the token of {user} names no node: it must be bound to a pod or node (Kubernetes 1.30 or later)"
    )]
    NotBound { user: String },
    /// A report for a node that the credential is not for.
    #[error("this credential is for node {own}, not for {other:?}")]
    ForeignNode {
        /// The node of the credential.
        own: String,
        /// The node of the report, shortened.
        other: String,
    },
    /// User without the right to query the debug service.
    #[error("{user} may not get {url}")]
    Forbidden {
        user: String,
        /// URL of the query.
        url: &'static str,
    },
    /// The credential could not be checked.
    #[error("the credential could not be checked")]
    Unchecked(#[source] ReviewError),
    /// Too many credentials of this client wait to be checked, or turned out bad.
    #[error("too many unchecked or invalid tokens from this address: retry in a few seconds")]
    TooMany,
    /// The node opened another stream.
    #[error("a newer stream of this node replaced this one")]
    Replaced,
    /// The client does not read its messages.
    #[error("the client does not read its directives")]
    Stuck,
    /// This replica is about to end.
    #[error("this replica is shutting down")]
    ShuttingDown,
}

impl StreamError {
    /// The gRPC code of each error; the one place that decides it.
    pub fn code(&self) -> Code {
        match self {
            Self::NoCredential
            | Self::BadToken
            | Self::ForeignAudience { .. }
            | Self::LongValidity { .. }
            | Self::Expired
            | Self::PodGone => Code::Unauthenticated,
            Self::NotAnAgent { .. }
            | Self::NotBound { .. }
            | Self::ForeignNode { .. }
            | Self::Forbidden { .. } => Code::PermissionDenied,
            Self::Unchecked(_) | Self::ShuttingDown => Code::Unavailable,
            Self::Replaced => Code::Aborted,
            Self::TooMany | Self::Stuck => Code::ResourceExhausted,
        }
    }

    /// The reason as a metric label.
    pub const fn label(&self) -> &'static str {
        match self {
            Self::NoCredential => "no_credential",
            Self::BadToken => "bad_token",
            Self::ForeignAudience { .. } => "foreign_audience",
            Self::LongValidity { .. } => "long_validity",
            Self::Expired => "expired",
            Self::PodGone => "pod_gone",
            Self::NotAnAgent { .. } => "not_an_agent",
            Self::NotBound { .. } => "not_bound",
            Self::ForeignNode { .. } => "foreign_node",
            Self::Forbidden { .. } => "forbidden",
            Self::Unchecked(_) => "unchecked",
            Self::TooMany => "too_many",
            Self::Replaced => "replaced",
            Self::Stuck => "stuck",
            Self::ShuttingDown => "shutting_down",
        }
    }
}

impl From<StreamError> for Status {
    /// The client receives the faults of its request; causes on the server's side stay in the log.
    fn from(error: StreamError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(StreamError::NoCredential, Code::Unauthenticated)]
    #[case(StreamError::BadToken, Code::Unauthenticated)]
    #[case(StreamError::ForeignAudience { found: "x".into() }, Code::Unauthenticated)]
    #[case(StreamError::Expired, Code::Unauthenticated)]
    #[case(StreamError::PodGone, Code::Unauthenticated)]
    #[case(StreamError::NotAnAgent { user: "u".into() }, Code::PermissionDenied)]
    #[case(StreamError::NotBound { user: "u".into() }, Code::PermissionDenied)]
    #[case(StreamError::ForeignNode { own: "a".into(), other: "b".into() }, Code::PermissionDenied)]
    #[case(StreamError::Forbidden { user: "u".into(), url: "/x" }, Code::PermissionDenied)]
    #[case(StreamError::Unchecked(ReviewError::Slow), Code::Unavailable)]
    #[case(StreamError::TooMany, Code::ResourceExhausted)]
    #[case(StreamError::ShuttingDown, Code::Unavailable)]
    #[case(StreamError::Replaced, Code::Aborted)]
    #[case(StreamError::Stuck, Code::ResourceExhausted)]
    fn each_error_has_its_code_and_its_text(#[case] error: StreamError, #[case] code: Code) {
        let text = error.to_string();
        let status = Status::from(error);
        assert_eq!((status.code(), status.message()), (code, text.as_str()));
    }
}
