//! Generates the webhook configurations: one of each kind for each configuration object that has entries switched on.

use std::collections::BTreeMap;

use headroom_domain::{
    installation::{ConfigMapName, Installation},
    names,
};
use headroom_kit::gate::GateSet;
use k8s_openapi::{
    ByteString,
    api::admissionregistration::v1::{
        MatchCondition, MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations, ServiceReference,
        ValidatingWebhook, ValidatingWebhookConfiguration, WebhookClientConfig,
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement, ObjectMeta},
};
use serde_json::Value;

use super::{Address, Client, named};
use crate::admission::endpoint::{
    AnyEndpoint, Condition, ConfigurationObject, Entry, FailurePolicy, Kind, Namespaces, Objects,
    Reinvocation, Rule, SideEffects,
};

/// Label by which Koordinator leaves a namespace out.
const CONTROL_PLANE: &str = "control-plane";
const SYSTEM_NAMESPACE: &str = "kube-system";
/// Annotation by which AKS leaves a webhook configuration unchanged. It would add namespace selectors otherwise.
const UNCHANGED_BY_AKS: (&str, &str) = ("admissions.enforcer/disabled", "true");

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

/// The configurations of those mutating endpoints that have a step switched on, one for each configuration object with
/// entries of such.
pub fn mutating(
    installation: &Installation,
    endpoints: &[&dyn AnyEndpoint],
    gates: &GateSet,
    client: &Client,
) -> Vec<MutatingWebhookConfiguration> {
    let of_object = |object: ConfigurationObject| {
        let entries = enabled(endpoints, gates, object).filter_map(|(endpoint, entry)| {
            let Kind::Mutating(reinvocation) = endpoint.declaration().kind else {
                return None;
            };
            Some(mutating_entry(
                installation,
                endpoint,
                entry,
                reinvocation,
                client,
            ))
        });
        let webhooks: Vec<_> = entries.collect();
        (!webhooks.is_empty()).then(|| MutatingWebhookConfiguration {
            metadata: metadata(installation, object),
            webhooks: Some(webhooks),
        })
    };
    ConfigurationObject::ALL
        .into_iter()
        .filter_map(of_object)
        .collect()
}

/// The configurations of those validating endpoints that have a step switched on, one for each configuration object
/// with entries of such.
pub fn validating(
    installation: &Installation,
    endpoints: &[&dyn AnyEndpoint],
    gates: &GateSet,
    client: &Client,
) -> Vec<ValidatingWebhookConfiguration> {
    let of_object = |object: ConfigurationObject| {
        let entries = enabled(endpoints, gates, object)
            .filter(|(endpoint, _)| endpoint.declaration().kind == Kind::Validating);
        let entries =
            entries.map(|(endpoint, entry)| validating_entry(installation, endpoint, entry, client));
        let webhooks: Vec<_> = entries.collect();
        (!webhooks.is_empty()).then(|| ValidatingWebhookConfiguration {
            metadata: metadata(installation, object),
            webhooks: Some(webhooks),
        })
    };
    ConfigurationObject::ALL
        .into_iter()
        .filter_map(of_object)
        .collect()
}

fn metadata(installation: &Installation, object: ConfigurationObject) -> ObjectMeta {
    let (key, value) = UNCHANGED_BY_AKS;
    ObjectMeta {
        annotations: Some(BTreeMap::from([(key.to_owned(), value.to_owned())])),
        ..named(installation.named(object.name()))
    }
}

/// One entry of an endpoint, as JSON.
pub fn entry(
    installation: &Installation,
    endpoint: &dyn AnyEndpoint,
    entry: &Entry,
    client: &Client,
) -> Value {
    let written = match endpoint.declaration().kind {
        Kind::Mutating(reinvocation) => serde_json::to_value(mutating_entry(
            installation,
            endpoint,
            entry,
            reinvocation,
            client,
        )),
        Kind::Validating => serde_json::to_value(validating_entry(installation, endpoint, entry, client)),
    };
    // Texts, numbers and lists of them can always be written.
    written.unwrap_or_default()
}

/// The entries of a configuration object whose endpoints have a step switched on.
fn enabled<'e>(
    endpoints: &'e [&'e dyn AnyEndpoint],
    gates: &'e GateSet,
    object: ConfigurationObject,
) -> impl Iterator<Item = (&'e dyn AnyEndpoint, &'static Entry)> {
    let endpoints = endpoints.iter().copied();
    endpoints
        .filter(move |endpoint| endpoint.declaration().configuration == object && endpoint.is_enabled(gates))
        .flat_map(|endpoint| {
            let entries = endpoint.declaration().entries.iter();
            let entries = entries.filter(|entry| entry.when.is_on(gates));
            entries.map(move |entry| (endpoint, entry))
        })
}

fn mutating_entry(
    installation: &Installation,
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
    } = webhook_entry(installation, endpoint, entry, client);
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

fn validating_entry(
    installation: &Installation,
    endpoint: &dyn AnyEndpoint,
    entry: &Entry,
    client: &Client,
) -> ValidatingWebhook {
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
    } = webhook_entry(installation, endpoint, entry, client);
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

fn webhook_entry(
    installation: &Installation,
    endpoint: &dyn AnyEndpoint,
    entry: &Entry,
    client: &Client,
) -> WebhookEntry {
    let Entry {
        name,
        when: _,
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
        client_config: client_config(installation, client, endpoint.declaration().path),
        failure_policy: Some(failure_policy.to_owned()),
        // A rule also covers the same objects under another version; the API server converts.
        match_policy: Some("Equivalent".to_owned()),
        name: (*name).to_owned(),
        namespace_selector: match namespaces {
            Namespaces::All | Namespaces::ClusterScoped => None,
            Namespaces::ExceptOurs => Some(except_ours(installation)),
            Namespaces::ExceptSystem => Some(except_system(installation)),
        },
        object_selector: match objects {
            Objects::All | Objects::SloConfig => None,
            Objects::Labelled { key, value } => Some(LabelSelector {
                match_labels: Some(BTreeMap::from([((*key).to_owned(), (*value).to_owned())])),
                match_expressions: None,
            }),
        },
        match_conditions: match_conditions(installation, *objects, conditions),
        rules: Some(rules.iter().map(rule).collect()),
        side_effects: match side_effects {
            SideEffects::None => "None".to_owned(),
            SideEffects::NoneOnDryRun => "NoneOnDryRun".to_owned(),
        },
        timeout_seconds: i32::try_from(timeout.as_secs()).ok(),
    }
}

fn client_config(installation: &Installation, client: &Client, path: &str) -> WebhookClientConfig {
    let Client { address, ca_bundle } = client;
    let ca_bundle = ca_bundle.clone().map(ByteString);
    match address {
        Address::Service => WebhookClientConfig {
            ca_bundle,
            service: Some(ServiceReference {
                name: installation.service(),
                namespace: installation.namespace.to_string(),
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

fn match_conditions(
    installation: &Installation,
    objects: Objects,
    conditions: &[Condition],
) -> Option<Vec<MatchCondition>> {
    let by_name = match objects {
        Objects::SloConfig => Some(is_named(&installation.slo_config)),
        Objects::All | Objects::Labelled { .. } => None,
    };
    let conditions = conditions.iter().map(match_condition);
    let all: Vec<MatchCondition> = by_name.into_iter().chain(conditions).collect();
    (!all.is_empty()).then_some(all)
}

/// True for that ConfigMap with any labels. Neither name needs quoting.
fn is_named(config_map: &ConfigMapName) -> MatchCondition {
    let ConfigMapName { namespace, name } = config_map;
    MatchCondition {
        name: "slo-config".to_owned(),
        expression: format!("request.namespace == '{namespace}' && request.name == '{name}'"),
    }
}

fn match_condition(condition: &Condition) -> MatchCondition {
    let Condition { name, expression } = *condition;
    MatchCondition {
        name: name.to_owned(),
        expression: expression.to_owned(),
    }
}

/// Every namespace except ours: objects that our start needs must not wait for us.
pub(super) fn except_ours(installation: &Installation) -> LabelSelector {
    not_in(&ours(installation), None)
}

/// Selects every namespace except ours and those that Koordinator skips: the system namespaces, and namespaces
/// labelled as parts of the control plane.
pub(super) fn except_system(installation: &Installation) -> LabelSelector {
    let unlabelled = LabelSelectorRequirement {
        key: CONTROL_PLANE.to_owned(),
        operator: "DoesNotExist".to_owned(),
        values: None,
    };
    let [webhook, agent] = ours(installation);
    not_in(&[webhook, agent, SYSTEM_NAMESPACE], Some(unlabelled))
}

/// The namespaces that we run in.
fn ours(installation: &Installation) -> [&str; 2] {
    [
        installation.namespace.as_str(),
        installation.agent_namespace.as_str(),
    ]
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
