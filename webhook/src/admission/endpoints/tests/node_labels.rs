//! Tests of `/validate-node` with every label case of Koordinator's webhook: a change of labels in, a verdict out.
//!
//! Rows have the numbers of Koordinator's cases (V1 to V18). Where Headroom differs, the name ends with the defect (D)
//! of Koordinator that is the reason (`docs/compatibility.md`).

use headroom_domain::names;
use headroom_rules::{
    SWITCHES,
    switch::{Compat, Switches},
};
use rstest::rstest;

use super::*;

const PATH: &str = "/validate-node";

/// Two entries, each for the nodes with a label, under the member of that name.
fn entries(member: &str) -> Value {
    json!({member: [
        {"name": "a", "nodeSelector": {"matchLabels": {"x": "1"}}},
        {"name": "b", "nodeSelector": {"matchLabels": {"y": "1"}}},
    ]})
}

fn colocation() -> Value {
    entries("nodeConfigs")
}

fn strategies() -> Value {
    entries("nodeStrategies")
}

/// A ConfigMap with these keys.
fn config<const N: usize>(keys: [(&str, Value); N]) -> FixtureCluster {
    FixtureCluster {
        config: keys
            .into_iter()
            .map(|(key, document)| (key.to_owned(), document.to_string()))
            .collect(),
        ..FixtureCluster::default()
    }
}

fn node(labels: &Value) -> Value {
    json!({"metadata": {"name": "n1", "uid": "u-n1", "labels": labels}})
}

fn review(operation: &str, old: Option<&Value>, new: Option<&Value>) -> Value {
    let mut request = json!({
        "uid": "r-1",
        "kind": {"group": "", "version": "v1", "kind": "Node"},
        "resource": {"group": "", "version": "v1", "resource": "nodes"},
        "name": "n1",
        "operation": operation,
        "userInfo": {"username": "admin"},
    });
    for (member, labels) in [("oldObject", old), ("object", new)] {
        if let Some(labels) = labels {
            request[member] = node(labels);
        }
    }
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
}

async fn verdict(world: FixtureCluster, review: &Value) -> Value {
    let (status, body) = answer(world, PATH, review).await;
    assert_eq!(status, StatusCode::OK, "{body:?}");
    let body: Value = serde_json::from_slice(&body).unwrap();
    body["response"].clone()
}

/// The verdict on a change of labels.
async fn relabelled(world: FixtureCluster, old: &Value, new: &Value) -> Value {
    verdict(world, &review("UPDATE", Some(old), Some(new))).await
}

fn none() -> Value {
    json!({})
}

fn x() -> Value {
    json!({"x": "1"})
}

fn both() -> Value {
    json!({"x": "1", "y": "1"})
}

fn allowed() -> Value {
    json!({"uid": "r-1", "allowed": true})
}

fn warned(config: &str) -> Value {
    let warning = format!(
        r#"metadata.labels: several entries of {config} select this node, and the first one counts: "a", "b""#
    );
    json!({"uid": "r-1", "allowed": true, "warnings": [warning]})
}

/// Refusal in Koordinator's words, with its code and without a reason.
fn denied(config: &str) -> Value {
    let message = format!(
        r#"___{{"reason":"ExistNodeConfict","message":{{"config":"{config}","strategies":["a","b"],"exampleNodes":["n1"]}}}}___"#
    );
    json!({"uid": "r-1", "allowed": false, "status": {"code": 400, "message": message}})
}

#[rstest]
#[case::v1_a_second_entry_selects_the_node(config([(names::COLOCATION_CONFIG, colocation())]), names::COLOCATION_CONFIG)]
#[case::v10_classes_with_settings_of_the_kernel(
    config([(names::RESOURCE_QOS_CONFIG, strategies()), (names::SYSTEM_CONFIG, none())]),
    names::RESOURCE_QOS_CONFIG
)]
#[case::v11_the_first_key_is_reported(
    config([
        (names::CPU_BURST_CONFIG, strategies()),
        (names::RESOURCE_THRESHOLD_CONFIG, strategies()),
        (names::SYSTEM_CONFIG, strategies()),
    ]),
    names::RESOURCE_THRESHOLD_CONFIG
)]
#[case::v14_a_key_that_cannot_be_read_hides_no_other(
    config([(names::COLOCATION_CONFIG, json!("x")), (names::SYSTEM_CONFIG, strategies())]),
    names::SYSTEM_CONFIG
)]
#[case::v16_ranges_are_not_looked_at(
    config([(names::COLOCATION_CONFIG, json!({
        "degradeTimeMinutes": 0, "nodeConfigs": colocation()["nodeConfigs"],
    }))]),
    names::COLOCATION_CONFIG
)]
#[tokio::test]
async fn a_change_that_brings_a_conflict_about_is_denied(
    #[case] world: FixtureCluster,
    #[case] config: &str,
) {
    assert_eq!(relabelled(world.clone(), &x(), &both()).await, denied(config));
    // Removing the other label corrects it.
    assert_eq!(relabelled(world, &both(), &x()).await, allowed());
}

#[tokio::test]
async fn v17_a_label_that_goes_can_bring_a_conflict_about() {
    let entries = json!({"nodeConfigs": [
        {"name": "a", "nodeSelector": {"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}},
        {"name": "b", "nodeSelector": {"matchExpressions": [{"key": "x", "operator": "NotIn", "values": ["9"]}]}},
    ]});
    let world = config([(names::COLOCATION_CONFIG, entries)]);
    let nine = json!({"x": "9"});
    assert_eq!(
        relabelled(world, &nine, &none()).await,
        denied(names::COLOCATION_CONFIG)
    );
}

#[rstest]
#[case::v2_no_configmap(config([]))]
#[case::v13_null_is_empty_d11(config([(names::COLOCATION_CONFIG, Value::Null)]))]
#[case::v15_an_entry_without_selector(config([(names::COLOCATION_CONFIG, with_a_third(&json!({"name": "c"})))]))]
#[tokio::test]
async fn what_koordinator_does_not_look_at_is_allowed(#[case] world: FixtureCluster) {
    assert_eq!(relabelled(world.clone(), &x(), &both()).await, allowed());
    assert_eq!(
        verdict(world, &review("CREATE", None, Some(&both()))).await,
        allowed()
    );
}

/// Everything that the check of the ConfigMap compares with nodes: otherwise a stored version could be brought into
/// conflict by labels alone.
#[rstest]
#[case::v9_classes_without_settings_of_the_kernel(names::RESOURCE_QOS_CONFIG, strategies())]
#[case::v12_applications_of_the_host(names::HOST_APPLICATION_CONFIG, colocation())]
#[case::performance_of_cpus(names::CPU_NORMALIZATION_CONFIG, colocation())]
#[case::amplification(names::AMPLIFICATION_CONFIG, colocation())]
#[tokio::test]
async fn keys_that_only_we_check_are_compared_unless_switched_off(
    #[case] key: &str,
    #[case] document: Value,
) {
    let world = config([(key, document)]);
    assert_eq!(relabelled(world.clone(), &x(), &both()).await, denied(key));
    let mut options = options(world);
    let mut features = Features::with_gates(GateSet::parse(gates(), "").unwrap());
    features.switches = Switches::preset(SWITCHES, Compat::Upstream);
    options.features = features.shared();
    let request = Request::post(PATH)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(
            review("UPDATE", Some(&x()), Some(&both())).to_string(),
        )))
        .unwrap();
    let body = Router::new(options).respond(request).await.into_body();
    let body: Value = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
    assert_eq!(body["response"], allowed());
}

#[tokio::test]
async fn v3_labels_that_stay_are_not_checked() {
    let world = config([(names::COLOCATION_CONFIG, colocation())]);
    assert_eq!(relabelled(world.clone(), &both(), &both()).await, allowed());
    // The same map in another order.
    let text = review("UPDATE", Some(&both()), Some(&both())).to_string();
    let swapped = text.replacen(r#"{"x":"1","y":"1"}"#, r#"{"y":"1", "x":"1"}"#, 1);
    assert_ne!(text, swapped);
    let request = Request::post(PATH)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(swapped)))
        .unwrap();
    let body = router(world).respond(request).await.into_body();
    let body: Value = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
    assert_eq!(body["response"], allowed());
}

#[tokio::test]
async fn v4_a_new_node_is_let_in_with_a_warning() {
    let world = config([(names::COLOCATION_CONFIG, colocation())]);
    let verdict = verdict(world, &review("CREATE", None, Some(&both()))).await;
    assert_eq!(verdict, warned(names::COLOCATION_CONFIG));
}

#[tokio::test]
async fn v5_a_node_may_go() {
    let world = config([(names::COLOCATION_CONFIG, colocation())]);
    let verdict = verdict(world, &review("DELETE", Some(&both()), None)).await;
    assert_eq!(verdict, allowed());
}

#[tokio::test]
async fn v6_a_write_of_the_status_is_not_ours() {
    let world = config([(names::COLOCATION_CONFIG, colocation())]);
    let mut review = review("UPDATE", Some(&x()), Some(&both()));
    review["request"]["subResource"] = "status".into();
    assert_eq!(verdict(world, &review).await, allowed());
}

#[tokio::test]
async fn v7_a_node_in_conflict_can_be_given_other_labels_d12() {
    let world = config([(names::COLOCATION_CONFIG, colocation())]);
    let other = json!({"x": "1", "y": "1", "z": "1"});
    assert_eq!(
        relabelled(world, &both(), &other).await,
        warned(names::COLOCATION_CONFIG)
    );
    // But not one that adds to it.
    let third = json!({"name": "c", "nodeSelector": {"matchLabels": {"z": "1"}}});
    let world = config([(names::COLOCATION_CONFIG, with_a_third(&third))]);
    let verdict = relabelled(world, &both(), &other).await;
    let message = verdict["status"]["message"].as_str().unwrap();
    assert!(message.contains(r#""strategies":["a","b","c"]"#), "{message}");
}

#[tokio::test]
async fn v8_a_change_that_removes_the_conflict_is_allowed() {
    let world = config([(names::COLOCATION_CONFIG, colocation())]);
    let y = json!({"y": "1"});
    assert_eq!(relabelled(world, &both(), &y).await, allowed());
}

#[tokio::test]
async fn v18_an_update_without_its_object_is_a_bad_request() {
    let review = review("UPDATE", Some(&x()), None);
    let (status, body) = answer(FixtureCluster::default(), PATH, &review).await;
    assert_eq!(
        (status, &body[..]),
        (StatusCode::BAD_REQUEST, &b"request.object is missing\n"[..])
    );
}

fn with_a_third(entry: &Value) -> Value {
    let mut document = colocation();
    document["nodeConfigs"]
        .as_array_mut()
        .unwrap()
        .push(entry.clone());
    document
}
