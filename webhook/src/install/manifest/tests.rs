//! Tests of the generated objects against golden files, and of their way through the API types without a loss.

use std::fmt::Debug;

use serde::de::DeserializeOwned;

use super::*;
use crate::admission::endpoints::{ENDPOINTS, gates};

fn service() -> Client {
    Client {
        address: Address::Service,
        ca_bundle: None,
    }
}

fn on() -> GateSet {
    GateSet::parse(gates(), "").unwrap()
}

/// The YAML, after checking that it reads back as the same object with no field lost or left over.
pub(super) fn checked<T: Serialize + DeserializeOwned + PartialEq + Debug>(object: &T) -> String {
    let text = yaml(object).unwrap();
    let back: T = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(&back, object);
    let fields: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(serde_json::to_value(&back).unwrap(), fields);
    text
}

#[test]
fn the_mutating_configuration_is_the_golden_one() {
    insta::assert_snapshot!(checked(&mutating(ENDPOINTS, &on(), &service())));
}

#[test]
fn the_validating_configuration_is_the_golden_one() {
    insta::assert_snapshot!(checked(&validating(ENDPOINTS, &on(), &service())));
}

#[test]
fn the_cluster_role_is_the_golden_one() {
    let besides = [
        Access {
            group: "",
            resource: "nodes/status",
            names: &[],
            verbs: &["patch"],
        },
        Access {
            group: "",
            resource: "nodes",
            names: &[],
            verbs: &["patch"],
        },
        Access::watch_named("", "configmaps", &["one"]),
    ];
    insta::assert_snapshot!(checked(&cluster_role(ENDPOINTS, &besides)));
}

#[test]
fn a_url_takes_the_path_and_the_authority() {
    let client = Client {
        address: Address::Url("https://127.0.0.1:9443".to_owned()),
        ca_bundle: Some(b"PEM".to_vec()),
    };
    let configuration = mutating(ENDPOINTS, &on(), &client);
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
    assert_eq!(mutating(ENDPOINTS, &gates, &service()).webhooks, Some(vec![]));
    assert_eq!(
        validating(ENDPOINTS, &gates, &service()).webhooks.unwrap().len(),
        1
    );
}

#[test]
fn an_endpoint_that_leaves_us_out_selects_other_namespaces() {
    static APART: Endpoint = Endpoint {
        name: "apart.test",
        path: "/apart",
        about: "For tests.",
        kind: Kind::Validating,
        rules: &[],
        failure_policy: FailurePolicy::Fail,
        timeout: std::time::Duration::from_secs(5),
        namespaces: Namespaces::ExceptOurs,
        broken_step: crate::admission::endpoint::BrokenStep::FailsTheCall,
        steps: &[],
    };
    let selector = validating_entry(&APART, &service()).namespace_selector.unwrap();
    let expressions = selector.match_expressions.unwrap();
    assert_eq!(
        expressions[0].values.as_deref().unwrap(),
        ["headroom-system", "headroom-agent"]
    );
}
