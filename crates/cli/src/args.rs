//! The command line, and nothing else.

mod advise;

use std::{fmt, path::PathBuf, str::FromStr};

use clap::{Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use headroom_domain::names;
use http::uri::Authority;

pub use self::advise::{AdviseArgs, Service, ServiceError};

/// See and explain what Headroom does with the nodes of a cluster.
#[derive(Debug, Parser)]
#[command(name = "kubectl-headroom", bin_name = "kubectl headroom", version, after_help = EXAMPLES)]
pub struct Args {
    /// How to reach the webhook.
    #[command(flatten)]
    pub connect: ConnectArgs,
    /// How to print the answer.
    #[arg(
        short,
        long,
        global = true,
        env = "HEADROOM_OUTPUT",
        value_enum,
        default_value_t
    )]
    pub output: Format,
    /// The same as `--output json`.
    #[arg(long, global = true, env = "HEADROOM_JSON")]
    pub json: bool,
    /// What to ask.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  # In one terminal: a way to the hint port
  kubectl -n headroom-system port-forward service/headroom-hints 9444

  # In another: all nodes, live
  kubectl headroom top

  # Why does this node have the allocatable it has?
  kubectl headroom explain worker-1

  # Raw values everywhere, at once
  kubectl headroom off --now

  # From inside the cluster, as a service account, for a script
  kubectl-headroom --addr headroom-hints.headroom-system.svc:9444 --ca-file /etc/headroom/ca.crt \\
    --token-file /var/run/secrets/headroom/token top --once -o json

Exit codes: 0 an answer, 1 an error, 2 wrong usage.";

/// How to reach the webhook, whom to trust and who asks.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Connection")]
pub struct ConnectArgs {
    /// Host and port of the webhook's hint service.
    #[arg(long, global = true, env = "HEADROOM_ADDR", value_name = "HOST:PORT", default_value_t = Address::local())]
    pub addr: Address,
    /// PEM file with the CA of the webhook's certificate [default: the caBundle in the cluster's webhook configuration].
    #[arg(long, global = true, env = "HEADROOM_CA_FILE", value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Name that the webhook's certificate must be for.
    #[arg(long, global = true, env = "HEADROOM_TLS_SERVER_NAME", value_name = "NAME", default_value_t = server_name())]
    pub tls_server_name: String,
    /// File with a bearer token [default: the token of the kubeconfig's user].
    #[arg(long, global = true, env = "HEADROOM_TOKEN_FILE", value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Kubeconfig file, for what the two files above do not give [default: KUBECONFIG, then ~/.kube/config].
    #[arg(long, global = true, env = "HEADROOM_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current context].
    #[arg(long, global = true, env = "HEADROOM_CONTEXT", value_name = "NAME")]
    pub context: Option<String>,
}

/// What to ask.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measured use, ratio, allocatable and brakes of all nodes, kept current.
    #[command(after_help = "\
On a terminal the table is redrawn in place until Ctrl-C; elsewhere, and with -o json, each new report is one line.

Examples:
  kubectl headroom top
  kubectl headroom top worker-1
  kubectl headroom top --once
  kubectl headroom top -o json | jq 'select(.brake_cpu > 0)'")]
    Top {
        /// Only this node.
        node: Option<String>,
        /// Print the table once and end.
        #[arg(long, env = "HEADROOM_ONCE")]
        once: bool,
    },
    /// Everything the webhook knows of one node, and how its ratio comes about, term by term.
    #[command(after_help = "\
Examples:
  kubectl headroom node worker-1
  kubectl headroom node worker-1 -o json | jq .cpu.slack_milli")]
    Node {
        /// The node.
        name: String,
    },
    /// Why a node has the allocatable it has: policy, report, each rule in order, result.
    #[command(after_help = "\
The rules are those of a write of the node's status, were it made now; above them stands how the agent came to its ratio,
line by line with its numbers, and why.

Examples:
  kubectl headroom explain worker-1
  kubectl headroom explain worker-1 --json | jq .derivation_cpu
  kubectl headroom explain worker-1 -o json | jq '.rules_cpu[] | select(.rule == \"admitted\")'")]
    Explain {
        /// The node.
        name: String,
    },
    /// The newest report of each agent, as it came.
    #[command(after_help = "\
Examples:
  kubectl headroom hints
  kubectl headroom hints worker-1 -o json")]
    Hints {
        /// Only this node.
        node: Option<String>,
    },
    /// Have raw allocatable restored and our annotations removed, on all nodes or on one.
    #[command(after_help = "\
Writes the annotation headroom.sh/mode=off through the status of each node, and waits. Allocatable stays above raw for as
long as what is bound to a node needs it. Takes the rights to list nodes and to patch nodes/status, and no way to the
webhook. To uninstall: this first, then delete the installation, then the annotation.

Examples:
  # What would become of each node
  kubectl headroom off

  kubectl headroom off --now --node worker-1
  kubectl headroom off --now --wait-seconds 600 && kubectl delete -k . && kubectl annotate nodes --all headroom.sh/mode-")]
    Off {
        /// Do it, and do not only say what would become of it.
        #[arg(long, env = "HEADROOM_NOW")]
        now: bool,
        /// Only this node.
        #[arg(long, env = "HEADROOM_NODE", value_name = "NAME")]
        node: Option<String>,
        /// Seconds to wait until all nodes are raw.
        #[arg(
            long,
            env = "HEADROOM_WAIT_SECONDS",
            value_name = "SECONDS",
            default_value_t = 60
        )]
        wait_seconds: u64,
    },
    /// What would have been given: the estimator over the past that a Prometheus server remembers, before anything is
    /// installed.
    #[command(after_help = "\
Reads cAdvisor's usage and what kube-state-metrics tells of nodes and pods, at least two days of it. An agent sees bursts that
averages hide, and would have given less.

Examples:
  kubectl headroom advise --prometheus http://127.0.0.1:9090 --pool-label label_node_kubernetes_io_instance_type

  # Through the API server, with plots: takes the right to get services/proxy
  kubectl headroom advise --prometheus-service monitoring/prometheus:9090 --days 14 --html advice.html

  # Again, with other bounds, without the server
  kubectl headroom advise --prometheus http://127.0.0.1:9090 --save past
  kubectl headroom advise --from past --lo 0.50 --theta 95 -o json")]
    Advise(Box<AdviseArgs>),
    /// What the agent of this very node sees, decides and does; asked through its socket, without a cluster.
    #[command(after_help = "\
On the node itself, as root, of an agent that runs with --debug-socket. Takes no kubeconfig and no webhook.

Examples:
  # Mode, derivation of the ratios, kernel programs, streams
  kubectl headroom agent status

  # Every signal: its value, its source, what is lost without it
  kubectl headroom agent signals

  # How long do tasks wait for a CPU, and how full are 134 ms?
  kubectl headroom agent histogram

  kubectl headroom agent watch -o json | jq '.resources[0].published_cents'")]
    Agent(AgentArgs),
    /// Print a completion script.
    #[command(hide = true)]
    Completions {
        /// The shell.
        shell: Shell,
    },
}

/// Which agent, and what to ask it.
#[derive(Debug, clap::Args)]
pub struct AgentArgs {
    /// The agent's socket: its --debug-socket.
    #[arg(
        long,
        global = true,
        env = "HEADROOM_SOCKET",
        value_name = "PATH",
        default_value = names::AGENT_SOCKET
    )]
    pub socket: PathBuf,
    /// What to ask.
    #[command(subcommand)]
    pub question: AgentQuestion,
}

/// What to ask an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
pub enum AgentQuestion {
    /// Mode and what it means, the derivation of each ratio, kernel programs, streams to hint servers.
    Status,
    /// Every signal: value, health, source, and what is lost where one is missing.
    Signals,
    /// The pods it knows of: use in the last frame, request, trust.
    Pods,
    /// Distributions since the agent was started: waits for a CPU, use of 8.39 ms windows and of 134 ms blocks.
    Histogram,
    /// The status kept current, at most once a second; off a terminal, each change is one line.
    Watch,
}

/// How an answer is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// For people; memory in GiB.
    #[default]
    Table,
    /// For machines; integers, with the unit in the key.
    Json,
}

/// A host and its port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    host: String,
    port: u16,
}

/// The text is not `HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not HOST:PORT, as in {}", Address::local())]
pub struct AddressError;

impl Address {
    /// Where `kubectl port-forward` listens for the hint port.
    pub fn local() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: names::HINTS_PORT,
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let authority: Authority = text.parse().map_err(|_invalid| AddressError)?;
        match (authority.host(), authority.port_u16()) {
            (host, Some(port)) if !host.is_empty() && !text.contains('@') => Ok(Self {
                host: host.to_owned(),
                port,
            }),
            _ => Err(AddressError),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        write!(f, "{host}:{port}")
    }
}

/// The name of the hint service inside a cluster.
fn server_name() -> String {
    format!("{}.{}.svc", names::HINTS_SERVICE, names::NAMESPACE)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use headroom_kit::args::flags_without_twin;

    use super::*;

    #[test]
    fn every_flag_has_its_twin() {
        Args::command().debug_assert();
        assert_eq!(flags_without_twin(&Args::command()), Vec::<String>::new());
    }

    #[test]
    fn flags_are_taken_before_and_after_the_command() {
        for line in [["-o", "json", "top"], ["top", "-o", "json"]] {
            let args = Args::try_parse_from(["kubectl-headroom"].into_iter().chain(line)).unwrap();
            assert_eq!(args.output, Format::Json);
        }
    }

    #[test]
    fn an_address_needs_a_host_and_a_port() {
        for good in ["127.0.0.1:9444", "[::1]:9444", "a.b.svc:1"] {
            assert_eq!(good.parse::<Address>().unwrap().to_string(), good);
        }
        for bad in [
            "",
            "localhost",
            ":9444",
            "a:b",
            "me@host:1",
            "https://a:1",
            "a:1/x",
        ] {
            assert_eq!(bad.parse::<Address>(), Err(AddressError), "{bad}");
        }
    }
}
