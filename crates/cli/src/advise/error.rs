//! [`AdviceError`]: errors of `advise`.

use std::{io, path::PathBuf};

use crate::error::Error;

#[derive(Debug, thiserror::Error)]
pub enum AdviceError {
    /// The request fails, before any HTTP response.
    #[error("{query}: request failed: {reason}")]
    Ask { query: String, reason: String },
    /// A token would be sent unencrypted.
    #[error("--prometheus-token-file would send the token unencrypted to {host}; use an https:// URL")]
    PlainToken { host: String },
    /// The server is not Prometheus, or a proxy refuses.
    #[error("{query}: the server returned {status}: {text}")]
    Status {
        query: String,
        status: http::StatusCode,
        /// First characters of the body.
        text: String,
    },
    /// The API server does not forward the request: no permission, no such Service, or no ready endpoint.
    #[error("{query}: the API server returned {status}: {message}")]
    ApiServer {
        query: String,
        status: http::StatusCode,
        message: String,
    },
    /// The body is not a response of Prometheus' HTTP API.
    #[error("{query}: not a response of Prometheus' HTTP API")]
    Answer {
        query: String,
        #[source]
        source: serde_json::Error,
    },
    #[error("{query}: Prometheus returned an error: {reason}")]
    Refused { query: String, reason: String },
    /// The response has one value per series.
    #[error("{query}: this is the response to an instant query; save that of a range query")]
    NotARange { query: String },
    #[error("cannot read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot write {}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} contains no file {query}.json or {query}-*.json", path.display())]
    NotSaved { path: PathBuf, query: &'static str },
    /// A required query has no series.
    #[error(
        "{query} has no series with the label \"node\"; without result: {asked}; replace it with --query {query}=PROMQL"
    )]
    Empty { query: &'static str, asked: String },
    /// Nodes have measured use, but none of them has capacity and allocatable.
    #[error(
        "no node has use, capacity and allocatable under the same name: of {measured} nodes with use, {example:?} lacks the others"
    )]
    NoNode {
        /// Number of nodes with measured use.
        measured: usize,
        example: String,
    },
}

impl From<AdviceError> for Error {
    fn from(error: AdviceError) -> Self {
        Self::Area(Box::new(error))
    }
}
