//! Starts the nodes of the bench, and sets the mode of all of them.

use std::{iter::once, time::Duration};

use anyhow::Result;
use headroom_domain::{names, policy::Mode};
use headroom_testbed::{
    Testbed, accounts,
    cluster::{NodeBackend, NodeOptions},
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use serde_json::json;
use tokio::time::sleep;

/// The node that pods go to.
pub(super) const NODE: &str = "harm";
/// Nodes beside it that only renew their leases, in the same mode, so that there are some to count.
const BYSTANDERS: usize = 5;
/// Time between their starts: their renewals, one in 10 s each, come one by one then.
const APART: Duration = Duration::from_secs(2);

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

/// Starts the node, which has this machine's CPUs and memory, and the bystanders; all have the ratio that somebody
/// guessed, in cents.
pub(super) async fn start(testbed: &mut Testbed, guess: u64) -> Result<()> {
    let node = NodeOptions {
        reserved_memory_bytes: 0,
        ..NodeOptions::this_machine(NODE)?.with_system_reserved()
    };
    let bystanders = (0..BYSTANDERS).map(|number| NodeOptions::new(format!("bystander-{number}")));
    let ratio = format!(r#"{{"cpu":{}.{:02}}}"#, guess / 100, guess % 100);
    for options in once(node).chain(bystanders) {
        let name = options.name.clone();
        let options = NodeOptions {
            backend: Some(NodeBackend::Kubelet),
            ..options
        };
        testbed.cluster.start_node(options).await?;
        sleep(APART).await;
        testbed.annotate(&name, names::RATIO, &ratio).await?;
    }
    Ok(())
}
