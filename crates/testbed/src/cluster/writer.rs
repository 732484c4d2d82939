//! The status writer replaces the kubelet of a node: it writes the Node, its Lease and the status of its pods like a kubelet.
//!
//! There are no containers: every bound pod is Running at once, even if it does not fit, and is removed as soon as it is
//! deleted. Otherwise the writes are the same as a kubelet's. The writer compares its report with the stored Node, so it
//! replaces an amplified allocatable by its own value.

mod pods;
mod report;

use std::{
    fs::File,
    io::Write as _,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use k8s_openapi::{
    api::{coordination::v1::Lease, core::v1::Node as NodeObject},
    apimachinery::pkg::apis::meta::v1::{MicroTime, Time},
    jiff::Timestamp,
};
use kube::{
    Api, Client, Error,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::{
    join,
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep, timeout},
};

use self::report::Report;
use super::{NodeOptions, client_of};

/// Timeout of a request: the kubelet's default.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);
/// Duration of the lease in seconds: the kubelet's default.
const LEASE_S: u32 = 40;
/// Field manager of all writes.
const MANAGER: &str = "kubelet";
const LEASES: &str = "kube-node-lease";
/// Delay after the API server refused the Node or the watch of pods.
const RETRY: Duration = Duration::from_secs(1);

/// A running status writer; ends when dropped.
#[derive(Debug)]
pub(super) struct Writer {
    name: String,
    task: JoinSet<Result<()>>,
}

/// State of the writer's task.
struct WriterTask {
    name: String,
    client: Client,
    nodes: Api<NodeObject>,
    report: Report,
    sync_every: Duration,
    report_every: Duration,
    log: File,
}

impl Writer {
    /// Starts a writer on the current async runtime, with the kubeconfig of the node. Failed requests are retried and logged in
    /// `log`.
    pub(super) fn start(options: &NodeOptions, kubeconfig: &Path, log: &Path) -> Result<Self> {
        let file = File::options().create(true).append(true).open(log);
        let log = file.with_context(|| format!("write {}", log.display()))?;
        let report = Report::new(options)?;
        let name = options.name.clone();
        let (sync_every, report_every) = (options.sync, options.report);
        let kubeconfig = kubeconfig.to_owned();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let client = client_of(&kubeconfig).await?;
            let writer = WriterTask {
                name,
                nodes: Api::all(client.clone()),
                client,
                report,
                sync_every,
                report_every,
                log,
            };
            Box::pin(writer.run()).await;
            Ok(())
        });
        Ok(Self {
            name: options.name.clone(),
            task,
        })
    }

    pub(super) fn stop(&mut self) {
        self.task.abort_all();
    }

    /// Fails if the task has ended.
    pub(super) fn check(&mut self) -> Result<()> {
        if let Some(ended) = self.task.try_join_next() {
            let outcome = ended.context("panic").flatten();
            outcome.with_context(|| format!("the status writer of node {} ended", self.name))?;
        }
        Ok(())
    }
}

impl WriterTask {
    async fn run(self) {
        while let Err(error) = self.register().await {
            self.log(&error);
            sleep(RETRY).await;
        }
        join!(self.update_node(), self.update_pods());
    }

    /// Creates the Node if it does not exist.
    async fn register(&self) -> Result<()> {
        let params = PostParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PostParams::default()
        };
        let node = self.report.node(&self.name)?;
        match self.nodes.create(&params, &node).await {
            Err(Error::Api(status)) if status.is_already_exists() => Ok(()),
            created => created.map(drop).context("create the Node"),
        }
    }

    async fn update_node(&self) {
        let mut reported_at = None;
        let mut ticks = interval(self.sync_every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let (renewed, synced) = join!(
                timeout(REQUEST_LIMIT, self.renew_lease()),
                timeout(REQUEST_LIMIT, self.sync(&mut reported_at)),
            );
            for outcome in [renewed, synced] {
                let outcome = outcome.context("the API server did not answer in time");
                outcome.flatten().unwrap_or_else(|error| self.log(&error));
            }
        }
    }

    async fn renew_lease(&self) -> Result<()> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), LEASES);
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self.name},
            "spec": {
                "holderIdentity": self.name,
                "leaseDurationSeconds": LEASE_S,
                "renewTime": MicroTime(Timestamp::now()),
            },
        });
        leases
            .patch(&self.name, &PatchParams::apply(MANAGER), &Patch::Apply(lease))
            .await
            .context("renew the lease")?;
        Ok(())
    }

    /// Compares the status with the stored Node, and writes differences, or heartbeats if they are due.
    async fn sync(&self, reported_at: &mut Option<Instant>) -> Result<()> {
        let node = self.nodes.get(&self.name).await.context("read the Node")?;
        let is_due = reported_at.is_none_or(|at| at.elapsed() >= self.report_every);
        let stored = node.status.unwrap_or_default();
        if let Some(status) = self.report.patch(&stored, is_due, &Time(Timestamp::now())) {
            let patch = Patch::Strategic(json!({ "status": status }));
            self.nodes
                .patch_status(&self.name, &as_kubelet(), &patch)
                .await
                .context("write the status")?;
            *reported_at = Some(Instant::now());
        }
        Ok(())
    }

    /// Lists all pods again after an error.
    async fn update_pods(&self) {
        loop {
            if let Err(error) = pods::follow(&self.client, &self.name).await {
                self.log(&error);
            }
            sleep(RETRY).await;
        }
    }

    fn log(&self, error: &anyhow::Error) {
        // A failed write cannot be reported anywhere else.
        writeln!(&self.log, "{} {error:#}", Timestamp::now()).ok();
    }
}

fn as_kubelet() -> PatchParams {
    PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    }
}
