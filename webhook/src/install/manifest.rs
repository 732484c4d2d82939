//! Generates webhook configurations and RBAC rules from the endpoint declarations, as typed objects and as YAML.

pub mod difference;
pub mod lease_role;
pub mod policies;
pub mod steady_state;

use std::collections::{BTreeMap, BTreeSet};

use headroom_domain::names;
use headroom_kit::gate::GateSet;
use k8s_openapi::{
    ByteString,
    api::{
        admissionregistration::v1::{
            MatchCondition, MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations,
            ServiceReference, ValidatingWebhook, ValidatingWebhookConfiguration, WebhookClientConfig,
        },
        rbac::v1::{ClusterRole, PolicyRule},
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement, ObjectMeta},
};
use serde::Serialize;
use serde_json::Value;

use crate::{
    admission::endpoint::{
        AnyEndpoint, Condition, Entry, FailurePolicy, Kind, Namespaces, Objects, Reinvocation, Rule,
        SideEffects,
    },
    store::access::Access,
};

/// Label by which Koordinator leaves a namespace out.
const CONTROL_PLANE: &str = "control-plane";
/// Kubernetes' own namespace.
const SYSTEM_NAMESPACE: &str = "kube-system";

/// How the API server reaches the webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// Where it is.
    pub address: Address,
    /// PEM of the authorities that its certificate is checked against; `None` leaves the field to whoever fills
    /// it in later.
    pub ca_bundle: Option<Vec<u8>>,
}

/// Where the API server finds the webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// Behind our Service.
    Service,
    /// At a URL such as `https://127.0.0.1:9443`, without a slash at the end.
    Url(String),
}

impl Address {
    /// The name or IP address that the API server expects in the webhook's certificate; empty if the URL has none.
    pub fn host(&self) -> String {
        match self {
            Self::Service => format!("{}.{}.svc", names::WEBHOOK_SERVICE, names::NAMESPACE),
            Self::Url(base) => {
                let url = base.parse::<http::Uri>().unwrap_or_default();
                let host = url.host().unwrap_or_default();
                host.trim_start_matches('[').trim_end_matches(']').to_owned()
            }
        }
    }
}

/// The parts that both kinds of entry have.
struct WebhookEntry {
    admission_review_versions: Vec<String>,
    client_config: WebhookClientConfig,
    failure_policy: Option<String>,
    match_conditions: Option<Vec<MatchCondition>>,
    match_policy: Option<String>,
    name: String,
    namespace_selector: Option<LabelSelector>,
    object_selector: Option<LabelSelector>,
    rules: Option<Vec<RuleWithOperations>>,
    side_effects: String,
    timeout_seconds: Option<i32>,
}

/// The configuration of all mutating endpoints that have a step switched on.
pub fn mutating(
    endpoints: &[&dyn AnyEndpoint],
    gates: &GateSet,
    client: &Client,
) -> MutatingWebhookConfiguration {
    let entries = enabled(endpoints, gates).flat_map(|endpoint| {
        endpoint
            .declaration()
            .entries
            .iter()
            .map(move |entry| (endpoint, entry))
    });
    let webhooks = entries.filter_map(|(endpoint, entry)| match endpoint.declaration().kind {
        Kind::Mutating(reinvocation) => Some(mutating_entry(endpoint, entry, reinvocation, client)),
        Kind::Validating => None,
    });
    MutatingWebhookConfiguration {
        metadata: named(names::WEBHOOK_CONFIGURATION),
        webhooks: Some(webhooks.collect()),
    }
}

/// The configuration of all validating endpoints that have a step switched on.
pub fn validating(
    endpoints: &[&dyn AnyEndpoint],
    gates: &GateSet,
    client: &Client,
) -> ValidatingWebhookConfiguration {
    let entries = enabled(endpoints, gates).flat_map(|endpoint| {
        endpoint
            .declaration()
            .entries
            .iter()
            .map(move |entry| (endpoint, entry))
    });
    let webhooks = entries.filter_map(|(endpoint, entry)| match endpoint.declaration().kind {
        Kind::Mutating(_) => None,
        Kind::Validating => Some(validating_entry(endpoint, entry, client)),
    });
    ValidatingWebhookConfiguration {
        metadata: named(names::WEBHOOK_CONFIGURATION),
        webhooks: Some(webhooks.collect()),
    }
}

/// One entry of an endpoint, as JSON.
pub fn entry(endpoint: &dyn AnyEndpoint, entry: &Entry, client: &Client) -> Value {
    let written = match endpoint.declaration().kind {
        Kind::Mutating(reinvocation) => {
            serde_json::to_value(mutating_entry(endpoint, entry, reinvocation, client))
        }
        Kind::Validating => serde_json::to_value(validating_entry(endpoint, entry, client)),
    };
    // Texts, numbers and lists of them can always be written.
    written.unwrap_or_default()
}

/// The cluster role of the webhook: what the steps read, switched on or not, and what the process does besides.
pub fn cluster_role(endpoints: &[&dyn AnyEndpoint], besides: &[Access]) -> ClusterRole {
    let sources = endpoints.iter().flat_map(|endpoint| endpoint.sources());
    let accesses = sources.map(|source| &source.access).chain(besides);
    let mut verbs: BTreeMap<(&str, &str, &[&str]), BTreeSet<&str>> = BTreeMap::new();
    for &Access {
        group,
        resource,
        names,
        verbs: own,
    } in accesses
    {
        verbs.entry((group, resource, names)).or_default().extend(own);
    }
    let rules = verbs
        .into_iter()
        .map(|((group, resource, names), verbs)| PolicyRule {
            api_groups: Some(vec![group.to_owned()]),
            resources: Some(vec![resource.to_owned()]),
            resource_names: (!names.is_empty()).then(|| names.iter().map(|&name| name.to_owned()).collect()),
            verbs: verbs.into_iter().map(str::to_owned).collect(),
            ..PolicyRule::default()
        });
    ClusterRole {
        metadata: named(names::WEBHOOK_SERVICE_ACCOUNT),
        rules: Some(rules.collect()),
        ..ClusterRole::default()
    }
}

/// An object as YAML, the fields in the order of its type.
///
/// # Errors
/// If the value holds something that YAML cannot.
pub fn yaml(object: &impl Serialize) -> Result<String, serde_saphyr::ser::Error> {
    serde_saphyr::to_string(object)
}

fn enabled<'e>(
    endpoints: &'e [&'e dyn AnyEndpoint],
    gates: &'e GateSet,
) -> impl Iterator<Item = &'e dyn AnyEndpoint> {
    endpoints
        .iter()
        .copied()
        .filter(|endpoint| endpoint.is_enabled(gates))
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}

fn mutating_entry(
    endpoint: &dyn AnyEndpoint,
    entry: &Entry,
    reinvocation: Reinvocation,
    client: &Client,
) -> MutatingWebhook {
    let WebhookEntry {
        admission_review_versions,
        client_config,
        failure_policy,
        match_conditions,
        match_policy,
        name,
        namespace_selector,
        object_selector,
        rules,
        side_effects,
        timeout_seconds,
    } = webhook_entry(endpoint, entry, client);
    let reinvocation_policy = match reinvocation {
        Reinvocation::Never => "Never",
        Reinvocation::IfNeeded => "IfNeeded",
    };
    MutatingWebhook {
        admission_review_versions,
        client_config,
        failure_policy,
        match_conditions,
        match_policy,
        name,
        namespace_selector,
        object_selector,
        reinvocation_policy: Some(reinvocation_policy.to_owned()),
        rules,
        side_effects,
        timeout_seconds,
    }
}

fn validating_entry(endpoint: &dyn AnyEndpoint, entry: &Entry, client: &Client) -> ValidatingWebhook {
    let WebhookEntry {
        admission_review_versions,
        client_config,
        failure_policy,
        match_conditions,
        match_policy,
        name,
        namespace_selector,
        object_selector,
        rules,
        side_effects,
        timeout_seconds,
    } = webhook_entry(endpoint, entry, client);
    ValidatingWebhook {
        admission_review_versions,
        client_config,
        failure_policy,
        match_conditions,
        match_policy,
        name,
        namespace_selector,
        object_selector,
        rules,
        side_effects,
        timeout_seconds,
    }
}

fn webhook_entry(endpoint: &dyn AnyEndpoint, entry: &Entry, client: &Client) -> WebhookEntry {
    let Entry {
        name,
        rules,
        namespaces,
        objects,
        conditions,
        side_effects,
        failure_policy,
        timeout,
    } = entry;
    let failure_policy = match failure_policy {
        FailurePolicy::Fail => "Fail",
        FailurePolicy::Ignore => "Ignore",
    };
    WebhookEntry {
        admission_review_versions: vec!["v1".to_owned()],
        client_config: client_config(client, endpoint.declaration().path),
        failure_policy: Some(failure_policy.to_owned()),
        // A rule also covers the same objects under another version; the API server converts.
        match_policy: Some("Equivalent".to_owned()),
        name: (*name).to_owned(),
        namespace_selector: match namespaces {
            Namespaces::All => None,
            Namespaces::ExceptOurs => Some(except_ours()),
            Namespaces::ExceptSystem => Some(except_system()),
        },
        object_selector: match objects {
            Objects::All => None,
            Objects::Labelled { key, value } => Some(LabelSelector {
                match_labels: Some(BTreeMap::from([((*key).to_owned(), (*value).to_owned())])),
                match_expressions: None,
            }),
        },
        match_conditions: (!conditions.is_empty()).then(|| conditions.iter().map(match_condition).collect()),
        rules: Some(rules.iter().map(rule).collect()),
        side_effects: match side_effects {
            SideEffects::None => "None".to_owned(),
            SideEffects::NoneOnDryRun => "NoneOnDryRun".to_owned(),
        },
        timeout_seconds: i32::try_from(timeout.as_secs()).ok(),
    }
}

fn client_config(client: &Client, path: &str) -> WebhookClientConfig {
    let Client { address, ca_bundle } = client;
    let ca_bundle = ca_bundle.clone().map(ByteString);
    match address {
        Address::Service => WebhookClientConfig {
            ca_bundle,
            service: Some(ServiceReference {
                name: names::WEBHOOK_SERVICE.to_owned(),
                namespace: names::NAMESPACE.to_owned(),
                path: Some(path.to_owned()),
                port: Some(i32::from(names::ADMISSION_PORT)),
            }),
            url: None,
        },
        Address::Url(base) => WebhookClientConfig {
            ca_bundle,
            service: None,
            url: Some(format!("{base}{path}")),
        },
    }
}

fn rule(rule: &Rule) -> RuleWithOperations {
    let Rule {
        operations,
        group,
        version,
        resource,
        sub_resource,
    } = *rule;
    let resource = if sub_resource.is_empty() {
        resource.to_owned()
    } else {
        format!("{resource}/{sub_resource}")
    };
    RuleWithOperations {
        api_groups: Some(vec![group.to_owned()]),
        api_versions: Some(vec![version.to_owned()]),
        operations: Some(
            operations
                .iter()
                .map(|operation| operation.name().to_owned())
                .collect(),
        ),
        resources: Some(vec![resource]),
        scope: Some("*".to_owned()),
    }
}

fn match_condition(condition: &Condition) -> MatchCondition {
    let Condition { name, expression } = *condition;
    MatchCondition {
        name: name.to_owned(),
        expression: expression.to_owned(),
    }
}

/// Every namespace but those that we run in: what we need to start must not wait for us.
fn except_ours() -> LabelSelector {
    not_in(&[names::NAMESPACE, names::AGENT_NAMESPACE], None)
}

/// Every namespace but those that we run in and those that Koordinator leaves out: the system's, and those that somebody
/// labels as parts of the control plane.
fn except_system() -> LabelSelector {
    let unlabelled = LabelSelectorRequirement {
        key: CONTROL_PLANE.to_owned(),
        operator: "DoesNotExist".to_owned(),
        values: None,
    };
    not_in(
        &[names::NAMESPACE, names::AGENT_NAMESPACE, SYSTEM_NAMESPACE],
        Some(unlabelled),
    )
}

fn not_in(namespaces: &[&str], besides: Option<LabelSelectorRequirement>) -> LabelSelector {
    let not_in = LabelSelectorRequirement {
        key: "kubernetes.io/metadata.name".to_owned(),
        operator: "NotIn".to_owned(),
        values: Some(namespaces.iter().map(|&name| name.to_owned()).collect()),
    };
    LabelSelector {
        match_expressions: Some([not_in].into_iter().chain(besides).collect()),
        match_labels: None,
    }
}

#[cfg(test)]
mod tests;
