//! Tests of a node that Headroom has amplified before, write by write: rows N15 to N21, N36 to N46, N49, N57 and N58.

use rstest::rstest;

use super::*;

const TWICE: &str = r#"{"cpu":2}"#;

/// A node of 4 CPUs, amplified to 8.
async fn twice() -> NodeFixture {
    let node = NodeFixture::amplified(TWICE).await;
    assert_eq!((node.cpu(), node.raw()), ("8", Some(RAW)));
    node
}

fn set_cpu(object: &mut Value, cpu: &str) {
    object["status"]["allocatable"]["cpu"] = cpu.into();
}

fn set_capacity(object: &mut Value, cpu: &str) {
    object["status"]["capacity"]["cpu"] = cpu.into();
}

#[rstest]
#[case(By::Sync)]
#[case(By::Kubelet)]
#[case(By::Other)]
#[tokio::test]
async fn n15_a_new_ratio_counts_from_the_saved_value(#[case] by: By) {
    let mut node = twice().await;
    node.annotate(names::RATIO, Some(r#"{"cpu":3}"#));
    node.write(by, |_| ()).await;
    assert_eq!((node.cpu(), node.raw()), ("12", Some(RAW)));
}

#[rstest]
#[case::n16("4", "8")]
#[case::n17("6", "12")]
#[tokio::test]
async fn what_a_sync_carries_is_raw(#[case] sent: &str, #[case] stored: &str) {
    let mut node = twice().await;
    node.write(By::Sync, |object| set_cpu(object, sent)).await;
    assert_eq!(node.cpu(), stored);
}

#[tokio::test]
async fn n18_d4_a_third_party_changes_memory_only() {
    let mut node = twice().await;
    node.write(By::Other, |object| {
        object["status"]["allocatable"]["memory"] = "7Gi".into();
    })
    .await;
    assert_eq!(node.allocatable(), allocatable(r#"{"cpu":"8","memory":"7Gi"}"#));
    assert_eq!(node.raw(), Some(r#"{"cpu":"4","memory":"7Gi"}"#));
}

#[tokio::test]
async fn n19_g1a_raw_that_equals_the_amplified_value_stays_unseen_if_nothing_tells() {
    let mut node = twice().await;
    node.write(By::Sync, |_| ()).await;
    assert_eq!((node.cpu(), node.raw()), ("8", Some(RAW)));
}

#[tokio::test]
async fn n19_d1_raw_that_equals_the_amplified_value_is_told_by_capacity() {
    let mut node = twice().await;
    node.write(By::Sync, |object| set_capacity(object, "68")).await;
    assert_eq!(
        (node.cpu(), node.raw()),
        ("16", Some(r#"{"cpu":"8","memory":"8Gi"}"#))
    );
}

#[tokio::test]
async fn n19_g0_what_the_kubelet_sent_is_told_by_the_floor_policys_note() {
    let mut node = twice().await;
    let note = json!({"cpu": "4", "memory": "8Gi", "at": heartbeat(node.hour + 1)}).to_string();
    node.write(By::Sync, |object| {
        // By this alone, the 8 would be raw.
        set_capacity(object, "68");
        object["metadata"]["annotations"][names::KUBELET_RAW] = note.into();
    })
    .await;
    assert_eq!((node.cpu(), node.annotation(names::KUBELET_RAW)), ("8", None));
}

#[rstest]
#[case::n20(None)]
#[case::n21(Some(""))]
#[tokio::test]
async fn d10_without_a_ratio_raw_comes_back_at_once(
    #[case] ratio: Option<&str>,
    #[values(By::Sync, By::Kubelet, By::Other)] by: By,
) {
    let mut node = twice().await;
    node.annotate(names::RATIO, ratio);
    node.write(by, |_| ()).await;
    assert_eq!(node.allocatable(), allocatable(RAW));
    assert_eq!(node.annotations().len(), usize::from(ratio.is_some()));
}

/// Koordinator's slo-controller removes the ratio and restores it through `nodes`. Its writes of the status change none.
#[tokio::test]
async fn n20_d14_a_ratio_that_comes_and_goes_does_not_lose_raw() {
    let mut node = twice().await;
    for _ in 0..3 {
        node.annotate(names::RATIO, None);
        node.write(By::Other, |_| ()).await;
        assert_eq!((node.cpu(), node.raw()), ("4", None));
        node.annotate(names::RATIO, Some(TWICE));
        node.write(By::Other, |_| ()).await;
        assert_eq!((node.cpu(), node.raw()), ("8", Some(RAW)));
    }
}

/// The marker contains raw.
#[rstest]
#[case::n36_d3(Some("xx"))]
#[case::n38_d3(Some(""))]
#[case::n39_d6(Some("null"))]
#[case::n40_d6(Some("{}"))]
#[case::n41_d3(Some(r#"{"cpu":"4x"}"#))]
#[case::n42(Some(r#"{"cpu":4}"#))]
#[case::n43_d6(Some(r#"{"memory":"8Gi"}"#))]
#[case::n49_d5(None)]
#[tokio::test]
async fn a_raw_annotation_that_is_lost_or_spoilt_heals_without_amplifying_twice(
    #[case] raw: Option<&str>,
    #[values(By::Sync, By::Kubelet, By::Other)] by: By,
) {
    let mut node = twice().await;
    node.annotate(names::RAW_ALLOCATABLE, raw);
    node.write(by, |_| ()).await;
    assert_eq!((node.cpu(), node.raw()), ("8", Some(RAW)));
    node.write(By::Sync, |object| set_cpu(object, "4")).await;
    assert_eq!((node.cpu(), node.raw()), ("8", Some(RAW)));
}

/// Without marker and raw value an amplified value cannot be distinguished from a raw one, until the kubelet's next
/// sync.
#[tokio::test]
async fn n49_g4_without_any_trace_the_next_sync_heals() {
    let mut node = twice().await;
    node.annotate(names::RAW_ALLOCATABLE, None);
    node.annotate(names::MARKER, None);
    node.write(By::Other, |_| ()).await;
    assert_eq!(node.cpu(), "16");
    node.write(By::Sync, |object| set_cpu(object, "4")).await;
    assert_eq!((node.cpu(), node.raw()), ("8", Some(RAW)));
}

#[rstest]
#[case(By::Sync)]
#[case(By::Kubelet)]
#[case(By::Other)]
#[tokio::test]
async fn n57_d2_what_the_kubelet_wrote_while_we_were_away_is_raw_at_the_first_write(#[case] by: By) {
    let mut node = twice().await;
    set_cpu(&mut node.stored, "6");
    node.write(by, |_| ()).await;
    assert_eq!(
        (node.cpu(), node.raw()),
        ("12", Some(r#"{"cpu":"6","memory":"8Gi"}"#))
    );
}

/// Koordinator's nodes have no marker: any client may have written the stored value until the kubelet syncs.
#[rstest]
#[case::the_kubelet_first(None)]
#[case::the_kubelet_without_heartbeat_first(Some(By::Kubelet))]
#[case::somebody_else_first(Some(By::Other))]
#[tokio::test]
async fn n57_d2_without_our_marker_the_first_sync_heals(#[case] first: Option<By>) {
    let mut node = NodeFixture::new(r#"{"cpu":"6"}"#);
    node.annotate(names::RATIO, Some(TWICE));
    node.annotate(names::RAW_ALLOCATABLE, Some(r#"{"cpu":"4"}"#));
    if let Some(by) = first {
        node.write(by, |_| ()).await;
        assert_eq!(node.cpu(), "8");
    }
    node.write(By::Sync, |object| set_cpu(object, "6")).await;
    assert_eq!((node.cpu(), node.raw()), ("12", Some(r#"{"cpu":"6"}"#)));
}

#[rstest]
#[case::the_kubelet_first(None)]
#[case::the_kubelet_without_heartbeat_first(Some(By::Kubelet))]
#[case::somebody_else_first(Some(By::Other))]
#[tokio::test]
async fn n58_d2_raw_that_became_what_we_wrote_while_we_were_away_is_told_by_capacity(
    #[case] first: Option<By>,
) {
    let mut node = NodeFixture::amplified(r#"{"cpu":1.5}"#).await;
    assert_eq!(node.cpu(), "6");
    set_capacity(&mut node.stored, "66");
    if let Some(by) = first {
        node.write(by, |_| ()).await;
        assert_eq!(node.cpu(), "6");
    }
    node.write(By::Sync, |_| ()).await;
    assert_eq!(
        (node.cpu(), node.raw()),
        ("9", Some(r#"{"cpu":"6","memory":"8Gi"}"#))
    );
}

#[rstest]
#[case::n44("")]
#[case::n44_null("null")]
#[case::n45("{}")]
#[case::n46(r#"{"pods":"110"}"#)]
#[tokio::test]
async fn g8_without_allocatable_what_is_recorded_stays(
    #[case] written: &str,
    #[values(By::Sync, By::Kubelet, By::Other)] by: By,
) {
    let mut node = twice().await;
    let patch = node.write(by, |object| set_allocatable(object, written)).await;
    assert_eq!(patch, Patch(vec![]));
    node.write(By::Sync, |object| set_allocatable(object, RAW)).await;
    assert_eq!((node.cpu(), node.raw()), ("8", Some(RAW)));
}
