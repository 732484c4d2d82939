//! Tests of the rows about nodes: Nodes as the API server has them, and the Events that follow.

use headroom_domain::{
    hint::{Contradiction, Note},
    names,
};
use k8s_openapi::api::core::v1::ConfigMap;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::{
    admission::endpoint::NoStore,
    store::{
        cluster::tests::{cluster, node, published},
        informer::Store as _,
    },
};

fn stores(nodes: impl IntoIterator<Item = Value>) -> EventStores {
    EventStores {
        certificates: Arc::default(),
        profiles: Arc::new(NoStore),
        overshoots: Arc::default(),
        cluster: Arc::new(cluster(nodes, [])),
        modes: Arc::default(),
    }
}

/// A time of day, in seconds after midnight.
fn at(seconds: i64) -> Timestamp {
    let midnight: Timestamp = "2026-11-20T00:00:00Z".parse().unwrap();
    Timestamp::from_second(midnight.as_second() + seconds).unwrap()
}

/// Node `n1` with a condition of ours that it has since midnight.
fn with_condition(kind: &str, status: &str, message: &str, quarantine: Option<Contradiction>) -> Value {
    let note = Note::from_hint(&published(1, 120)).in_quarantine(quarantine);
    let mut node = node(1, "4", &json!({names::HINT: note.to_string()}));
    node["status"]["conditions"] = json!([{
        "type": kind, "status": status, "message": message, "lastTransitionTime": "2026-11-20T00:00:00Z",
    }]);
    node
}

/// Reason, note and occurrence of each Event there would be.
fn events(stores: &EventStores, now: Timestamp) -> Vec<(&'static str, String, String)> {
    let facts = ROWS.iter().flat_map(|row| {
        let facts = (row.list)(stores, now).into_iter();
        facts.map(|fact| {
            assert_eq!(fact.regarding, EventObject::node("n1"));
            (row.reason, fact.note, fact.occurrence)
        })
    });
    facts.collect()
}

#[rstest]
#[case::braked(names::BRAKED, "True", None, Some(("Braked", "m")))]
#[case::released(names::BRAKED, "False", None, Some(("BrakeReleased", "no brake limits its allocatable any more")))]
#[case::in_quarantine(names::BRAKED, "True", Some(Contradiction::Use),
    Some(("Quarantined", "the node is not amplified: its agent reports far less use than its kubelet")))]
#[case::contested(names::RATIO_OWNER_CONFLICT, "True", None, Some(("RatioOwnerConflict", "m")))]
#[case::not_contested(names::RATIO_OWNER_CONFLICT, "False", None, None)]
#[case::within_bounds(names::CLAMPED, "True", None, None)]
fn a_condition_that_is_stored_is_an_event(
    #[case] kind: &str,
    #[case] status: &str,
    #[case] quarantine: Option<Contradiction>,
    #[case] expected: Option<(&'static str, &str)>,
) {
    let stores = stores([with_condition(kind, status, "m", quarantine)]);
    let since = "2026-11-20T00:00:00Z".to_owned();
    let expected: Vec<_> = expected
        .map(|(reason, note)| (reason, note.to_owned(), since))
        .into_iter()
        .collect();
    assert_eq!(events(&stores, at(10)), expected);
}

#[test]
fn a_release_is_told_for_ten_minutes_and_a_brake_while_it_holds() {
    let with_status = |status| stores([with_condition(names::BRAKED, status, "m", None)]);
    let reasons = |status, now| {
        let found = events(&with_status(status), at(now)).into_iter();
        found.map(|(reason, ..)| reason).collect::<Vec<_>>()
    };
    // The clock of the replica that wrote it may be ahead.
    assert_eq!(reasons("False", -1), ["BrakeReleased"]);
    assert_eq!(reasons("False", 600), ["BrakeReleased"]);
    assert!(reasons("False", 601).is_empty());
    assert_eq!(reasons("True", 7_200), ["Braked"]);
}

#[test]
fn a_quarantine_that_only_a_later_version_knows_is_told() {
    let mut note = Note::from_hint(&published(1, 120));
    note.quarantine = Some("later".to_owned());
    let mut node = with_condition(names::BRAKED, "True", "m", None);
    node["metadata"]["annotations"][names::HINT] = note.to_string().into();
    let found = events(&stores([node]), at(10));
    assert_eq!(found[0].0, "Quarantined");
    assert!(found[0].1.contains("later version"), "{found:?}");
}

fn apply(stores: &EventStores, node: Value) {
    stores.cluster.nodes.apply(serde_json::from_value(node).unwrap());
}

/// The Events after the modes have been compared at that time.
fn modes(stores: &EventStores, seconds: i64) -> Vec<(&'static str, String, String)> {
    stores.modes.observe(&stores.cluster, at(seconds));
    events(stores, at(seconds))
}

#[test]
fn a_mode_that_changes_is_an_event_for_ten_minutes_whoever_changed_it() {
    let stores = stores([node(1, "4", &json!({}))]);
    assert_eq!(modes(&stores, 0), [], "the first mode is no change");
    apply(&stores, node(2, "4", &json!({names::MODE: "off"})));
    let minute = (at(0).as_second() / 60).to_string();
    let switched_off = (
        "ModeChanged",
        "mode off by annotation headroom.sh/mode, was auto".to_owned(),
        minute.clone(),
    );
    for seconds in [10, 610] {
        assert_eq!(modes(&stores, seconds), std::slice::from_ref(&switched_off));
    }
    assert_eq!(modes(&stores, 611), []);
    // The annotation is removed, and the ConfigMap sets another mode than the file.
    let config: ConfigMap = serde_json::from_value(json!({
        "metadata": {"name": names::SLO_CONFIG, "namespace": names::SLO_CONFIG_NAMESPACE, "resourceVersion": "7"},
        "data": {names::AMPLIFICATION_CONFIG: r#"{"mode": "guard"}"#},
    }))
    .unwrap();
    stores.cluster.policies.apply(config);
    apply(&stores, node(3, "4", &json!({})));
    let [(_, note, _)] = modes(&stores, 700).try_into().unwrap();
    assert_eq!(note, "mode guard by Koordinator's ConfigMap, was off");
}

#[test]
fn another_node_of_the_name_has_not_changed_its_mode_and_nobody_guesses_what_is_not_known() {
    let stores = stores([node(1, "4", &json!({}))]);
    assert_eq!(modes(&stores, 0), []);
    let mut other = node(2, "4", &json!({names::MODE: "off"}));
    other["metadata"]["uid"] = "u2".into();
    apply(&stores, other.clone());
    assert_eq!(modes(&stores, 10), []);
    // While the policies are lost, modes stay as they were known.
    stores.cluster.policies.set_known(false);
    other["metadata"]["annotations"] = json!({});
    apply(&stores, other);
    assert_eq!(modes(&stores, 20), []);
    stores.cluster.policies.set_known(true);
    let [(reason, note, _)] = modes(&stores, 30).try_into().unwrap();
    assert_eq!(
        (reason, note.as_str()),
        (
            "ModeChanged",
            "mode auto by the webhook's configuration file, was off"
        )
    );
}
