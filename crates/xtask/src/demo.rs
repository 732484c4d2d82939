//! The flags of `cargo xtask demo`. `cargo xtask` parses them before any build, and the demo parses them again.

use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::{duration, setup::Item};

/// Shortest run in which every claim can be checked: the load starts within 46 s and lasts 6 s, its peak counts for 20 s, and
/// free capacity returns about 8 s later.
const SHORTEST: Duration = Duration::from_secs(90);

// The arguments of `cargo xtask demo`. A doc comment would be its help text.
#[derive(Debug, Clone, Args)]
pub struct Demo {
    /// End after this time, counted from Node Ready: `90s`, `5m`; at least 90 s. The demo needs about 80 s. With `--keep`, the
    /// longest time until its checks are printed.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// Print one JSON line per change on standard output, and everything else on standard error.
    #[arg(long)]
    pub json: bool,
    /// Kind of the node. `hollow`: kubelet code without containers. `real`: kubelet, kube-proxy, containerd and runc, with pods in
    /// containers.
    #[arg(long, value_enum, default_value_t)]
    pub node: NodeKind,
    /// After the checks, keep everything running until Ctrl-C, and print commands to inspect it.
    #[arg(long)]
    pub keep: bool,
}

/// Kind of the demo's node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum NodeKind {
    #[default]
    Hollow,
    Real,
}

impl NodeKind {
    /// Set-up items of the demo with this node.
    pub fn items(self) -> Vec<Item> {
        let mut items = Item::of_demo();
        if self == Self::Real {
            items.extend(Item::of_real_node());
        }
        items
    }
}

/// Parses a duration of at least [`SHORTEST`].
fn parse_duration(text: &str) -> Result<Duration, String> {
    let parsed = duration::parse(text)?;
    if parsed < SHORTEST {
        return Err(format!(
            "{text} is too short: free capacity returns up to 80 s after Node Ready; use at least {} s",
            SHORTEST.as_secs()
        ));
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_below_90_s_are_refused() {
        assert_eq!(parse_duration("90s"), Ok(SHORTEST));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        for short in ["89s", "60s", "1m", "0m"] {
            let error = parse_duration(short).unwrap_err();
            assert!(
                error.starts_with(short) && error.contains("at least 90 s"),
                "{error}"
            );
        }
    }
}
