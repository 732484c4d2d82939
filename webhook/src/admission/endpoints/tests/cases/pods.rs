//! Property tests of `/mutate-pod` over random pods.

use super::*;

/// Path that the endpoint writes besides containers.
const EXTENDED: &str = "/metadata/annotations/node.koordinator.sh~1extended-resource-spec";

/// Amounts of some resources, spelt in one of the ways that Kubernetes reads.
fn amounts() -> impl Strategy<Value = Value> {
    let resource = prop::sample::select(vec![
        "cpu",
        "memory",
        "foo/bar",
        "kubernetes.io/batch-cpu",
        "kubernetes.io/batch-memory",
        "koordinator.sh/gpu",
        "koordinator.sh/gpu-core",
        "koordinator.sh/gpu-memory",
        "koordinator.sh/gpu-memory-ratio",
        "koordinator.sh/gpu.shared",
    ]);
    let amount = prop_oneof![
        (0..500_i64).prop_map(Value::from),
        (0..500_i64).prop_map(|amount| Value::from(amount.to_string())),
        prop::sample::select(vec!["1k", "1000m", "1.5", "100u", "4Gi", "1e2", "0", "-1"])
            .prop_map(Value::from),
    ];
    let members = prop::collection::btree_map(resource, amount, 0..5);
    prop_oneof![
        8 => members.prop_map(|members| json!(members)),
        1 => Just(Value::Null),
    ]
}

fn container() -> impl Strategy<Value = Value> {
    let resources = (prop::option::of(amounts()), prop::option::of(amounts()));
    ("[a-c]{0,2}", prop::option::of(resources)).prop_map(|(name, resources)| {
        let mut container =
            json!({"name": name, "x-container": {"b": 1, "a": [null]}, "env": [{"name": "A"}]});
        if let Some((requests, limits)) = resources {
            container["resources"] = json!({"x-resources": 1});
            let parts = [("requests", requests), ("limits", limits)];
            for (name, amounts) in parts.into_iter().filter_map(|(name, part)| Some((name, part?))) {
                container["resources"][name] = amounts;
            }
        }
        container
    })
}

fn pod() -> impl Strategy<Value = Value> {
    let annotation = prop::option::of(prop::sample::select(vec![
        "",
        "{}",
        "null",
        "[]",
        "{bad",
        r#"{"containers":{"a":{"limits":{"kubernetes.io/batch-cpu":"1k"}}}}"#,
    ]));
    let containers = || prop::collection::vec(container(), 0..4);
    (
        containers(),
        prop::option::of(containers()),
        any::<bool>(),
        annotation,
    )
        .prop_map(|(containers, init_containers, has_annotations, annotation)| {
            let mut pod = json!({
                "apiVersion": "v1", "kind": "Pod", "x-pod": [1], "metadata": {"name": "p", "namespace": "ns"},
                "spec": {"containers": containers, "x-spec": 1},
            });
            if let Some(containers) = init_containers {
                pod["spec"]["initContainers"] = containers.into();
            }
            if has_annotations {
                pod["metadata"]["annotations"] = json!({"x-note": "kept"});
            }
            if let Some(text) = annotation {
                pod["metadata"]["annotations"]["node.koordinator.sh/extended-resource-spec"] = text.into();
            }
            pod
        })
}

/// The pod without the fields that the endpoint may write: its annotation, and requests and limits of containers.
fn rest(pod: &Value) -> Value {
    let mut pod = pod.clone();
    let mut remove = |parent: &str, name: &str| {
        let members = pod.pointer_mut(parent).and_then(Value::as_object_mut);
        let Some(members) = members else { return };
        members.remove(name);
    };
    remove(
        "/metadata/annotations",
        "node.koordinator.sh/extended-resource-spec",
    );
    for list in ["containers", "initContainers"] {
        for at in 0..4 {
            for amounts in ["requests", "limits"] {
                remove(&format!("/spec/{list}/{at}/resources"), amounts);
            }
        }
    }
    // Empty objects left by a removal count as absent.
    let mut empty = |parent: &str, name: &str| {
        let members = pod.pointer_mut(parent).and_then(Value::as_object_mut);
        let Some(members) = members else { return };
        if members.get(name).is_some_and(|value| *value == json!({})) {
            members.remove(name);
        }
    };
    empty("/metadata", "annotations");
    for list in ["containers", "initContainers"] {
        (0..4).for_each(|at| empty(&format!("/spec/{list}/{at}"), "resources"));
    }
    pod
}

/// A section with one row, of new pods.
fn section() -> CaseSection {
    let row = json!({"id": "0", "title": "random", "expect": {}});
    let section = json!({
        "about": "random pods", "endpoint": "mutate-pod", "cases": "0", "resource": "pods", "rows": [row],
    });
    serde_json::from_value(section).unwrap()
}

/// True if the endpoint may write there.
fn is_own(path: &str) -> bool {
    let mut names = path.split('/').skip(1);
    let way = [
        names.next(),
        names.next(),
        names.next(),
        names.next(),
        names.next(),
    ];
    match way {
        [
            Some("spec"),
            Some("containers" | "initContainers"),
            Some(_),
            Some("resources"),
            part,
        ] => {
            matches!(part, None | Some("requests" | "limits"))
        }
        _ => path == "/metadata/annotations" || path == EXTENDED,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_completed_pod_is_complete_and_nothing_else_of_it_has_changed(pod in pod(), is_upstream in any::<bool>()) {
        let section = section();
        let compat = if is_upstream { Compat::Upstream } else { Compat::Headroom };
        let run = CaseRun {
            section: &section,
            row: &section.rows[0],
            stored: Value::Null,
            switches: switches(compat, ""),
            is_default: false,
        };
        let first = run.answer(&pod);
        let completed = patched(&pod, &first.patch);
        prop_assert!(matches!(first.answer, ExpectedAnswer::Unchanged | ExpectedAnswer::Patched(_)), "{:?}", first.answer);
        prop_assert_eq!(rest(&completed), rest(&pod));
        prop_assert_eq!(touched(&pod, &first.patch), Vec::<String>::new());
        let operations = serde_json::to_value(&first.patch).unwrap();
        for operation in operations.as_array().unwrap() {
            let path = operation["path"].as_str().unwrap();
            prop_assert!(is_own(path), "{}", path);
        }
        prop_assert_eq!(run.answer(&completed).answer, ExpectedAnswer::Unchanged);
    }
}

/// Only the step that applies profiles needs them.
#[test]
fn profiles_that_are_not_known_fail_new_pods_and_no_updates() {
    let router = Router::new(options(FixtureCluster::default()));
    let endpoint = router.endpoint("/mutate-pod").unwrap();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}});
    for (review, status) in [
        (ReviewBuilder::create("pods", &pod), 503),
        (ReviewBuilder::update("pods", &pod, &pod), 200),
    ] {
        let deadline = Deadline::after(Instant::now(), Duration::from_secs(60));
        let answer = router.answer(endpoint, review.build().as_bytes(), deadline);
        assert_eq!(answer.status.as_u16(), status, "{answer:?}");
    }
}

/// A pod near the limit of the parser must not shake off a profile that reads much of it.
#[test]
fn a_pod_that_is_too_large_for_a_profile_is_refused_and_profiles_that_are_too_large_are_skipped() {
    let answer = |profiles: Value, arguments: usize| {
        // A gate, because the rules alone have no limit.
        let row = json!({
            "id": "0", "title": "large", "expect": {}, "world": {"profiles": profiles},
            "gates": "PodMutatingWebhook=true",
        });
        let section = json!({
            "about": "large pods", "endpoint": "mutate-pod", "cases": "0", "resource": "pods", "rows": [row],
        });
        let section: CaseSection = serde_json::from_value(section).unwrap();
        let run = CaseRun {
            section: &section,
            row: &section.rows[0],
            stored: Value::Null,
            switches: switches(Compat::Headroom, ""),
            is_default: false,
        };
        let container = json!({"name": "c", "image": "i", "args": vec!["x"; arguments]});
        run.answer(&json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns"},
            "spec": {"containers": [container]},
        }))
    };
    let patch = |values: usize, name: &str| {
        let container = json!({"name": name, "image": "i", "args": vec!["x"; values]});
        json!({"spec": {"patch": {"spec": {"containers": [container]}}}})
    };
    let large = answer(json!({"must": patch(1, "c")}), 9_000);
    let ExpectedAnswer::Denied { code, message, .. } = large.answer else {
        panic!("{:?}", large.answer);
    };
    assert_eq!(code, 400);
    let start = "spec: Forbidden: colocation profile \"must\" cannot be applied: ";
    assert!(message.starts_with(start), "{message}");
    let fits = answer(json!({"must": patch(1, "c")}), 7_000);
    assert!(
        matches!(fits.answer, ExpectedAnswer::Patched(_)),
        "{:?}",
        fits.answer
    );

    let profiles = json!({"a": patch(3_000, "a"), "b": patch(3_000, "b"), "c": patch(3_000, "d")});
    let many = answer(profiles, 10);
    assert!(
        matches!(many.answer, ExpectedAnswer::Patched(_)),
        "{:?}",
        many.answer
    );
    let [warning] = many.warnings.as_slice() else {
        panic!("{:?}", many.warnings);
    };
    assert!(
        warning.starts_with("colocation profile c was not applied: "),
        "{warning}"
    );
}
