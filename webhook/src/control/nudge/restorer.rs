//! Restores Nodes instead of the admission endpoint while the gate of amplification is off. The API server does not
//! call the endpoint then, so the leader's sweep writes the same values and annotations through [`Restorer`].

use std::sync::Arc;

use futures::future::BoxFuture;
use headroom_domain::{capacity::Decision, resource::Resource};
use kube::api::Patch;
use serde_json::{Map, Value, json};

use super::writer::{NudgeError, StatusPatcher, StatusWriteClient};
use crate::store::{cluster::Cluster, node::Node};

/// Writes the decision for a Node whose mode is off, bound to the resource version it was decided for.
pub struct Restorer {
    cluster: Arc<Cluster>,
    api_server: StatusWriteClient,
}

impl Restorer {
    /// Decides from these stores and writes through this API server.
    pub fn new(cluster: Arc<Cluster>, api_server: StatusWriteClient) -> Self {
        Self { cluster, api_server }
    }
}

impl StatusPatcher for Restorer {
    fn trigger_admission<'a>(&'a self, node: &'a Node) -> BoxFuture<'a, Result<(), NudgeError>> {
        let (decision, _hint) = self.cluster.preview(node, self.cluster.now());
        let patch = Patch::Merge(patch(node, &decision));
        Box::pin(async move { self.api_server.patch(&node.name, &patch).await.map(drop) })
    }
}

fn patch(node: &Node, decision: &Decision) -> Value {
    let Decision {
        allocatable,
        annotations,
        outcomes: _,
    } = decision;
    let amounts: Map<String, Value> = Resource::ALL
        .into_iter()
        .filter_map(|resource| {
            let quantity = (*allocatable.get(resource))?;
            Some((resource.name().to_owned(), quantity.to_string().into()))
        })
        .collect();
    let annotations: Map<String, Value> = annotations
        .iter()
        .map(|(key, value)| ((*key).to_owned(), json!(value)))
        .collect();
    json!({
        "metadata": {"resourceVersion": node.version.to_string(), "annotations": annotations},
        "status": {"allocatable": amounts},
    })
}

#[cfg(test)]
mod tests {
    use headroom_domain::names;

    use super::*;
    use crate::store::cluster::tests::{amplified, cluster};

    #[test]
    fn raw_values_are_written_and_every_trace_removed() {
        let mut node = amplified(3, "4800m", 120);
        node["metadata"]["annotations"][names::MODE] = json!("off");
        let cluster = cluster([node], []);
        let node = cluster.nodes.get("n1").unwrap();
        let (decision, _) = cluster.preview(&node, cluster.now());
        let written = patch(&node, &decision);
        assert_eq!(written["status"]["allocatable"], json!({"cpu": "4"}));
        assert_eq!(written["metadata"]["resourceVersion"], "3");
        let annotations = written["metadata"]["annotations"].as_object().unwrap();
        for key in [
            names::MARKER,
            names::RAW_ALLOCATABLE,
            names::HINT,
            names::STATIC_RATIO,
        ] {
            assert_eq!(annotations.get(key), Some(&Value::Null), "{key}");
        }
    }
}
