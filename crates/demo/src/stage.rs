//! What the story plays on: control plane, webhook, node and agent, each a real process.

use std::{thread, time::Instant};

use anyhow::{Context as _, Result};
use headroom_agent::status::Status;
use headroom_domain::estimate::Profile;
use headroom_testbed::{
    accounts,
    agent::{self, Agent},
    cluster::{Cluster, NodeOptions, Options},
    policies,
    programs::Programs,
    webhook::{self, Webhook},
};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use xtask::controlplane;

use crate::view::View;

/// The mode in the webhook's configuration.
pub(super) const MODE: &str = "auto";
/// The node.
pub(super) const NODE: &str = "demo-node";
/// Namespace of the story's pods.
pub(super) const NAMESPACE: &str = "headroom-demo";
/// CPU that the node holds back for the system, in percent of the machine's.
const RESERVED_CPU_PERCENT: u32 = 5;
/// Memory that it holds back.
const RESERVED_MEMORY: u64 = 512 << 20;
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
    cluster: Cluster,
    client: Client,
    programs: Programs,
}

impl Stage {
    /// Starts everything and returns when the node is Ready and the agent runs.
    ///
    /// # Errors
    /// If a part cannot be had or does not get ready; the message says which.
    pub(super) async fn start(view: &mut View, programs: Programs) -> Result<Self> {
        let began = Instant::now();
        view.say(
            "headroom demo: a real control plane, webhook and node on loopback; the agent on this kernel",
        )?;
        view.say("starting etcd, kube-apiserver, kube-scheduler, kube-controller-manager")?;
        let mut cluster = Cluster::start(Options::full()).await?;
        let client = cluster.client().await?;
        accounts::create(&client).await?;
        accounts::create_namespace(&client, NAMESPACE).await?;
        let has_floor = policies::are_served(&client).await?;
        if has_floor {
            view.say("installing the floor: policies that hold nodes up while no webhook answers")?;
            policies::install(&client).await?;
        } else {
            view.say("this API server is older than Kubernetes 1.36: no floor, the webhook takes --accept-no-floor")?;
        }
        view.say("starting the webhook and registering it for nodes/status and nodes")?;
        let webhook = start_webhook(&cluster, &programs, has_floor).await?;
        webhook::register(&client, &webhook.url(), &webhook.ca).await?;
        view.say("starting a node that reports this machine's CPUs and memory")?;
        start_node(&mut cluster).await?;
        let node = Api::<Node>::all(client.clone())
            .get(NODE)
            .await
            .context("read the node")?;
        view.say(
            "starting the agent: kernel programs on this kernel, timing profile demo (1 s stands for 5 min)",
        )?;
        let agent = Agent::spawn(&agent::Options {
            program: programs.agent.clone(),
            folder: cluster.dir().to_owned(),
            node: NODE.to_owned(),
            token: accounts::agent_token(&client, &node).await?,
            servers: vec![webhook.hints],
            ca: webhook.ca.clone(),
            timing: Profile::Demo,
            source: "auto".to_owned(),
            flags: Vec::new(),
        })?;
        view.say(&format!(
            "everything runs after {:.1} s; files and logs: {}",
            began.elapsed().as_secs_f32(),
            cluster.dir().display()
        ))?;
        Ok(Self {
            agent,
            webhook,
            cluster,
            client,
            programs,
        })
    }

    /// A client with all rights.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Fails if a part has ended.
    ///
    /// # Errors
    /// As said, with the end of its log.
    pub(super) fn check_alive(&mut self) -> Result<()> {
        self.agent.process.check()?;
        self.webhook.process.check()?;
        self.cluster.check()
    }

    /// What the agent says of itself, if it answers.
    pub(super) async fn agent_status(&self) -> Option<Status> {
        self.agent.status().await.ok()
    }

    /// How a person can look at what runs.
    pub(super) fn how_to_look(&self) -> String {
        let token = self.cluster.dir().join("debug.token");
        let kubeconfig = self.cluster.kubeconfig().display();
        let kubectl = controlplane::kubectl();
        let kubectl = kubectl.display();
        format!(
            "\nEverything goes on until Ctrl-C. In another terminal:\n\
             \x20 export KUBECONFIG={kubeconfig}\n\
             \x20 {kubectl} get node {NODE} -o yaml\n\
             \x20 {kubectl} -n {} get pods -o wide\n\
             \x20 {} top --addr {} --ca-file {} --token-file {}\n\
             \x20 curl -s http://{}/status",
            NAMESPACE,
            self.programs.cli.display(),
            self.webhook.hints,
            self.webhook.ca.display(),
            token.display(),
            self.agent.admin,
        )
    }

    /// Makes the token that [`Self::how_to_look`] speaks of.
    ///
    /// # Errors
    /// If the API server refuses it.
    pub(super) async fn make_debug_token(&self) -> Result<()> {
        let token = accounts::debug_token(&self.client).await?;
        agent::write_secret(&self.cluster.dir().join("debug.token"), &token)
    }
}

async fn start_webhook(cluster: &Cluster, programs: &Programs, has_floor: bool) -> Result<Webhook> {
    Webhook::start(&webhook::Options {
        program: programs.webhook.clone(),
        name: "headroom-webhook".to_owned(),
        folder: cluster.dir().to_owned(),
        kubeconfig: cluster.kubeconfig_for(&accounts::webhook(), None)?,
        config: CONFIG.to_owned(),
        accepts_no_floor: !has_floor,
        gates: webhook::GATES.to_owned(),
        flags: vec!["--allow-demo-timing".to_owned()],
    })
    .await
}

/// Starts a node with this machine's CPUs and memory, less what is kept for the system.
async fn start_node(cluster: &mut Cluster) -> Result<()> {
    let machine = NodeOptions::this_machine(NODE)?;
    let cpus = u32::try_from(thread::available_parallelism()?.get())?;
    let node = NodeOptions {
        reserved_cpu_milli: cpus * 10 * RESERVED_CPU_PERCENT,
        reserved_memory_bytes: RESERVED_MEMORY,
        ..machine
    };
    cluster.start_node(node).await
}
