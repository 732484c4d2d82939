//! The Deployments of the story.

use anyhow::{Context as _, Result};
use headroom_domain::resource::PerResource;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, Client, api::PostParams};
use serde_json::json;

use super::world::ROLE;

/// Namespace of the story's pods.
pub(super) const NAMESPACE: &str = "headroom-demo";

/// One Deployment of the story.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// Its name and the role of its pods.
    pub(super) role: &'static str,
    /// Its pods.
    pub(super) replicas: u32,
    /// What each asks for, in milli-cores and bytes.
    pub(super) requests: PerResource<u64>,
}

/// Creates a Deployment of the story.
pub(super) async fn deploy(client: &Client, shape: &Shape) -> Result<()> {
    let Shape {
        role,
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
                    "containers": [{
                        "name": "load",
                        "image": "example.invalid/load",
                        "resources": {"requests": {"cpu": format!("{cpu}m"), "memory": memory.to_string()}},
                    }],
                },
            },
        },
    }))?;
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    deployments
        .create(&PostParams::default(), &deployment)
        .await
        .with_context(|| format!("deploying {role}"))?;
    Ok(())
}
