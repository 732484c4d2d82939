//! [`Product`] installs the shipped manifests on a real node, where webhook and agent run as pods, and gives access to both.

mod admin_port;
mod busy_time;
mod container;
mod manifests;

use std::{
    path::Path,
    process::{Command, Output},
    time::{Duration, Instant},
};

use headroom_agent::local::status::{self, Status};
use headroom_domain::names;
use headroom_testbed::{
    cluster::{Cluster, ClusterOptions},
    real_node::{RealNode, RealNodeOptions},
};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, LogParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::{task::spawn_blocking, time::sleep};
use xtask::images::{self, Image, Linkage};

use self::busy_time::BusyTime;
pub use self::{container::ContainerProcess, manifests::Changes};
use crate::{built::programs, rendered_manifests::Installation};

/// Name of the node.
pub const NODE: &str = "real-0";
/// Default limit for an expected event. A busy machine needs several times as long as an idle one.
pub const WITHIN: Duration = Duration::from_secs(120);
/// Longest wait for other processes to leave CPUs idle.
const IDLE_WITHIN: Duration = Duration::from_secs(900);
/// CPU time that other processes may use, in percent: more leaves no slack for idle pods.
const BUSY_PERCENT: u64 = 60;
/// Interval between two readings of that time.
const BUSY_EVERY: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Log lines of each container in the message of a failed wait.
const LOG_LINES: i64 = 15;

/// A cluster with one real node, on which webhook and agent run.
pub struct Product {
    // In the order in which they are dropped.
    pub node: RealNode,
    pub cluster: Cluster,
    /// A client with the administrator's rights.
    pub client: Client,
    /// The applied manifests.
    pub installation: Installation,
    /// Warnings of the API server while they were applied.
    pub warnings: String,
}

/// Options of a [`Product`].
#[derive(Debug, Clone)]
pub struct ProductOptions {
    pub node: RealNodeOptions,
    pub changes: Changes,
}

impl Default for ProductOptions {
    /// A node of this machine's size, and the base with compressed durations.
    fn default() -> Self {
        Self {
            node: RealNodeOptions::new(NODE),
            changes: Changes::default(),
        }
    }
}

impl Product {
    /// Starts cluster and node, installs, and waits until both pods are Ready.
    pub async fn start(options: ProductOptions) -> Self {
        let product = Self::apply(options).await;
        assert_eq!(product.warnings, "");
        product.await_ready().await;
        product
    }

    /// Like [`Self::start`], without waiting for the pods, and with any warnings.
    pub async fn apply(options: ProductOptions) -> Self {
        let ProductOptions { mut node, changes } = options;
        let ours = [Image::Webhook, Image::Agent];
        let archives = spawn_blocking(move || images::ensure(Linkage::Relinked, &ours)).await;
        let archives = archives.expect("join").expect("build the images");
        node.images
            .extend(archives.into_values().map(|archive| archive.path));
        let cluster = Cluster::start(ClusterOptions::for_real_node())
            .await
            .expect("cluster");
        let node = RealNode::start(&cluster, node).await.expect("node");
        let client = cluster.client().await.expect("client");
        let installation = changes.render();
        let applied = installation.try_apply(cluster.kubeconfig());
        let warnings = String::from_utf8(applied.stderr).expect("text");
        assert!(applied.status.success(), "{warnings}");
        Self {
            node,
            cluster,
            client,
            installation,
            warnings,
        }
    }

    /// Waits until one pod of the webhook and one of the agent are Ready, and no other pod of them is left.
    pub async fn await_ready(&self) {
        self.until("webhook and agent are Ready", async || {
            for namespace in [names::NAMESPACE, names::AGENT_NAMESPACE] {
                let pods = self.list(namespace).await;
                if pods.len() != 1 || !pods.iter().all(is_ready) {
                    return false;
                }
            }
            true
        })
        .await;
    }

    /// Polls a condition until it is true. A timeout reports the pods of the product, their events and the ends of their logs.
    pub async fn until(&self, what: &str, is_so: impl AsyncFnMut() -> bool) {
        self.wait(what, Duration::ZERO, is_so).await;
    }

    /// Like [`Self::until`], for a condition that needs idle CPUs. The limit starts again while other processes use the CPUs.
    pub async fn until_idle(&self, what: &str, is_so: impl AsyncFnMut() -> bool) {
        self.wait(what, IDLE_WITHIN, is_so).await;
    }

    async fn wait(&self, what: &str, idle_within: Duration, mut is_so: impl AsyncFnMut() -> bool) {
        let began = Instant::now();
        let (mut busy, mut read) = (BusyTime::default(), began);
        let mut deadline = began + WITHIN;
        while !is_so().await {
            let now = Instant::now();
            if now > read + BUSY_EVERY {
                read = now;
                if busy.percent() > BUSY_PERCENT && now < began + idle_within {
                    deadline = now + WITHIN;
                }
            }
            if now > deadline {
                let state = self.state().await;
                panic!("not in {WITHIN:?}: {what}; {state}");
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Polls the Node until it satisfies the condition, and returns it.
    pub async fn node_until(&self, what: &str, mut is_it: impl FnMut(&Node) -> bool) -> Node {
        let mut found = self.stored_node().await;
        self.until(what, async || {
            found = self.stored_node().await;
            is_it(&found)
        })
        .await;
        found
    }

    /// Polls the agent's status until it satisfies the condition, and returns it.
    pub async fn status_until(&self, what: &str, mut is_it: impl FnMut(&Status) -> bool) -> Status {
        let mut found = None;
        self.until(what, async || {
            found = self.try_status().await;
            found.as_ref().is_some_and(&mut is_it)
        })
        .await;
        found.expect("a status that satisfies the condition")
    }

    /// The Node as the API server stores it.
    pub async fn stored_node(&self) -> Node {
        let nodes: Api<Node> = Api::all(self.client.clone());
        nodes.get(self.node.name()).await.expect("read the Node")
    }

    /// Sets an annotation of the Node.
    pub async fn annotate(&self, key: &str, value: &str) {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let patch = json!({"metadata": {"annotations": {key: value}}});
        nodes
            .patch(self.node.name(), &PatchParams::default(), &Patch::Merge(patch))
            .await
            .expect("annotate the Node");
    }

    /// Pods of the default namespace, for workloads.
    pub fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    /// The running pod of the webhook; the newest one of several.
    pub async fn webhook(&self) -> Pod {
        self.newest(names::NAMESPACE).await.expect("a pod of the webhook")
    }

    /// The running pod of the agent; the newest one of several.
    pub async fn agent(&self) -> Pod {
        self.newest(names::AGENT_NAMESPACE)
            .await
            .expect("a pod of the agent")
    }

    /// Pods of a namespace.
    pub async fn list(&self, namespace: &str) -> Vec<Pod> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        pods.list(&ListParams::default()).await.expect("list pods").items
    }

    async fn newest(&self, namespace: &str) -> Option<Pod> {
        let mut pods = self.list(namespace).await;
        pods.retain(|pod| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            phase == Some("Running") && pod.metadata.deletion_timestamp.is_none()
        });
        pods.into_iter().max_by_key(ResourceExt::creation_timestamp)
    }

    /// Log of the pod's container, from the kubelet.
    pub async fn logs(&self, pod: &Pod) -> String {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace().expect("a namespace"));
        pods.logs(&pod.name_any(), &LogParams::default())
            .await
            .expect("read a log")
    }

    /// Response body of the pod's admin port. Fails unless the response is 200.
    pub async fn get(&self, pod: &Pod, path: &str) -> String {
        admin_port::get(&self.client, pod, path)
            .await
            .expect("query an admin port")
    }

    /// Sum of a counter's series that start with `series`, as in `name{label="value"`.
    pub async fn count(&self, pod: &Pod, series: &str) -> u64 {
        let text = self.get(pod, "/metrics").await;
        let values = text.lines().filter(|line| line.starts_with(series));
        values
            .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
            .sum()
    }

    /// Status of the agent.
    pub async fn agent_status(&self) -> Status {
        let text = self.get(&self.agent().await, status::PATH).await;
        serde_json::from_str(&text).expect("a status")
    }

    /// Status of the agent; `None` while it does not answer.
    pub async fn try_status(&self) -> Option<Status> {
        let pod = self.newest(names::AGENT_NAMESPACE).await?;
        let text = admin_port::get(&self.client, &pod, status::PATH).await.ok()?;
        Some(serde_json::from_str(&text).expect("a status"))
    }

    /// First process of the pod's only container.
    pub fn process(&self, pod: &Pod) -> ContainerProcess<'_> {
        ContainerProcess::find(&self.node, pod)
    }

    /// Runs kubectl as administrator.
    pub fn kubectl(&self, arguments: &[&str]) -> Output {
        let kubeconfig = format!("--kubeconfig={}", self.cluster.kubeconfig().display());
        self.installation
            .run(&[&[kubeconfig.as_str()], arguments].concat())
    }

    /// Runs `kubectl-headroom` with only this kubeconfig in its environment.
    pub async fn plugin(&self, kubeconfig: &Path, arguments: &[&str]) -> Output {
        let mut command = Command::new(programs().await.cli);
        command
            .env_clear()
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(arguments);
        spawn_blocking(move || command.output())
            .await
            .expect("join")
            .expect("run the plugin")
    }

    /// Messages of events about objects of a namespace, by reason.
    pub async fn events(&self, namespace: &str) -> Vec<(String, String)> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let events = events
            .list(&ListParams::default())
            .await
            .expect("list events")
            .items;
        let text = |event: Event| {
            (
                event.reason.unwrap_or_default(),
                event.message.unwrap_or_default(),
            )
        };
        events.into_iter().map(text).collect()
    }

    /// State of all pods, for the message of a failed wait.
    async fn state(&self) -> String {
        let mut state = Vec::new();
        for namespace in [names::NAMESPACE, names::AGENT_NAMESPACE, "default"] {
            for pod in self.list(namespace).await {
                let status: Value = json!(pod.status);
                state.push(format!("{namespace}/{}: {status}", pod.name_any()));
                if namespace == "default" {
                    continue;
                }
                let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
                let end = LogParams {
                    tail_lines: Some(LOG_LINES),
                    ..LogParams::default()
                };
                let log = pods.logs(&pod.name_any(), &end).await;
                state.push(log.unwrap_or_else(|error| error.to_string()));
            }
            for (reason, message) in self.events(namespace).await {
                state.push(format!("event {reason}: {message}"));
            }
        }
        state.push(format!("status of the agent: {}", json!(self.try_status().await)));
        let node = self.stored_node().await;
        state.push(format!("annotations: {:?}", node.annotations()));
        state.push(format!(
            "allocatable: {:?}",
            node.status.and_then(|status| status.allocatable)
        ));
        state.join("\n")
    }
}

/// True if the pod is Ready and is not being deleted.
pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let is_ready = conditions
        .into_iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True");
    is_ready && pod.metadata.deletion_timestamp.is_none()
}
