//! [`Stand`] wraps the testbed for tests: its methods panic on failure, and perform each step of a kubelet on its
//! Node.

use std::{
    ops::{Deref, DerefMut},
    thread,
    time::Duration,
};

use headroom_domain::names;
use headroom_testbed::{
    Testbed, accounts,
    cluster::{ClusterOptions, NodeOptions},
    programs::get,
    webhook::{self, Served, Webhook},
};
use headroom_webhook::{admission::endpoint::Family, install::manifest::custom_kinds};
use k8s_openapi::{
    api::core::v1::Node, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{built::programs, pool, scripted_agent::ScriptedAgent};

/// Default limit for an expected event.
pub const HAPPENS_WITHIN: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Usual configuration of tests: mode `auto`, memory up to 1.25.
pub const AUTO: &str = "amplification: {mode: auto, bounds: {memory: {max: 1.25}}}";

/// The testbed of one test. Derefs to it; methods of the same name panic instead of returning an error.
pub struct Stand {
    testbed: Option<Testbed>,
    /// True if the control plane returns to the pool.
    is_pooled: bool,
}

/// Metrics of the API server at one time.
pub struct Metrics(String);

impl Stand {
    /// Etcd and an API server without objects of earlier tests; no scheduler, no controllers.
    pub async fn start() -> Self {
        Self {
            testbed: Some(pool::get().await),
            is_pooled: true,
        }
    }

    /// Starts a control plane with these options.
    pub async fn start_with(options: ClusterOptions) -> Self {
        let builder = Testbed::builder(programs().await).control_plane(options);
        Self {
            testbed: Some(builder.start().await.expect("start the testbed")),
            is_pooled: false,
        }
    }

    /// Installs the kinds of Koordinator that the webhook reads, as the component does. They stay, so the control
    /// plane must not be pooled.
    pub async fn install_kinds(&self) {
        assert!(!self.is_pooled, "the next test would find the kinds");
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        for definition in custom_kinds::definitions().expect("definitions") {
            let created = definitions.create(&PostParams::default(), &definition).await;
            created.expect("install the kind");
        }
    }

    /// Starts a replica; replicas share their certificates.
    pub async fn webhook(&self, name: &str, config: &str) -> Webhook {
        let options = self.webhook_options(name, config);
        Webhook::start(&options).await.expect("start the webhook")
    }

    /// Starts a replica with additional flags.
    pub async fn webhook_with(&self, name: &str, config: &str, flags: &[&str]) -> Webhook {
        let options = self.webhook_options(name, config).flags(flags.iter().copied());
        Webhook::start(&options).await.expect("start the webhook")
    }

    /// Starts and registers a replica that serves these families, with these gates as in [`webhook::GATES`] and the
    /// rights for them.
    pub async fn serving(&self, name: &str, config: &str, families: &[Family], gates: &str) -> Webhook {
        self.serving_with(name, config, families, gates, &[]).await
    }

    /// Starts a replica like [`Self::serving`], with additional flags.
    pub async fn serving_with(
        &self,
        name: &str,
        config: &str,
        families: &[Family],
        gates: &str,
        flags: &[&str],
    ) -> Webhook {
        let served = Served {
            families: families.to_vec(),
            gates: gates.to_owned(),
            ..Served::default()
        };
        accounts::grant(&self.client, &served.installation, families)
            .await
            .expect("grant rights");
        let options = self.options_serving(name, served).expect("kubeconfig");
        let flags = flags.iter().copied().chain([webhook::DEMO_TIMING]);
        let options = options.config(config).flags(flags);
        let webhook = Webhook::start(&options).await.expect("start the webhook");
        self.register(&webhook).await;
        webhook
    }

    /// Options of a replica; it accepts hints with demo timing.
    pub fn webhook_options(&self, name: &str, config: &str) -> webhook::WebhookOptions {
        let options = Testbed::webhook_options(self, name).expect("kubeconfig");
        options.config(config).flags([webhook::DEMO_TIMING])
    }

    /// Registers a replica; the API server calls it a moment later.
    pub async fn register(&self, webhook: &Webhook) {
        Testbed::register(self, webhook)
            .await
            .expect("register the webhook");
    }

    /// Registers a replica like [`Self::register`], with the option `steady-state-skip`.
    pub async fn register_skipping(&self, webhook: &Webhook) {
        webhook::register_skipping(&self.client, &webhook.url(), &webhook.ca, &webhook.served)
            .await
            .expect("register the webhook");
    }

    /// Sets an annotation of a Node without a write of its status.
    pub async fn annotate(&self, name: &str, key: &str, value: &str) -> Node {
        let annotated = Testbed::annotate(self, name, key, value).await;
        annotated.expect("annotate the node")
    }

    /// Current metrics of the API server.
    pub async fn metrics(&self) -> Metrics {
        let request = http::Request::get("/metrics").body(Vec::new());
        let text = self.client.request_text(request.expect("a request")).await;
        Metrics(text.expect("metrics"))
    }

    /// Creates a Node as its kubelet does, with this raw allocatable.
    pub async fn create_node(&self, name: &str, cpu: &str, memory: &str) -> Node {
        let object = serde_json::from_value(json!({"metadata": {"name": name}})).expect("a Node");
        self.nodes()
            .create(&PostParams::default(), &object)
            .await
            .expect("create the node");
        let amounts = json!({"cpu": cpu, "memory": memory, "pods": "110"});
        let status = json!({"capacity": amounts, "allocatable": amounts, "conditions": [ready(0)]});
        self.patch_as_kubelet(name, &status)
            .await
            .expect("the first status")
    }

    /// A strategic-merge PATCH of `nodes/status` with the node's own credential, as from its kubelet.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn patch_as_kubelet(&self, name: &str, status: &Value) -> kube::Result<Node> {
        let client = self
            .cluster
            .client_for_node(name)
            .await
            .expect("the node's client");
        let nodes: Api<Node> = Api::all(client);
        nodes
            .patch_status(
                name,
                &PatchParams::default(),
                &Patch::Strategic(json!({"status": status})),
            )
            .await
    }

    /// Sets the ratio annotation for CPU, and writes the status without a change, so that admission applies it
    /// immediately.
    pub async fn set_ratio(&self, name: &str, cents: u64) {
        self.annotate_ratio(name, cents).await;
        let same = Patch::Merge(json!({"status": {}}));
        self.nodes()
            .patch_status(name, &PatchParams::default(), &same)
            .await
            .expect("write the status");
    }

    /// Sets the ratio annotation for CPU without a write of the status, so that the leader must observe and apply it.
    pub async fn annotate_ratio(&self, name: &str, cents: u64) {
        self.annotate(name, names::RATIO, &ratio(cents)).await;
    }

    /// A stream of the node's agent to a replica.
    pub async fn agent(&self, node: &Node, replica: &Webhook) -> ScriptedAgent {
        let token = self.agent_token(node).await;
        let agent = ScriptedAgent::open(replica.hints, &replica.ca, Some(&token)).await;
        agent.expect("a stream")
    }

    /// A token of the agent's account, bound to the node.
    pub async fn agent_token(&self, node: &Node) -> String {
        accounts::agent_token(&self.client, node).await.expect("a token")
    }

    /// Polls the node until it satisfies the condition.
    pub async fn node_until(&self, name: &str, what: &str, is_it: impl Fn(&Node) -> bool) -> Node {
        let nodes = self.nodes();
        let deadline = Instant::now() + HAPPENS_WITHIN;
        loop {
            let node = nodes.get(name).await.expect("read the node");
            if is_it(&node) {
                return node;
            }
            assert!(
                Instant::now() < deadline,
                "not in {HAPPENS_WITHIN:?}: {what}; the node is {node:#?}"
            );
            sleep(LOOK_EVERY).await;
        }
    }
}

impl Deref for Stand {
    type Target = Testbed;

    fn deref(&self) -> &Testbed {
        self.testbed.as_ref().expect("it is not dropped")
    }
}

impl DerefMut for Stand {
    fn deref_mut(&mut self) -> &mut Testbed {
        self.testbed.as_mut().expect("it is not dropped")
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        // The control plane of a failed test is not reused.
        if self.is_pooled && !thread::panicking() {
            self.testbed.take().into_iter().for_each(pool::put);
        }
    }
}

impl Metrics {
    /// Sum of a metric's series that have all of these labels, each as in `verb="PATCH"`.
    pub fn sum(&self, metric: &str, labels: &[&str]) -> f64 {
        let Self(text) = self;
        let series = text.lines().filter(|line| {
            let rest = line.strip_prefix(metric);
            rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
                && labels.iter().all(|label| line.contains(label))
        });
        let values = series.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        values.sum()
    }
}

/// A node of 4 CPUs with 200m reserved, with kubelet code that writes its status every second.
pub fn eager_kubelet(name: &str) -> NodeOptions {
    NodeOptions {
        cpus: 4,
        reserved_cpu_milli: 200,
        sync: Duration::from_secs(1),
        report: Duration::from_secs(1),
        ..NodeOptions::new(name)
    }
}

/// A node of 4 CPUs and 8Gi with kubelet code.
pub fn kubelet(name: &str) -> NodeOptions {
    NodeOptions {
        cpus: 4,
        memory_bytes: 8 << 30,
        ..NodeOptions::new(name)
    }
}

fn ratio(cents: u64) -> String {
    format!(r#"{{"cpu":{}.{:02}}}"#, cents / 100, cents % 100)
}

/// Polls a condition until it is true.
pub async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + HAPPENS_WITHIN;
    while !is_so().await {
        assert!(Instant::now() < deadline, "not in {HAPPENS_WITHIN:?}: {what}");
        sleep(LOOK_EVERY).await;
    }
}

/// Sum of a counter's series that start with `series`, as in `name{label="value"`.
pub async fn count(webhook: &Webhook, series: &str) -> u64 {
    let (_, body) = get(webhook.admin, "/metrics").await.expect("metrics");
    let text = String::from_utf8(body.to_vec()).expect("text");
    let values = text.lines().filter(|line| line.starts_with(series));
    let values = values.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    values.sum()
}

/// A Ready condition whose heartbeat is `seconds` after noon.
pub fn ready(seconds: u32) -> Value {
    let at = format!("2026-01-01T12:{:02}:{:02}Z", seconds / 60, seconds % 60);
    json!({
        "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status",
        "lastHeartbeatTime": at, "lastTransitionTime": "2026-01-01T12:00:00Z",
    })
}

pub fn allocatable(node: &Node, resource: &str) -> String {
    let status = node.status.as_ref().expect("a status");
    status
        .allocatable
        .as_ref()
        .expect("allocatable")
        .get(resource)
        .expect("the resource")
        .0
        .clone()
}

pub fn annotation<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.annotations().get(key).map(String::as_str)
}
