//! Tests of reviews that no rule covers, and of reviews without their objects: rows N51 to N56.

use rstest::rstest;

use super::*;

/// A review in which the ratio has an effect.
fn question() -> Value {
    let mut node = NodeFixture::new(RAW);
    node.annotate(names::RATIO, Some(r#"{"cpu":2}"#));
    review(By::Sync, &node.stored, &node.stored)
}

fn remove(review: &mut Value, fields: &[&str]) {
    for field in fields {
        review["request"].as_object_mut().unwrap().remove(*field);
    }
}

#[tokio::test]
async fn the_question_itself_is_answered_with_a_patch() {
    assert_ne!(patch_of(&verdict(&question()).await), Patch(vec![]));
}

#[rstest]
#[case::n51_create_of_the_subresource(&["oldObject"], json!({"operation": "CREATE"}))]
#[case::n52_delete(&["object"], json!({"operation": "DELETE"}))]
#[case::n52_delete_without_any_object(&["object", "oldObject"], json!({"operation": "DELETE"}))]
// Koordinator answers 400; no rule of ours covers it, and the API server never asks.
#[case::n53_connect_without_object(&["object", "oldObject"], json!({"operation": "CONNECT"}))]
#[case::n54_no_subresource(&[], json!({"subResource": ""}))]
#[case::n54_subresource_absent(&["subResource"], json!({}))]
#[case::n56_status_of_pods(&[], json!({"resource": {"group": "", "version": "v1", "resource": "pods"}}))]
#[tokio::test]
async fn what_no_rule_covers_is_allowed_unchanged(#[case] without: &[&str], #[case] with: Value) {
    let mut review = question();
    remove(&mut review, without);
    for (field, value) in with.as_object().unwrap() {
        review["request"][field] = value.clone();
    }
    assert_eq!(verdict(&review).await, json!({"uid": "r-1", "allowed": true}));
}

/// A failed call and not a denial: `failurePolicy` decides, which Koordinator's `allowed: false` does not let it.
#[rstest]
#[case::n55_no_object(&["object"], "request.object")]
#[case::n55_no_old_object(&["oldObject"], "request.oldObject")]
#[tokio::test]
async fn an_update_without_its_objects_is_a_bad_request(#[case] without: &[&str], #[case] field: &str) {
    let mut review = question();
    remove(&mut review, without);
    let (status, body) = answer(&review).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(String::from_utf8_lossy(&body).contains(field), "{body:?}");
}

#[rstest]
#[case::n55_text("object", "a node".into())]
#[case::n55_list("object", json!([]))]
#[case::n55_old_number("oldObject", json!(7))]
#[tokio::test]
async fn an_update_of_what_is_no_object_is_a_bad_request(#[case] field: &str, #[case] value: Value) {
    let mut review = question();
    review["request"][field] = value;
    let (status, body) = answer(&review).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(body, format!("request.{field} is not an object\n"));
}

/// Koordinator answers 400; the API server has decoded the object before it calls a webhook.
#[rstest]
#[case::status(json!({"status": []}))]
#[case::allocatable(json!({"status": {"allocatable": "4"}}))]
#[case::cpu(json!({"status": {"allocatable": {"cpu": true, "memory": ["8Gi"]}}}))]
#[case::annotations(json!({"metadata": {"annotations": "none"}}))]
#[tokio::test]
async fn an_object_that_is_no_node_is_left_alone(#[case] object: Value) {
    let mut review = question();
    review["request"]["object"] = object.clone();
    review["request"]["oldObject"] = object;
    assert_eq!(verdict(&review).await, json!({"uid": "r-1", "allowed": true}));
}
