//! Creates Deployments of load pods on one node, for the demo and benches.

use anyhow::Result;
use headroom_domain::resource::PerResource;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, Client};
use serde_json::json;

use crate::{accounts::apply, real_node::pods::BUSYBOX};

/// Label of pods with the name of their Deployment.
pub const ROLE: &str = "headroom.sh/role";

#[derive(Debug, Clone, Copy)]
pub struct DeploymentShape<'a> {
    pub namespace: &'a str,
    /// Name of the Deployment, and value of [`ROLE`] on its pods.
    pub role: &'a str,
    /// Node on which all pods must run.
    pub node: &'a str,
    pub replicas: u32,
    /// Requests of each pod, in milli-cores and bytes.
    pub requests: PerResource<u64>,
    /// Shell script of each pod on a real node; `None` for a node without containers.
    pub script: Option<&'a str>,
}

/// Creates or updates a Deployment with server-side apply.
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
        script,
    } = shape;
    let image = script.map_or("example.invalid/load", |_| BUSYBOX);
    let command = script.map_or(json!(null), |script| json!(["sh", "-c", script]));
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
                    // No process needs time to end.
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{
                        "name": "load",
                        "image": image,
                        "command": command,
                        "resources": {"requests": {"cpu": format!("{cpu}m"), "memory": memory.to_string()}},
                    }],
                },
            },
        },
    }))?;
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    apply(&deployments, role, &deployment).await
}
