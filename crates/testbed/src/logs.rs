//! Logging of the programs for cluster, demo and benches.

use std::io;

use tracing_subscriber::EnvFilter;

/// Logs warnings to standard error; standard output is for results.
///
/// Excludes messages of the Kubernetes client: it logs every refused connection as an error, and a starting or stopping control
/// plane refuses many.
pub fn to_standard_error() {
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_env_filter(EnvFilter::new("warn,kube_client=off"))
        .init();
}
