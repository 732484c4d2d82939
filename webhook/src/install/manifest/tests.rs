//! Tests of the generated objects against golden files, and of their way through the API types without a loss.

use std::fmt::Debug;

use headroom_kit::gate::GateSet;
use k8s_openapi::{
    ByteString,
    api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    configurations::{except_ours, except_system},
    *,
};
use crate::{
    admission::{
        endpoint::{AnyEndpoint, ConfigurationObject, Namespaces, Rule},
        endpoints::{ENDPOINTS, gates},
    },
    store::access::{Access, AccessNamespace, ObjectNames},
};

fn service() -> Client {
    Client {
        address: Address::Service,
        ca_bundle: None,
    }
}

fn on() -> GateSet {
    GateSet::parse(gates(), "").unwrap()
}

fn first() -> Installation {
    Installation::default()
}

fn second() -> Installation {
    Installation {
        namespace: "b".parse().unwrap(),
        agent_namespace: "c".parse().unwrap(),
        suffix: "-b".parse().unwrap(),
        ..Installation::default()
    }
}

/// The endpoints of nodes, which goldens are of.
fn of_nodes() -> Vec<&'static dyn AnyEndpoint> {
    let endpoints = ENDPOINTS.iter().copied();
    endpoints
        .filter(|endpoint| endpoint.declaration().configuration == ConfigurationObject::Nodes)
        .collect()
}

/// The YAML, after checking that it reads back as the same object with no field lost or left over.
pub(super) fn checked<T: Serialize + DeserializeOwned + PartialEq + Debug>(object: &T) -> String {
    let text = yaml(object).unwrap();
    let back: T = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(&back, object);
    let fields: Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(serde_json::to_value(&back).unwrap(), fields);
    text
}

#[test]
fn the_mutating_configuration_is_the_golden_one() {
    let [configuration] =
        <[MutatingWebhookConfiguration; 1]>::try_from(mutating(&first(), &of_nodes(), &on(), &service()))
            .unwrap();
    insta::assert_snapshot!(checked(&configuration));
}

#[test]
fn the_validating_configuration_is_the_golden_one() {
    let [configuration] =
        <[ValidatingWebhookConfiguration; 1]>::try_from(validating(&first(), &of_nodes(), &on(), &service()))
            .unwrap();
    insta::assert_snapshot!(checked(&configuration));
}

#[test]
fn the_cluster_role_is_the_golden_one() {
    let besides = [
        Access::to("", "nodes/status", ObjectNames::All, &["patch"]),
        Access::to("", "nodes", ObjectNames::All, &["patch"]),
        Access::watch_named("", "configmaps", &["one"]),
    ];
    let rights = rights(&first(), ConfigurationObject::Nodes, ENDPOINTS, &besides);
    assert_eq!(rights.namespaces, []);
    insta::assert_snapshot!(checked(&rights.role));
}

#[test]
fn entries_are_in_the_configuration_of_their_own_object_and_rights_in_its_own_role() {
    let configurations = mutating(&first(), ENDPOINTS, &on(), &service());
    for (endpoint, entry) in ENDPOINTS.iter().flat_map(|endpoint| {
        let entries = endpoint.declaration().entries.iter();
        entries.map(move |entry| (endpoint, entry))
    }) {
        let name = endpoint.declaration().configuration.name();
        for configuration in &configurations {
            let has_it = configuration
                .webhooks
                .iter()
                .flatten()
                .any(|own| own.name == entry.name);
            assert!(
                !has_it || configuration.metadata.name.as_deref() == Some(name),
                "{}",
                entry.name
            );
        }
    }
    // Without steps, and so without the sources of others.
    for object in ConfigurationObject::ALL {
        let rights = rights(&first(), object, &[], &[]);
        assert_eq!(rights.role.metadata.name.as_deref(), Some(object.name()));
        assert_eq!((rights.role.rules, rights.namespaces), (Some(vec![]), vec![]));
        assert_eq!(rights.binding.role_ref.name, object.name());
    }
}

#[test]
fn access_in_one_namespace_is_a_role_there_and_nothing_in_the_cluster() {
    let leases = Access::to(
        "coordination.k8s.io",
        "leases",
        ObjectNames::Ours(&["l"]),
        &["get"],
    );
    let besides = [
        leases.in_namespace(AccessNamespace::Own),
        Access::watch("", "configmaps").in_namespace(AccessNamespace::Named("elsewhere")),
    ];
    let rights = rights(&second(), ConfigurationObject::Pods, &[], &besides);
    assert_eq!(rights.role.rules, Some(vec![]));
    let namespaces = rights.namespaces.iter().map(|own| {
        let rule = &own.role.rules.as_ref().unwrap()[0];
        let metadata = &own.role.metadata;
        assert_eq!(&own.binding.metadata, metadata);
        assert_eq!(own.binding.role_ref.name, "headroom-pods-b");
        assert_eq!(metadata.name.as_deref(), Some("headroom-pods-b"));
        (
            metadata.namespace.as_deref().unwrap(),
            rule.resource_names.clone().unwrap_or_default(),
        )
    });
    assert_eq!(
        namespaces.collect::<Vec<_>>(),
        [("b", vec!["l-b".to_owned()]), ("elsewhere", vec![])]
    );
    let subject = &rights.binding.subjects.as_ref().unwrap()[0];
    assert_eq!(
        (subject.name.as_str(), subject.namespace.as_deref()),
        ("headroom-webhook-b", Some("b"))
    );
}

#[test]
fn a_second_installation_shares_no_name_with_the_first() {
    let configuration = mutating(&second(), &of_nodes(), &on(), &service()).remove(0);
    assert_eq!(configuration.metadata.name.as_deref(), Some("headroom-webhook-b"));
    let service = json!(configuration.webhooks.unwrap()[0].client_config.service);
    assert_eq!(
        (&service["name"], &service["namespace"]),
        (&json!("headroom-webhook-b"), &json!("b"))
    );
}

#[test]
fn koordinators_config_map_is_matched_by_the_names_that_an_installation_has_for_it() {
    let gates = GateSet::parse(gates(), "ConfigMapValidatingWebhook=true").unwrap();
    let mut other = first();
    other.slo_config.namespace = "a".parse().unwrap();
    other.slo_config.name = "b.c".parse().unwrap();
    for (installation, expression) in [
        (
            first(),
            "request.namespace == 'koordinator-system' && request.name == 'slo-controller-config'",
        ),
        (other, "request.namespace == 'a' && request.name == 'b.c'"),
    ] {
        let configurations = validating(&installation, ENDPOINTS, &gates, &service());
        let mut entries = configurations
            .iter()
            .flat_map(|configuration| configuration.webhooks.iter().flatten());
        let entry = entries
            .find(|entry| entry.name == "vconfigmap.koordinator.sh")
            .unwrap();
        let conditions = entry.match_conditions.as_ref().unwrap();
        let expressions: Vec<&str> = conditions.iter().map(|one| one.expression.as_str()).collect();
        assert_eq!(expressions, [expression]);
        assert_eq!(
            (&entry.object_selector, &entry.namespace_selector),
            (&None, &None)
        );
        assert_eq!(entry.failure_policy.as_deref(), Some("Fail"));
    }
}

#[test]
fn a_url_takes_the_path_and_the_authority() {
    let client = Client {
        address: Address::Url("https://127.0.0.1:9443".to_owned()),
        ca_bundle: Some(b"PEM".to_vec()),
    };
    let configuration = mutating(&first(), &of_nodes(), &on(), &client).remove(0);
    let entry = &configuration.webhooks.as_ref().unwrap()[0];
    assert_eq!(
        entry.client_config.url.as_deref(),
        Some("https://127.0.0.1:9443/mutate-node-status")
    );
    assert_eq!(
        (&entry.client_config.service, &entry.client_config.ca_bundle),
        (&None, &Some(ByteString(b"PEM".to_vec())))
    );
    checked(&configuration);
}

#[test]
fn an_endpoint_with_all_steps_switched_off_is_not_registered() {
    let gates = GateSet::parse(gates(), "NodeMutatingWebhook=false").unwrap();
    assert_eq!(mutating(&first(), &of_nodes(), &gates, &service()), []);
    let validating = validating(&first(), &of_nodes(), &gates, &service()).remove(0);
    assert_eq!(validating.webhooks.unwrap().len(), 1);
}

#[test]
fn an_entry_that_fails_closed_selects_other_namespaces_than_ours() {
    let values = |selector: &LabelSelector| selector.match_expressions.clone().unwrap()[0].values.clone();
    assert_eq!(
        values(&except_ours(&first())).unwrap(),
        ["headroom-system", "headroom-agent"]
    );
    assert_eq!(values(&except_ours(&second())).unwrap(), ["b", "c"]);
    let system = except_system(&first());
    assert_eq!(
        values(&system).unwrap(),
        ["headroom-system", "headroom-agent", "kube-system"]
    );
    let unlabelled = &system.match_expressions.unwrap()[1];
    assert_eq!(
        (unlabelled.key.as_str(), unlabelled.operator.as_str()),
        ("control-plane", "DoesNotExist")
    );
}

/// A selector of namespaces counts as without an effect on these entries only.
#[test]
fn cluster_scoped_entries_have_only_rules_of_cluster_scoped_resources() {
    let kinds = custom_kinds::definitions().unwrap();
    let is_cluster_scoped = |rule: &Rule| match rule.group {
        // Of the kinds of Kubernetes itself, the endpoints are called for these.
        "" => match rule.resource {
            "nodes" => true,
            "pods" | "bindings" | "configmaps" => false,
            other => panic!("{other} is not known here"),
        },
        group => {
            let is_it = |kind: &&CustomResourceDefinition| {
                (kind.spec.group.as_str(), kind.spec.names.plural.as_str()) == (group, rule.resource)
            };
            kinds.iter().find(is_it).expect(rule.resource).spec.scope == "Cluster"
        }
    };
    let declarations = ENDPOINTS.iter().map(|endpoint| endpoint.declaration());
    for entry in declarations.flat_map(|declaration| declaration.entries) {
        let expected = entry.namespaces == Namespaces::ClusterScoped;
        assert!(
            entry.rules.iter().all(|rule| is_cluster_scoped(rule) == expected),
            "{}",
            entry.name
        );
    }
}

/// AKS adds namespace selectors to webhook configurations that do not have this annotation.
#[test]
fn configurations_are_exempt_from_changes_by_the_platform() {
    let metadata = mutating(&first(), ENDPOINTS, &on(), &service())
        .into_iter()
        .map(|configuration| configuration.metadata);
    let validating = validating(&first(), ENDPOINTS, &on(), &service());
    let metadata = metadata.chain(validating.into_iter().map(|configuration| configuration.metadata));
    let annotations: Vec<_> = metadata
        .map(|metadata| metadata.annotations.unwrap_or_default())
        .collect();
    assert!(annotations.len() > 2);
    for annotations in annotations {
        assert_eq!(
            annotations
                .get("admissions.enforcer/disabled")
                .map(String::as_str),
            Some("true")
        );
    }
}
