//! [`Args`]: the whole command line, with the flags that all commands share and the command.

use clap::Parser;

use super::Command;
use crate::args::{ConnectArgs, OutputFormat};

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
    pub output: OutputFormat,
    /// The same as `--output json`.
    #[arg(long, global = true, env = "HEADROOM_JSON")]
    pub json: bool,
    /// What to ask.
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  # All nodes, again with each change, with whatever kubeconfig kubectl uses
  kubectl headroom top --watch

  # Why does this node have the allocatable it has?
  kubectl headroom explain worker-1

  # What is wrong for everybody, and what to do about it
  kubectl headroom check

  # Raw values everywhere, at once
  kubectl headroom off --now

  # From inside the cluster, for a script, as a service account with ClusterRole headroom-debug
  kubectl-headroom --addr headroom-hints.headroom-system.svc:9444 --ca-file /etc/headroom/ca.crt \\
    --token-file /var/run/secrets/headroom/token top -o json

Exit codes: 0 an answer, 1 an error, 2 wrong usage; of config check: 0 accepted, 1 refused, 2 not decided; of check: 0 nothing
wrong, 1 something wrong, 2 not found out.";

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use headroom_kit::args::flags_without_variable;

    use super::*;

    #[test]
    fn every_flag_has_its_variable() {
        Args::command().debug_assert();
        assert_eq!(flags_without_variable(&Args::command()), Vec::<String>::new());
    }

    #[test]
    fn flags_are_taken_before_and_after_the_command() {
        for line in [["-o", "json", "top"], ["top", "-o", "json"]] {
            let args = Args::try_parse_from(["kubectl-headroom"].into_iter().chain(line)).unwrap();
            assert_eq!(args.output, OutputFormat::Json);
        }
    }
}
