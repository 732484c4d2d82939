//! `AdviceError`: the reasons for which `advise` has no result.

use std::{io, path::PathBuf};

use crate::error::Error;

/// Why there is no advice.
#[derive(Debug, thiserror::Error)]
pub enum AdviceError {
    /// The server cannot be asked.
    #[error("{query}: cannot ask the server: {reason}")]
    Ask {
        /// The query.
        query: String,
        /// The innermost reason.
        reason: String,
    },
    /// A token would go over the network in the clear.
    #[error(
        "--prometheus-token-file sends its token over plain HTTP to {host}, where others can read it: give an https:// URL"
    )]
    PlainToken {
        /// The host of the URL.
        host: String,
    },
    /// What answers is not Prometheus, or refuses before Prometheus does.
    #[error("{query}: the server answers {status}: {text}")]
    Status {
        /// The query.
        query: String,
        /// The HTTP status.
        status: http::StatusCode,
        /// The beginning of what it says.
        text: String,
    },
    /// The API server does not pass the query on: no right to, no such Service, nobody behind it.
    #[error("{query}: the API server answers {status}: {message}")]
    ApiServer {
        /// The query.
        query: String,
        /// The HTTP status.
        status: http::StatusCode,
        /// What it says.
        message: String,
    },
    /// The answer is not one of Prometheus' HTTP API.
    #[error("{query}: not an answer of Prometheus' HTTP API")]
    Answer {
        /// The query.
        query: String,
        /// What the parser found.
        #[source]
        source: serde_json::Error,
    },
    /// Prometheus says why there is no result.
    #[error("{query}: the server refuses: {reason}")]
    Refused {
        /// The query.
        query: String,
        /// Its reason.
        reason: String,
    },
    /// The answer has one value for each series.
    #[error("{query}: the answer to an instant query; a range query is needed")]
    NotARange {
        /// The query.
        query: String,
    },
    /// A file cannot be read, or a directory cannot be listed.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The reason the system gives.
        #[source]
        source: io::Error,
    },
    /// An answer cannot be saved.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The reason the system gives.
        #[source]
        source: io::Error,
    },
    /// No file holds the answer to a query.
    #[error("{}: no file {query}.json or {query}-*.json", path.display())]
    NotSaved {
        /// The directory.
        path: PathBuf,
        /// The query.
        query: &'static str,
    },
    /// A query that advice cannot do without has no series.
    #[error(
        "{query} has no series with the label \"node\"; what came back empty is {asked}; --query {query}=PROMQL replaces it"
    )]
    Empty {
        /// The query.
        query: &'static str,
        /// What was asked: expressions, or files.
        asked: String,
    },
    /// Nodes were measured, but of none is it known what it has.
    #[error(
        "no node has measured use, capacity and allocatable under one name: of {measured} with use, {example:?} has not"
    )]
    NoNode {
        /// Nodes with measured use.
        measured: usize,
        /// One of them.
        example: String,
    },
}

impl From<AdviceError> for Error {
    fn from(error: AdviceError) -> Self {
        Self::Area(Box::new(error))
    }
}
