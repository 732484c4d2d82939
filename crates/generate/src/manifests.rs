//! Generates the manifests from the webhook's declarations: webhook configurations, policies and RBAC.

use anyhow::Result;
use headroom_domain::installation::Installation;
use headroom_kit::gate::GateSet;
use headroom_webhook::{
    admission::{endpoint::Family, endpoints},
    install::manifest::{
        self, Address, Client, NamespaceRights, Rights, custom_kinds,
        policies::{self, PolicyAndBinding, checks::Checks, own_writes},
        steady_state,
    },
};
use kubectl_headroom::rights::{Audience, DebugRights, debug_rights};
use serde::Serialize;

/// Webhook configurations of the base, with all gates at their defaults.
pub(super) fn webhooks() -> Result<String> {
    Ok(documents(&configurations(Family::Nodes)?))
}

/// Floor policies with their bindings.
pub(super) fn policies() -> Result<String> {
    let mut texts = Vec::new();
    for PolicyAndBinding { policy, binding } in policies::all(&Installation::default()) {
        texts.extend([yaml(&policy)?, yaml(&binding)?]);
    }
    Ok(documents(&texts))
}

/// Policies that refuse invalid annotations and writes of the webhook beyond its certificates, with their bindings.
pub(super) fn checks() -> Result<String> {
    let installation = Installation::default();
    let mut texts = Vec::new();
    for Checks { policy, binding } in policies::refusing(&installation) {
        texts.extend([yaml(&policy)?, yaml(&binding)?]);
    }
    Ok(documents(&texts))
}

/// Policy for `--reconcile=entries`, as a patch of the base.
pub(super) fn reconcile_entries() -> Result<String> {
    let endpoints = endpoints::served(&Family::ALL).into_iter();
    let names: Vec<&str> = endpoints
        .flat_map(|endpoint| endpoint.declaration().entries)
        .map(|entry| entry.name)
        .collect();
    let [Checks { policy, .. }, _] = own_writes::own_writes(&Installation::default(), Some(&names));
    yaml(&policy)
}

/// Option `steady-state-skip`, as a patch of the webhook configurations.
pub(super) fn steady_state_skip() -> Result<String> {
    yaml(&steady_state::kustomize_patch())
}

/// Roles of the webhook in the base with their bindings, roles for users, which have no binding, and the right of the account
/// whose tokens those users present.
pub(super) fn rbac() -> Result<String> {
    let installation = Installation::default();
    let mut texts = roles(Family::Nodes)?;
    for audience in Audience::ALL {
        texts.push(yaml(&audience.cluster_role(&installation))?);
        texts.push(yaml(&audience.namespaced_role(&installation))?);
    }
    let DebugRights { role, binding } = debug_rights(&installation);
    texts.extend([yaml(&role)?, yaml(&binding)?]);
    Ok(documents(&texts))
}

/// Webhook configurations of the component `koordinator`.
pub(super) fn koordinator_webhooks() -> Result<String> {
    Ok(documents(&configurations(Family::Koordinator)?))
}

/// Roles of the webhook for the component `koordinator`.
pub(super) fn koordinator_rbac() -> Result<String> {
    Ok(documents(&roles(Family::Koordinator)?))
}

/// Webhook configuration of the component `fluid`.
pub(super) fn fluid_webhooks() -> Result<String> {
    Ok(documents(&configurations(Family::Fluid)?))
}

/// Roles of the webhook for the component `fluid`.
pub(super) fn fluid_rbac() -> Result<String> {
    Ok(documents(&roles(Family::Fluid)?))
}

/// CustomResourceDefinitions of Koordinator, for clusters without them.
pub(super) fn koordinator_kinds() -> Result<String> {
    let texts: Vec<String> = custom_kinds::definitions()?
        .iter()
        .map(yaml)
        .collect::<Result<_>>()?;
    Ok(documents(&texts))
}

/// Webhook configurations of a family, with all gates at their defaults; empty if it has no entries.
fn configurations(family: Family) -> Result<Vec<String>> {
    let gates = GateSet::parse(endpoints::gates(), "")?;
    // The installation of certificates adds the CA bundle.
    let client = Client {
        address: Address::Service,
        ca_bundle: None,
    };
    let (installation, served) = (Installation::default(), endpoints::served(&[family]));
    let mutating = manifest::mutating(&installation, &served, &gates, &client);
    let validating = manifest::validating(&installation, &served, &gates, &client);
    let mutating = mutating.iter().map(yaml);
    mutating.chain(validating.iter().map(yaml)).collect()
}

/// Roles of a family with their bindings: one for each configuration object with endpoints.
fn roles(family: Family) -> Result<Vec<String>> {
    let (installation, served) = (Installation::default(), endpoints::served(&[family]));
    let mut texts = Vec::new();
    for Rights {
        role,
        binding,
        namespaces,
    } in headroom_webhook::rights(&installation, &served)
    {
        texts.extend([yaml(&role)?, yaml(&binding)?]);
        for NamespaceRights { role, binding } in &namespaces {
            texts.extend([yaml(role)?, yaml(binding)?]);
        }
    }
    Ok(texts)
}

fn yaml(object: &impl Serialize) -> Result<String> {
    Ok(manifest::yaml(object)?)
}

fn documents(documents: &[String]) -> String {
    documents.join("---\n")
}
