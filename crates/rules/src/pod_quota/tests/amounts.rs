//! Tests of the available quota: Koordinator's cases, and the differences.

use headroom_domain::amounts::Amounts;

use super::*;

/// One quota with max, child-request and admission as texts; empty means absent.
struct Row {
    max: Value,
    child_request: &'static str,
    admission: &'static str,
    cost: Value,
}

fn row(max: Value, child_request: &'static str, admission: &'static str, cost: Value) -> Row {
    Row {
        max,
        child_request,
        admission,
        cost,
    }
}

fn text_of(row: &Row, compat: Compat) -> String {
    let quota = Quota {
        namespace: "kube-system".into(),
        name: "lab".into(),
        max: serde_json::from_value(row.max.clone()).unwrap(),
        admission: row.admission.into(),
        ..Quota::default()
    };
    let cost: Amounts = serde_json::from_value(row.cost.clone()).unwrap();
    let named: Vec<&str> = quota.max.iter().map(|(name, _)| name).collect();
    let cost = cost.only(&named);
    // Headroom counts pods: if the annotation can be read, their sum equals it.
    let usage = Usage {
        stored: serde_json::from_str(row.child_request).unwrap_or_default(),
        pending: Amounts::default(),
        noted: row.child_request.into(),
    };
    check_quota(&quota, &cost, &usage, &switches(compat))
        .map_or_else(|error| error.to_string(), |()| String::new())
}

const SYNTAX: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const END: &str = "unexpected end of JSON input";

#[rstest]
#[case::e1(row(json!({"cpu": 10}), r#"{"cpu": 7}"#, "", json!({"cpu": 3})), "")]
#[case::e2(row(json!({"cpu": 10}), r#"{"cpu": 7}"#, "", json!({"cpu": 4})), "exceeded quota: kube-system/lab, requested: cpu=4, used: cpu=7, limited: cpu=10")]
#[case::e3(row(json!({"cpu": 10, "memory": "10Gi"}), r#"{"cpu": 1, "memory": "12Gi"}"#, "", json!({"cpu": 1})), "")]
#[case::e4(row(json!({"cpu": 10, "memory": "10Gi"}), r#"{"cpu": 1, "memory": "12Gi"}"#, "", json!({"cpu": 1, "memory": "1Mi"})), "exceeded quota: kube-system/lab, requested: memory=1Mi, used: memory=12Gi, limited: memory=10Gi")]
#[case::e6(row(json!({"cpu": 10, "example.com/gpu": 1}), "", "", json!({"example.com/gpu": 2})), "exceeded quota: kube-system/lab, requested: example.com/gpu=2, used: , limited: example.com/gpu=1")]
#[case::e7(row(json!({"cpu": 10}), r#"{"cpu": 99}"#, "", json!({})), "")]
#[case::e9(row(json!({"cpu": 10}), r#"{"cpu": 9}"#, r#"{"cpu": 20}"#, json!({"cpu": 5})), "")]
#[case::e10(row(json!({"cpu": 10}), "", r#"{"cpu": 0}"#, json!({"cpu": 1})), "exceeded quota: kube-system/lab, requested: cpu=1, used: , limited: cpu=0")]
#[case::e11(row(json!({"cpu": 10}), "", "{}", json!({"cpu": 11})), "exceeded quota: kube-system/lab, requested: cpu=11, used: , limited: cpu=10")]
#[case::e11_null(row(json!({"cpu": 10}), "", "null", json!({"cpu": 11})), "exceeded quota: kube-system/lab, requested: cpu=11, used: , limited: cpu=10")]
#[case::e13(row(json!({"cpu": 10}), "", r#"{"cpu": 10, "memory": "1Gi"}"#, json!({"cpu": 1, "memory": "64Gi"})), "")]
#[case::e14(row(json!({"cpu": 10}), "", r#"{"cpu""#, json!({"cpu": 1})), END)]
#[case::e17(row(json!({"cpu": 10}), r#"{"cpu": 1, "foo/bar": 3}"#, "", json!({"cpu": 2})), "")]
#[case::e19(row(json!({"requests.cpu": 1, "cpu": 4}), "", "", json!({"cpu": 5})), "exceeded quota: kube-system/lab, requested: cpu=5, used: , limited: cpu=4")]
#[case::e20(row(json!({}), "", "", json!({"cpu": 5})), "")]
#[case::e40(row(json!({"cpu": 10}), "", r#"{"cpu""#, json!({})), END)]
fn a_pod_fits_or_exceeds_the_quota(#[case] row: Row, #[case] expected: &str) {
    for compat in BOTH {
        assert_eq!(text_of(&row, compat), expected, "{compat:?}");
    }
}

/// Headroom's result first, then Koordinator's.
#[rstest]
#[case::e5(row(json!({"example.com/gpu": 1}), "", "", json!({"example.com/gpu": 5})), ["exceeded quota: kube-system/lab, requested: example.com/gpu=5, used: , limited: example.com/gpu=1", ""])]
#[case::e12(row(json!({"cpu": 1, "memory": "64Gi"}), "", r#"{"memory": "1Gi"}"#, json!({"cpu": 5})), ["exceeded quota: kube-system/lab, requested: cpu=5, used: , limited: cpu=1", ""])]
#[case::e15(row(json!({"cpu": 10}), r#"{"cpu": "x"}"#, "", json!({"cpu": 1})), ["", SYNTAX])]
#[case::e42(row(json!({"cpu": 10}), r#"{"cpu""#, r#"{"cpu""#, json!({"cpu": 1})), [END, END])]
fn headroom_differs_from_koordinator(#[case] row: Row, #[case] expected: [&str; 2]) {
    assert_eq!(BOTH.map(|compat| text_of(&row, compat)), expected);
}

#[test]
fn errors_of_both_annotations_are_joined_in_brackets() {
    let row = row(
        json!({"cpu": 10}),
        r#"{"cpu": "x"}"#,
        r#"{"cpu""#,
        json!({"cpu": 1}),
    );
    assert_eq!(text_of(&row, Compat::Upstream), format!("[{SYNTAX}, {END}]"));
    assert_eq!(text_of(&row, Compat::Headroom), END);
}

#[test]
fn pending_admissions_count_in_addition_to_stored_or_larger_noted_usage() {
    let quota = Quota {
        namespace: "q".into(),
        name: "lab".into(),
        max: serde_json::from_value(json!({"cpu": 4})).unwrap(),
        ..Quota::default()
    };
    let amounts = |cpu: i64| -> Amounts { serde_json::from_value(json!({"cpu": cpu})).unwrap() };
    let usage = |noted: &str| Usage {
        stored: amounts(1),
        pending: amounts(1),
        noted: noted.into(),
    };
    let fits =
        |cpu, noted, compat| check_quota(&quota, &amounts(cpu), &usage(noted), &switches(compat)).is_ok();
    let (older, newer) = ("", r#"{"cpu": 2}"#);
    for (noted, compat, most) in [
        (newer, Compat::Headroom, 2),
        (newer, Compat::Upstream, 1),
        (older, Compat::Upstream, 2),
    ] {
        assert!(
            fits(most, noted, compat) && !fits(most + 1, noted, compat),
            "{noted} {compat:?}"
        );
    }
    let usage = usage(older);
    let error = check_quota(&quota, &amounts(3), &usage, &Switches::default()).unwrap_err();
    let causes = error.errors().causes();
    assert_eq!(causes.len(), 1);
    assert!(
        causes[0]
            .message
            .contains("quota q/lab has 4 of cpu, of which 2 are used"),
        "{causes:?}"
    );
}

#[test]
fn huge_amounts_do_not_wrap() {
    let quota = Quota {
        max: serde_json::from_value(json!({"cpu": "9223372036854775807"})).unwrap(),
        ..Quota::default()
    };
    let huge: Amounts = serde_json::from_value(json!({"cpu": "9E"})).unwrap();
    let usage = Usage {
        stored: huge.clone(),
        pending: huge.clone(),
        ..Usage::default()
    };
    assert!(check_quota(&quota, &huge, &usage, &Switches::default()).is_err());
}

#[rstest]
#[case(json!({"cpu": 3, "memory": 1}), json!({"cpu": 1, "memory": 1}), "cpu=2")]
#[case(json!({"cpu": 1}), json!({"cpu": 3}), "")]
#[case(json!({"cpu": "1500m"}), json!({}), "cpu=1500m")]
fn growth_counts_only_new_amounts(#[case] cost: Value, #[case] before: Value, #[case] expected: &str) {
    let amounts = |value: Value| serde_json::from_value::<Amounts>(value).unwrap();
    assert_eq!(growth(&amounts(cost), &amounts(before)).to_string(), expected);
}

/// The excess over the limits, and the CPU that is left: Headroom's result first, then Koordinator's.
#[rstest]
#[case::below(json!({"cpu": 4}), "", json!({"cpu": 4, "x": 9}), ["", ""], Some("0"))]
#[case::above(json!({"cpu": 4, "memory": 1}), "", json!({"cpu": 7, "memory": 1}), ["cpu 7 > max 4 by 3", "cpu 7 > max 4 by 3"], Some("-3"))]
#[case::lowered(json!({"cpu": 4}), r#"{"cpu": 1, "x": 1}"#, json!({"cpu": 3, "x": 2}), ["cpu 3 > admission 1 by 2", "cpu 3 > admission 1 by 2"], Some("-2"))]
#[case::raised(json!({"cpu": 4}), r#"{"cpu": 9}"#, json!({"cpu": 8}), ["", ""], Some("1"))]
#[case::not_in_admission(json!({"cpu": 4, "memory": 1}), r#"{"cpu": 9}"#, json!({"memory": 2}), ["memory 2 > max 1 by 1", ""], Some("9"))]
#[case::device(json!({"acme.io/card": 1}), "", json!({"acme.io/card": 2}), ["acme.io/card 2 > max 1 by 1", ""], None)]
fn excess_over_the_limits_is_reported(
    #[case] max: Value,
    #[case] admission: &str,
    #[case] used: Value,
    #[case] expected: [&str; 2],
    #[case] left: Option<&str>,
) {
    let quota = Quota {
        max: serde_json::from_value(max).unwrap(),
        admission: admission.into(),
        ..Quota::default()
    };
    let used: Amounts = serde_json::from_value(used).unwrap();
    for (compat, expected) in BOTH.into_iter().zip(expected) {
        let limits = Limits::read(&quota, &switches(compat)).unwrap();
        let exceeded = limits.exceeded_by(&used).into_iter().map(|excess| {
            let Excess {
                resource,
                used,
                limit,
                above,
                source,
            } = excess;
            format!("{resource} {used} > {} {limit} by {above}", source.name())
        });
        assert_eq!(exceeded.collect::<Vec<_>>().join(", "), expected, "{compat:?}");
        let left_now = limits.left("cpu", &used).map(|left| left.to_string());
        assert_eq!(left_now.as_deref(), left, "{compat:?}");
    }
}

#[test]
fn an_unreadable_limit_is_no_limit_but_an_error() {
    let quota = Quota {
        admission: "{".into(),
        ..Quota::default()
    };
    assert!(Limits::read(&quota, &Switches::default()).is_err());
}

/// A quota of CPU and memory whose stored version may still be `before`.
fn changing(max: Value, admission: &str, before: Option<Quota>) -> Quota {
    Quota {
        namespace: "q".into(),
        name: "lab".into(),
        max: serde_json::from_value(max).unwrap(),
        admission: admission.into(),
        before: before.map(Arc::new),
        ..Quota::default()
    }
}

#[rstest]
#[case::raised(changing(json!({"cpu": 9}), "", Some(changing(json!({"cpu": 4}), "", None))), "cpu=4 max")]
#[case::lowered(changing(json!({"cpu": 4}), "", Some(changing(json!({"cpu": 9}), "", None))), "cpu=4 max")]
#[case::named_no_more(changing(json!({"cpu": 4}), "", Some(changing(json!({"cpu": 4, "x": 1}), "", None))), "cpu=4 max,x=1 max")]
#[case::named_anew(changing(json!({"cpu": 4, "x": 1}), "", Some(changing(json!({"cpu": 4}), "", None))), "cpu=4 max,x=1 max")]
#[case::admission(
    changing(json!({"cpu": 9}), "", Some(changing(json!({"cpu": 9}), r#"{"cpu": 2}"#, None))),
    "cpu=2 admission"
)]
#[case::admission_above(
    changing(json!({"cpu": 9}), r#"{"cpu": 99}"#, Some(changing(json!({"cpu": 9}), "", None))),
    "cpu=9 max"
)]
#[case::three(
    changing(json!({"cpu": 9}), "", Some(changing(json!({"cpu": 4}), "", Some(changing(json!({"cpu": 3}), "", None))))),
    "cpu=3 max"
)]
fn every_possibly_stored_version_limits(#[case] quota: Quota, #[case] expected: &str) {
    let limits = Limits::read(&quota, &Switches::default()).unwrap();
    let each = limits.amounts.iter().map(|(name, amount)| {
        let source = limits.source(name).name();
        format!("{name}={amount} {source}")
    });
    assert_eq!(each.collect::<Vec<_>>().join(","), expected);
    let asked: Amounts = serde_json::from_value(json!({"cpu": 3, "x": 2, "y": 1})).unwrap();
    let named: Vec<&str> = limits.amounts.iter().map(|(name, _)| name).collect();
    assert_eq!(cost(&asked, &quota), asked.only(&named));
}

#[test]
fn an_annotation_that_may_still_be_in_force_must_be_readable() {
    let quota = changing(
        json!({"cpu": 1}),
        "",
        Some(changing(json!({"cpu": 1}), "{", None)),
    );
    assert!(Limits::read(&quota, &Switches::default()).is_err());
}
