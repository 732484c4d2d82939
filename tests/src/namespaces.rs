//! Namespaces for pods.

use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use kube::{Api, api::PostParams};
use serde_json::json;

use crate::stand::{Stand, until};

/// Creates a namespace while controllers run, which create its default ServiceAccount; returns its pods.
pub async fn create_alone(stand: &Stand, name: &str) -> Api<Pod> {
    let object: Namespace = serde_json::from_value(json!({"metadata": {"name": name}})).expect("a namespace");
    let namespaces: Api<Namespace> = Api::all(stand.client.clone());
    let created = namespaces.create(&PostParams::default(), &object).await;
    created.expect("create the namespace");
    let accounts: Api<ServiceAccount> = Api::namespaced(stand.client.clone(), name);
    until("the namespace has its default account", async || {
        accounts.get("default").await.is_ok()
    })
    .await;
    Api::namespaced(stand.client.clone(), name)
}

/// Creates a namespace with its default ServiceAccount and returns its pods. Tests share a control plane, so each
/// needs its own name.
pub async fn create(stand: &Stand, name: &str) -> Api<Pod> {
    let object: Namespace = serde_json::from_value(json!({"metadata": {"name": name}})).expect("a namespace");
    let namespaces: Api<Namespace> = Api::all(stand.client.clone());
    let created = namespaces.create(&PostParams::default(), &object).await;
    created.expect("create the namespace");
    let account: ServiceAccount =
        serde_json::from_value(json!({"metadata": {"name": "default"}})).expect("an account");
    let accounts: Api<ServiceAccount> = Api::namespaced(stand.client.clone(), name);
    let created = accounts.create(&PostParams::default(), &account).await;
    created.expect("create the account");
    Api::namespaced(stand.client.clone(), name)
}
