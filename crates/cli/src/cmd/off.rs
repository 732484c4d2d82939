//! `off`: restores nodes to raw, by the mode annotation and a write of their status, and waits until they are raw.
//!
//! It needs no webhook port, only the API server: it writes an annotation, and admission does the rest. A dry run shows
//! the result of a write in advance.

mod node_result;
mod off_end;

use std::{collections::BTreeMap, io::Write, time::Duration};

use headroom_domain::names;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use self::{
    node_result::{OffResult, Remains, traces},
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

/// How often nodes are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Have raw allocatable restored and our annotations removed, on all nodes or on one.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Writes the annotation headroom.sh/mode=off through the status of each node, and waits. Allocatable stays above raw for as
long as what is bound to a node needs it. Takes the rights to list nodes and to patch nodes/status, and no way to the
webhook. To uninstall: this first, then delete the installation, then the annotation.

With --now it ends with one of three lines. `restored`: all nodes are raw, exit code 0. `waiting`: which nodes are not raw
yet, and why, exit code 1; the webhook goes on. `nobody answers`: no webhook looked at the writes, with the commands that
restore raw values by hand, exit code 1. With -o json it is the last object, with the key `end`.

Examples:
  # What would become of each node
  kubectl headroom off

  kubectl headroom off --now --node worker-1
  kubectl headroom off --now --wait-seconds 600 && kubectl delete -k . && kubectl annotate nodes --all headroom.sh/mode-")]
pub(crate) struct OffArgs {
    /// Do it; without this flag the result is only predicted.
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

/// The way to the Nodes that are asked for.
struct NodeClient {
    nodes: Api<Node>,
    args: OffArgs,
    by_hand: ByHand,
}

/// What has been said of each node.
struct Telling<'s, W> {
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
        let mut telling = Telling {
            screen,
            format,
            reported: BTreeMap::new(),
        };
        if client.args.now {
            return until_restored(&client, &mut telling).await;
        }
        let found = client.found().await?;
        if format == Format::Table {
            telling
                .screen
                .print("nothing is written without --now; it would leave\n")?;
        }
        for node in found {
            let would_be = client.probed(&node).await?;
            telling.report(would_be)?;
        }
        match telling.end(&client.by_hand) {
            OffEnd::Restored { .. } | OffEnd::Waiting { .. } => Ok(()),
            end @ OffEnd::Unanswered { .. } => telling.print_end(&end),
        }
    }
}

/// Switches nodes off, also those that come meanwhile, until all are restored or the time is over.
async fn until_restored<W: Write>(client: &NodeClient, telling: &mut Telling<'_, W>) -> Result<(), Error> {
    let deadline = Instant::now() + Duration::from_secs(client.args.wait_seconds);
    loop {
        let found = client.found().await?;
        telling
            .reported
            .retain(|name, _| found.iter().any(|node| node.name_any() == *name));
        for node in found {
            let restored = client.switched_off(node).await?;
            telling.report(restored)?;
        }
        let end = telling.end(&client.by_hand);
        if let OffEnd::Restored { .. } = end {
            return telling.print_end(&end);
        }
        if Instant::now() >= deadline {
            if telling.format == Format::Json {
                telling.print_end(&end)?;
            }
            return Err(Error::NotRestored { end: end.to_string() });
        }
        sleep(LOOK_EVERY).await;
    }
}

impl NodeClient {
    /// The nodes that are asked for.
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

    /// That there is no such node, with the one that was probably meant.
    async fn unknown(&self, name: &str) -> Error {
        // Whatever happens now, the answer is that there is none.
        let all = self.nodes.list_metadata(&ListParams::default()).await;
        let names: Vec<String> = all.iter().flatten().map(kube::ResourceExt::name_any).collect();
        Error::NoSuchNode {
            name: name.to_owned(),
            advice: node_advice(name, names.iter().map(String::as_str)),
        }
    }

    /// Writes the mode of a node that is not off or not raw yet, and tells what is left. Where nothing can be done yet
    /// the API server sees no change and writes nothing.
    async fn switched_off(&self, node: Node) -> Result<OffResult, Error> {
        let is_off = node.annotations().get(names::MODE).map(String::as_str) == Some("off");
        let node = if is_off && traces(&node).next().is_none() {
            node
        } else {
            let params = PatchParams::default();
            self.written(&node, &params, &json!({names::MODE: "off"})).await?
        };
        // Where something is left, a dry run tells whether a webhook wants it so.
        self.probed(&node).await
    }

    /// What a node would be with its mode off. The probe is a note that the webhook removes from whatever it decides, so
    /// one that comes back was seen by no webhook.
    async fn probed(&self, node: &Node) -> Result<OffResult, Error> {
        if traces(node).next().is_none() {
            return Ok(OffResult::new(node, Remains::Nothing));
        }
        let params = PatchParams {
            dry_run: true,
            ..PatchParams::default()
        };
        let probe = json!({names::MODE: "off", names::KUBELET_RAW: "{}"});
        let answer = self.written(node, &params, &probe).await?;
        let is_unanswered = answer.annotations().contains_key(names::KUBELET_RAW);
        let remains = if is_unanswered {
            Remains::Unanswered
        } else if traces(&answer).next().is_some() {
            Remains::Held
        } else if self.args.now {
            Remains::Due
        } else {
            Remains::Nothing
        };
        Ok(OffResult::new(&answer, remains))
    }

    /// Writes annotations through `nodes/status`, where the webhook decides anew.
    async fn written(&self, node: &Node, params: &PatchParams, annotations: &Value) -> Result<Node, Error> {
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        let written = self.nodes.patch_status(&node.name_any(), params, &patch).await;
        written.map_err(|source| Error::api(&rights::WRITE_STATUS, source))
    }
}

impl<W: Write> Telling<'_, W> {
    /// What it would come to if it ended now.
    fn end(&self, by_hand: &ByHand) -> OffEnd {
        OffEnd::new(self.reported.values(), by_hand.clone())
    }

    fn print_end(&mut self, end: &OffEnd) -> Result<(), Error> {
        self.screen.print(&match self.format {
            Format::Table => format!("{end}\n"),
            Format::Json => format!("{}\n", end.json()),
        })
    }

    /// Says what became of a node, unless that was said before.
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
