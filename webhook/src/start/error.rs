//! [`StartError`]: reasons why the webhook cannot start, or ends other than by a signal, with their exit codes.

use std::io;

use headroom_kit::{
    config::ConfigError, gate::GateError, log::LogError, metric::MetricError, serve::ServeError,
    supervise::SuperviseError, tls::TlsError,
};
use headroom_rules::switch::SwitchError;

use crate::admission::shadow::ShadowError;

/// Reason why the webhook cannot start, or ends other than by a signal.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Metric(#[from] MetricError),
    /// Certificates or keys cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A port cannot be served.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// No usable configuration of the API server. The library's error texts contain their causes.
    #[error("no usable configuration of the API server: {0}")]
    Kube(Box<dyn std::error::Error + Send + Sync>),
    /// There are no threads for admission.
    #[error("could not start the threads of admission")]
    Threads(#[source] io::Error),
    /// A feature gate that does not exist.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// A switch that does not exist.
    #[error(transparent)]
    Switch(#[from] SwitchError),
    /// A step that does not exist.
    #[error(transparent)]
    Shadow(#[from] ShadowError),
    /// A task ended the process.
    #[error(transparent)]
    Supervise(#[from] SuperviseError),
}

impl StartError {
    /// Exit code: 2 for faults that the user must fix, 1 for all others.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_)
            | Self::Gate(_)
            | Self::Switch(_)
            | Self::Shadow(_)
            | Self::Tls(_)
            | Self::Kube(_) => 2,
            Self::Log(_) | Self::Metric(_) | Self::Serve(_) | Self::Threads(_) | Self::Supervise(_) => 1,
        }
    }
}
