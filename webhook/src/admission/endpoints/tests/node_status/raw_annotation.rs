//! Tests of the raw annotation, present, unusable or absent: rows N14 to N22, N36 to N46 and N50.
//!
//! These nodes do not carry Headroom's marker, as after a time with Koordinator's webhook. Where it matters,
//! `already_amplified` has the same rows for nodes that Headroom has amplified.

use super::*;

const TWICE: Option<&str> = Some(r#"{"cpu":2}"#);
const AMPLIFIED: &str = r#"{"cpu":"8","memory":"8Gi"}"#;

/// Koordinator has amplified 4 CPUs to 8.
const OF_KOORDINATOR: Row = Row {
    ratio: TWICE,
    raw: Some(RAW),
    new: AMPLIFIED,
    allocatable: AMPLIFIED,
    raw_after: Some(RAW),
    ..ROW
};

const SAVED: [Row; 8] = [
    Row {
        name: "N14",
        old: Some(AMPLIFIED),
        new: r#"{"cpu":"8","memory":"8Gi","kubernetes.io/batch-cpu":"1000"}"#,
        allocatable: r#"{"cpu":"8","memory":"8Gi","kubernetes.io/batch-cpu":"1000"}"#,
        ..OF_KOORDINATOR
    },
    Row {
        name: "N15",
        by: &[By::Kubelet, By::Other],
        ratio: Some(r#"{"cpu":3}"#),
        allocatable: r#"{"cpu":"12","memory":"8Gi"}"#,
        ..OF_KOORDINATOR
    },
    Row {
        name: "N16",
        old: Some(AMPLIFIED),
        new: RAW,
        ..OF_KOORDINATOR
    },
    Row {
        name: "N17",
        old: Some(AMPLIFIED),
        new: r#"{"cpu":"6","memory":"8Gi"}"#,
        allocatable: r#"{"cpu":"12","memory":"8Gi"}"#,
        raw_after: Some(r#"{"cpu":"6","memory":"8Gi"}"#),
        ..OF_KOORDINATOR
    },
    Row {
        name: "N18 (D4, G3: each resource by itself)",
        old: Some(AMPLIFIED),
        new: r#"{"cpu":"8","memory":"7Gi"}"#,
        allocatable: r#"{"cpu":"8","memory":"7Gi"}"#,
        raw_after: Some(r#"{"cpu":"4","memory":"7Gi"}"#),
        ..OF_KOORDINATOR
    },
    Row {
        name: "N19 (G1a: without our marker nothing tells it; see history for D1)",
        by: &[By::Sync],
        ..OF_KOORDINATOR
    },
    Row {
        name: "N42",
        new: r#"{"cpu":"8"}"#,
        raw: Some(r#"{"cpu":4}"#),
        allocatable: r#"{"cpu":"8"}"#,
        raw_after: Some(r#"{"cpu":"4"}"#),
        ..OF_KOORDINATOR
    },
    Row {
        name: "N50",
        old: Some(r#"{"cpu":"4"}"#),
        new: r#"{"cpu":"4000m"}"#,
        raw: Some(r#"{"cpu":"2"}"#),
        allocatable: r#"{"cpu":"4000m"}"#,
        raw_after: Some(r#"{"cpu":"2"}"#),
        ..OF_KOORDINATOR
    },
];

#[tokio::test]
async fn the_saved_value_is_raw_until_the_kubelet_or_somebody_else_says_another() {
    check(&SAVED).await;
}

/// Without our marker a value is not ours to take back: as with Koordinator it stays until the kubelet's next sync.
#[tokio::test]
async fn what_others_left_of_a_ratio_goes_and_their_value_stays() {
    let gone = Row {
        by: &[By::Kubelet, By::Other],
        new: r#"{"cpu":"8"}"#,
        raw: Some(r#"{"cpu":"4"}"#),
        allocatable: r#"{"cpu":"8"}"#,
        is_marked: false,
        ..ROW
    };
    check(&[
        Row { name: "N20", ..gone },
        Row {
            name: "N21",
            ratio: Some(""),
            ..gone
        },
        Row {
            name: "N20 in a sync that carries raw",
            by: &[By::Sync],
            old: Some(r#"{"cpu":"8"}"#),
            new: r#"{"cpu":"4"}"#,
            allocatable: r#"{"cpu":"4"}"#,
            ..gone
        },
        Row {
            name: "N22",
            new: RAW,
            allocatable: RAW,
            is_marked: false,
            ..ROW
        },
    ])
    .await;
}

/// D3 and D6: Koordinator answers 500 to the first three and does not amplify the others. Headroom treats an unusable
/// raw value as missing (G4: no record of an amplified value).
#[tokio::test]
async fn an_unusable_raw_annotation_counts_as_missing() {
    let unusable = Row {
        ratio: TWICE,
        new: r#"{"cpu":"8"}"#,
        allocatable: r#"{"cpu":"16"}"#,
        raw_after: Some(r#"{"cpu":"8"}"#),
        ..ROW
    };
    for (name, raw) in [
        ("N36 (D3, G4)", "xx"),
        ("N38 (D3, G4)", ""),
        ("N41 (D3, G4)", r#"{"cpu":"4x"}"#),
        ("N39 (D6, G4)", "null"),
        ("N40 (D6, G4)", "{}"),
    ] {
        check(&[Row {
            name,
            raw: Some(raw),
            ..unusable
        }])
        .await;
    }
    check(&[
        Row {
            name: "N37",
            old: Some(r#"{"cpu":"8"}"#),
            new: r#"{"cpu":"4"}"#,
            raw: Some("xx"),
            allocatable: r#"{"cpu":"8"}"#,
            raw_after: Some(r#"{"cpu":"4"}"#),
            ..unusable
        },
        Row {
            name: "N43 (D6, G4)",
            ratio: Some(r#"{"cpu":2,"memory":2}"#),
            new: r#"{"cpu":"8","memory":"2Gi"}"#,
            raw: Some(r#"{"memory":"1Gi"}"#),
            allocatable: r#"{"cpu":"16","memory":"2Gi"}"#,
            raw_after: Some(r#"{"cpu":"8","memory":"1Gi"}"#),
            ..ROW
        },
    ])
    .await;
}

/// Rule G8.
#[tokio::test]
async fn without_allocatable_nothing_changes() {
    for (name, new) in [
        ("N44", ""),
        ("N44", "null"),
        ("N45", "{}"),
        ("N46", r#"{"pods":"110"}"#),
    ] {
        let nothing = Row {
            name,
            ratio: TWICE,
            new,
            allocatable: new,
            is_marked: false,
            ..ROW
        };
        let with_raw = Row {
            raw: Some(RAW),
            raw_after: Some(RAW),
            ..nothing
        };
        check(&[nothing, with_raw]).await;
    }
}
