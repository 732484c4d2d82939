//! [`Args`]: the whole command line, which consists of the global flags and a command.

use clap::Parser;

use super::Command;
use crate::args::{ConnectArgs, OutputFormat};

/// Show and explain what Headroom does with the nodes of a cluster.
#[derive(Debug, Parser)]
#[command(name = "kubectl-headroom", bin_name = "kubectl headroom", version, after_help = EXAMPLES)]
pub struct Args {
    /// Connection to the webhook or the API server.
    #[command(flatten)]
    pub connect: ConnectArgs,
    /// Output format.
    #[arg(
        short,
        long,
        global = true,
        env = "HEADROOM_OUTPUT",
        value_enum,
        default_value_t
    )]
    pub output: OutputFormat,
    /// Same as `--output json`.
    #[arg(long, global = true, env = "HEADROOM_JSON")]
    pub json: bool,
    /// Command to run.
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  # All nodes, updated with each change; the kubeconfig is kubectl's
  kubectl headroom top --watch

  # Why does this node have its allocatable?
  kubectl headroom explain worker-1

  # Problems of the installation, and their fixes
  kubectl headroom check

  # Restore raw allocatable on all nodes
  kubectl headroom off --now

  # In a script in the cluster; the service account needs ClusterRole headroom-debug
  kubectl-headroom --addr headroom-hints.headroom-system.svc:9444 --ca-file /etc/headroom/ca.crt \\
    --token-file /var/run/secrets/headroom/token top -o json

Exit codes: 0 success, 1 error, 2 wrong usage. config check: 0 accepted, 1 refused, 2 undecided. check: 0 no problem,
1 problem found, 2 undecided.";

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use headroom_kit::args::flags_without_variable;

    use super::*;

    #[test]
    fn every_flag_has_an_environment_variable() {
        Args::command().debug_assert();
        assert_eq!(flags_without_variable(&Args::command()), Vec::<String>::new());
    }

    #[test]
    fn global_flags_may_precede_or_follow_the_command() {
        for line in [["-o", "json", "top"], ["top", "-o", "json"]] {
            let args = Args::try_parse_from(["kubectl-headroom"].into_iter().chain(line)).unwrap();
            assert_eq!(args.output, OutputFormat::Json);
        }
    }
}
