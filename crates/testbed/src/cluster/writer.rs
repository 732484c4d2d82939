//! The status writer: keeps a node without a kubelet. It writes the Node, its Lease and the status of its pods as a
//! kubelet writes them.
//!
//! There are no containers: every bound pod runs at once, whether it fits or not, and is gone as soon as it is deleted.
//! All else that the API server, the scheduler and the webhook see follows the kubelet. The writer compares its report
//! with the Node that the API server has, so it takes an amplified allocatable for a change of its own and writes its
//! own value back.

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

/// How long a request of the node's may take: the kubelet's default.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);
/// How long a lease lasts, in seconds: the kubelet's default.
const LEASE_S: u32 = 40;
/// Who owns what is written, as the API server has it.
const MANAGER: &str = "kubelet";
/// Where the leases of nodes are.
const LEASES: &str = "kube-node-lease";
/// How long the API server is left alone after it refused the Node or the watch of pods.
const RETRY: Duration = Duration::from_secs(1);

/// A running status writer; it ends when it is dropped, and with its process.
#[derive(Debug)]
pub(super) struct Writer {
    name: String,
    task: JoinSet<Result<()>>,
}

/// What the writer's task works with.
struct Desk {
    name: String,
    client: Client,
    nodes: Api<NodeObject>,
    report: Report,
    sync_every: Duration,
    report_every: Duration,
    log: File,
}

impl Writer {
    /// Starts to keep the node on the present async runtime. The kubeconfig is the node's; what the API server refuses is
    /// tried again and noted in `log`.
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
            let desk = Desk {
                name,
                nodes: Api::all(client.clone()),
                client,
                report,
                sync_every,
                report_every,
                log,
            };
            Box::pin(desk.keep()).await;
            Ok(())
        });
        Ok(Self {
            name: options.name.clone(),
            task,
        })
    }

    /// Writes nothing any more.
    pub(super) fn stop(&mut self) {
        self.task.abort_all();
    }

    /// Fails if it has ended.
    pub(super) fn check(&mut self) -> Result<()> {
        if let Some(ended) = self.task.try_join_next() {
            let outcome = ended.context("it panicked").flatten();
            outcome.with_context(|| format!("the status writer of node {} ended", self.name))?;
        }
        Ok(())
    }
}

impl Desk {
    async fn keep(self) {
        while let Err(error) = self.register().await {
            self.note(&error);
            sleep(RETRY).await;
        }
        join!(self.keep_node(), self.keep_pods());
    }

    /// Creates the Node, unless a kubelet or a writer before this one has.
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

    async fn keep_node(&self) {
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
                let outcome = outcome.context("no answer from the API server");
                outcome.flatten().unwrap_or_else(|error| self.note(&error));
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

    /// Compares with what the API server has, and writes what differs, or the heartbeats when they are due.
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

    /// Whatever goes wrong, all pods are looked at anew.
    async fn keep_pods(&self) {
        loop {
            if let Err(error) = pods::follow(&self.client, &self.name).await {
                self.note(&error);
            }
            sleep(RETRY).await;
        }
    }

    fn note(&self, error: &anyhow::Error) {
        // There is nowhere else to tell of a log that cannot be written.
        writeln!(&self.log, "{} {error:#}", Timestamp::now()).ok();
    }
}

fn as_kubelet() -> PatchParams {
    PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    }
}
