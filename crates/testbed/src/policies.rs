//! Installs the generated admission policies that the API server evaluates: the floor and the checks.

use anyhow::Result;
use headroom_domain::installation::Installation;
use headroom_webhook::{
    admission::endpoints,
    install::manifest::policies::{
        self, PolicyAndBinding,
        checks::{self, Checks},
        own_writes::own_writes,
    },
};
use k8s_openapi::{
    Resource as _,
    api::admissionregistration::v1::{
        MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, ValidatingAdmissionPolicy,
        ValidatingAdmissionPolicyBinding,
    },
};
use kube::{Api, Client, ResourceExt as _, api::DeleteParams};

use crate::accounts;

/// True if the API server supports MutatingAdmissionPolicy v1: Kubernetes 1.36 and later.
///
/// # Errors
/// If the API server does not answer.
pub async fn are_served(client: &Client) -> Result<bool> {
    let group = MutatingAdmissionPolicy::API_VERSION;
    let resources = client.list_api_group_resources(group).await?.resources;
    let name = MutatingAdmissionPolicy::URL_PATH_SEGMENT;
    Ok(resources.into_iter().any(|resource| resource.name == name))
}

/// Installs all floor policies. They take effect some seconds later, which only the behaviour of the API server shows.
///
/// # Errors
/// If the API server refuses one.
pub async fn install(client: &Client) -> Result<()> {
    for bound in policies::all(&Installation::default()) {
        put(client, &bound).await?;
    }
    Ok(())
}

/// Installs one policy with its binding.
///
/// # Errors
/// If the API server refuses it.
pub async fn put(client: &Client, bound: &PolicyAndBinding) -> Result<()> {
    let PolicyAndBinding { policy, binding } = bound;
    let policies: Api<MutatingAdmissionPolicy> = Api::all(client.clone());
    accounts::apply(&policies, &policy.name_any(), policy).await?;
    let bindings: Api<MutatingAdmissionPolicyBinding> = Api::all(client.clone());
    accounts::apply(&bindings, &binding.name_any(), binding).await
}

/// Installs the policy that refuses invalid annotations.
///
/// # Errors
/// If the API server refuses them.
pub async fn put_checks(client: &Client) -> Result<()> {
    put_refusing(client, &checks::checks(&Installation::default())).await
}

/// Installs the policies that restrict the webhook's own writes.
///
/// # Errors
/// If the API server refuses them.
pub async fn put_own_writes(client: &Client) -> Result<()> {
    for own in own_writes(&Installation::default(), None) {
        put_refusing(client, &own).await?;
    }
    Ok(())
}

/// Installs the policies of the component `reconcile-entries`.
///
/// # Errors
/// If the API server refuses them.
pub async fn put_reconciled_entries(client: &Client) -> Result<()> {
    let endpoints = endpoints::ENDPOINTS.iter();
    let names: Vec<&str> = endpoints
        .flat_map(|endpoint| endpoint.declaration().entries)
        .map(|entry| entry.name)
        .collect();
    for own in own_writes(&Installation::default(), Some(&names)) {
        put_refusing(client, &own).await?;
    }
    Ok(())
}

async fn put_refusing(client: &Client, Checks { policy, binding }: &Checks) -> Result<()> {
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
    accounts::apply(&policies, &policy.name_any(), policy).await?;
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client.clone());
    accounts::apply(&bindings, &binding.name_any(), binding).await
}

/// Disables the checks by removing their binding, as on an API server before 1.30.
///
/// # Errors
/// If the API server does not answer, or the binding does not exist.
pub async fn remove_checks(client: &Client) -> Result<()> {
    let Checks { binding, policy: _ } = checks::checks(&Installation::default());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client.clone());
    bindings
        .delete(&binding.name_any(), &DeleteParams::default())
        .await?;
    Ok(())
}
