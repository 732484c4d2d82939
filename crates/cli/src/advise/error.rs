//! [`AdviceError`]: errors of `advise`.

use std::{io, path::PathBuf};

use crate::error::Error;

#[derive(Debug, thiserror::Error)]
pub enum AdviceError {
    /// The request fails, before any HTTP response.
    #[error("{query}: request failed: {reason}")]
    Ask { query: String, reason: String },
    #[error("{credential} would be sent unencrypted to {host}; use an https:// URL")]
    PlainCredential { credential: String, host: String },
    #[error(
        "user {user:?} of the Prometheus server has no password; set HEADROOM_PROMETHEUS_PASSWORD or --prometheus-password-file"
    )]
    NoPassword { user: String },
    #[error(
        "--prometheus-password-file needs a user: set --prometheus-user, or write http://USER@HOST as the URL"
    )]
    NoUser,
    #[error("the Prometheus server can have one credential, but {first} and {second} are set")]
    TwoCredentials { first: String, second: String },
    #[error(
        "header {name} is not sent through --prometheus-service, because the API server authenticates you with it; use --prometheus"
    )]
    ApiServersHeader { name: http::HeaderName },
    #[error(
        "node {node:?} has series of several clusters: label {label} is {}; choose one with --selector {label}={}",
        join_quoted(values), values.first().map_or("", String::as_str)
    )]
    SeveralClusters {
        node: String,
        label: String,
        values: Vec<String>,
    },
    /// All nodes are left out.
    #[error(
        "each of {nodes} nodes is implausible, for example {example}; {}",
        IMPLAUSIBLE_CAUSE
    )]
    AllImplausible {
        nodes: usize,
        /// A node with its reason.
        example: String,
    },
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

/// Usual causes of implausible nodes, with the fix.
pub const IMPLAUSIBLE_CAUSE: &str = "the usual causes are series that --query sums twice, and two clusters with the same node names; see \
                                     --selector";

/// Limit of values in an error.
const SHOWN_VALUES: usize = 5;

fn join_quoted(values: &[String]) -> String {
    let shown: Vec<String> = values
        .iter()
        .take(SHOWN_VALUES)
        .map(|value| format!("{value:?}"))
        .collect();
    let more = if values.len() > SHOWN_VALUES {
        " and more"
    } else {
        ""
    };
    format!("{}{more}", shown.join(" and "))
}

impl From<AdviceError> for Error {
    fn from(error: AdviceError) -> Self {
        Self::Area(Box::new(error))
    }
}
