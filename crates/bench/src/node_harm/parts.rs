//! The parts of the field: nodes, webhook and agent as they are started, and the mode that is set.

use std::{iter::once, thread, time::Duration};

use anyhow::{Context as _, Result};
use headroom_domain::{estimate::Profile, names, policy::Mode};
use headroom_testbed::{
    accounts,
    agent::{self, Agent},
    cluster::{Cluster, Keeper, NodeOptions},
    programs::Programs,
    webhook::{self, Webhook},
};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio::time::sleep;

/// The node that pods go to.
pub(super) const NODE: &str = "harm";
/// Nodes beside it that only renew their leases, in the same mode, so that there are some to count.
const BYSTANDERS: usize = 5;
/// Time between their starts: their renewals, one in 10 s each, come one by one then.
const APART: Duration = Duration::from_secs(2);
/// CPU that the node holds back for the system, in percent of the machine's.
const RESERVED_CPU_PERCENT: u32 = 5;

/// Sets the mode of all nodes.
pub(super) async fn configure(client: &Client, mode: Mode) -> Result<()> {
    let policy = json!({"mode": mode.name()});
    let config: ConfigMap = serde_json::from_value(json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": names::SLO_CONFIG},
        "data": {names::AMPLIFICATION_CONFIG: policy.to_string()},
    }))?;
    let configs: Api<ConfigMap> = Api::namespaced(client.clone(), names::SLO_CONFIG_NAMESPACE);
    accounts::apply(&configs, names::SLO_CONFIG, &config).await
}

/// Starts the webhook as it is by default, and registers it.
pub(super) async fn start_webhook(
    cluster: &Cluster,
    programs: &Programs,
    client: &Client,
) -> Result<Webhook> {
    let webhook = Webhook::start(&webhook::Options {
        program: programs.webhook.clone(),
        name: "webhook".to_owned(),
        folder: cluster.dir().to_owned(),
        kubeconfig: cluster.kubeconfig_for(&accounts::webhook(), None)?,
        config: "{}".to_owned(),
        gates: webhook::GATES.to_owned(),
        accepts_no_floor: false,
        flags: vec!["--allow-demo-timing".to_owned()],
    })
    .await?;
    webhook::register(client, &webhook.url(), &webhook.ca).await?;
    Ok(webhook)
}

/// Starts the node, which has this machine's CPUs and memory, and the bystanders; all have the ratio that somebody
/// guessed, in cents.
pub(super) async fn start_nodes(cluster: &mut Cluster, client: &Client, guess: u64) -> Result<()> {
    let cpus = u32::try_from(thread::available_parallelism()?.get())?;
    let node = NodeOptions {
        reserved_cpu_milli: cpus * 10 * RESERVED_CPU_PERCENT,
        ..NodeOptions::this_machine(NODE)?
    };
    let bystanders = (0..BYSTANDERS).map(|number| NodeOptions::new(format!("bystander-{number}")));
    let nodes: Api<Node> = Api::all(client.clone());
    let ratio = format!(r#"{{"cpu":{}.{:02}}}"#, guess / 100, guess % 100);
    let annotations = json!({"metadata": {"annotations": {names::RATIO: ratio}}});
    for options in once(node).chain(bystanders) {
        let name = options.name.clone();
        let options = NodeOptions {
            keeper: Some(Keeper::Kubelet),
            ..options
        };
        cluster.start_node(options).await?;
        sleep(APART).await;
        nodes
            .patch(&name, &PatchParams::default(), &Patch::Merge(&annotations))
            .await
            .with_context(|| format!("annotate {name}"))?;
    }
    Ok(())
}

/// Starts the agent of the node, with durations so short that it knows the node after 20 s.
pub(super) async fn start_agent(
    cluster: &Cluster,
    programs: &Programs,
    webhook: &Webhook,
    client: &Client,
) -> Result<Agent> {
    let nodes: Api<Node> = Api::all(client.clone());
    let node = nodes.get(NODE).await.context("read the node")?;
    Agent::spawn(&agent::Options {
        program: programs.agent.clone(),
        folder: cluster.dir().to_owned(),
        node: NODE.to_owned(),
        token: accounts::agent_token(client, &node).await?,
        servers: vec![webhook.hints],
        ca: webhook.ca.clone(),
        timing: Profile::Demo,
        source: "auto".to_owned(),
        flags: Vec::new(),
    })
}
