//! Property tests of `/validate-pod` over pods of which any part may be anything.

use proptest::{collection::btree_map, option, sample::select};
use tokio::sync::watch;

use super::*;
use crate::{admission::endpoints::validate_pod::MOST_ERRORS, store::sources};

/// Longest refusal, in bytes: this number of errors, of three steps, each at most 200 bytes.
const LONGEST: usize = 3 * MOST_ERRORS * 200;

/// Unexpected values at a place.
fn junk() -> impl Strategy<Value = Value> {
    let numbers = select(vec!["1e308", "-1", "1.5", "18446744073709551616", "0.1e-300"]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        numbers.prop_map(|text| serde_json::from_str(text).unwrap()),
        select(vec!["", "1e9999", "1e99999999999", "-", "LSR", "x", "\u{0}"]).prop_map(Value::from),
        Just(Value::from("y".repeat(100_000))),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map("[a-c]", inner, 0..4).prop_map(|members| json!(members)),
        ]
    })
}

/// That, or now and then anything else.
fn mostly(expected: impl Strategy<Value = Value> + 'static) -> BoxedStrategy<Value> {
    prop_oneof![20 => expected, 1 => junk()].boxed()
}

fn amounts() -> BoxedStrategy<Value> {
    let name = select(vec![
        "cpu",
        "memory",
        "kubernetes.io/batch-cpu",
        "koordinator.sh/gpu",
        "koordinator.sh/gpu.shared",
        "koordinator.sh/gpu-core",
        "koordinator.sh/gpu-memory",
        "koordinator.sh/gpu-memory-ratio",
        "huawei.com/npu-core",
    ]);
    let amount = select(vec![
        "0",
        "1",
        "150",
        "1500m",
        "1e400",
        "-1e400",
        "1u",
        "99999999999999999999Ei",
        "4Gi",
    ]);
    let amounts = btree_map(name, mostly(amount.prop_map(Value::from)), 0..5);
    mostly(amounts.prop_map(|amounts| json!(amounts)))
}

fn containers() -> BoxedStrategy<Value> {
    let policy = option::of(mostly(Just("Always".into())));
    let container = (amounts(), policy).prop_map(|(requests, policy)| {
        let mut container = json!({"name": "c", "resources": {"requests": requests}});
        if let Some(policy) = policy {
            container["restartPolicy"] = policy;
        }
        container
    });
    mostly(prop::collection::vec(mostly(container), 0..5).prop_map(Value::from))
}

fn labels() -> BoxedStrategy<Value> {
    let class = select(vec!["LSE", "LSR", "LS", "BE", "SYSTEM", "be"]);
    let band = select(vec!["koord-prod", "koord-mid", "koord-batch", "koord-free", ""]);
    let sub_priority = prop_oneof!["[0-9]{1,4}", Just("9".repeat(100_000))];
    let labels = (
        option::of(mostly(class.prop_map(Value::from))),
        option::of(mostly(band.prop_map(Value::from))),
        option::of(mostly(sub_priority.prop_map(Value::from))),
    );
    let labels = labels.prop_map(|(class, band, sub_priority)| {
        let labels = [
            ("koordinator.sh/qosClass", class),
            ("koordinator.sh/priority-class", band),
            ("koordinator.sh/priority", sub_priority),
        ];
        labels
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)))
            .collect()
    });
    mostly(labels)
}

fn pod() -> impl Strategy<Value = Value> {
    let annotations = option::of(mostly(Just(
        json!({"scheduling.koordinator.sh/reserve-pod": "x"}),
    )));
    let priority = mostly(select(vec![0, 5500, 7500, 9500, -1]).prop_map(Value::from));
    let spec = (
        containers(),
        containers(),
        amounts(),
        option::of(amounts()),
        priority,
    );
    let spec = spec.prop_map(|(containers, init_containers, overhead, requests, priority)| {
        json!({
            "containers": containers, "initContainers": init_containers, "overhead": overhead,
            "resources": {"requests": requests}, "priority": priority,
        })
    });
    let metadata = (labels(), annotations).prop_map(|(labels, annotations)| {
        json!({"name": "p", "namespace": "ns", "labels": labels, "annotations": annotations})
    });
    (mostly(metadata), mostly(spec))
        .prop_map(|(metadata, spec)| json!({"kind": "Pod", "metadata": metadata, "spec": spec}))
}

/// A section with one row, of pods that come or change, with every step on.
fn section(operation: &str) -> CaseSection {
    let rules = r#"[{"name": "r", "requiredLabels": ["a", "b"]}]"#;
    let row = json!({
        "id": "0", "title": "random", "operation": operation, "namespace": "ns", "expect": {},
        "gates": "ValidatePodDeviceResource=true,EnablePodEnhancedValidator=true",
        "world": {"label_rules": [{"enable": "true", "rules": rules}]},
    });
    let section = json!({
        "about": "random pods", "endpoint": "validate-pod", "cases": "0", "resource": "pods", "rows": [row],
    });
    serde_json::from_value(section).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_pod_has_an_answer_of_bounded_length(
        pod in pod(),
        stored in pod(),
        is_upstream in any::<bool>(),
        names_containers in any::<bool>(),
        operation in select(vec!["CREATE", "UPDATE"]),
    ) {
        let section = section(operation);
        let compat = if is_upstream { Compat::Upstream } else { Compat::Headroom };
        let run = CaseRun {
            section: &section,
            row: &section.rows[0],
            stored,
            switches: switches(compat, &format!("DeviceNamesContainers={names_containers}")),
            is_default: false,
        };
        match run.answer(&pod).answer {
            ExpectedAnswer::Unchanged => {}
            ExpectedAnswer::Denied { code, message, .. } => {
                prop_assert_eq!(code, 400);
                prop_assert!(message.len() <= LONGEST, "{} bytes", message.len());
            }
            ExpectedAnswer::Failed { status, message } => {
                prop_assert_eq!(status, 500);
                prop_assert!(message.contains(" cannot be read: ") && message.len() < 1_000, "{}", message);
            }
            ExpectedAnswer::Patched(_) => prop_assert!(false, "nothing is patched"),
        }
    }

    #[test]
    fn a_pod_that_stays_as_it_is_may_stay(pod in pod()) {
        let section = section("UPDATE");
        let run = CaseRun {
            section: &section,
            row: &section.rows[0],
            stored: pod.clone(),
            switches: switches(Compat::Headroom, ""),
            is_default: false,
        };
        let answer = run.answer(&pod).answer;
        prop_assert!(matches!(answer, ExpectedAnswer::Unchanged | ExpectedAnswer::Failed { .. }), "{:?}", answer);
    }
}

#[test]
fn sources_that_are_not_known_fail_the_call_while_a_step_needs_them() {
    let object = json!({"kind": "Pod", "metadata": {"name": "p"}, "spec": {}});
    let review = ReviewBuilder::create("pods", &object).build();
    let quotas = Some(&sources::QUOTAS);
    for (known, list, status) in [
        (quotas, "", 200),
        (None, "", 503),
        (quotas, "EnablePodEnhancedValidator=true", 503),
    ] {
        let features = Features::with_gates(GateSet::parse(gates(), list).unwrap());
        let stores = Stores::default();
        if let Some(source) = known {
            stores.known.record(source, watch::channel(true).1);
        }
        let router = Router::new(Options {
            features: features.shared(),
            stores,
            ..options(FixtureCluster::default())
        });
        let endpoint = router.endpoint("/validate-pod").unwrap();
        let deadline = Deadline::after(Instant::now(), Duration::from_secs(60));
        let answer = router.answer(endpoint, review.as_bytes(), deadline);
        assert_eq!(answer.status.as_u16(), status, "{answer:?}");
    }
}

#[test]
fn a_thousand_faulty_containers_are_a_bounded_refusal() {
    let section = section("CREATE");
    let run = CaseRun {
        section: &section,
        row: &section.rows[0],
        stored: Value::Null,
        switches: switches(Compat::Headroom, "DeviceNamesContainers=true"),
        is_default: false,
    };
    let container = |at: i32| json!({"resources": {"requests": {"koordinator.sh/gpu": 101 + at}}});
    let containers: Vec<Value> = (0..1000).map(container).collect();
    let labels = json!({"a": "", "b": ""});
    let pod = json!({"kind": "Pod", "metadata": {"labels": labels}, "spec": {"containers": containers}});
    let CaseAnswer { answer, warnings, .. } = run.answer(&pod);
    let ExpectedAnswer::Denied { message, .. } = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(message.matches("must be percentage of 100").count(), MOST_ERRORS);
    assert!(message.len() < LONGEST, "{}", message.len());
    assert_eq!(warnings, ["958 more errors are not shown"]);
}
