//! [`NodeRendering`] and [`run`]: fetch nodes, select and sort them, and print them once or with each change.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
    io::Write,
    time::Duration,
};

use headroom_domain::{hint::Brake, resource::Resource};
use headroom_kit::log::chain;
use serde_json::Value;
use tokio::{
    signal,
    time::{Instant, MissedTickBehavior, interval, sleep},
};

use super::Session;
use crate::{
    args::{ListArgs, NodeLabelSelector, NodeName, NodeOrder, OutputFormat},
    check::Finding,
    connect::{self, Connection, NodeWatch},
    error::Error,
    output::{self, Layout},
    screen::Screen,
    styled_text::{StyledText, Tone},
    view::NodeView,
};

/// Interval at which ages are redrawn and a lost webhook is retried.
const BEAT: Duration = Duration::from_secs(1);
/// Interval at which findings are fetched: the same as that of the webhook's own checks.
const CHECK_EVERY: Duration = Duration::from_secs(5);
/// Interval at which labels of nodes are fetched; they are also fetched for a new node.
const LABELS_EVERY: Duration = Duration::from_secs(30);

/// Functions that render the nodes for one command.
#[derive(Clone, Copy)]
pub(super) struct NodeRendering {
    pub(super) table: fn(&[NodeView], Layout) -> StyledText,
    pub(super) line: fn(&NodeView) -> String,
    /// `None` for a node that is left out.
    pub(super) json: fn(&NodeView) -> Option<Value>,
    /// Findings are printed above the table and are a member of each node's JSON.
    pub(super) has_findings: bool,
}

/// Lists nodes according to the flags.
pub(super) async fn run<W: Write>(
    flags: ListArgs,
    rendering: NodeRendering,
    session: Session<'_, W>,
) -> Result<(), Error> {
    let mut webhook = connect::open(&session.connect).await?;
    let Session { output, screen, .. } = session;
    // The first request is not retried, so that a wrong address or token fails at once.
    let nodes = webhook.list(flags.node.as_ref().map(NodeName::as_str)).await?;
    let findings = if rendering.has_findings {
        webhook.findings().await?
    } else {
        Vec::new()
    };
    let selected = SelectedNodes::fetch(flags.selector.as_ref(), &mut webhook).await?;
    let mut listing = Listing {
        selected,
        order: flags.sort_by,
        has_headers: !flags.no_headers,
        rendering,
        output,
        findings,
        nodes: Vec::new(),
        since: Instant::now(),
        trouble: None,
    };
    if flags.watch {
        return live(&mut webhook, &flags, nodes, listing, screen).await;
    }
    listing.set_nodes(nodes);
    listing.print_once(screen)
}

/// Follows the webhook until Ctrl-C. Retries if the webhook goes away, but not if it refuses.
async fn live<W: Write>(
    webhook: &mut Connection,
    flags: &ListArgs,
    nodes: Vec<NodeView>,
    mut listing: Listing,
    screen: &mut Screen<W>,
) -> Result<(), Error> {
    let node = flags.node.as_ref().map(NodeName::as_str);
    listing.print_findings(screen)?;
    listing.replace(nodes, screen)?;
    loop {
        let ended = tokio::select! {
            biased;
            interrupted = signal::ctrl_c() => return interrupted.map_err(Error::Write),
            ended = follow(webhook, node, &mut listing, screen) => ended,
        };
        match ended {
            Ok(StreamEnd::LabelsAreOld) => match SelectedNodes::fetch(flags.selector.as_ref(), webhook).await
            {
                Ok(selected) => {
                    listing.selected = selected;
                    continue;
                }
                Err(error) if error.is_passing() => listing.trouble = Some(chain(&error).to_string()),
                Err(error) => return Err(error),
            },
            Ok(StreamEnd::ByWebhook) => listing.trouble = Some("the webhook ended the stream".to_owned()),
            Err(error) if error.is_passing() => listing.trouble = Some(chain(&error).to_string()),
            Err(error) => return Err(error),
        }
        listing.draw(screen)?;
        tokio::select! {
            interrupted = signal::ctrl_c() => return interrupted.map_err(Error::Write),
            () = sleep(BEAT) => {}
        }
    }
}

/// Reason for the end of a stream.
enum StreamEnd {
    ByWebhook,
    LabelsAreOld,
}

/// Follows one stream until it ends.
async fn follow<W: Write>(
    webhook: &mut Connection,
    node: Option<&str>,
    listing: &mut Listing,
    screen: &mut Screen<W>,
) -> Result<StreamEnd, Error> {
    let mut watch: NodeWatch<'_> = webhook.watch(node).await?;
    let mut beat = interval(BEAT);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut check = interval(CHECK_EVERY);
    check.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            nodes = watch.next() => match nodes? {
                Some(nodes) if listing.selected.is_old(&nodes) => return Ok(StreamEnd::LabelsAreOld),
                Some(nodes) => listing.replace(nodes, screen)?,
                None => return Ok(StreamEnd::ByWebhook),
            },
            _ = check.tick(), if listing.rendering.has_findings => {
                let findings = watch.findings().await?;
                listing.replace_findings(findings, screen)?;
            }
            _ = beat.tick() => {
                screen.check()?;
                listing.draw(screen)?;
            }
        }
    }
}

/// Nodes that a selector selects, by the labels known at fetch time.
struct SelectedNodes {
    /// Names of the selected nodes, and of all nodes; `None` without a selector.
    names: Option<(HashSet<String>, HashSet<String>)>,
    fetched: Instant,
}

impl SelectedNodes {
    async fn fetch(selector: Option<&NodeLabelSelector>, webhook: &mut Connection) -> Result<Self, Error> {
        let names = match selector {
            None => None,
            Some(NodeLabelSelector(selector)) => {
                let known = webhook.node_labels(None).await?;
                let matching = known.matching(selector).map(ToOwned::to_owned).collect();
                Some((matching, known.names().map(ToOwned::to_owned).collect()))
            }
        };
        Ok(Self {
            names,
            fetched: Instant::now(),
        })
    }

    fn has(&self, node: &NodeView) -> bool {
        let names = self.names.as_ref();
        names.is_none_or(|(selected, _)| selected.contains(&node.name))
    }

    /// True if labels must be fetched before these nodes are shown.
    fn is_old(&self, nodes: &[NodeView]) -> bool {
        let Some((_, known)) = &self.names else {
            return false;
        };
        let age = self.fetched.elapsed();
        // A node may be deleted before its labels arrive, so they are fetched at most once a beat.
        age >= LABELS_EVERY || (age >= BEAT && nodes.iter().any(|node| !known.contains(&node.name)))
    }
}

struct Listing {
    selected: SelectedNodes,
    order: NodeOrder,
    has_headers: bool,
    rendering: NodeRendering,
    output: OutputFormat,
    findings: Vec<Finding>,
    nodes: Vec<NodeView>,
    since: Instant,
    /// Reason why updates have stopped.
    trouble: Option<String>,
}

impl Listing {
    /// Replaces the nodes by the selected ones, sorted, and returns the previous ones.
    fn set_nodes(&mut self, mut nodes: Vec<NodeView>) -> Vec<NodeView> {
        nodes.retain(|node| self.selected.has(node));
        sort(&mut nodes, self.order);
        self.since = Instant::now();
        self.trouble = None;
        std::mem::replace(&mut self.nodes, nodes)
    }

    fn print_once<W: Write>(&self, screen: &mut Screen<W>) -> Result<(), Error> {
        match self.output {
            OutputFormat::Table | OutputFormat::Wide => {
                let text = self.table(&self.nodes, screen);
                screen.print_styled(&text)
            }
            OutputFormat::Json | OutputFormat::Yaml => {
                let rows: Value = self.nodes.iter().filter_map(|node| self.json(node)).collect();
                screen.print(&format!("{rows:#}\n"))
            }
            OutputFormat::Name => {
                let names: String = self.nodes.iter().filter_map(|node| self.name(node)).collect();
                screen.print(&names)
            }
        }
    }

    fn replace<W: Write>(&mut self, nodes: Vec<NodeView>, screen: &mut Screen<W>) -> Result<(), Error> {
        let before = self.set_nodes(nodes);
        if self.is_drawn(screen) {
            return self.draw(screen);
        }
        let before: HashMap<&str, &NodeView> = before.iter().map(|node| (node.name.as_str(), node)).collect();
        let has_changed = |node: &&NodeView| {
            before
                .get(node.name.as_str())
                .is_none_or(|old| node.differs_from(old))
        };
        for node in self.nodes.iter().filter(has_changed) {
            let line = match self.output {
                OutputFormat::Table | OutputFormat::Wide => Some((self.rendering.line)(node)),
                OutputFormat::Json | OutputFormat::Yaml => self.json(node).map(|row| format!("{row}\n")),
                OutputFormat::Name => self.name(node),
            };
            if let Some(line) = line.filter(|line| !line.is_empty()) {
                screen.print(&line)?;
            }
        }
        Ok(())
    }

    /// Prints the findings if they changed.
    fn replace_findings<W: Write>(
        &mut self,
        findings: Vec<Finding>,
        screen: &mut Screen<W>,
    ) -> Result<(), Error> {
        if self.findings == findings {
            return Ok(());
        }
        self.findings = findings;
        self.print_findings(screen)?;
        self.draw(screen)
    }

    /// Prints the findings above lines that are not redrawn.
    fn print_findings<W: Write>(&self, screen: &mut Screen<W>) -> Result<(), Error> {
        let is_table = matches!(self.output, OutputFormat::Table | OutputFormat::Wide);
        if !is_table || self.is_drawn(screen) || self.findings.is_empty() {
            return Ok(());
        }
        screen.print(&output::leading_lines(&self.findings))
    }

    /// Table with the findings above it.
    fn table<W: Write>(&self, nodes: &[NodeView], screen: &Screen<W>) -> StyledText {
        let mut text = StyledText::default();
        if !self.findings.is_empty() {
            text.push(Tone::Alarm, output::leading_lines(&self.findings));
        }
        text.append((self.rendering.table)(nodes, self.layout(screen)));
        text
    }

    fn json(&self, node: &NodeView) -> Option<Value> {
        let shown = (self.rendering.json)(node)?;
        Some(if self.rendering.has_findings {
            output::with_findings(shown, &self.findings)
        } else {
            shown
        })
    }

    fn name(&self, node: &NodeView) -> Option<String> {
        (self.rendering.json)(node).map(|_shown| format!("node/{}\n", node.name))
    }

    /// Redraws the table with current ages, if the output is a terminal.
    fn draw<W: Write>(&self, screen: &mut Screen<W>) -> Result<(), Error> {
        if !self.is_drawn(screen) {
            return Ok(());
        }
        let elapsed = self.since.elapsed();
        let nodes: Vec<NodeView> = self.nodes.iter().map(|node| node.later(elapsed)).collect();
        let mut text = self.table(&nodes, screen);
        if let Some(trouble) = &self.trouble {
            text.push(Tone::Alarm, format!("{trouble}; retrying\n"));
        }
        screen.redraw(&text)
    }

    fn layout<W: Write>(&self, screen: &Screen<W>) -> Layout {
        Layout {
            width: screen.width(),
            is_wide: self.output == OutputFormat::Wide,
            has_headers: self.has_headers,
        }
    }

    fn is_drawn<W: Write>(&self, screen: &Screen<W>) -> bool {
        matches!(self.output, OutputFormat::Table | OutputFormat::Wide) && screen.is_terminal()
    }
}

/// Sorts nodes, which arrive by name; the sort is stable.
fn sort(nodes: &mut [NodeView], order: NodeOrder) {
    let used = |node: &NodeView, resource| Reverse(node.used(resource));
    match order {
        NodeOrder::Name => nodes.sort_by(|one, other| one.name.cmp(&other.name)),
        NodeOrder::Cpu => nodes.sort_by_key(|node| used(node, Resource::Cpu)),
        NodeOrder::Memory => nodes.sort_by_key(|node| used(node, Resource::Memory)),
        NodeOrder::Ratio => {
            nodes.sort_by_key(|node| {
                Reverse(
                    Resource::ALL
                        .map(|resource| node.ratio(resource))
                        .into_iter()
                        .max(),
                )
            });
        }
        NodeOrder::Free => nodes.sort_by_key(|node| {
            let free = node.free(Resource::Cpu);
            (free.is_none(), free)
        }),
        NodeOrder::Brake => nodes.sort_by_key(|node| Reverse(strongest_brake(node))),
        NodeOrder::Age => nodes.sort_by_key(|node| {
            let age = node.hint.as_ref().map(|hint| hint.age);
            (age.is_some(), Reverse(age))
        }),
    }
}

fn strongest_brake(node: &NodeView) -> Option<Brake> {
    let report = &node.hint.as_ref()?.report;
    let brakes = Resource::ALL.map(|resource| report.resources.get(resource).brake);
    brakes.into_iter().max()
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;
    use headroom_proto::v1alpha1::{Amounts, NodeStatus};

    use super::*;
    use crate::output::tests::status;

    fn resource(node: &mut NodeStatus, place: usize) -> &mut headroom_proto::v1alpha1::Resource {
        &mut node.hint.as_mut().unwrap().resources[place]
    }

    #[test]
    fn nodes_are_sorted_and_nodes_without_a_report_are_last_but_first_by_age() {
        type Change = fn(&mut NodeStatus);
        let cases: [(NodeOrder, Change, [&str; 3]); 7] = [
            (NodeOrder::Name, |_| {}, ["a", "b", "c"]),
            (
                NodeOrder::Cpu,
                |node| resource(node, 0).usage += 1,
                ["b", "a", "c"],
            ),
            (
                NodeOrder::Memory,
                |node| resource(node, 1).usage += 1,
                ["b", "a", "c"],
            ),
            (
                NodeOrder::Ratio,
                |node| {
                    node.allocatable = Some(Amounts {
                        cpu_milli: 47_250,
                        memory_bytes: 118 << 30,
                    });
                },
                ["b", "a", "c"],
            ),
            (
                NodeOrder::Free,
                |node| node.bound.as_mut().unwrap().cpu_milli += 1,
                ["b", "a", "c"],
            ),
            (
                NodeOrder::Brake,
                |node| resource(node, 1).brake = 0,
                ["a", "b", "c"],
            ),
            (NodeOrder::Age, |node| node.hint_age_ms += 1, ["c", "b", "a"]),
        ];
        let tested = cases.each_ref().map(|(order, ..)| *order);
        assert_eq!(tested, NodeOrder::value_variants());
        for (order, change, expected) in cases {
            let mut b = status("b");
            change(&mut b);
            let silent = NodeStatus {
                hint: None,
                hint_standing: String::new(),
                raw: None,
                allocatable: None,
                ..status("c")
            };
            let nodes = [silent, b, status("a")];
            let mut nodes = nodes.map(|node| NodeView::try_from(node).unwrap());
            sort(&mut nodes, order);
            let names = nodes.each_ref().map(|node| node.name.as_str());
            assert_eq!(names, expected, "{order:?}");
        }
    }
}
