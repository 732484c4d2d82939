//! Creates Deployments whose pods are all alike and go to one node, for the demo and benches.

use anyhow::Result;
use headroom_domain::resource::PerResource;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, Client};
use serde_json::json;

use crate::accounts::apply;

/// Label of the pods: which Deployment they are of.
pub const ROLE: &str = "headroom.sh/role";

/// One Deployment.
#[derive(Debug, Clone, Copy)]
pub struct DeploymentShape<'a> {
    /// Its namespace, which must be there.
    pub namespace: &'a str,
    /// Its name and the role of its pods.
    pub role: &'a str,
    /// The node of its pods.
    pub node: &'a str,
    /// Its pods.
    pub replicas: u32,
    /// What each asks for, in milli-cores and bytes.
    pub requests: PerResource<u64>,
}

/// Creates a Deployment, or makes it be as said.
///
/// # Errors
/// If the API server refuses it.
pub async fn deploy(client: &Client, shape: &DeploymentShape<'_>) -> Result<()> {
    let DeploymentShape {
        namespace,
        role,
        node,
        replicas,
        requests: PerResource { cpu, memory },
    } = shape;
    let labels = json!({ROLE: role});
    let deployment: Deployment = serde_json::from_value(json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": role, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "automountServiceAccountToken": false,
                    "nodeSelector": {"kubernetes.io/hostname": node},
                    // There is nothing that would need longer to end.
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{
                        "name": "load",
                        "image": "example.invalid/load",
                        "resources": {"requests": {"cpu": format!("{cpu}m"), "memory": memory.to_string()}},
                    }],
                },
            },
        },
    }))?;
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    apply(&deployments, role, &deployment).await
}
