//! Generates the manifests from the webhook's declarations: webhook configurations, policies and RBAC.

use anyhow::Result;
use headroom_domain::installation::Installation;
use headroom_kit::gate::GateSet;
use headroom_webhook::{
    admission::{endpoint::Family, endpoints},
    install::manifest::{
        self, Address, Client, NamespaceRights, Rights, custom_kinds,
        policies::{
            self, PolicyAndBinding,
            checks::{self, Checks},
        },
        steady_state,
    },
};
use kubectl_headroom::rights::{Audience, DebugRights, debug_rights};
use serde::Serialize;

/// The webhook configurations of the base, with all gates at their defaults.
pub(super) fn webhooks() -> Result<String> {
    Ok(documents(&configurations(Family::Nodes)?))
}

/// The policies that the API server evaluates, with their bindings.
pub(super) fn policies() -> Result<String> {
    let mut texts = Vec::new();
    for PolicyAndBinding { policy, binding } in policies::all(&Installation::default()) {
        texts.extend([yaml(&policy)?, yaml(&binding)?]);
    }
    Ok(documents(&texts))
}

/// The policy that refuses bad annotations, with its binding.
pub(super) fn checks() -> Result<String> {
    let Checks { policy, binding } = checks::checks(&Installation::default());
    Ok(documents(&[yaml(&policy)?, yaml(&binding)?]))
}

/// The option `steady-state-skip`, as a patch of the webhook configurations.
pub(super) fn steady_state_skip() -> Result<String> {
    yaml(&steady_state::kustomize_patch())
}

/// The webhook's roles in the base and their bindings, the roles of people, which are bound to nobody, and the right of the
/// account whose tokens they show.
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

/// What the webhook configurations of the component `koordinator` add.
pub(super) fn koordinator_webhooks() -> Result<String> {
    Ok(documents(&configurations(Family::Koordinator)?))
}

/// What the webhook may do for the component `koordinator`.
pub(super) fn koordinator_rbac() -> Result<String> {
    Ok(documents(&roles(Family::Koordinator)?))
}

/// Koordinator's kinds, for clusters that lack them.
pub(super) fn koordinator_kinds() -> Result<String> {
    let texts: Vec<String> = custom_kinds::definitions()?
        .iter()
        .map(yaml)
        .collect::<Result<_>>()?;
    Ok(documents(&texts))
}

/// The webhook configurations of a family, with all gates at their defaults; none if it has no entries.
fn configurations(family: Family) -> Result<Vec<String>> {
    let gates = GateSet::parse(endpoints::gates(), "")?;
    // Whoever installs the certificates fills in the bundle.
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

/// The roles of a family with their bindings: one for each configuration object that has endpoints.
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
