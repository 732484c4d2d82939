//! The policies that the API server evaluates by itself: installed as generated.

use anyhow::Result;
use headroom_webhook::manifest::policies::{self, Bound};
use k8s_openapi::api::admissionregistration::v1::{MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding};
use kube::{Api, Client, ResourceExt as _};

use super::accounts;

/// Installs all of them. The API server takes some seconds to follow; nothing but its behaviour tells when it does.
///
/// # Errors
/// If the API server refuses one.
pub async fn install(client: &Client) -> Result<()> {
    for bound in policies::all() {
        put(client, &bound).await?;
    }
    Ok(())
}

/// Installs one of them, as [`install`] does.
///
/// # Errors
/// If the API server refuses it.
pub async fn put(client: &Client, bound: &Bound) -> Result<()> {
    let Bound { policy, binding } = bound;
    let policies: Api<MutatingAdmissionPolicy> = Api::all(client.clone());
    accounts::apply(&policies, &policy.name_any(), policy).await?;
    let bindings: Api<MutatingAdmissionPolicyBinding> = Api::all(client.clone());
    accounts::apply(&bindings, &binding.name_any(), binding).await
}
