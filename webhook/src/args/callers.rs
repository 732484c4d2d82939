//! [`CallerArgs`]: flags for the clients that may post reviews.

use clap::{Args, ValueEnum};

/// Clients whose reviews are answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Callers {
    /// Every client that reaches the port
    #[default]
    Any,
    /// API servers with a client certificate
    ClientCertificate,
}

#[derive(Debug, Clone, Default, Args)]
pub struct CallerArgs {
    /// Clients whose reviews are answered. With client-certificate, callers without a certificate of
    /// --tls-client-ca-file and --caller-names are refused from the first review on that arrives with one
    #[arg(
        long,
        env = "HEADROOM_CALLERS",
        value_enum,
        default_value_t,
        requires_if("client-certificate", "caller_names")
    )]
    pub callers: Callers,
    /// Common names of the API servers' client certificates
    #[arg(
        long,
        env = "HEADROOM_CALLER_NAMES",
        value_name = "NAME,...",
        value_delimiter = ',',
        requires = "tls_client_ca_file"
    )]
    pub caller_names: Vec<String>,
}
