//! A control plane with the namespaces, accounts and roles of Headroom's programs. `Testbed` also creates the options of each
//! webhook replica and agent.
//!
//! ```no_run
//! # async fn example(programs: headroom_testbed::programs::Programs) -> anyhow::Result<()> {
//! use headroom_testbed::{Testbed, agent::Agent, cluster::{NodeOptions, ClusterOptions}};
//!
//! let mut testbed = Testbed::builder(programs)
//!     .control_plane(ClusterOptions::full())
//!     .namespace("example")
//!     .floor()
//!     .start()
//!     .await?;
//! let webhook = testbed.start_webhook(&testbed.webhook_options("webhook")?).await?;
//! let node = NodeOptions::this_machine("example")?.with_system_reserved();
//! testbed.cluster.start_node(node).await?;
//! let agent = Agent::spawn(&testbed.agent_options("example", &[&webhook]).await?)?;
//! # Ok(())
//! # }
//! ```
//!
//! The caller owns webhook and agent, and drops them before the testbed.

mod builder;

use anyhow::{Context as _, Result};
use headroom_domain::estimate::Profile;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::json;
use xtask::process::Process;

pub use self::builder::Builder;
use crate::{
    accounts, agent,
    cluster::Cluster,
    policies,
    programs::Programs,
    webhook::{self, CertificateSource, Served, Webhook},
};

/// A running control plane with the namespaces, accounts and roles of Headroom's programs.
pub struct Testbed {
    /// The control plane and its nodes.
    pub cluster: Cluster,
    /// A client with administrator rights.
    pub client: Client,
    pub programs: Programs,
    has_floor: bool,
}

impl Testbed {
    pub fn builder(programs: Programs) -> Builder {
        Builder::new(programs)
    }

    /// Installs the floor policies, which also apply while no webhook answers. Options that are created later require them.
    ///
    /// # Errors
    /// If the API server refuses one, as before Kubernetes 1.36.
    pub async fn install_floor(&mut self) -> Result<()> {
        policies::install(&self.client).await?;
        self.has_floor = true;
        Ok(())
    }

    /// Options of a webhook replica: empty configuration, gates of the node endpoints, no further flags. Before
    /// [`Self::install_floor`], with `--accept-no-floor`.
    ///
    /// # Errors
    /// If the kubeconfig of its account cannot be written.
    pub fn webhook_options(&self, name: &str) -> Result<webhook::WebhookOptions> {
        self.options_serving(name, Served::default())
    }

    /// Like [`Self::webhook_options`], for a replica that serves other endpoints.
    ///
    /// # Errors
    /// As for [`Self::webhook_options`].
    pub fn options_serving(&self, name: &str, served: Served) -> Result<webhook::WebhookOptions> {
        Ok(webhook::WebhookOptions {
            program: self.programs.webhook.clone(),
            name: name.to_owned(),
            folder: self.cluster.dir().to_owned(),
            kubeconfig: self
                .cluster
                .kubeconfig_for(&served.installation.webhook_user(), None)?,
            config: "{}".to_owned(),
            served,
            accepts_no_floor: !self.has_floor,
            flags: Vec::new(),
            certificates: CertificateSource::Files,
        })
    }

    /// Starts a replica, waits until it is ready, and registers it.
    ///
    /// # Errors
    /// Errors of [`Webhook::start`] and [`Self::register`].
    pub async fn start_webhook(&self, options: &webhook::WebhookOptions) -> Result<Webhook> {
        let webhook = Webhook::start(options).await?;
        self.register(&webhook).await?;
        Ok(webhook)
    }

    /// Registers a replica with the API server instead of the previous one. It takes effect a moment later.
    ///
    /// # Errors
    /// If its CA cannot be read, or the API server refuses the configuration.
    pub async fn register(&self, replica: &Webhook) -> Result<()> {
        webhook::register(&self.client, &replica.url(), &replica.ca, &replica.served).await
    }

    /// Options of the agent of a node that reports to these replicas: a token bound to the Node, demo timing, source `auto`, no
    /// further flags.
    ///
    /// # Errors
    /// If there is no such Node or no replica, or the API server refuses the token.
    pub async fn agent_options(&self, node: &str, replicas: &[&Webhook]) -> Result<agent::AgentOptions> {
        // All replicas use the same folder, and share their certificates.
        let ca = replicas.first().context("no replica to report to")?.ca.clone();
        let object = self.nodes().get(node).await.context("read the node")?;
        Ok(agent::AgentOptions {
            program: self.programs.agent.clone(),
            folder: self.cluster.dir().to_owned(),
            node: node.to_owned(),
            token: accounts::agent_token(&self.client, &object).await?,
            servers: replicas.iter().map(|replica| replica.hints).collect(),
            ca,
            timing: Profile::Demo,
            source: "auto".to_owned(),
            flags: Vec::new(),
        })
    }

    /// Client for Nodes, with administrator rights.
    pub fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    /// Sets an annotation of a Node with a PATCH of the Node, not of its status.
    ///
    /// # Errors
    /// If the API server refuses it.
    pub async fn annotate(&self, node: &str, key: &str, value: &str) -> Result<Node> {
        let patch = json!({"metadata": {"annotations": {key: value}}});
        self.nodes()
            .patch(node, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .with_context(|| format!("annotate {node}"))
    }

    /// Checks that these processes, the control plane and the nodes run.
    ///
    /// # Errors
    /// If a process has ended; the message has the end of its log.
    pub fn check<'a>(&mut self, processes: impl IntoIterator<Item = &'a mut Process>) -> Result<()> {
        processes.into_iter().try_for_each(Process::check)?;
        self.cluster.check()
    }
}
