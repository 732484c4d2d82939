//! Generates the manifests from the webhook's declarations: webhook configurations, policies and RBAC.

use anyhow::Result;
use headroom_domain::names;
use headroom_kit::gate::GateSet;
use headroom_webhook::{
    admission::{
        endpoint::{AnyEndpoint, Family},
        endpoints,
    },
    install::manifest::{
        self, Address, Client,
        policies::{
            self, PolicyAndBinding,
            checks::{self, Checks},
        },
        steady_state,
    },
    start,
};
use k8s_openapi::{
    api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde::Serialize;

/// Role of people who may look at everything; bound to nobody.
const VIEWER: &str = "headroom-viewer";

/// The endpoints of node amplification, which the base installs.
fn nodes() -> Vec<&'static dyn AnyEndpoint> {
    endpoints::served(&[Family::Nodes])
}

/// Both webhook configurations, with all gates at their defaults.
pub(super) fn webhooks() -> Result<String> {
    let gates = GateSet::parse(endpoints::gates(), "")?;
    // Whoever installs the certificates fills in the bundle.
    let client = Client {
        address: Address::Service,
        ca_bundle: None,
    };
    Ok(documents(&[
        yaml(&manifest::mutating(&nodes(), &gates, &client))?,
        yaml(&manifest::validating(&nodes(), &gates, &client))?,
    ]))
}

/// The policies that the API server evaluates, with their bindings.
pub(super) fn policies() -> Result<String> {
    let mut texts = Vec::new();
    for PolicyAndBinding { policy, binding } in policies::all() {
        texts.extend([yaml(&policy)?, yaml(&binding)?]);
    }
    Ok(documents(&texts))
}

/// The policy that refuses bad annotations, with its binding.
pub(super) fn checks() -> Result<String> {
    let Checks { policy, binding } = checks::checks();
    Ok(documents(&[yaml(&policy)?, yaml(&binding)?]))
}

/// The option `steady-state-skip`, as a patch of the webhook configurations.
pub(super) fn steady_state_skip() -> Result<String> {
    yaml(&steady_state::kustomize_patch())
}

/// The webhook's role and its binding, and the role of people who look on.
pub(super) fn rbac() -> Result<String> {
    Ok(documents(&[
        yaml(&manifest::cluster_role(&nodes(), &start::access()))?,
        yaml(&binding())?,
        yaml(&manifest::lease_role::role())?,
        yaml(&manifest::lease_role::binding())?,
        yaml(&viewer())?,
    ]))
}

fn binding() -> ClusterRoleBinding {
    ClusterRoleBinding {
        metadata: named(names::WEBHOOK_SERVICE_ACCOUNT),
        role_ref: RoleRef {
            api_group: Some("rbac.authorization.k8s.io".to_owned()),
            kind: "ClusterRole".to_owned(),
            name: names::WEBHOOK_SERVICE_ACCOUNT.to_owned(),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: names::WEBHOOK_SERVICE_ACCOUNT.to_owned(),
            namespace: Some(names::NAMESPACE.to_owned()),
            ..Subject::default()
        }]),
    }
}

fn viewer() -> ClusterRole {
    ClusterRole {
        metadata: named(VIEWER),
        rules: Some(vec![PolicyRule {
            non_resource_urls: Some(vec![names::DEBUG_URL.to_owned()]),
            verbs: vec!["get".to_owned()],
            ..PolicyRule::default()
        }]),
        ..ClusterRole::default()
    }
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}

fn yaml(object: &impl Serialize) -> Result<String> {
    Ok(manifest::yaml(object)?)
}

fn documents(documents: &[String]) -> String {
    documents.join("---\n")
}
