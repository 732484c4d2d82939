//! Starts the processes of the demo: real control plane, webhook, node and agent.

use std::time::Instant;

use anyhow::Result;
use headroom_agent::local::status::Status;
use headroom_testbed::{
    Testbed,
    agent::Agent,
    cluster::{ClusterOptions, NodeOptions},
    policies,
    programs::Programs,
    real_node::{RealNode, RealNodeOptions},
    webhook::{self, Webhook},
};
use kube::Client;
use xtask::demo::NodeKind;

use crate::{environment::Environment, view::View};

/// Amplification mode in the webhook's configuration.
pub(super) const MODE: &str = "auto";
pub(super) const NODE: &str = "worker-1";
/// Namespace of the demo's pods.
pub(super) const NAMESPACE: &str = "headroom-demo";
/// Configuration of the webhook, with cautious upper bounds as for a first rollout.
const CONFIG: &str = "\
amplification:
  mode: auto
  bounds:
    cpu: {min: 1.00, max: 1.30}
    memory: {min: 1.00, max: 1.25}
";

/// The running parts, in the order in which they are stopped.
pub(super) struct Stage {
    agent: Agent,
    webhook: Webhook,
    environment: Environment,
    /// `None` with a hollow node, which is part of the testbed.
    real_node: Option<RealNode>,
    testbed: Testbed,
}

impl Stage {
    /// Starts all parts, and returns once the node is Ready and the agent runs.
    ///
    /// # Errors
    /// If a part cannot be started or does not become ready; the message names it.
    pub(super) async fn start(view: &mut View, programs: Programs, kind: NodeKind) -> Result<Self> {
        let began = Instant::now();
        view.print(
            "headroom demo: real control plane, webhook and node on loopback; the agent measures this kernel",
        )?;
        view.print("starting etcd, kube-apiserver, kube-scheduler, kube-controller-manager")?;
        let options = match kind {
            NodeKind::Hollow => ClusterOptions::full(),
            NodeKind::Real => ClusterOptions::for_real_node(),
        };
        let builder = Testbed::builder(programs).control_plane(options);
        let mut testbed = builder.namespace(NAMESPACE).start().await?;
        if policies::are_served(&testbed.client).await? {
            view.print("installing the floor: policies that keep allocatable above pod requests if the webhook is down")?;
            testbed.install_floor().await?;
        } else {
            view.print("no floor policies, because the API server is older than Kubernetes 1.36: the webhook gets --accept-no-floor")?;
        }
        view.print("starting the webhook and registering it for nodes/status and nodes")?;
        let options = testbed.webhook_options("headroom-webhook")?;
        let options = options.config(CONFIG).flags([webhook::DEMO_TIMING]);
        let webhook = testbed.start_webhook(&options).await?;
        let real_node = match kind {
            NodeKind::Hollow => {
                view.print("starting a node that reports this machine's CPUs and memory")?;
                let node = NodeOptions::this_machine(NODE)?.with_system_reserved();
                testbed.cluster.start_node(node).await?;
                None
            }
            NodeKind::Real => {
                view.print("starting a node with kubelet, kube-proxy, containerd and runc")?;
                Some(RealNode::start(&testbed.cluster, RealNodeOptions::new(NODE)).await?)
            }
        };
        view.print(
            "starting the agent: eBPF programs on this kernel, timing profile demo (1 s counts as 5 min)",
        )?;
        let mut options = testbed.agent_options(NODE, &[&webhook]).await?;
        if let Some(node) = &real_node {
            options = options.flags([format!("--cgroup-root={}", node.cgroup_root()?.display())]);
        }
        let agent = Agent::spawn(&options)?;
        let environment = Environment::create(&testbed, &webhook).await?;
        view.print(&format!(
            "all parts are running after {:.1} s; files and logs: {}",
            began.elapsed().as_secs_f32(),
            testbed.cluster.dir().display()
        ))?;
        view.print(&environment.instructions())?;
        Ok(Self {
            agent,
            webhook,
            environment,
            real_node,
            testbed,
        })
    }

    /// A client with administrator rights.
    pub(super) fn client(&self) -> &Client {
        &self.testbed.client
    }

    /// The node with containers, if the demo has one.
    pub(super) fn real_node(&self) -> Option<&RealNode> {
        self.real_node.as_ref()
    }

    /// Checks that all parts run.
    ///
    /// # Errors
    /// If one has ended; the message has the end of its log.
    pub(super) fn check_alive(&mut self) -> Result<()> {
        if let Some(node) = &mut self.real_node {
            node.check()?;
        }
        self.testbed
            .check([&mut self.agent.process, &mut self.webhook.process])
    }

    /// The agent's status, if it answers.
    pub(super) async fn agent_status(&self) -> Option<Status> {
        self.agent.status().await.ok()
    }

    /// Commands to inspect the running parts.
    pub(super) fn inspection_commands(&self) -> String {
        format!(
            "\nEverything keeps running until Ctrl-C. {}\n\
             \x20 kubectl get node {NODE} -o yaml\n\
             \x20 kubectl -n {NAMESPACE} get pods -o wide\n\
             \x20 kubectl headroom top\n\
             \x20 curl -s http://{}/status\n\
             `kubectl headroom off` waits until requests fit into raw allocatable. First delete the pods that do not fit:\n\
             \x20 kubectl -n {NAMESPACE} delete deployment waiting --wait=false",
            self.environment.instructions(),
            self.agent.admin,
        )
    }
}
