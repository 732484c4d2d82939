//! Starts the nodes of the bench and sets their mode.

use std::{iter::once, time::Duration};

use anyhow::Result;
use headroom_domain::{names, policy::Mode};
use headroom_testbed::{Testbed, accounts, cluster::NodeOptions};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use serde_json::json;
use tokio::time::sleep;

/// The node that runs pods.
pub(super) const NODE: &str = "harm";
/// Additional nodes in the same mode that only renew their leases, which are counted.
const BYSTANDERS: usize = 5;
/// Time between their starts, so that their renewals, one in 10 s each, are spread evenly.
const START_INTERVAL: Duration = Duration::from_secs(2);

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

/// Starts the node, which has this machine's CPUs and memory, and the bystanders. All have the ratio `guess`, in
/// cents, as their static ratio.
pub(super) async fn start(testbed: &mut Testbed, guess: u64) -> Result<()> {
    let node = NodeOptions {
        reserved_memory_bytes: 0,
        ..NodeOptions::this_machine(NODE)?.with_system_reserved()
    };
    let bystanders = (0..BYSTANDERS).map(|number| NodeOptions::new(format!("bystander-{number}")));
    let ratio = format!(r#"{{"cpu":{}.{:02}}}"#, guess / 100, guess % 100);
    for options in once(node).chain(bystanders) {
        let name = options.name.clone();
        testbed.cluster.start_node(options).await?;
        sleep(START_INTERVAL).await;
        testbed.annotate(&name, names::RATIO, &ratio).await?;
    }
    Ok(())
}
