//! `NodeListing`: fetches the nodes that a command lists, selects and sorts them, and prints them once or with each change.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
    io::Write,
    time::Duration,
};

use headroom_domain::{hint::Brake, resource::Resource};
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

/// Ages are redrawn, and a lost webhook is asked again, this often.
const BEAT: Duration = Duration::from_secs(1);
/// What is wrong for everybody is asked again this often: as often as the webhook looks.
const CHECK_EVERY: Duration = Duration::from_secs(5);
/// Labels of nodes are asked for again this often, and when there is a new node.
const LABELS_EVERY: Duration = Duration::from_secs(30);

/// How a command shows nodes.
#[derive(Clone, Copy)]
pub(super) struct NodeRendering {
    pub(super) table: fn(&[NodeView], Layout) -> StyledText,
    pub(super) line: fn(&NodeView) -> String,
    /// `None` for a node that is not shown.
    pub(super) json: fn(&NodeView) -> Option<Value>,
    /// What is wrong for everybody stands first, and is a member of each node's JSON.
    pub(super) has_findings: bool,
}

/// Lists nodes as the flags say.
pub(super) async fn run<W: Write>(
    flags: ListArgs,
    rendering: NodeRendering,
    session: Session<'_, W>,
) -> Result<(), Error> {
    let mut webhook = connect::open(&session.connect).await?;
    let Session { output, screen, .. } = session;
    // The first answer must come: an address or token that is wrong is no passing trouble.
    let nodes = webhook.list(flags.node.as_ref().map(NodeName::as_str)).await?;
    let findings = if rendering.has_findings {
        webhook.findings().await?
    } else {
        Vec::new()
    };
    let selected = SelectedNodes::fetch(flags.selector.as_ref(), &mut webhook).await?;
    let mut picture = Picture {
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
        return live(&mut webhook, &flags, nodes, picture, screen).await;
    }
    picture.set_nodes(nodes);
    picture.print_once(screen)
}

/// Follows the webhook until Ctrl-C; asks again when it goes away, but not when it refuses.
async fn live<W: Write>(
    webhook: &mut Connection,
    flags: &ListArgs,
    nodes: Vec<NodeView>,
    mut picture: Picture,
    screen: &mut Screen<W>,
) -> Result<(), Error> {
    let node = flags.node.as_ref().map(NodeName::as_str);
    picture.print_findings(screen)?;
    picture.replace(nodes, screen)?;
    loop {
        let ended = tokio::select! {
            biased;
            interrupted = signal::ctrl_c() => return interrupted.map_err(Error::Write),
            ended = follow(webhook, node, &mut picture, screen) => ended,
        };
        match ended {
            Ok(Ended::LabelsAreOld) => match SelectedNodes::fetch(flags.selector.as_ref(), webhook).await {
                Ok(selected) => {
                    picture.selected = selected;
                    continue;
                }
                Err(error) if error.is_passing() => picture.trouble = Some(error.to_string()),
                Err(error) => return Err(error),
            },
            Ok(Ended::ByWebhook) => picture.trouble = Some("the webhook ended the stream".to_owned()),
            Err(error) if error.is_passing() => picture.trouble = Some(error.to_string()),
            Err(error) => return Err(error),
        }
        picture.draw(screen)?;
        tokio::select! {
            interrupted = signal::ctrl_c() => return interrupted.map_err(Error::Write),
            () = sleep(BEAT) => {}
        }
    }
}

/// Why a stream is not followed any more.
enum Ended {
    ByWebhook,
    LabelsAreOld,
}

/// Follows one stream to its end.
async fn follow<W: Write>(
    webhook: &mut Connection,
    node: Option<&str>,
    picture: &mut Picture,
    screen: &mut Screen<W>,
) -> Result<Ended, Error> {
    let mut watch: NodeWatch<'_> = webhook.watch(node).await?;
    let mut beat = interval(BEAT);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut check = interval(CHECK_EVERY);
    check.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            nodes = watch.next() => match nodes? {
                Some(nodes) if picture.selected.is_old(&nodes) => return Ok(Ended::LabelsAreOld),
                Some(nodes) => picture.replace(nodes, screen)?,
                None => return Ok(Ended::ByWebhook),
            },
            _ = check.tick(), if picture.rendering.has_findings => {
                let findings = watch.findings().await?;
                picture.replace_findings(findings, screen)?;
            }
            _ = beat.tick() => {
                screen.check()?;
                picture.draw(screen)?;
            }
        }
    }
}

/// The nodes that a selector selects, as far as their labels were known.
struct SelectedNodes {
    /// Names of those that are selected, and of all; `None` without a selector.
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

    /// True if labels must be asked for before these nodes are shown.
    fn is_old(&self, nodes: &[NodeView]) -> bool {
        let Some((_, known)) = &self.names else {
            return false;
        };
        let age = self.fetched.elapsed();
        // A node may be gone again before its labels come: no more than once a beat.
        age >= LABELS_EVERY || (age >= BEAT && nodes.iter().any(|node| !known.contains(&node.name)))
    }
}

/// What is on the screen.
struct Picture {
    selected: SelectedNodes,
    order: NodeOrder,
    has_headers: bool,
    rendering: NodeRendering,
    output: OutputFormat,
    /// What is wrong for everybody.
    findings: Vec<Finding>,
    nodes: Vec<NodeView>,
    /// When `nodes` came.
    since: Instant,
    /// Why nothing newer comes.
    trouble: Option<String>,
}

impl Picture {
    /// The nodes that are selected, in order; those from before.
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

    /// Says what is wrong now, where that is something else than before.
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

    /// Says what is wrong above lines that are not drawn again.
    fn print_findings<W: Write>(&self, screen: &mut Screen<W>) -> Result<(), Error> {
        let is_table = matches!(self.output, OutputFormat::Table | OutputFormat::Wide);
        if !is_table || self.is_drawn(screen) || self.findings.is_empty() {
            return Ok(());
        }
        screen.print(&output::leading_lines(&self.findings))
    }

    /// The table below what is wrong.
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

    /// Draws the table with the ages of this moment, where a table is drawn at all.
    fn draw<W: Write>(&self, screen: &mut Screen<W>) -> Result<(), Error> {
        if !self.is_drawn(screen) {
            return Ok(());
        }
        let elapsed = self.since.elapsed();
        let nodes: Vec<NodeView> = self.nodes.iter().map(|node| node.later(elapsed)).collect();
        let mut text = self.table(&nodes, screen);
        if let Some(trouble) = &self.trouble {
            text.push(Tone::Alarm, format!("{trouble}; trying again\n"));
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

/// Sorts nodes, which come by name. Nodes of one rank stay by name.
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
    fn nodes_come_in_the_order_that_is_asked_for_and_silent_ones_last_but_first_by_age() {
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
