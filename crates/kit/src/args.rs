//! Command-line flags shared by the programs: logs, admin port, TLS. Each flag has an environment variable.
//!
//! The agent and the webhook flatten the log and admin flags; the webhook also flattens the TLS flags.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::SystemTime,
};

use clap::{Args, Command};
use rustls::{ServerConfig, server::ResolvesServerCert};

use crate::{
    admin,
    log::{self, Filter, Format, LogError},
    serve::{Listener, ServeError},
    tls::{self, ClientAuth, Files, MinVersion, TlsError, self_signed},
};

/// Prefix of the environment variable of every flag.
pub const ENV_PREFIX: &str = "HEADROOM_";

/// Prefixes of variables that Kubernetes sets in each pod for our Services. A flag must not use such a variable.
const SERVICE_PREFIXES: [&str; 2] = ["HEADROOM_WEBHOOK_", "HEADROOM_HINTS_"];

/// Flags for logging: format and levels.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Logs")]
pub struct LogArgs {
    /// Format of log lines
    #[arg(long, env = "HEADROOM_LOG_FORMAT", value_enum, default_value_t)]
    pub log_format: Format,
    /// Log levels, optionally by target, for example info,headroom_webhook=debug
    #[arg(
        long,
        env = "HEADROOM_LOG_FILTER",
        value_name = "FILTER",
        default_value = "info"
    )]
    pub log_filter: Filter,
}

/// Flags for the admin port.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Administration")]
pub struct AdminArgs {
    /// Address of the admin port (plain HTTP: /livez, /readyz, /metrics); port 0 picks a free port
    #[arg(long, env = "HEADROOM_ADMIN_ADDR", value_name = "IP:PORT", default_value_t = any(8080))]
    pub admin_addr: SocketAddr,
}

/// Flags for the server certificate and for client certificates.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "TLS")]
pub struct TlsArgs {
    /// Server certificate with its intermediates (PEM); reloaded when it changes
    #[arg(
        long,
        env = "HEADROOM_TLS_CERT_FILE",
        value_name = "FILE",
        requires = "tls_key_file"
    )]
    pub tls_cert_file: Option<PathBuf>,
    /// Private key of the server certificate (PEM)
    #[arg(
        long,
        env = "HEADROOM_TLS_KEY_FILE",
        value_name = "FILE",
        requires = "tls_cert_file"
    )]
    pub tls_key_file: Option<PathBuf>,
    /// Create a CA (ca.crt) and a certificate in this directory, or reuse existing ones
    #[arg(
        long,
        env = "HEADROOM_TLS_SELF_SIGNED_DIR",
        value_name = "DIR",
        conflicts_with_all = ["tls_cert_file", "tls_key_file"]
    )]
    pub tls_self_signed_dir: Option<PathBuf>,
    /// Additional DNS names and IP addresses of the self-signed certificate
    #[arg(
        long,
        env = "HEADROOM_TLS_SAN",
        value_name = "NAME",
        value_delimiter = ',',
        conflicts_with = "tls_cert_file"
    )]
    pub tls_san: Vec<String>,
    /// Oldest TLS version to accept
    #[arg(long, env = "HEADROOM_TLS_MIN_VERSION", value_enum, default_value_t)]
    pub tls_min_version: MinVersion,
    /// Request client certificates issued by the CAs in this file (PEM). Clients without one are accepted, and those
    /// with an invalid one are not
    #[arg(long, env = "HEADROOM_TLS_CLIENT_CA_FILE", value_name = "FILE")]
    pub tls_client_ca_file: Option<PathBuf>,
}

impl LogArgs {
    /// Starts logging to standard error with these flags. No caller waits for it; call [`log::flush`] at the end.
    ///
    /// # Errors
    /// Logging is already set up in this process, or its thread cannot start.
    pub fn init(&self) -> Result<log::Levels, LogError> {
        log::init_queued(self.log_format, &self.log_filter)
    }
}

impl AdminArgs {
    /// Binds the admin port.
    ///
    /// # Errors
    /// The port is in use or privileged, or the address does not belong to this machine.
    pub async fn bind(&self) -> Result<Listener, ServeError> {
        Listener::bind("admin", self.admin_addr, admin::LIMITS).await
    }
}

impl TlsArgs {
    /// Returns the server's key pair files, with empty paths if no flag names files. A self-signed certificate covers
    /// `names` and `--tls-san`, and is created if needed.
    ///
    /// # Errors
    /// The self-signed certificate cannot be created.
    pub fn files(&self, names: &[String], now: SystemTime) -> Result<Files, TlsError> {
        if let Some(directory) = &self.tls_self_signed_dir {
            return self_signed::ensure(directory, &[names, &self.tls_san].concat(), now);
        }
        // The parser requires both files or none of them.
        let given = |file: &Option<PathBuf>| file.clone().unwrap_or_default();
        Ok(Files {
            cert: given(&self.tls_cert_file),
            key: given(&self.tls_key_file),
        })
    }

    /// Request for client certificates.
    pub fn client_auth(&self) -> ClientAuth {
        let ca = self.tls_client_ca_file.clone();
        ca.map_or(ClientAuth::None, ClientAuth::Optional)
    }

    /// Builds the TLS settings of a listener; `alpn` lists its protocols in order of preference.
    ///
    /// # Errors
    /// The client CA cannot be read or used.
    pub fn server_config(
        &self,
        keys: Arc<dyn ResolvesServerCert>,
        alpn: &[&str],
    ) -> Result<Arc<ServerConfig>, TlsError> {
        tls::server_config(keys, self.tls_min_version, &self.client_auth(), alpn)
    }
}

/// The unspecified address `[::]` with this port: every IPv6 and IPv4 address of the machine.
pub const fn any(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)
}

/// Flags of a parser and its subcommands without the right environment variable, each with the reason. Used by a test
/// of each program.
pub fn flags_without_variable(command: &Command) -> Vec<String> {
    let own = command.get_arguments().filter_map(|arg| {
        let long = arg
            .get_long()
            .filter(|long| !["help", "version"].contains(long))?;
        let wanted = format!("{ENV_PREFIX}{}", long.to_uppercase().replace('-', "_"));
        if SERVICE_PREFIXES.iter().any(|prefix| wanted.starts_with(prefix)) {
            return Some(format!("--{long}: Kubernetes sets {wanted} for a Service"));
        }
        (arg.get_env() != Some(wanted.as_ref())).then(|| format!("--{long}: variable is not {wanted}"))
    });
    own.chain(command.get_subcommands().flat_map(flags_without_variable))
        .collect()
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser};
    use rstest::rstest;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        log: LogArgs,
        #[command(flatten)]
        admin: AdminArgs,
        #[command(flatten)]
        tls: TlsArgs,
    }

    fn parse(flags: &str) -> Result<Program, clap::Error> {
        Program::try_parse_from(std::iter::once("program").chain(flags.split_whitespace()))
    }

    #[test]
    fn every_flag_has_its_variable() {
        Program::command().debug_assert();
        assert_eq!(flags_without_variable(&Program::command()), Vec::<String>::new());
    }

    #[test]
    fn a_flag_without_a_proper_variable_is_found() {
        let flag = |name| clap::Arg::new(name).long(name);
        let command = Command::new("bad")
            .arg(flag("port").env("PORT"))
            .subcommand(Command::new("sub").arg(flag("webhook-port").env("HEADROOM_WEBHOOK_PORT")));
        assert_eq!(
            flags_without_variable(&command),
            [
                "--port: variable is not HEADROOM_PORT",
                "--webhook-port: Kubernetes sets HEADROOM_WEBHOOK_PORT for a Service",
            ]
        );
    }

    #[test]
    fn defaults_are_safe_to_run_with() {
        let Program { log, admin, tls } = parse("--tls-cert-file c --tls-key-file k").unwrap();
        assert_eq!(
            (log.log_format, log.log_filter.to_string()),
            (Format::Plain, "info".to_owned())
        );
        assert_eq!(admin.admin_addr.to_string(), "[::]:8080");
        assert_eq!(
            (tls.tls_min_version, tls.client_auth()),
            (MinVersion::Tls12, ClientAuth::None)
        );
        let files = tls.files(&[], SystemTime::now()).unwrap();
        assert_eq!(
            files,
            Files {
                cert: "c".into(),
                key: "k".into()
            }
        );
    }

    #[rstest]
    #[case("", ClientAuth::None)]
    #[case("--tls-client-ca-file ca", ClientAuth::Optional("ca".into()))]
    fn a_client_ca_asks_for_certificates(#[case] flags: &str, #[case] expected: ClientAuth) {
        let program = parse(&format!("--tls-self-signed-dir d {flags}")).unwrap();
        assert_eq!(program.tls.client_auth(), expected);
    }

    #[rstest]
    #[case::no_key("--tls-cert-file c", "--tls-key-file <FILE>")]
    #[case::no_certificate("--tls-key-file k", "--tls-cert-file <FILE>")]
    #[case::both_kinds(
        "--tls-cert-file c --tls-key-file k --tls-self-signed-dir d",
        "cannot be used with"
    )]
    #[case::names_for_files("--tls-cert-file c --tls-key-file k --tls-san a", "cannot be used with")]
    #[case::old_version("--tls-self-signed-dir d --tls-min-version 1.1", "invalid value '1.1'")]
    #[case::bad_filter("--tls-self-signed-dir d --log-filter inof", r#"log filter "inof""#)]
    #[case::bad_address("--tls-self-signed-dir d --admin-addr localhost", "invalid value 'localhost'")]
    #[case::unknown(
        "--tls-self-signed-dir d --tls-maximum 3",
        "unexpected argument '--tls-maximum'"
    )]
    fn a_wrong_combination_is_refused(#[case] flags: &str, #[case] reason: &str) {
        let error = parse(flags).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}
