//! The agent's flags; each has an environment variable.

pub mod eviction;

use std::{collections::BTreeSet, env, ffi::OsString, fmt, path::PathBuf, str::FromStr};

use clap::{
    CommandFactory as _, FromArgMatches as _, Id, Parser, ValueEnum,
    builder::{OsStringValueParser, PossibleValuesParser, TypedValueParser as _},
    error::ErrorKind,
    parser::ValueSource,
};
use headroom_domain::{estimate::Profile, installation::Installation, names};
use headroom_kit::{
    args::{AdminArgs, LogArgs},
    tls::Files,
};
use serde::Deserialize;

use self::eviction::Eviction;
use crate::kernel::btf::VMLINUX;

/// Variable that the downward API sets in a pod; [`Args::node_name`] falls back to it.
const NODE_NAME: &str = "NODE_NAME";

/// Maximum of hint servers to report to at the same time.
pub const MOST_SERVERS: u8 = 16;

/// Measures this node and publishes the ratio by which its allocatable may be amplified
#[derive(Clone, Debug, Parser)]
#[command(name = "headroom-agent", version)]
#[group(id = "credential", args = ["token_file", "client_cert_file"], required = true, multiple = false)]
pub struct Args {
    /// YAML file with reloadable settings. Flags and HEADROOM_* variables win
    #[arg(long, env = "HEADROOM_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Flags that are set on the command line or by environment variables.
    #[arg(skip)]
    given: BTreeSet<String>,
    /// Name of the Node that this agent measures [env also: NODE_NAME]
    #[arg(
        long,
        env = "HEADROOM_NODE_NAME",
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    pub node_name: String,
    /// Hint servers: a DNS name with an address for each replica, or a list; the default port is 9444
    #[arg(
        long,
        env = "HEADROOM_WEBHOOK_ADDR",
        value_name = "HOST[:PORT]",
        value_delimiter = ',',
        default_values_t = [ServerAddress::service()]
    )]
    pub webhook_addr: Vec<ServerAddress>,
    /// Server name in the hint servers' certificate
    #[arg(
        long,
        env = "HEADROOM_WEBHOOK_SERVER_NAME",
        value_name = "NAME",
        default_value_t = ServerAddress::service().host
    )]
    pub webhook_server_name: String,
    /// CA bundle that verifies the hint servers' certificate (PEM)
    #[arg(long, env = "HEADROOM_CA_FILE", value_name = "FILE")]
    pub ca_file: PathBuf,
    /// Service account token for the hint servers; read at every connect and when the file changes
    #[arg(long, env = "HEADROOM_TOKEN_FILE", value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Client certificate for the hint servers (PEM), instead of a token
    #[arg(
        long,
        env = "HEADROOM_CLIENT_CERT_FILE",
        value_name = "FILE",
        requires = "client_key_file"
    )]
    pub client_cert_file: Option<PathBuf>,
    /// Private key of the client certificate (PEM)
    #[arg(
        long,
        env = "HEADROOM_CLIENT_KEY_FILE",
        value_name = "FILE",
        requires = "client_cert_file"
    )]
    pub client_key_file: Option<PathBuf>,
    /// Number of hint servers to report to at the same time
    #[arg(
        long,
        env = "HEADROOM_PUBLISH_FANOUT",
        value_name = "N",
        default_value_t = 3,
        value_parser = clap::value_parser!(u8).range(1..=i64::from(MOST_SERVERS))
    )]
    pub publish_fanout: u8,
    /// Durations of the estimator: production, or compressed for demonstrations
    #[arg(
        long,
        env = "HEADROOM_TIMING",
        default_value_t,
        value_parser = PossibleValuesParser::new(Profile::ALL.map(Profile::name)).try_map(profile)
    )]
    pub timing: Profile,
    /// Source of CPU use
    #[arg(long, env = "HEADROOM_SOURCE", value_enum, default_value_t)]
    pub source: CpuSourceChoice,
    /// External BTF for kernels without their own. Raw tracepoints are used, without the verifier's type checks
    #[arg(long, env = "HEADROOM_BTF", value_name = "FILE", default_value = VMLINUX)]
    pub btf: PathBuf,
    /// Adapt the safety margin to past outcomes. Changing this flag resets the margin
    #[arg(long, env = "HEADROOM_MARGIN_CALIBRATION", value_enum, default_value_t)]
    pub margin_calibration: MarginCalibration,
    /// Hard eviction threshold of memory from the kubelet's `evictionHard`: a quantity or a percentage
    #[arg(
        long,
        env = "HEADROOM_EVICTION_HARD_MEMORY",
        value_name = "THRESHOLD",
        default_value_t
    )]
    pub eviction_hard_memory: Eviction,
    /// Folder of this agent's checkpoint; without it the node's history is lost at a restart
    #[arg(long, env = "HEADROOM_CHECKPOINT", value_name = "DIR")]
    pub checkpoint: Option<PathBuf>,
    /// Count the runs of the kernel programs: costs about 25 ns per run of every BPF program on the machine
    #[arg(long, env = "HEADROOM_PROGRAM_STATS")]
    pub program_stats: bool,
    /// Mount point of the cgroup hierarchies
    #[arg(
        long,
        env = "HEADROOM_CGROUP_ROOT",
        value_name = "DIR",
        default_value = "/sys/fs/cgroup"
    )]
    pub cgroup_root: PathBuf,
    /// Mount point of procfs on this machine
    #[arg(long, env = "HEADROOM_PROC_ROOT", value_name = "DIR", default_value = "/proc")]
    pub proc_root: PathBuf,
    /// Unix socket for `kubectl headroom agent`, accessible only to root; empty for no socket
    #[arg(
        long,
        env = "HEADROOM_DEBUG_SOCKET",
        value_name = "PATH",
        default_value = "",
        hide_default_value = true,
        value_parser = OsStringValueParser::new().map(PathBuf::from)
    )]
    pub debug_socket: PathBuf,
    #[command(flatten)]
    pub admin: AdminArgs,
    #[command(flatten)]
    pub log: LogArgs,
}

/// Source of CPU use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CpuSourceChoice {
    /// Kernel programs; procfs if they cannot be attached
    #[default]
    Auto,
    /// Kernel programs; the agent ends if they cannot be attached
    Ebpf,
    /// procfs only, without kernel programs
    Procfs,
}

/// Calibration of the safety margin by the outcome of earlier ratios (OCM, outcome-calibrated margin).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MarginCalibration {
    /// A ratio that turned out too high makes the margin larger
    #[default]
    On,
    /// The margin stays at its initial value
    Off,
}

/// Host and port of one or more hint servers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct ServerAddress {
    /// DNS name or IP address, without brackets.
    pub host: String,
    /// TCP port, at least 1.
    pub port: u16,
}

/// A text that is not an address of a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a host or host:port")]
pub struct ServerAddressError {
    text: String,
}

/// Credential for hint servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// File with a service account token.
    Token(PathBuf),
    /// Files of a client certificate and its key.
    Certificate(Files),
}

impl Args {
    /// Reads flags and environment. Errors contain the usage and the exit code.
    ///
    /// # Errors
    /// A flag is unknown, missing, malformed or in conflict with another, or help was requested.
    pub fn read(flags: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let matches = Self::command().try_get_matches_from(flags)?;
        let mut args = Self::from_arg_matches(&matches)?;
        let is_given = |id: &&str| {
            let source = matches.value_source(id);
            matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable))
        };
        let given = matches.ids().map(Id::as_str).filter(is_given);
        args.given = given.map(ToOwned::to_owned).collect();
        if args.node_name.is_empty() {
            args.node_name = env::var(NODE_NAME).unwrap_or_default();
        }
        if args.node_name.is_empty() {
            let missing =
                "--node-name <NAME> is missing, and neither HEADROOM_NODE_NAME nor NODE_NAME is set";
            return Err(Self::command().error(ErrorKind::MissingRequiredArgument, missing));
        }
        Ok(args)
    }

    /// The file's value, or `own` if the file has none or the flag is set.
    pub fn over<T: Clone>(&self, flag: &str, file: Option<&T>, own: &T) -> T {
        let file = file.filter(|_| !self.given.contains(flag));
        file.unwrap_or(own).clone()
    }

    /// The credential for hint servers. The parser ensures that exactly one is set.
    pub fn credential(&self) -> Credential {
        match (&self.token_file, &self.client_cert_file) {
            (Some(file), _) => Credential::Token(file.clone()),
            (None, cert) => Credential::Certificate(Files {
                cert: cert.clone().unwrap_or_default(),
                key: self.client_key_file.clone().unwrap_or_default(),
            }),
        }
    }
}

impl ServerAddress {
    /// The headless Service, with an address for each replica.
    fn service() -> Self {
        Self {
            host: Installation::default().hints_host(),
            port: names::HINTS_PORT,
        }
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') {
            write!(f, "[{host}]:{port}")
        } else {
            write!(f, "{host}:{port}")
        }
    }
}

impl TryFrom<String> for ServerAddress {
    type Error = ServerAddressError;

    fn try_from(text: String) -> Result<Self, ServerAddressError> {
        text.parse()
    }
}

impl FromStr for ServerAddress {
    type Err = ServerAddressError;

    fn from_str(text: &str) -> Result<Self, ServerAddressError> {
        let refuse = || ServerAddressError {
            text: text.to_owned(),
        };
        let (host, rest) = match text.strip_prefix('[') {
            Some(bracketed) => bracketed.split_once(']').ok_or_else(refuse)?,
            None => text.find(':').map_or((text, ""), |colon| text.split_at(colon)),
        };
        let port = match rest.strip_prefix(':') {
            Some(port) => port.parse().ok().filter(|port| *port > 0).ok_or_else(refuse)?,
            None if rest.is_empty() => names::HINTS_PORT,
            None => return Err(refuse()),
        };
        let is_name = |host: &str| {
            host.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte))
        };
        if host.is_empty() || !is_name(host) {
            return Err(refuse());
        }
        Ok(Self {
            host: host.to_owned(),
            port,
        })
    }
}

fn profile(name: String) -> Result<Profile, String> {
    Profile::from_name(&name).ok_or(name)
}

#[cfg(test)]
mod tests {
    use headroom_kit::args::flags_without_variable;

    use super::*;

    fn read(flags: &str) -> Result<Args, clap::Error> {
        Args::read(
            ["headroom-agent"]
                .into_iter()
                .chain(flags.split_whitespace())
                .map(OsString::from),
        )
    }

    fn refusal(flags: &str) -> String {
        read(flags).unwrap_err().to_string()
    }

    #[test]
    fn defaults_fit_a_pod() {
        let args = read("--node-name n1 --ca-file ca --token-file t").unwrap();
        assert_eq!(args.webhook_addr.len(), 1);
        assert_eq!(
            args.webhook_addr[0].to_string(),
            "headroom-hints.headroom-system.svc:9444"
        );
        assert_eq!(args.webhook_server_name, "headroom-hints.headroom-system.svc");
        assert_eq!(
            (args.timing, args.source),
            (Profile::Production, CpuSourceChoice::Auto)
        );
        assert_eq!(args.credential(), Credential::Token("t".into()));
    }

    #[test]
    fn addresses_may_be_a_list_with_and_without_ports() {
        let args =
            read("--node-name n --ca-file c --token-file t --webhook-addr 10.0.0.1:1,[::1]:2,b.svc").unwrap();
        let shown: Vec<_> = args.webhook_addr.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["10.0.0.1:1", "[::1]:2", "b.svc:9444"]);
        for bad in [
            "",
            ":1",
            "a:b",
            "a:0",
            "[::1",
            "::1",
            "a:70000",
            "https://a",
            "[::1]x",
        ] {
            assert_eq!(bad.parse::<ServerAddress>().unwrap_err().text, bad);
        }
    }

    #[test]
    fn exactly_one_credential_is_required() {
        assert!(
            refusal("--node-name n --ca-file c").contains("--token-file <FILE>|--client-cert-file <FILE>")
        );
        assert!(
            refusal("--node-name n --ca-file c --client-cert-file x").contains("--client-key-file <FILE>")
        );
        let both = "--node-name n --ca-file c --token-file t --client-cert-file x --client-key-file y";
        assert!(refusal(both).contains("cannot be used with"), "{}", refusal(both));
        let args = read("--node-name n --ca-file c --client-cert-file x --client-key-file y").unwrap();
        assert_eq!(
            args.credential(),
            Credential::Certificate(Files {
                cert: "x".into(),
                key: "y".into()
            })
        );
    }

    #[test]
    fn wrong_values_are_named() {
        for (flags, reason) in [
            ("--publish-fanout 0", "0 is not in 1..=16"),
            ("--eviction-hard-memory 101%", "\"101%\" is neither a quantity"),
            ("--timing fast", "invalid value 'fast'"),
            ("--source kprobe", "invalid value 'kprobe'"),
            ("--webhook-addr a:b", "\"a:b\" is not a host or host:port"),
            ("--privileged", "unexpected argument '--privileged'"),
        ] {
            let refusal = refusal(&format!("--node-name n --ca-file c --token-file t {flags}"));
            assert!(refusal.contains(reason), "{refusal}");
        }
    }

    #[test]
    fn every_flag_has_its_variable() {
        Args::command().debug_assert();
        // The checker refuses names that Kubernetes might set for a Service in the agent's namespace. It sets
        // HEADROOM_WEBHOOK_SERVICE_* and HEADROOM_WEBHOOK_PORT*, which these two variables do not match.
        let known = ["--webhook-addr: ", "--webhook-server-name: "];
        let mut found = flags_without_variable(&Args::command());
        found.retain(|complaint| !known.iter().any(|flag| complaint.starts_with(flag)));
        assert_eq!(found, Vec::<String>::new());
    }
}
