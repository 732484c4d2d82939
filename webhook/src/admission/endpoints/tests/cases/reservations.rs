//! Property tests of `/mutate-reservation` over random Reservations and profiles.

use super::*;

/// Profiles that are for every Reservation and can be applied to none.
fn broken_profiles() -> Vec<Value> {
    vec![
        json!({"labels": {"x": "1"}, "priorityClassName": "nobody-s"}),
        json!({"labels": {"x": "1"}, "patch": [1]}),
        json!({"labels": {"x": "1"}, "patch": "text"}),
        json!({"labels": {"x": "1"}, "patch": {"$patch": "bogus"}}),
        json!({"labels": {"x": "1"}, "patch": {"metadata": "text"}}),
        json!({"labels": {"x": "1"}, "patch": {"spec": {"allocateOnce": "yes"}}}),
        json!({"labels": {"x": "1"}, "patch": {"spec": {"owners": {}}}}),
        json!({"labels": {"x": "1"}, "patch": {"spec": {"template": {"spec": {"overhead": {"cpu": "x"}}}}}}),
        json!({"labels": {"x": "1"}, "patch": {"spec": {"template": {"spec": {"containers": [{"image": "i"}]}}}}}),
        json!({"annotations": {"x": "1"}, "probability": "50"}),
        json!({"annotations": {"x": "1"}, "koordinatorPriority": -1}),
        json!({"annotations": {"x": "1"}, "labelSuffixes": {"app": "-".repeat(63)}}),
        json!({"annotations": {"x": "1"}, "selector": {"matchExpressions": [{"key": "a", "operator": "Bad"}]}}),
        json!({"annotations": []}),
        json!("text"),
    ]
}

/// A profile that can be applied.
fn profile() -> impl Strategy<Value = Value> {
    let texts = || prop::collection::btree_map("app|[a-c]", "[a-c]{1,3}", 0..3);
    let patch = prop::sample::select(vec![
        json!({}),
        json!({"metadata": {"labels": {"app": null, "p": "1"}}}),
        json!({"metadata": {"name": "other", "annotations": {"q": "1"}}}),
        json!({"spec": {"template": {"metadata": {"labels": {"p": "1"}}}}}),
        json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": 2}}}]}}}}),
        json!({"spec": {"template": {"spec": {"containers": [{"name": "e"}]}}}}),
        json!({"spec": {"owners": [{"object": {"name": "z"}}], "unschedulable": true, "ttl": null}}),
    ]);
    (texts(), texts(), texts(), any::<bool>(), patch).prop_map(
        |(labels, mapping, annotations, has_class, patch)| {
            let mut profile = json!({
                "labels": labels, "labelKeysMapping": mapping, "annotations": annotations, "patch": patch,
                "qosClass": "LS", "schedulerName": "s",
            });
            if has_class {
                profile["priorityClassName"] = "known".into();
            }
            profile
        },
    )
}

/// A Reservation that can be read.
fn reservation() -> impl Strategy<Value = Value> {
    let container = ("[c-e]", any::<bool>()).prop_map(|(name, has_resources)| {
        let mut container = json!({"name": name, "x-container": {"b": 1, "a": [null]}});
        if has_resources {
            container["resources"] = json!({"requests": {"cpu": 1}, "x-resources": 1.0});
        }
        container
    });
    let template = prop_oneof![
        1 => Just(Value::Null),
        1 => Just(json!({})),
        1 => Just(json!({"metadata": null, "spec": null})),
        5 => prop::collection::btree_map("[c-e]", container, 0..3).prop_map(|containers| {
            let named = containers.into_iter().map(|(name, mut container)| {
                container["name"] = name.into();
                container
            });
            json!({"x-template": 1e3, "spec": {"containers": named.collect::<Vec<_>>()}})
        }),
    ];
    let metadata = prop::sample::select(vec![
        json!({"name": "r"}),
        json!({"name": "r", "labels": null, "annotations": {}}),
        json!({"name": "r", "labels": {"app": "a"}, "x-metadata": [{}]}),
    ]);
    (template, metadata).prop_map(|(template, metadata)| {
        json!({
            "apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation", "metadata": metadata,
            "spec": {"template": template, "owners": [{}], "ttl": "24h", "x-spec": {}},
        })
    })
}

/// Any JSON, of names and values that mean something in a Reservation.
fn anything() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec![
        "metadata",
        "labels",
        "annotations",
        "spec",
        "template",
        "containers",
        "name",
        "resources",
        "requests",
        "owners",
        "ttl",
        "app",
        "status",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-c\u{e9}\"]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name.clone(), inner, 0..6).prop_map(|members| json!(members)),
        ]
    })
}

/// A section with one row: a new Reservation in a world with these profiles.
fn section(profiles: &[(&str, &Value)]) -> CaseSection {
    let profiles: serde_json::Map<String, Value> = profiles
        .iter()
        .map(|(name, spec)| ((*name).to_owned(), json!({"spec": spec})))
        .collect();
    let world = json!({"profiles": profiles, "priority_classes": {"known": {"value": 9_500}}});
    let row = json!({"id": "0", "title": "random", "world": world, "expect": {}});
    let section = json!({
        "about": "random Reservations", "endpoint": "mutate-reservation", "cases": "0",
        "resource": "reservations", "rows": [row],
    });
    serde_json::from_value(section).unwrap()
}

fn answer(profiles: &[(&str, &Value)], reservation: &Value, compat: Compat) -> CaseAnswer {
    let section = section(profiles);
    let run = CaseRun {
        section: &section,
        row: &section.rows[0],
        stored: Value::Null,
        switches: switches(compat, ""),
        is_default: false,
    };
    run.answer(reservation)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn whatever_is_in_a_reservation_it_is_answered(
        metadata in anything(), spec in anything(), first in profile(), second in profile(), is_upstream in any::<bool>(),
    ) {
        let compat = if is_upstream { Compat::Upstream } else { Compat::Headroom };
        let reservation = json!({
            "apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation", "metadata": metadata, "spec": spec,
        });
        let answer = answer(&[("a", &first), ("z", &second)], &reservation, compat);
        match answer.answer {
            ExpectedAnswer::Failed { message, .. } => prop_assert!(
                message.contains("cannot be read") || is_upstream && message.contains("cannot be applied"),
                "{}", message
            ),
            ExpectedAnswer::Denied { code, .. } => prop_assert_eq!(code, 400),
            ExpectedAnswer::Unchanged | ExpectedAnswer::Patched(_) => {}
        }
    }

    #[test]
    fn a_profile_that_fails_leaves_one_warning_and_nothing_else(
        reservation in reservation(), first in profile(), last in profile(),
        broken in prop::sample::select(broken_profiles()),
    ) {
        // Some of them fail on this label and this container alone, which the first profile may not take away.
        let (mut reservation, mut first) = (reservation, first);
        reservation["metadata"]["labels"] = json!({"app": "a"});
        reservation["spec"]["template"] = json!({"spec": {"containers": [{"name": "c", "image": "i"}]}});
        first["patch"] = json!({});
        let with = answer(
            &[("a", &first), ("m", &broken), ("z", &last)], &reservation, Compat::Headroom,
        );
        let without = answer(&[("a", &first), ("z", &last)], &reservation, Compat::Headroom);
        prop_assert_eq!(&with.answer, &without.answer);
        prop_assert_eq!(
            serde_json::to_string(&with.patch).unwrap(), serde_json::to_string(&without.patch).unwrap()
        );
        let more: Vec<_> = with.warnings.iter().filter(|text| !without.warnings.contains(text)).collect();
        prop_assert_eq!(with.warnings.len(), without.warnings.len() + 1);
        prop_assert!(matches!(more.as_slice(), [text] if text.starts_with("colocation profile m was not applied: ")), "{:?}", more);
    }

    #[test]
    fn a_patch_writes_what_profiles_change_and_touches_nothing_that_nobody_knows(
        reservation in reservation(), first in profile(), last in profile(),
    ) {
        let profiles = [("a", &first), ("z", &last)];
        let answer = answer(&profiles, &reservation, Compat::Headroom);
        let made = patched(&reservation, &answer.patch);
        prop_assert_eq!(touched(&reservation, &answer.patch), Vec::<String>::new());
        for kept in ["/apiVersion", "/kind", "/metadata/name", "/metadata/x-metadata", "/status", "/spec/x-spec"] {
            prop_assert_eq!(made.pointer(kept), reservation.pointer(kept), "{}", kept);
        }
    }
}

#[test]
fn an_answer_names_sixteen_profiles_and_counts_the_others() {
    let broken = json!({"priorityClassName": "nobody-s"});
    let names: Vec<String> = (0..100).map(|number| format!("p-{number:03}")).collect();
    let profiles: Vec<(&str, &Value)> = names.iter().map(|name| (name.as_str(), &broken)).collect();
    let reservation = json!({
        "apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation", "metadata": {"name": "r"},
        "spec": {"template": {}},
    });
    for (count, told) in [(16, 16), (17, 17), (100, 17)] {
        let warnings = answer(&profiles[..count], &reservation, Compat::Headroom).warnings;
        assert_eq!(warnings.len(), told, "{count}");
        let named = warnings.iter().filter(|text| text.contains("was not applied"));
        assert_eq!(named.count(), 16, "{count}");
        let rest = warnings.get(16).map(String::as_str).unwrap_or_default();
        assert_eq!(
            rest.contains(&format!("{} more", count - 16)),
            count > 16,
            "{rest}"
        );
    }
}
