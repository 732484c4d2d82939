//! Logging of the programs for cluster, demo and benches: writes warnings to standard error.

use std::io;

use tracing_subscriber::EnvFilter;

/// Writes warnings to standard error; standard output belongs to results.
///
/// The Kubernetes client's records are left out: it reports every refused connection as an error, and a control plane that
/// starts or stops refuses many.
pub fn to_standard_error() {
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_env_filter(EnvFilter::new("warn,kube_client=off"))
        .init();
}
