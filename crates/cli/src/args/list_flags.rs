//! Flags of the commands that list nodes: selection, order, headers and watch.

use clap::ValueEnum;

use super::{node_name::NodeName, selector::NodeLabelSelector};

/// Selection and order of listed nodes.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ListArgs {
    /// Only this node, as NAME or node/NAME.
    #[arg(value_name = "NODE")]
    pub(crate) node: Option<NodeName>,
    /// Only nodes with these labels, such as pool=batch,zone!=a.
    #[arg(short = 'l', long, env = "HEADROOM_SELECTOR", value_name = "SELECTOR")]
    pub(crate) selector: Option<NodeLabelSelector>,
    /// Order of the nodes.
    #[arg(
        long,
        env = "HEADROOM_SORT_BY",
        value_enum,
        default_value_t,
        value_name = "ORDER"
    )]
    pub(crate) sort_by: NodeOrder,
    /// Print no table header.
    #[arg(long, env = "HEADROOM_NO_HEADERS")]
    pub(crate) no_headers: bool,
    /// Print changes until Ctrl-C. On a terminal the table is redrawn in place; elsewhere each changed node is one
    /// line.
    #[arg(short, long, env = "HEADROOM_WATCH")]
    pub(crate) watch: bool,
}

/// Order of listed nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum NodeOrder {
    /// By name.
    #[default]
    Name,
    /// Most CPU used first.
    Cpu,
    /// Most memory used first.
    Memory,
    /// Highest ratio first.
    Ratio,
    /// Least free CPU first.
    Free,
    /// Strongest brake first.
    Brake,
    /// Nodes without a report first, then the oldest report.
    Age,
}
