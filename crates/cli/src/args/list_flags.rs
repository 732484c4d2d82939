//! Flags of commands that list nodes: which nodes, in what order, once or again with each change.

use clap::ValueEnum;

use super::{node_name::NodeName, selector::NodeLabelSelector};

/// Which nodes are listed, and how.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ListArgs {
    /// Only this node, as NAME or node/NAME.
    #[arg(value_name = "NODE")]
    pub(crate) node: Option<NodeName>,
    /// Only nodes with such labels, as in pool=batch,zone!=a.
    #[arg(short = 'l', long, env = "HEADROOM_SELECTOR", value_name = "SELECTOR")]
    pub(crate) selector: Option<NodeLabelSelector>,
    /// The order of the nodes.
    #[arg(
        long,
        env = "HEADROOM_SORT_BY",
        value_enum,
        default_value_t,
        value_name = "ORDER"
    )]
    pub(crate) sort_by: NodeOrder,
    /// Leave the titles out.
    #[arg(long, env = "HEADROOM_NO_HEADERS")]
    pub(crate) no_headers: bool,
    /// Go on with each change until Ctrl-C: on a terminal the table is drawn again in place, elsewhere each node that changed is
    /// one line.
    #[arg(short, long, env = "HEADROOM_WATCH")]
    pub(crate) watch: bool,
}

/// An order of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum NodeOrder {
    /// By name.
    #[default]
    Name,
    /// The most CPU used first.
    Cpu,
    /// The most memory used first.
    Memory,
    /// The highest ratio first.
    Ratio,
    /// The least free CPU first.
    Free,
    /// The strongest brake first.
    Brake,
    /// The oldest report first, and before it nodes without one.
    Age,
}
