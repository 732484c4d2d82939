//! Installs the generated admission policies that the API server evaluates by itself: the floor and the checks.

use anyhow::Result;
use headroom_domain::installation::Installation;
use headroom_webhook::install::manifest::policies::{
    self, PolicyAndBinding,
    checks::{self, Checks},
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

/// True if this API server knows such policies: from Kubernetes 1.36 on.
///
/// # Errors
/// If it does not answer.
pub async fn are_served(client: &Client) -> Result<bool> {
    let group = MutatingAdmissionPolicy::API_VERSION;
    let resources = client.list_api_group_resources(group).await?.resources;
    let name = MutatingAdmissionPolicy::URL_PATH_SEGMENT;
    Ok(resources.into_iter().any(|resource| resource.name == name))
}

/// Installs all of them. The API server takes some seconds to follow; nothing but its behaviour tells when it does.
///
/// # Errors
/// If the API server refuses one.
pub async fn install(client: &Client) -> Result<()> {
    for bound in policies::all(&Installation::default()) {
        put(client, &bound).await?;
    }
    Ok(())
}

/// Installs one of them, as [`install`] does.
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

/// Installs the checks.
///
/// # Errors
/// If the API server refuses them.
pub async fn put_checks(client: &Client) -> Result<()> {
    let Checks { policy, binding } = checks::checks(&Installation::default());
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
    accounts::apply(&policies, &policy.name_any(), &policy).await?;
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client.clone());
    accounts::apply(&bindings, &binding.name_any(), &binding).await
}

/// Takes the checks out of force, as an API server before 1.30 would be.
///
/// # Errors
/// If the API server does not answer, or they are not there.
pub async fn remove_checks(client: &Client) -> Result<()> {
    let Checks { binding, policy: _ } = checks::checks(&Installation::default());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client.clone());
    bindings
        .delete(&binding.name_any(), &DeleteParams::default())
        .await?;
    Ok(())
}
