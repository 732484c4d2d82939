//! Tests of allocatable computed from ratios and raw values: rows N1 to N13, N23 to N35, N47 and N48.

use super::*;

const FROM_RAW: Row = Row {
    new: RAW,
    allocatable: RAW,
    raw_after: Some(RAW),
    ..ROW
};

const PRODUCTS: [Row; 13] = [
    Row {
        name: "N1",
        ratio: Some(r#"{"cpu":1.5}"#),
        allocatable: r#"{"cpu":"6","memory":"8Gi"}"#,
        ..FROM_RAW
    },
    Row {
        name: "N2 (D8)",
        new: r#"{"cpu":"3920m","memory":"7Gi"}"#,
        ratio: Some(r#"{"cpu":1.5,"memory":1.2}"#),
        allocatable: r#"{"cpu":"5880m","memory":"9019431321"}"#,
        raw_after: Some(r#"{"cpu":"3920m","memory":"7Gi"}"#),
        ..ROW
    },
    Row {
        name: "N3 (D8)",
        new: r#"{"cpu":"4","memory":"32Gi"}"#,
        ratio: Some(r#"{"memory":1.3}"#),
        allocatable: r#"{"cpu":"4","memory":"44667659878"}"#,
        raw_after: Some(r#"{"cpu":"4","memory":"32Gi"}"#),
        ..ROW
    },
    Row {
        name: "N4",
        new: r#"{"cpu":"4","memory":"32612508Ki"}"#,
        ratio: Some(r#"{"memory":1.5}"#),
        allocatable: r#"{"cpu":"4","memory":"48918762Ki"}"#,
        raw_after: Some(r#"{"cpu":"4","memory":"32612508Ki"}"#),
        ..ROW
    },
    Row {
        name: "N5 (D8)",
        new: r#"{"cpu":"4","memory":"32612508Ki"}"#,
        ratio: Some(r#"{"memory":1.2}"#),
        allocatable: r#"{"cpu":"4","memory":"40074249830"}"#,
        raw_after: Some(r#"{"cpu":"4","memory":"32612508Ki"}"#),
        ..ROW
    },
    Row {
        name: "N6",
        new: r#"{"cpu":"4","memory":"1000M"}"#,
        ratio: Some(r#"{"memory":1.5}"#),
        allocatable: r#"{"cpu":"4","memory":"1500M"}"#,
        raw_after: Some(r#"{"cpu":"4","memory":"1G"}"#),
        ..ROW
    },
    Row {
        name: "N7 (D8)",
        new: r#"{"cpu":"4","memory":"1000000001"}"#,
        ratio: Some(r#"{"memory":1.5}"#),
        allocatable: r#"{"cpu":"4","memory":"1500000001"}"#,
        raw_after: Some(r#"{"cpu":"4","memory":"1000000001"}"#),
        ..ROW
    },
    Row {
        name: "N8 (D8)",
        new: r#"{"memory":"1Ki"}"#,
        ratio: Some(r#"{"memory":1.1}"#),
        allocatable: r#"{"memory":"1126"}"#,
        raw_after: Some(r#"{"memory":"1Ki"}"#),
        ..ROW
    },
    Row {
        name: "N9 (D9: cut off, as Koordinator's webhook and not as its scheduler)",
        new: r#"{"cpu":"7910m"}"#,
        ratio: Some(r#"{"cpu":1.33}"#),
        allocatable: r#"{"cpu":"10520m"}"#,
        raw_after: Some(r#"{"cpu":"7910m"}"#),
        ..ROW
    },
    Row {
        name: "N10",
        new: r#"{"cpu":"1001m"}"#,
        ratio: Some(r#"{"cpu":1.1}"#),
        allocatable: r#"{"cpu":"1101m"}"#,
        raw_after: Some(r#"{"cpu":"1001m"}"#),
        ..ROW
    },
    Row {
        name: "N11",
        new: r#"{"cpu":"64"}"#,
        ratio: Some(r#"{"cpu":1.15}"#),
        allocatable: r#"{"cpu":"73600m"}"#,
        raw_after: Some(r#"{"cpu":"64"}"#),
        ..ROW
    },
    Row {
        name: "N12",
        new: r#"{"cpu":"4000m"}"#,
        ratio: Some(r#"{"cpu":2}"#),
        allocatable: r#"{"cpu":"8"}"#,
        raw_after: Some(r#"{"cpu":"4"}"#),
        ..ROW
    },
    Row {
        name: "N13",
        new: r#"{"cpu":4}"#,
        ratio: Some(r#"{"cpu":2}"#),
        allocatable: r#"{"cpu":"8"}"#,
        raw_after: Some(r#"{"cpu":"4"}"#),
        ..ROW
    },
];

#[tokio::test]
async fn amplified_values_are_koordinators_in_whole_units() {
    check(&PRODUCTS).await;
}

#[tokio::test]
async fn ratios_without_effect_record_raw_alone() {
    for (name, ratio) in [
        ("N23", r#"{"cpu":1}"#),
        ("N24", r#"{"cpu":0.5}"#),
        ("N24", r#"{"cpu":-2}"#),
        ("N25", "null"),
        ("N25", "{}"),
        ("N25", r#"{"cpu":null}"#),
        ("N34", r#"{"CPU":2}"#),
    ] {
        check(&[Row {
            name,
            ratio: Some(ratio),
            ..FROM_RAW
        }])
        .await;
    }
}

/// D3 and G7: Koordinator answers 500 and cuts the node off.
#[tokio::test]
async fn an_unusable_ratio_counts_as_one_and_is_never_a_denial() {
    for (name, ratio) in [
        ("N26 (D3, G7)", r#"{"cpu":"1.5"}"#),
        ("N27 (D3, G7)", "cpu=1.5"),
        ("N28 (D3, G7)", " "),
        ("N29 (D3, G7)", "[]"),
        ("N30 (D3, G7)", r#"{"cpu":1e400}"#),
        ("N31 (D7, G7)", r#"{"cpu":1e300}"#),
    ] {
        let never_amplified = Row {
            name,
            ratio: Some(ratio),
            ..FROM_RAW
        };
        let amplified_before = Row {
            by: &[By::Kubelet, By::Other],
            new: r#"{"cpu":"8","memory":"8Gi"}"#,
            raw: Some(RAW),
            ..never_amplified
        };
        let kubelet_sends_raw = Row {
            by: ANYONE,
            old: Some(r#"{"cpu":"8","memory":"8Gi"}"#),
            new: RAW,
            ..amplified_before
        };
        check(&[never_amplified, amplified_before, kubelet_sends_raw]).await;
        for by in ANYONE {
            let mut node = NodeFixture::new(RAW);
            node.annotate(names::RATIO, Some(ratio));
            let verdict = verdict(&review(*by, &node.stored, &node.stored)).await;
            let warning = verdict["warnings"][0].as_str().expect(name);
            assert!(warning.contains(names::RATIO), "{name}: {warning}");
        }
    }
}

#[tokio::test]
async fn huge_products_are_exact_or_left_out() {
    check(&[
        Row {
            name: "N32 (D7)",
            new: r#"{"cpu":"8","memory":"12Pi"}"#,
            ratio: Some(r#"{"memory":2}"#),
            allocatable: r#"{"cpu":"8","memory":"24Pi"}"#,
            raw_after: Some(r#"{"cpu":"8","memory":"12Pi"}"#),
            ..ROW
        },
        Row {
            name: "N32 beyond 64 bits (D7, G9)",
            new: r#"{"memory":"7Ei"}"#,
            ratio: Some(r#"{"memory":2}"#),
            allocatable: r#"{"memory":"7Ei"}"#,
            raw_after: Some(r#"{"memory":"7Ei"}"#),
            ..ROW
        },
        Row {
            name: "N31 above the bound of 5 (D7)",
            new: r#"{"cpu":"8"}"#,
            ratio: Some(r#"{"cpu":50}"#),
            allocatable: r#"{"cpu":"40"}"#,
            raw_after: Some(r#"{"cpu":"8"}"#),
            ..ROW
        },
    ])
    .await;
}

#[tokio::test]
async fn only_cpu_and_memory_count_and_the_last_key_wins() {
    check(&[
        Row {
            name: "N33",
            new: r#"{"cpu":"4","nvidia.com/gpu":"4"}"#,
            ratio: Some(r#"{"nvidia.com/gpu":2}"#),
            allocatable: r#"{"cpu":"4","nvidia.com/gpu":"4"}"#,
            raw_after: Some(r#"{"cpu":"4"}"#),
            ..ROW
        },
        Row {
            name: "N35",
            new: r#"{"cpu":"8"}"#,
            ratio: Some(r#"{"cpu":2,"cpu":3}"#),
            allocatable: r#"{"cpu":"24"}"#,
            raw_after: Some(r#"{"cpu":"8"}"#),
            ..ROW
        },
        Row {
            name: "N47",
            new: r#"{"cpu":"0"}"#,
            ratio: Some(r#"{"cpu":2}"#),
            allocatable: r#"{"cpu":"0"}"#,
            raw_after: Some(r#"{"cpu":"0"}"#),
            ..ROW
        },
        Row {
            name: "N48 (D7: nothing negative is written)",
            new: r#"{"cpu":"-4"}"#,
            ratio: Some(r#"{"cpu":2}"#),
            allocatable: r#"{"cpu":"-4"}"#,
            is_marked: false,
            ..ROW
        },
    ])
    .await;
}
