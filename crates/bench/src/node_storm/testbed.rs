//! The testbed of the bench: starts control plane, webhook and nodes, disturbs the webhook and counts the nodes'
//! writes.

use std::{
    collections::{BTreeMap, BTreeSet},
    slice,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use headroom_domain::names;
use headroom_testbed::{
    Testbed,
    cluster::{Cluster, ClusterOptions, NodeBackend, NodeOptions},
    folder::Folder,
    programs::Programs,
    webhook::{self, Webhook},
};
use http::Request;
use k8s_openapi::jiff::Timestamp;
use rustix::process::Signal;
use tokio::time::{Instant, sleep};
use xtask::terminal::print;

use super::{Interval, LIMIT, Steady};
use crate::{
    audit::{Audit, Entry, What},
    revisions::{Revision, Revisions},
};

/// Allocatable CPU of a node as its kubelet has it.
const RAW_MILLI: u64 = 4_000;
/// The ratio that nodes are amplified by, and what comes of it.
const HIGH: &str = r#"{"cpu":1.5}"#;
const HIGH_MILLI: u64 = 6_000;
/// A lower ratio, and what comes of it.
const LOW: &str = r#"{"cpu":1.25}"#;
const LOW_MILLI: u64 = 5_000;
/// The API server's count of what it wrote to etcd of nodes.
const ETCD_WRITES: &str = r#"etcd_requests_total{group="",operation="update",resource="nodes"}"#;
/// How often everything is checked to run.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Everything on the scene, in the order in which it ends.
pub(super) struct StormTestbed {
    /// What is written of the nodes.
    pub(super) revisions: Revisions,
    webhook: Webhook,
    testbed: Testbed,
    nodes: Vec<String>,
    /// Those amplified while writes are counted.
    half: BTreeSet<String>,
    audit: Audit,
    options: webhook::WebhookOptions,
    _folder: Folder,
}

impl StormTestbed {
    /// Starts control plane, webhook and nodes; all nodes are raw. Kubelets report every `interval`, and heartbeats
    /// are quieted for as long.
    pub(super) async fn start(count: u16, interval: Duration) -> Result<Self> {
        let programs = tokio::task::spawn_blocking(Programs::build).await??;
        let folder = Folder::new("headroom-storm")?;
        let audit = Audit::new(folder.path())?;
        let control_plane = ClusterOptions {
            has_controllers: true,
            apiserver_flags: audit.flags(),
            ..ClusterOptions::default()
        };
        let builder = Testbed::builder(programs).control_plane(control_plane);
        let mut testbed = builder.start().await?;
        let seconds = interval.as_secs().to_string();
        let options = testbed.webhook_options("webhook")?;
        let options = options.flags(["--heartbeat-interval-seconds", &seconds]);
        let webhook = testbed.start_webhook(&options).await?;
        let nodes = start_nodes(&mut testbed.cluster, count, interval).await?;
        let scene = Self {
            revisions: Revisions::watch(testbed.client.clone()),
            webhook,
            testbed,
            half: nodes.iter().step_by(2).cloned().collect(),
            nodes,
            audit,
            options,
            _folder: folder,
        };
        scene.until_all("raw and Ready", &scene.nodes, RAW_MILLI).await?;
        Ok(scene)
    }

    /// Amplifies every second node.
    pub(super) async fn amplify_half(&self) -> Result<()> {
        let half: Vec<String> = self.half.iter().cloned().collect();
        self.amplify(&half).await
    }

    /// Amplifies all nodes.
    pub(super) async fn amplify_all(&self) -> Result<()> {
        self.amplify(&self.nodes).await
    }

    async fn amplify(&self, nodes: &[String]) -> Result<()> {
        for node in nodes {
            self.testbed.annotate(node, names::RATIO, HIGH).await?;
        }
        self.until_all("amplified", nodes, HIGH_MILLI).await
    }

    async fn until_all(&self, what: &str, nodes: &[String], cpu_milli: u64) -> Result<()> {
        let is_so = |latest: &BTreeMap<String, Revision>| {
            nodes.iter().all(|node| {
                let latest = latest.get(node);
                latest.is_some_and(|revision| revision.is_ready && revision.cpu_milli == cpu_milli)
            })
        };
        self.revisions
            .until(&format!("{} are {what}", nodes.join(", ")), LIMIT, is_so)
            .await
    }

    /// Lets time pass.
    pub(super) async fn stretch(&mut self, length: Duration) -> Result<Interval> {
        let (from, end) = (Timestamp::now(), Instant::now() + length);
        while Instant::now() < end {
            sleep(CHECK_EVERY.min(end.saturating_duration_since(Instant::now()))).await;
            self.testbed.cluster.check()?;
        }
        let until = Timestamp::now();
        Ok(Interval { from, until })
    }

    /// What the raw nodes and the amplified ones did.
    pub(super) fn split(&self, stretch: Interval) -> Result<(Steady, Steady)> {
        let Interval { from, until } = stretch;
        let mut before = self.revisions.between(Timestamp::MIN, from);
        // The last one first: that is what is stored when the stretch begins.
        before.reverse();
        let revisions = self.revisions.between(from, until);
        let entries = self.audit.between(from, until)?;
        let is_raw = |node: &&String| !self.half.contains(*node);
        let raw = self.nodes.iter().filter(is_raw).cloned().collect();
        let of = |nodes| Steady::count(nodes, &before, &revisions, &entries, until);
        Ok((of(&raw), of(&self.half)))
    }

    /// What the API server has written to etcd of nodes, ever.
    pub(super) async fn etcd_writes(&self) -> Result<f64> {
        let request = Request::get("/metrics").body(Vec::new())?;
        let metrics = self.testbed.client.request_text(request).await;
        let metrics = metrics.context("read the API server's metrics")?;
        let value = metrics.lines().find_map(|line| line.strip_prefix(ETCD_WRITES));
        let value = value.context("the API server does not count writes of nodes")?;
        Ok(value.trim().parse()?)
    }

    /// Kills the webhook, waits, and starts it again: seconds from readiness until each node that had fallen to raw
    /// is amplified.
    pub(super) async fn outage(&mut self, length: Duration) -> Result<Vec<f64>> {
        self.webhook.process.signal(Signal::KILL)?;
        self.stretch(length).await?;
        let latest = self.revisions.latest().into_values();
        let fallen = latest.filter(|revision| revision.cpu_milli == RAW_MILLI);
        let fallen: Vec<String> = fallen.map(|revision| revision.node).collect();
        ensure!(
            fallen.len() == self.nodes.len(),
            "without the webhook only {} nodes fell to raw",
            fallen.len()
        );
        let webhook = Webhook::start(&self.options).await?;
        let ready = Timestamp::now();
        self.testbed.register(&webhook).await?;
        self.webhook = webhook;
        self.until_all("amplified again", &fallen, HIGH_MILLI).await?;
        let revisions = self.revisions.between(ready, Timestamp::now());
        let took = fallen.iter().filter_map(|node| {
            let is_mended = |revision: &&Revision| revision.node == *node && revision.cpu_milli == HIGH_MILLI;
            let mended = revisions.iter().find(is_mended)?;
            Some(mended.at.duration_since(ready).as_secs_f64())
        });
        Ok(ascending(took))
    }

    /// Changes the ratio of one node after another, down and up again: seconds until allocatable follows.
    pub(super) async fn changes(&self, count: usize) -> Result<Vec<f64>> {
        let nodes = self.nodes.iter().cycle();
        let changes = nodes.flat_map(|node| [(node, LOW, LOW_MILLI), (node, HIGH, HIGH_MILLI)]);
        let mut took = Vec::new();
        for (node, ratio, cpu_milli) in changes.take(count) {
            let asked = Instant::now();
            self.testbed.annotate(node, names::RATIO, ratio).await?;
            self.until_all("as asked for", slice::from_ref(node), cpu_milli)
                .await?;
            took.push(asked.elapsed().as_secs_f64());
        }
        Ok(ascending(took))
    }

    /// Freezes the webhook for a while.
    pub(super) async fn freeze(&mut self, length: Duration) -> Result<Interval> {
        self.webhook.process.signal(Signal::STOP)?;
        let hung = self.stretch(length).await;
        self.webhook.process.signal(Signal::CONT)?;
        self.until_all("amplified after the freeze", &self.nodes, HIGH_MILLI)
            .await?;
        hung
    }

    /// Leases that nodes renewed.
    pub(super) fn leases(&self, stretch: Interval) -> Result<usize> {
        let entries = self.audit.between(stretch.from, stretch.until)?;
        let is_renewal = |entry: &&Entry| entry.what == What::Lease && entry.is_taken;
        Ok(entries.iter().filter(is_renewal).count())
    }

    /// Nodes that were not Ready at any time since all were.
    pub(super) fn not_ready(&self) -> usize {
        let mut revisions = self.revisions.between(Timestamp::MIN, Timestamp::MAX);
        revisions.retain(|revision| !revision.is_ready);
        let nodes: BTreeSet<String> = revisions.into_iter().map(|revision| revision.node).collect();
        nodes.len()
    }

    /// Fails if a part has ended.
    pub(super) fn check(&mut self) -> Result<()> {
        self.testbed.check([&mut self.webhook.process])
    }
}

async fn start_nodes(cluster: &mut Cluster, count: u16, interval: Duration) -> Result<Vec<String>> {
    let mut nodes = Vec::new();
    for number in 0..count {
        let options = NodeOptions {
            backend: Some(NodeBackend::Kubelet),
            cpus: 4,
            memory_bytes: 16 << 30,
            report: interval,
            ..NodeOptions::new(format!("hollow-{number}"))
        };
        nodes.push(options.name.clone());
        cluster.start_node(options).await?;
    }
    print("all nodes are Ready");
    Ok(nodes)
}

fn ascending(figures: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    figures
}
