//! The hint service: takes reports from agents, sends them directives, and shows people the state of this replica.

pub mod agent_version;
pub mod auth;
pub mod debug;
pub mod directive;
mod door;
pub mod metrics;
pub mod quota_debug;
mod refusal_log;
pub mod server;
pub mod service;
pub mod session;
pub mod stream_context;
pub mod streams;
pub mod table;
pub mod token_review;

use headroom_domain::names;
use tonic::{Code, Status};

use self::token_review::ReviewError;

/// Connections that the hint port takes: one for each agent of a large fleet.
const CONNECTIONS: usize = 20_000;

/// Why a stream or call is refused, or ends.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// Neither token nor client certificate.
    #[error("no credential: send a bearer token, or a client certificate where they are taken")]
    NoCredential,
    /// The API server does not know the token, or it is not for us.
    #[error("the token is not valid here")]
    BadToken,
    /// A token for somebody else, by its own word.
    #[error(
        "the token's aud is {found:?}: an agent's token is for {}",
        names::TOKEN_AUDIENCE
    )]
    ForeignAudience {
        /// The audiences of the token, shortened.
        found: String,
    },
    /// The token or certificate was good until now.
    #[error("the credential has expired")]
    Expired,
    /// The pod that the token belongs to is gone.
    #[error("the pod of this token is gone")]
    PodGone,
    /// Somebody, but no agent.
    #[error("{user} is not a Headroom agent")]
    NotAnAgent {
        /// Who it is.
        user: String,
    },
    /// An agent's token that is not bound to a node.
    #[error(
        "the token of {user} names no node: it must be bound to a pod or node (Kubernetes 1.30 or later)"
    )]
    NotBound {
        /// Whose token it is.
        user: String,
    },
    /// A report for a node that the credential is not for.
    #[error("this credential speaks for node {own}, not for {other:?}")]
    ForeignNode {
        /// The node of the credential.
        own: String,
        /// The node of the report, shortened.
        other: String,
    },
    /// Somebody who may not look.
    #[error("{user} may not get {url}")]
    Forbidden {
        /// Who it is.
        user: String,
        /// What was to be looked at.
        url: &'static str,
    },
    /// The credential could not be checked.
    #[error("the credential cannot be checked now")]
    Unchecked(#[source] ReviewError),
    /// Too many credentials of this client wait to be checked, or turned out bad.
    #[error("too many tokens from this address wait to be checked or were bad: try again in a few seconds")]
    TooMany,
    /// The same node opened another stream.
    #[error("a newer stream of this node took over")]
    Replaced,
    /// The client does not read what it is sent.
    #[error("directives are not being read")]
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
    /// The client is told what is wrong with its side; causes on ours stay in our log.
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
