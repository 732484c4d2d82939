//! [`Args`]: command-line flags of `headroom-webhook`. Each flag has an environment variable.

mod binding;
mod callers;
mod certificates;
mod fluid;
mod installation;
mod label_rules;
mod pools;
mod slo;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::Parser;
use headroom_domain::{capacity::floor::HEARTBEAT_INTERVAL, installation::Family, names};
use headroom_kit::{
    args::{AdminArgs, LogArgs, TlsArgs, any},
    serve::Network,
};
use headroom_rules::switch::Compat;

pub use self::{
    binding::BindingArgs,
    callers::{CallerArgs, Callers},
    certificates::{CertificateArgs, CertificateMode, Reconcile},
    fluid::FluidArgs,
    installation::InstallationArgs,
    label_rules::LabelRuleArgs,
    pools::PoolArgs,
    slo::SloArgs,
};

const LOWER_PER_SECOND: u32 = 500;
const RISE_PERCENT_PER_SECOND: u32 = 1;
const SWEEP_PER_SECOND: u32 = 50;

/// Answers that change nothing get one log line in this many, by default. 5,000 amplified nodes send 500 heartbeats a
/// second, so that is one line in two seconds.
pub const LOG_SAMPLE: u32 = 1000;

/// Amplifies the allocatable resources of nodes by the measurements of their agents
#[derive(Debug, Clone, Parser)]
#[command(
    name = "headroom-webhook",
    version,
    // A CA alone would look like a requirement.
    mut_arg("tls_client_ca_file", |arg| arg.requires("callers"))
)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct Args {
    /// Configuration file (YAML); without one, defaults are in force
    #[arg(long, env = "HEADROOM_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Address of the admission endpoints, over HTTPS; port 0 picks a free one
    #[arg(long, env = "HEADROOM_ADMISSION_ADDR", value_name = "IP:PORT", default_value_t = any(names::ADMISSION_PORT))]
    pub admission_addr: SocketAddr,
    /// URL at which the API server calls the admission endpoints, if not through our Service; webhook
    /// configurations that lead elsewhere are reported
    #[arg(long, env = "HEADROOM_ADMISSION_URL", value_name = "URL", value_parser = base_url)]
    pub admission_url: Option<String>,
    /// Address of the hint and debug services, gRPC over TLS; port 0 picks a free one
    #[arg(long, env = "HEADROOM_HINTS_ADDR", value_name = "IP:PORT", default_value_t = any(names::HINTS_PORT))]
    pub hints_addr: SocketAddr,
    /// Let agents present a client certificate of the CAs in this file (PEM) instead of a token
    #[arg(long, env = "HEADROOM_HINTS_CLIENT_CA_FILE", value_name = "FILE")]
    pub hints_client_ca_file: Option<PathBuf>,
    /// Describe the services of the hint port to clients without a credential, by gRPC server reflection; for debugging
    #[arg(long, env = "HEADROOM_GRPC_REFLECTION")]
    pub grpc_reflection: bool,
    /// Networks (IP or CIDR) of the API servers. Connections from there to the admission port are not closed because
    /// their address has many: name them where several API servers share one address
    #[arg(
        long,
        env = "HEADROOM_API_SERVER_ADDRESSES",
        value_name = "NETWORK,...",
        value_delimiter = ','
    )]
    pub api_server_addresses: Vec<Network>,
    /// Kubeconfig for the API server. Default: the pod's service account, then kubectl's configuration
    #[arg(long, env = "HEADROOM_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Take hints of agents that run with compressed durations; for demonstrations
    #[arg(long, env = "HEADROOM_ALLOW_DEMO_TIMING")]
    pub allow_demo_timing: bool,
    /// Trust new pods and new nodes by the profiles of their workloads, which this replica derives from agents' reports.
    /// Off by default: its gain and its risk were measured in simulation only
    #[arg(long, env = "HEADROOM_TRUST_BY_WORKLOAD")]
    pub trust_by_workload: bool,
    /// Let guard and auto raise nodes without the floor policy: on API servers before Kubernetes 1.36, or where the
    /// policies are not installed. Without this flag they only hold and lower then
    #[arg(long, env = "HEADROOM_ACCEPT_NO_FLOOR")]
    pub accept_no_floor: bool,
    /// Refuse ratio annotations above the current hint where they are written, instead of warning
    #[arg(long, env = "HEADROOM_DENY_ABOVE_HINT")]
    pub deny_above_hint: bool,
    /// Families of endpoints to serve: nodes, koordinator, fluid
    #[arg(long, env = "HEADROOM_SERVE", value_name = "LIST", default_value = "nodes", value_delimiter = ',', value_parser = family)]
    pub serve: Vec<Family>,
    /// Behaviour where Headroom's rules differ from Koordinator's: headroom or upstream
    #[arg(
        long,
        env = "HEADROOM_COMPAT",
        value_name = "WHOSE",
        default_value = "headroom"
    )]
    pub compat: Compat,
    /// Switch single differences from Koordinator, as in A=true,B=false; on is Headroom's behaviour
    #[arg(
        long,
        env = "HEADROOM_SWITCHES",
        value_name = "LIST",
        default_value = "",
        hide_default_value = true
    )]
    pub switches: String,
    #[command(flatten)]
    pub binding: BindingArgs,
    #[command(flatten)]
    pub label_rules: LabelRuleArgs,
    #[command(flatten)]
    pub fluid: FluidArgs,
    #[command(flatten)]
    pub slo: SloArgs,
    /// Send refusals of these steps as warnings, to observe a rule before it is enforced
    #[arg(
        long,
        env = "HEADROOM_SHADOW",
        value_name = "STEP,...",
        default_value = "",
        hide_default_value = true
    )]
    pub shadow: String,
    /// Switch features, as in A=true,B=false
    #[arg(
        long,
        env = "HEADROOM_FEATURE_GATES",
        value_name = "LIST",
        default_value = "",
        hide_default_value = true
    )]
    pub feature_gates: String,
    /// Name of this replica in logs; the host's name unless given
    #[arg(long, env = "HEADROOM_REPLICA_NAME", value_name = "NAME", default_value_t = host())]
    pub replica_name: String,
    /// Seconds to keep serving after SIGTERM, while clients move to other replicas
    #[arg(long, env = "HEADROOM_DRAIN_SECONDS", value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(0..=300))]
    pub drain_seconds: u64,
    /// Maximum age in seconds of an amplified node's stored heartbeat while its kubelet renews only heartbeats; 0
    /// stores every heartbeat. Other replicas read a node's hint from the stored object, so the hint must not expire
    /// before a write
    #[arg(long, env = "HEADROOM_HEARTBEAT_INTERVAL_SECONDS", value_name = "SECONDS", default_value_t = HEARTBEAT_INTERVAL.as_secs(), value_parser = clap::value_parser!(u64).range(0..=300))]
    pub heartbeat_interval_seconds: u64,
    /// Nodes that may be lowered in a second because a brake fired, a pod left or a hint fell
    #[arg(long, env = "HEADROOM_LOWER_PER_SECOND", value_name = "NODES", default_value_t = LOWER_PER_SECOND, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub lower_per_second: u32,
    /// Nodes that may be raised in a second, in percent of all; at least one node
    #[arg(long, env = "HEADROOM_RISE_PERCENT_PER_SECOND", value_name = "PERCENT", default_value_t = RISE_PERCENT_PER_SECOND, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rise_percent_per_second: u32,
    /// Nodes per second that the leader may lower or repair because their allocatable is not up to date
    #[arg(long, env = "HEADROOM_SWEEP_PER_SECOND", value_name = "NODES", default_value_t = SWEEP_PER_SECOND, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub sweep_per_second: u32,
    /// Log one in N answers that change nothing, such as those to heartbeats that are not stored; 0 logs none.
    /// Answers that change or refuse something are logged, up to 20 a second for each endpoint and outcome
    #[arg(long, env = "HEADROOM_LOG_SAMPLE", value_name = "N", default_value_t = LOG_SAMPLE)]
    pub log_sample: u32,
    #[command(flatten)]
    pub pools: PoolArgs,
    #[command(flatten)]
    pub installation: InstallationArgs,
    #[command(flatten)]
    pub admin: AdminArgs,
    #[command(flatten)]
    pub tls: TlsArgs,
    #[command(flatten)]
    pub certificates: CertificateArgs,
    #[command(flatten)]
    pub callers: CallerArgs,
    #[command(flatten)]
    pub log: LogArgs,
}

impl Args {
    /// Maximum age of an amplified node's stored heartbeat; zero turns quieting off.
    pub fn heartbeat_interval(&self) -> Duration {
        Duration::from_secs(self.heartbeat_interval_seconds)
    }

    /// Time to keep serving after SIGTERM.
    pub fn drain(&self) -> Duration {
        Duration::from_secs(self.drain_seconds)
    }
}

fn family(text: &str) -> Result<Family, String> {
    let family = Family::ALL.into_iter().find(|family| family.name() == text);
    family.ok_or_else(|| format!("is not one of {}", Family::ALL.map(Family::name).join(", ")))
}

/// A URL that paths are appended to, without a slash at its end.
fn base_url(text: &str) -> Result<String, String> {
    let url: http::Uri = text.parse().map_err(|error| format!("{error}"))?;
    let is_base = url.scheme_str() == Some("https") && url.host().is_some() && url.query().is_none();
    if !is_base {
        return Err("is not of the form https://HOST[:PORT][/PATH]".to_owned());
    }
    Ok(text.trim_end_matches('/').to_owned())
}

fn host() -> String {
    std::env::var("HOSTNAME").unwrap_or_else(|_absent| names::WEBHOOK_SERVICE.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use headroom_kit::args::flags_without_variable;
    use rstest::rstest;

    use super::*;

    fn read(flags: &str) -> Result<Args, clap::Error> {
        Args::try_parse_from(
            ["headroom-webhook", "--tls-self-signed-dir", "d"]
                .into_iter()
                .chain(flags.split_whitespace()),
        )
    }

    #[test]
    fn every_flag_has_its_variable() {
        Args::command().debug_assert();
        // Of HEADROOM_HINTS_* Kubernetes sets _SERVICE_* and _PORT* (and for a headless Service none at all).
        let known = ["--hints-addr: ", "--hints-client-ca-file: "];
        let mut found = flags_without_variable(&Args::command());
        found.retain(|complaint| !known.iter().any(|flag| complaint.starts_with(flag)));
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn defaults_fit_a_pod() {
        let args = read("").unwrap();
        assert_eq!(args.admission_addr.to_string(), "[::]:9443");
        assert_eq!(args.hints_addr.to_string(), "[::]:9444");
        assert_eq!(
            (args.allow_demo_timing, args.drain()),
            (false, Duration::from_secs(5))
        );
    }

    #[rstest]
    #[case("--demo-timing", "unexpected argument '--demo-timing'")]
    #[case("--drain-seconds 301", "301 is not in 0..=300")]
    #[case("--admission-addr localhost:1", "invalid value 'localhost:1'")]
    #[case("--admission-url http://h:1", "is not of the form https://HOST[:PORT][/PATH]")]
    #[case("--admission-url h:1", "is not of the form https://HOST[:PORT][/PATH]")]
    #[case(
        "--api-server-addresses 10.0.0.0/33",
        "\"10.0.0.0/33\" is not an IP address or a network"
    )]
    #[case("--namespace a.b", "\"a.b\" is not a namespace")]
    #[case("--name-suffix B", "\"B\" is not a name suffix")]
    #[case("--callers client-certificate", "--caller-names <NAME,...>")]
    #[case("--tls-client-ca-file ca", "--callers <CALLERS>")]
    #[case("--caller-names a", "--tls-client-ca-file <FILE>")]
    #[case("extra", "unexpected argument 'extra'")]
    fn what_cannot_be_meant_is_refused(#[case] flags: &str, #[case] reason: &str) {
        let error = read(flags).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}
