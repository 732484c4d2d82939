//! `off`: restores nodes to raw allocatable through the mode annotation, and waits until they are raw.
//!
//! It needs the API server and no port of the webhook: it patches an annotation of the Nodes, and the next status write
//! of each Node restores it. The leader of the webhook sends one within seconds, and a kubelet every ten. A dry run
//! shows the result in advance.

mod node_result;
mod off_end;

use std::{collections::BTreeMap, io::Write, time::Duration};

use headroom_domain::{
    capacity::{ProbeAnswer, QUESTION},
    names,
};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use self::node_result::traces;
pub(super) use self::{
    node_result::{OffResult, Remains},
    off_end::{ByHand, OffEnd},
};
use super::Session;
use crate::{
    args::{Format, NodeName},
    connect,
    error::Error,
    mistyped::node_advice,
    rights,
    screen::Screen,
};

/// Interval between two looks at the nodes.
const POLL_EVERY: Duration = Duration::from_secs(1);

/// Restore raw allocatable and remove Headroom's annotations, on all nodes or on one.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Patches the annotation headroom.sh/mode=off on each node, and waits. Allocatable stays above raw while the pods bound to a node
need it. Requires permission to list and to patch nodes, and no connection to the webhook. `kubectl headroom uninstall` does this
before it deletes the installation.

With --now the last line is one of three. `restored`: all nodes are raw, exit code 0. `waiting`: some nodes are not raw yet,
with the reasons, exit code 1; the webhook restores them later. `unanswered`: no webhook processed the writes, with the commands that
restore raw values by hand, exit code 1. With -o json it is the last object, with the key `end`.

Examples:
  # Predict the result for each node
  kubectl headroom off

  kubectl headroom off --now --node worker-1
  kubectl headroom off --now --wait-seconds 600")]
pub(crate) struct OffArgs {
    /// Restore the nodes; without this flag the result is only predicted.
    #[arg(long, env = "HEADROOM_NOW")]
    now: bool,
    /// Only this node.
    #[arg(long, env = "HEADROOM_NODE", value_name = "NAME")]
    node: Option<NodeName>,
    /// Seconds to wait until all nodes are raw.
    #[arg(
        long,
        env = "HEADROOM_WAIT_SECONDS",
        value_name = "SECONDS",
        default_value_t = 60
    )]
    wait_seconds: u64,
}

/// Client for the selected Nodes.
struct NodeClient {
    nodes: Api<Node>,
    args: OffArgs,
    by_hand: ByHand,
}

/// Results that were already printed, by node.
struct ResultPrinter<'s, W> {
    screen: &'s mut Screen<W>,
    format: Format,
    reported: BTreeMap<String, OffResult>,
}

impl OffArgs {
    pub(super) async fn run<W: Write>(self, session: Session<'_, W>) -> Result<(), Error> {
        let nodes = Api::all(connect::api(&session.connect).await?);
        let Session {
            format,
            screen,
            connect,
            ..
        } = session;
        let client = NodeClient {
            nodes,
            by_hand: ByHand {
                kubectl: connect.kubectl(),
                namespace: connect.namespace.to_string(),
                node: self.node.as_ref().map(|name| name.as_str().to_owned()),
            },
            args: self,
        };
        let mut printer = ResultPrinter::new(screen, format);
        if client.args.now {
            return until_restored(&client, &mut printer).await;
        }
        let heading = "dry run: --now applies it; the result would be\n";
        match printer.predict(&client, heading).await? {
            OffEnd::Restored { .. } | OffEnd::Waiting { .. } => Ok(()),
            end @ OffEnd::Unanswered { .. } => printer.print_end(&end),
        }
    }
}

/// Predicts the result for all nodes and prints one line for each.
pub(super) async fn predict<W: Write>(
    api: &Client,
    by_hand: ByHand,
    (screen, format): (&mut Screen<W>, Format),
) -> Result<OffEnd, Error> {
    let client = NodeClient::for_all(api, by_hand, false, Duration::ZERO);
    ResultPrinter::new(screen, format).predict(&client, "").await
}

/// Switches all nodes off, with a line for each result. It ends early if no webhook has answered for `patience`.
pub(super) async fn restore<W: Write>(
    api: &Client,
    by_hand: ByHand,
    (wait, patience): (Duration, Duration),
    (screen, format): (&mut Screen<W>, Format),
) -> Result<OffEnd, Error> {
    let client = NodeClient::for_all(api, by_hand, true, wait);
    restored_within(&client, &mut ResultPrinter::new(screen, format), patience).await
}

async fn until_restored<W: Write>(
    client: &NodeClient,
    printer: &mut ResultPrinter<'_, W>,
) -> Result<(), Error> {
    let patience = Duration::from_secs(client.args.wait_seconds);
    let end = restored_within(client, printer, patience).await?;
    if let OffEnd::Restored { .. } = end {
        return printer.print_end(&end);
    }
    if printer.format == Format::Json {
        printer.print_end(&end)?;
    }
    Err(Error::NotRestored { end: end.to_string() })
}

/// Switches nodes off, including those that join meanwhile, until all are restored, the deadline passes, or no webhook
/// has answered for `patience`.
async fn restored_within<W: Write>(
    client: &NodeClient,
    printer: &mut ResultPrinter<'_, W>,
    patience: Duration,
) -> Result<OffEnd, Error> {
    let start = Instant::now();
    let deadline = start + Duration::from_secs(client.args.wait_seconds);
    let mut answered = start;
    loop {
        let found = client.found().await?;
        printer
            .reported
            .retain(|name, _| found.iter().any(|node| node.name_any() == *name));
        for node in found {
            let restored = client.switched_off(node).await?;
            printer.report(restored)?;
        }
        let now = Instant::now();
        let end = printer.end(&client.by_hand);
        let is_last = match end {
            OffEnd::Restored { .. } => true,
            OffEnd::Waiting { .. } => {
                answered = now;
                false
            }
            OffEnd::Unanswered { .. } => now >= answered + patience,
        };
        if is_last || now >= deadline {
            return Ok(end);
        }
        sleep(POLL_EVERY).await;
    }
}

impl NodeClient {
    fn for_all(api: &Client, by_hand: ByHand, now: bool, wait: Duration) -> Self {
        Self {
            nodes: Api::all(api.clone()),
            args: OffArgs {
                now,
                node: None,
                wait_seconds: wait.as_secs(),
            },
            by_hand,
        }
    }

    async fn found(&self) -> Result<Vec<Node>, Error> {
        let attempt = |source| Error::api(&rights::READ_NODES, source);
        match &self.args.node {
            None => {
                let list = self.nodes.list(&ListParams::default()).await;
                Ok(list.map_err(attempt)?.items)
            }
            Some(name) => {
                let name = name.as_str();
                let node = self.nodes.get_opt(name).await.map_err(attempt)?;
                match node {
                    Some(node) => Ok(vec![node]),
                    None => Err(self.unknown(name).await),
                }
            }
        }
    }

    /// Error for an unknown node, with the nearest known name.
    async fn unknown(&self, name: &str) -> Error {
        // If this list fails, the error has no nearest name.
        let all = self.nodes.list_metadata(&ListParams::default()).await;
        let names: Vec<String> = all.iter().flatten().map(kube::ResourceExt::name_any).collect();
        Error::NoSuchNode {
            name: name.to_owned(),
            advice: node_advice(name, names.iter().map(String::as_str)),
        }
    }

    /// Patches the mode of a node that is not off yet, and returns the remains.
    async fn switched_off(&self, node: Node) -> Result<OffResult, Error> {
        let is_off = node.annotations().get(names::MODE).map(String::as_str) == Some("off");
        let node = if is_off {
            node
        } else {
            let params = PatchParams::default();
            self.written(&node, &params, &json!({names::MODE: "off"})).await?
        };
        // If annotations remain, a dry run shows if the webhook keeps them.
        self.probed(&node).await
    }

    /// Predicts the node with mode `off`. A webhook replaces the question by its decision, so a question that remains
    /// means that no webhook answered.
    async fn probed(&self, node: &Node) -> Result<OffResult, Error> {
        if traces(node).next().is_none() {
            return Ok(OffResult::new(node, Remains::Nothing));
        }
        let params = PatchParams {
            dry_run: true,
            ..PatchParams::default()
        };
        let probe = json!({names::MODE: "off", names::KUBELET_RAW: QUESTION});
        let written = self.written(node, &params, &probe).await?;
        let answer = written.annotations().get(names::KUBELET_RAW);
        let answer = answer.and_then(|text| text.parse::<ProbeAnswer>().ok());
        Ok(match answer {
            Some(answer) => OffResult::answered(node, &answer, self.args.now),
            None => OffResult::new(node, Remains::Unanswered),
        })
    }

    /// Patches annotations of a node.
    async fn written(&self, node: &Node, params: &PatchParams, annotations: &Value) -> Result<Node, Error> {
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        let written = self.nodes.patch(&node.name_any(), params, &patch).await;
        written.map_err(|source| Error::api(&rights::ANNOTATE_NODES, source))
    }
}

impl<'s, W: Write> ResultPrinter<'s, W> {
    const fn new(screen: &'s mut Screen<W>, format: Format) -> Self {
        Self {
            screen,
            format,
            reported: BTreeMap::new(),
        }
    }

    /// Prints the predicted result of each node, below a heading if it is a table.
    async fn predict(&mut self, client: &NodeClient, heading: &str) -> Result<OffEnd, Error> {
        let found = client.found().await?;
        if self.format == Format::Table {
            self.screen.print(heading)?;
        }
        for node in found {
            let projection = client.probed(&node).await?;
            self.report(projection)?;
        }
        Ok(self.end(&client.by_hand))
    }

    /// Result if the command ended now.
    fn end(&self, by_hand: &ByHand) -> OffEnd {
        OffEnd::new(self.reported.values(), by_hand.clone())
    }

    fn print_end(&mut self, end: &OffEnd) -> Result<(), Error> {
        self.screen.print(&match self.format {
            Format::Table => format!("{end}\n"),
            Format::Json => format!("{}\n", end.json()),
        })
    }

    /// Prints the result of a node unless it was printed before.
    fn report(&mut self, restored: OffResult) -> Result<(), Error> {
        if self.reported.get(&restored.node) == Some(&restored) {
            return Ok(());
        }
        let text = match self.format {
            Format::Table => format!("{restored}\n"),
            Format::Json => format!("{}\n", restored.json()),
        };
        self.screen.print(&text)?;
        self.reported.insert(restored.node.clone(), restored);
        Ok(())
    }
}
