//! Tests of the generated objects against golden files, and of their way through the API types without a loss.

use std::fmt::Debug;

use serde::de::DeserializeOwned;

use super::*;
use crate::admission::{
    endpoint::Family,
    endpoints::{gates, served},
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
    insta::assert_snapshot!(checked(&mutating(&served(&[Family::Nodes]), &on(), &service())));
}

#[test]
fn the_validating_configuration_is_the_golden_one() {
    insta::assert_snapshot!(checked(&validating(&served(&[Family::Nodes]), &on(), &service())));
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
    insta::assert_snapshot!(checked(&cluster_role(&served(&[Family::Nodes]), &besides)));
}

#[test]
fn a_url_takes_the_path_and_the_authority() {
    let client = Client {
        address: Address::Url("https://127.0.0.1:9443".to_owned()),
        ca_bundle: Some(b"PEM".to_vec()),
    };
    let configuration = mutating(&served(&[Family::Nodes]), &on(), &client);
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
    assert_eq!(
        mutating(&served(&[Family::Nodes]), &gates, &service()).webhooks,
        Some(vec![])
    );
    assert_eq!(
        validating(&served(&[Family::Nodes]), &gates, &service())
            .webhooks
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn an_entry_that_fails_closed_selects_other_namespaces_than_ours() {
    let values = |selector: &LabelSelector| selector.match_expressions.clone().unwrap()[0].values.clone();
    assert_eq!(
        values(&except_ours()).unwrap(),
        ["headroom-system", "headroom-agent"]
    );
    let system = except_system();
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
