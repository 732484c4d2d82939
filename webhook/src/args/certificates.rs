//! Flags for the source of the webhook's certificates and for what the webhook writes of them.

use std::{path::PathBuf, time::Duration};

use clap::ValueEnum;
use headroom_kit::args::TlsArgs;

const DAY_S: u64 = 24 * 60 * 60;

/// Origin of the serving certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CertificateMode {
    /// A Secret that the webhook creates, renews and rotates
    Managed,
    /// A Secret that cert-manager writes
    CertManager,
    /// Files: --tls-cert-file, or --tls-self-signed-dir
    Files,
}

/// Fields of webhook configurations that the leader keeps as they should be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Reconcile {
    /// The CA bundle
    #[default]
    Bundle,
    /// Whole entries: those of gates that are off are removed, and changes are reverted
    Entries,
    /// Nothing
    None,
}

#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Certificates")]
pub struct CertificateArgs {
    /// Source of the serving certificate. Default: files if --tls-cert-file or --tls-self-signed-dir is given, else
    /// managed
    #[arg(long, env = "HEADROOM_CERTIFICATES", value_enum, value_name = "SOURCE")]
    pub certificates: Option<CertificateMode>,
    /// CAs of the certificate in --tls-cert-file (PEM), which the leader then publishes. Without it, other tools write
    /// them
    #[arg(
        long,
        env = "HEADROOM_TLS_CA_FILE",
        value_name = "FILE",
        requires = "tls_cert_file"
    )]
    pub tls_ca_file: Option<PathBuf>,
    /// Fields of our webhook configurations that the leader writes: bundle, entries or none. With
    /// --certificates=cert-manager, it writes the bundle where cert-manager does not inject it
    #[arg(
        long,
        env = "HEADROOM_RECONCILE",
        value_enum,
        value_name = "FIELDS",
        default_value_t
    )]
    pub reconcile: Reconcile,
    /// Seconds for which a managed certificate is valid. It is renewed after about two thirds of them
    #[arg(long, env = "HEADROOM_CERTIFICATE_SECONDS", value_name = "SECONDS", default_value_t = 90 * DAY_S, value_parser = clap::value_parser!(u64).range(60..=90 * DAY_S))]
    pub certificate_seconds: u64,
    /// Seconds for which a managed CA is valid. Its rotation begins after about two thirds of them
    #[arg(long, env = "HEADROOM_CA_SECONDS", value_name = "SECONDS", default_value_t = 365 * DAY_S, value_parser = clap::value_parser!(u64).range(120..=3650 * DAY_S))]
    pub ca_seconds: u64,
    /// Least seconds in each state of a CA's rotation, until every API server, replica and kubelet has seen the state
    #[arg(long, env = "HEADROOM_ROTATION_WAIT_SECONDS", value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=DAY_S))]
    pub rotation_wait_seconds: u64,
    /// Most seconds that a CA's rotation waits for configurations and agents that do not have the next CA
    #[arg(long, env = "HEADROOM_ROTATION_MOST_WAIT_SECONDS", value_name = "SECONDS", default_value_t = DAY_S, value_parser = clap::value_parser!(u64).range(1..=7 * DAY_S))]
    pub rotation_most_wait_seconds: u64,
}

impl CertificateArgs {
    /// The source: as given, or by the flags for files.
    pub fn mode(&self, tls: &TlsArgs) -> CertificateMode {
        let has_files = tls.tls_cert_file.is_some() || tls.tls_self_signed_dir.is_some();
        let default = if has_files {
            CertificateMode::Files
        } else {
            CertificateMode::Managed
        };
        self.certificates.unwrap_or(default)
    }

    /// Lifetime of a managed certificate.
    pub const fn lifetime(&self) -> Duration {
        Duration::from_secs(self.certificate_seconds)
    }

    /// Lifetime of a managed CA.
    pub const fn ca_lifetime(&self) -> Duration {
        Duration::from_secs(self.ca_seconds)
    }
}
