//! Testbed of the bench: starts control plane, webhook and nodes, disturbs the webhook and counts the nodes' writes.

use std::{
    collections::{BTreeMap, BTreeSet},
    slice,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use headroom_domain::names;
use headroom_testbed::{
    Testbed,
    cluster::{Cluster, ClusterOptions, NodeOptions},
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
    audit::Audit,
    revisions::{Revision, Revisions},
    statistics::ascending,
};

/// Allocatable CPU of a node as its kubelet reports it.
const RAW_MILLI: u64 = 4_000;
/// The usual ratio and its allocatable.
const HIGH: &str = r#"{"cpu":1.5}"#;
const HIGH_MILLI: u64 = 6_000;
/// The lower ratio and its allocatable.
const LOW: &str = r#"{"cpu":1.25}"#;
const LOW_MILLI: u64 = 5_000;
/// The API server's counter of writes of Nodes to etcd.
const ETCD_WRITES: &str = r#"etcd_requests_total{group="",operation="update",resource="nodes"}"#;
/// Interval at which all processes are checked.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Fields are in the order of their shutdown.
pub(super) struct StormTestbed {
    pub(super) revisions: Revisions,
    webhook: Webhook,
    testbed: Testbed,
    nodes: Vec<String>,
    /// Nodes that are amplified while writes are counted.
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
        let storm = Self {
            revisions: Revisions::watch(testbed.client.clone()),
            webhook,
            testbed,
            half: nodes.iter().step_by(2).cloned().collect(),
            nodes,
            audit,
            options,
            _folder: folder,
        };
        storm.until_all("raw and Ready", &storm.nodes, RAW_MILLI).await?;
        Ok(storm)
    }

    pub(super) async fn amplify_half(&self) -> Result<()> {
        let half: Vec<String> = self.half.iter().cloned().collect();
        self.amplify(&half).await
    }

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

    pub(super) async fn run_for(&mut self, length: Duration) -> Result<Interval> {
        let (from, end) = (Timestamp::now(), Instant::now() + length);
        while Instant::now() < end {
            sleep(CHECK_EVERY.min(end.saturating_duration_since(Instant::now()))).await;
            self.testbed.cluster.check()?;
        }
        let until = Timestamp::now();
        Ok(Interval { from, until })
    }

    /// Writes of the raw and of the amplified nodes.
    pub(super) fn split(&self, interval: Interval) -> Result<(Steady, Steady)> {
        let Interval { from, until } = interval;
        let mut before = self.revisions.between(Timestamp::MIN, from);
        // Newest first: the stored revision at the start of the interval.
        before.reverse();
        let revisions = self.revisions.between(from, until);
        let entries = self.audit.between(from, until)?;
        let is_raw = |node: &&String| !self.half.contains(*node);
        let raw = self.nodes.iter().filter(is_raw).cloned().collect();
        let of = |nodes| Steady::count(nodes, &before, &revisions, &entries, until);
        Ok((of(&raw), of(&self.half)))
    }

    /// Writes of Nodes to etcd since the API server started.
    pub(super) async fn etcd_writes(&self) -> Result<f64> {
        let request = Request::get("/metrics").body(Vec::new())?;
        let metrics = self.testbed.client.request_text(request).await;
        let metrics = metrics.context("cannot read the API server's metrics")?;
        let value = metrics.lines().find_map(|line| line.strip_prefix(ETCD_WRITES));
        let value = value.context("the API server has no metric of node writes")?;
        Ok(value.trim().parse()?)
    }

    /// Kills the webhook for `length` and restarts it; returns seconds from readiness until each node that had fallen
    /// to raw is amplified.
    pub(super) async fn outage(&mut self, length: Duration) -> Result<Vec<f64>> {
        self.webhook.process.signal(Signal::KILL)?;
        self.run_for(length).await?;
        let latest = self.revisions.latest().into_values();
        let fallen = latest.filter(|revision| revision.cpu_milli == RAW_MILLI);
        let fallen: Vec<String> = fallen.map(|revision| revision.node).collect();
        ensure!(
            fallen.len() == self.nodes.len(),
            "only {} nodes fell to raw without the webhook",
            fallen.len()
        );
        let webhook = Webhook::start(&self.options).await?;
        let ready = Timestamp::now();
        self.testbed.register(&webhook).await?;
        self.webhook = webhook;
        self.until_all("amplified again", &fallen, HIGH_MILLI).await?;
        let revisions = self.revisions.between(ready, Timestamp::now());
        let took = fallen.iter().filter_map(|node| {
            let is_amplified =
                |revision: &&Revision| revision.node == *node && revision.cpu_milli == HIGH_MILLI;
            let amplified = revisions.iter().find(is_amplified)?;
            Some(amplified.at.duration_since(ready).as_secs_f64())
        });
        Ok(ascending(took))
    }

    /// Changes the ratio of one node after another, down and up again; returns seconds until allocatable follows.
    pub(super) async fn changes(&self, count: usize) -> Result<Vec<f64>> {
        let nodes = self.nodes.iter().cycle();
        let changes = nodes.flat_map(|node| [(node, LOW, LOW_MILLI), (node, HIGH, HIGH_MILLI)]);
        let mut took = Vec::new();
        for (node, ratio, cpu_milli) in changes.take(count) {
            let asked = Instant::now();
            self.testbed.annotate(node, names::RATIO, ratio).await?;
            self.until_all("at the new ratio", slice::from_ref(node), cpu_milli)
                .await?;
            took.push(asked.elapsed().as_secs_f64());
        }
        Ok(ascending(took))
    }

    /// Stops the webhook with SIGSTOP for `length`.
    pub(super) async fn freeze(&mut self, length: Duration) -> Result<Interval> {
        self.webhook.process.signal(Signal::STOP)?;
        let hung = self.run_for(length).await;
        self.webhook.process.signal(Signal::CONT)?;
        self.until_all("amplified after the freeze", &self.nodes, HIGH_MILLI)
            .await?;
        hung
    }

    /// Number of lease renewals by all nodes.
    pub(super) fn leases(&self, interval: Interval) -> Result<usize> {
        self.audit.renewals(interval.from, interval.until, None)
    }

    /// Number of nodes that were not Ready at any time since all nodes became Ready.
    pub(super) fn not_ready(&self) -> usize {
        self.revisions.not_ready(Timestamp::MIN, Timestamp::MAX)
    }

    /// Fails if a process has ended.
    pub(super) fn check(&mut self) -> Result<()> {
        self.testbed.check([&mut self.webhook.process])
    }
}

async fn start_nodes(cluster: &mut Cluster, count: u16, interval: Duration) -> Result<Vec<String>> {
    let mut nodes = Vec::new();
    for number in 0..count {
        let options = NodeOptions {
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
