//! `StartError`: the reasons why the agent does not start, or ends by itself.

use std::io;

use headroom_kit::{
    config::ConfigError, log::LogError, metric::MetricError, serve::ServeError, supervise::SuperviseError,
    tls::TlsError,
};

use crate::{sample::SampleError, start::source::SourceError};

/// Error at the start of the agent, or of a part that ended while it ran.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The logger cannot be installed.
    #[error("cannot log")]
    Log(#[from] LogError),
    /// Two metrics have the same name, or the recorder cannot be installed.
    #[error("cannot register the metrics")]
    Metrics(#[from] MetricError),
    /// The file or name in a flag is not usable.
    #[error("{flag}")]
    Flag {
        /// Name of the flag with its dashes.
        flag: &'static str,
        #[source]
        source: TlsError,
    },
    /// The kernel's boot id cannot be read.
    #[error("cannot read the boot id")]
    Boot(#[source] SampleError),
    /// CPU use cannot be measured.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The system refused a thread or timer.
    #[error("cannot start the runtime")]
    Runtime(#[source] io::Error),
    /// The admin port cannot be bound.
    #[error("--admin-addr")]
    Admin(#[from] ServeError),
    /// The configuration file cannot be read, or a value in it is invalid.
    #[error("--config")]
    Config(#[from] ConfigError),
    /// A part of the agent ended or failed.
    #[error(transparent)]
    Supervise(#[from] SuperviseError),
}
