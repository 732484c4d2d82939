//! `StartError`: the reasons why the agent does not start, or ends by itself.

use std::io;

use headroom_kit::{
    config::ConfigError, log::LogError, metric::MetricError, serve::ServeError, supervise::SuperviseError,
    tls::TlsError,
};

use crate::{sample::SampleError, start::source::SenseError};

/// Why the agent does not start, or ends by itself.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Logging cannot begin.
    #[error("cannot log")]
    Log(#[from] LogError),
    /// The metrics contradict each other.
    #[error("cannot count")]
    Metrics(#[from] MetricError),
    /// A file or name that a flag gives cannot be used.
    #[error("{flag}")]
    Flag {
        /// The flag.
        flag: &'static str,
        /// What is wrong with it.
        #[source]
        source: TlsError,
    },
    /// This boot cannot be told from another.
    #[error("cannot tell which boot this is")]
    Boot(#[source] SampleError),
    /// Nothing can be measured.
    #[error(transparent)]
    Sense(#[from] SenseError),
    /// Threads or timers cannot be had.
    #[error("cannot start the runtime")]
    Runtime(#[source] io::Error),
    /// The admin port cannot be bound.
    #[error("--admin-addr")]
    Admin(#[from] ServeError),
    /// The configuration file cannot be read, or says what cannot be meant.
    #[error("--config")]
    Config(#[from] ConfigError),
    /// A part of the agent came to its end.
    #[error(transparent)]
    Supervise(#[from] SuperviseError),
}
