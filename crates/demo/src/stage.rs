//! Starts the processes that the story needs: control plane, webhook, node and agent, all of them real.

use std::time::Instant;

use anyhow::Result;
use headroom_agent::local::status::Status;
use headroom_testbed::{
    Testbed,
    agent::Agent,
    cluster::{ClusterOptions, NodeOptions},
    policies,
    programs::Programs,
    webhook::{self, Webhook},
};
use kube::Client;

use crate::{environment::Environment, view::View};

/// The mode in the webhook's configuration.
pub(super) const MODE: &str = "auto";
/// The node.
pub(super) const NODE: &str = "worker-1";
/// Namespace of the story's pods.
pub(super) const NAMESPACE: &str = "headroom-demo";
/// The webhook's configuration: the upper bounds are what a careful administrator would begin with.
const CONFIG: &str = "\
amplification:
  mode: auto
  bounds:
    cpu: {min: 1.00, max: 1.30}
    memory: {min: 1.00, max: 1.25}
";

/// The running parts, in the order in which they end.
pub(super) struct Stage {
    agent: Agent,
    webhook: Webhook,
    environment: Environment,
    testbed: Testbed,
}

impl Stage {
    /// Starts everything and returns when the node is Ready and the agent runs.
    ///
    /// # Errors
    /// If a part cannot be had or does not get ready; the message says which.
    pub(super) async fn start(view: &mut View, programs: Programs) -> Result<Self> {
        let began = Instant::now();
        view.print(
            "headroom demo: a real control plane, webhook and node on loopback; the agent on this kernel",
        )?;
        view.print("starting etcd, kube-apiserver, kube-scheduler, kube-controller-manager")?;
        let builder = Testbed::builder(programs).control_plane(ClusterOptions::full());
        let mut testbed = builder.namespace(NAMESPACE).start().await?;
        if policies::are_served(&testbed.client).await? {
            view.print("installing the floor: policies that hold nodes up while no webhook answers")?;
            testbed.install_floor().await?;
        } else {
            view.print("this API server is older than Kubernetes 1.36: no floor, the webhook takes --accept-no-floor")?;
        }
        view.print("starting the webhook and registering it for nodes/status and nodes")?;
        let options = testbed.webhook_options("headroom-webhook")?;
        let options = options.config(CONFIG).flags([webhook::DEMO_TIMING]);
        let webhook = testbed.start_webhook(&options).await?;
        view.print("starting a node that reports this machine's CPUs and memory")?;
        let node = NodeOptions::this_machine(NODE)?.with_system_reserved();
        testbed.cluster.start_node(node).await?;
        view.print(
            "starting the agent: kernel programs on this kernel, timing profile demo (1 s stands for 5 min)",
        )?;
        let agent = Agent::spawn(&testbed.agent_options(NODE, &[&webhook]).await?)?;
        let environment = Environment::create(&testbed, &webhook).await?;
        view.print(&format!(
            "everything runs after {:.1} s; files and logs: {}",
            began.elapsed().as_secs_f32(),
            testbed.cluster.dir().display()
        ))?;
        view.print(&environment.invitation())?;
        Ok(Self {
            agent,
            webhook,
            environment,
            testbed,
        })
    }

    /// A client with all rights.
    pub(super) fn client(&self) -> &Client {
        &self.testbed.client
    }

    /// Fails if a part has ended.
    ///
    /// # Errors
    /// As said, with the end of its log.
    pub(super) fn check_alive(&mut self) -> Result<()> {
        self.testbed
            .check([&mut self.agent.process, &mut self.webhook.process])
    }

    /// What the agent says of itself, if it answers.
    pub(super) async fn agent_status(&self) -> Option<Status> {
        self.agent.status().await.ok()
    }

    /// How a person can look at what runs.
    pub(super) fn how_to_look(&self) -> String {
        format!(
            "\nEverything goes on until Ctrl-C. {}\n\
             \x20 kubectl get node {NODE} -o yaml\n\
             \x20 kubectl -n {NAMESPACE} get pods -o wide\n\
             \x20 kubectl headroom top\n\
             \x20 curl -s http://{}/status\n\
             `kubectl headroom off` waits until the pods that were let in are gone:\n\
             \x20 kubectl -n {NAMESPACE} delete deployment waiting --wait=false",
            self.environment.invitation(),
            self.agent.admin,
        )
    }
}
