//! [`PoolArgs`]: flags of the label that names a node's pool in metrics.

use clap::Args;

/// Default number of label values with a series of their own.
const MOST_POOLS: u16 = 20;

/// Flags for the pool label in metrics.
#[derive(Debug, Clone, Args)]
pub struct PoolArgs {
    /// Label of Nodes whose value is the pool in metrics, as in node.kubernetes.io/instance-type; without it all nodes
    /// are one pool
    #[arg(long, env = "HEADROOM_POOL_LABEL", value_name = "KEY")]
    pub pool_label: Option<String>,
    /// Values of that label that have a series of their own; nodes with later ones are in the pool other
    #[arg(long, env = "HEADROOM_MOST_POOLS", value_name = "N", default_value_t = MOST_POOLS, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub most_pools: u16,
}
