//! Command-line flags for the parsers of processes: logs, admin port, TLS. Each flag has an environment variable.
//!
//! The agent and the webhook flatten those of logs and admin port, the webhook also those of TLS.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::SystemTime,
};

use clap::{Args, Command, ValueEnum};
use rustls::{ServerConfig, server::ResolvesServerCert};

use crate::{
    admin,
    log::{self, Filter, Format, LogError},
    serve::{Listener, ServeError},
    tls::{self, ClientAuth, Files, MinVersion, TlsError, self_signed},
};

/// Prefix of the environment variable of every flag.
pub const ENV_PREFIX: &str = "HEADROOM_";

/// Variables that Kubernetes sets in each pod for our Services: no flag may have such a variable.
const SERVICE_PREFIXES: [&str; 2] = ["HEADROOM_WEBHOOK_", "HEADROOM_HINTS_"];

/// How this process logs.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Logs")]
pub struct LogArgs {
    /// Form of a log line
    #[arg(long, env = "HEADROOM_LOG_FORMAT", value_enum, default_value_t)]
    pub log_format: Format,
    /// Which records to write: levels, also by target, as in info,headroom_webhook=debug
    #[arg(
        long,
        env = "HEADROOM_LOG_FILTER",
        value_name = "FILTER",
        default_value = "info"
    )]
    pub log_filter: Filter,
}

/// Where this process shows its state.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Administration")]
pub struct AdminArgs {
    /// Address of /livez, /readyz, /metrics and the like, over plain HTTP; port 0 picks a free one
    #[arg(long, env = "HEADROOM_ADMIN_ADDR", value_name = "IP:PORT", default_value_t = any(8080))]
    pub admin_addr: SocketAddr,
}

/// How this process presents itself by TLS and whom it lets in.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "TLS")]
pub struct TlsArgs {
    /// Certificate with its intermediates (PEM); reloaded when it changes
    #[arg(
        long,
        env = "HEADROOM_TLS_CERT_FILE",
        value_name = "FILE",
        requires = "tls_key_file",
        required_unless_present = "tls_self_signed_dir"
    )]
    pub tls_cert_file: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(
        long,
        env = "HEADROOM_TLS_KEY_FILE",
        value_name = "FILE",
        requires = "tls_cert_file"
    )]
    pub tls_key_file: Option<PathBuf>,
    /// Make a CA (ca.crt) and a certificate in this directory, or use those of an earlier run
    #[arg(
        long,
        env = "HEADROOM_TLS_SELF_SIGNED_DIR",
        value_name = "DIR",
        conflicts_with_all = ["tls_cert_file", "tls_key_file"]
    )]
    pub tls_self_signed_dir: Option<PathBuf>,
    /// Further DNS names and IP addresses for the self-signed certificate
    #[arg(
        long,
        env = "HEADROOM_TLS_SAN",
        value_name = "NAME",
        value_delimiter = ',',
        conflicts_with = "tls_cert_file"
    )]
    pub tls_san: Vec<String>,
    /// Oldest protocol version to speak
    #[arg(long, env = "HEADROOM_TLS_MIN_VERSION", value_enum, default_value_t)]
    pub tls_min_version: MinVersion,
    /// Ask clients for a certificate of the CAs in this file (PEM)
    #[arg(long, env = "HEADROOM_TLS_CLIENT_CA_FILE", value_name = "FILE")]
    pub tls_client_ca_file: Option<PathBuf>,
    /// Whether clients may do without a certificate
    #[arg(
        long,
        env = "HEADROOM_TLS_CLIENT_AUTH",
        value_enum,
        default_value_t,
        requires = "tls_client_ca_file"
    )]
    pub tls_client_auth: ClientAuthMode,
}

/// Whether clients may do without a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ClientAuthMode {
    /// A client without a certificate is turned away.
    #[default]
    Required,
    /// A client may show a certificate; if it does, it must be good.
    Optional,
}

impl LogArgs {
    /// Begins to log.
    ///
    /// # Errors
    /// Logging is set up already.
    pub fn init(&self) -> Result<log::Levels, LogError> {
        log::init(self.log_format, &self.log_filter)
    }
}

impl AdminArgs {
    /// Binds the admin port.
    ///
    /// # Errors
    /// The port is taken, privileged or not of this machine.
    pub async fn bind(&self) -> Result<Listener, ServeError> {
        Listener::bind("admin", self.admin_addr, admin::LIMITS).await
    }
}

impl TlsArgs {
    /// The key pair to serve with. A self-signed one is for `names` as well as `--tls-san`, and made if need be.
    ///
    /// # Errors
    /// A self-signed certificate cannot be made.
    pub fn files(&self, names: &[String], now: SystemTime) -> Result<Files, TlsError> {
        if let Some(directory) = &self.tls_self_signed_dir {
            return self_signed::ensure(directory, &[names, &self.tls_san].concat(), now);
        }
        // The parser lets neither be absent without the directory.
        let given = |file: &Option<PathBuf>| file.clone().unwrap_or_default();
        Ok(Files {
            cert: given(&self.tls_cert_file),
            key: given(&self.tls_key_file),
        })
    }

    /// What clients have to show.
    pub fn client_auth(&self) -> ClientAuth {
        match (&self.tls_client_ca_file, self.tls_client_auth) {
            (None, _) => ClientAuth::None,
            (Some(ca), ClientAuthMode::Required) => ClientAuth::Required(ca.clone()),
            (Some(ca), ClientAuthMode::Optional) => ClientAuth::Optional(ca.clone()),
        }
    }

    /// Settings for a listener that speaks these protocols.
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

/// All addresses of this machine, IPv4 and IPv6.
pub const fn any(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)
}

/// Flags of a parser and its subcommands that lack their environment variable, and why. For a test in each program.
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
    #[case("--tls-client-ca-file ca", ClientAuth::Required("ca".into()))]
    #[case("--tls-client-ca-file ca --tls-client-auth optional", ClientAuth::Optional("ca".into()))]
    fn a_client_ca_asks_for_certificates(#[case] flags: &str, #[case] expected: ClientAuth) {
        let program = parse(&format!("--tls-self-signed-dir d {flags}")).unwrap();
        assert_eq!(program.tls.client_auth(), expected);
    }

    #[rstest]
    #[case::nothing("", "--tls-cert-file <FILE>")]
    #[case::no_key("--tls-cert-file c", "--tls-key-file <FILE>")]
    #[case::no_certificate("--tls-key-file k", "--tls-cert-file <FILE>")]
    #[case::both_kinds(
        "--tls-cert-file c --tls-key-file k --tls-self-signed-dir d",
        "cannot be used with"
    )]
    #[case::names_for_files("--tls-cert-file c --tls-key-file k --tls-san a", "cannot be used with")]
    #[case::auth_without_ca(
        "--tls-self-signed-dir d --tls-client-auth optional",
        "--tls-client-ca-file <FILE>"
    )]
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
