//! Tests of values derived from a pod: Koordinator's cases by their numbers, and comparison with a naive computation.

use std::collections::BTreeMap;

use proptest::{collection::vec, option, prelude::*, sample::select};
use rstest::rstest;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::*;
use crate::{names, qos};

fn pod(spec: &Value) -> Pod {
    serde_json::from_value(json!({"spec": spec})).unwrap()
}

/// Requests of the spec as `name=amount,…`.
fn requested(spec: &Value) -> String {
    pod(spec).requests(RequestBasis::Spec).to_string()
}

fn container(requests: &Value) -> Value {
    json!({"name": "c", "resources": {"requests": requests}})
}

fn sidecar(requests: &Value) -> Value {
    json!({"name": "s", "restartPolicy": "Always", "resources": {"requests": requests}})
}

#[rstest]
#[case::p87(json!({"containers": [container(&json!({"cpu": "2"}))]}), "cpu=2")]
#[case::p90(json!({"containers": [container(&json!({"cpu": "1500m"}))]}), "cpu=1500m")]
#[case::p91(json!({"containers": [container(&json!({"cpu": "500m"})), container(&json!({"cpu": 0.5}))]}), "cpu=1")]
#[case::p92(json!({"containers": [container(&json!({"cpu": "1"}))], "overhead": {"cpu": "250m"}}), "cpu=1250m")]
#[case::p93(
    json!({"containers": [container(&json!({"cpu": "1"}))], "initContainers": [container(&json!({"cpu": "1500m"}))]}),
    "cpu=1500m")]
#[case::p94(
    json!({"containers": [container(&json!({"cpu": "1"}))], "initContainers": [sidecar(&json!({"cpu": "1"}))]}), "cpu=2")]
#[case::p98(
    json!({"containers": [container(&json!({"kubernetes.io/batch-cpu": 1000}))]}), "kubernetes.io/batch-cpu=1k")]
#[case::p99_zeros(
    json!({"containers": [container(&json!({"kubernetes.io/batch-cpu": 0, "kubernetes.io/batch-memory": "0"}))]}),
    "kubernetes.io/batch-cpu=0,kubernetes.io/batch-memory=0")]
#[case::p99_limits(
    json!({"containers": [{"name": "c", "resources": {"limits": {"kubernetes.io/batch-cpu": "1k"}}}]}), "")]
#[case::p100(
    json!({"containers": [{"name": "c"}], "overhead": {"kubernetes.io/batch-cpu": "250"}}), "kubernetes.io/batch-cpu=250")]
#[case::p155(json!({"containers": [{"name": "c"}], "resources": {"requests": {"cpu": "2"}}}), "cpu=2")]
#[case::p156(json!({"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]}), "")]
#[case::names_of_the_pod_that_count(
    json!({
        "containers": [container(&json!({"cpu": "1", "hugepages-2Mi": "2Mi", "a.b/gpu": "1"}))],
        "resources": {"requests": {"memory": "1Gi", "hugepages-2Mi": "4Mi", "a.b/gpu": "9", "ephemeral-storage": "1Gi"}},
    }),
    "a.b/gpu=1,cpu=1,hugepages-2Mi=4Mi,memory=1Gi")]
#[case::the_request_of_the_pod_replaces_a_larger_one(
    json!({"containers": [container(&json!({"cpu": "4"}))], "resources": {"requests": {"cpu": "1"}}}), "cpu=1")]
#[case::each_resource_has_its_own_maximum(
    json!({
        "containers": [container(&json!({"cpu": "1", "memory": "3Gi"}))],
        "initContainers": [sidecar(&json!({"cpu": "1"})), container(&json!({"memory": "4Gi"})), container(&json!({"a.b/gpu": "1"}))],
    }),
    "a.b/gpu=1,cpu=2,memory=4Gi")]
fn requests_are_those_of_the_spec(#[case] spec: Value, #[case] expected: &str) {
    assert_eq!(requested(&spec), expected);
}

#[test]
fn the_status_counts_for_actual_requests_alone() {
    let pod: Pod = serde_json::from_value(json!({
        "spec": {"containers": [container(&json!({"cpu": "1", "a.b/gpu": "1"}))]},
        "status": {"containerStatuses": [
            {"name": "c", "resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "2", "a.b/gpu": "2"}},
        ]},
    }))
    .unwrap();
    let text = |amounts: Amounts| amounts.to_string();
    assert_eq!(text(pod.requests(RequestBasis::Spec)), "a.b/gpu=1,cpu=1");
    assert_eq!(text(pod.requests(RequestBasis::Actual)), "a.b/gpu=2,cpu=3");
    assert_eq!(text(pod.allocated(SpecSource::Counts)), "a.b/gpu=2,cpu=2");
}

/// A list of allocated amounts without CPU and memory covers only its other resources.
#[test]
fn a_list_without_cpu_and_memory_is_not_complete() {
    let pod: Pod = serde_json::from_value(json!({
        "spec": {"containers": [container(&json!({"cpu": "1", "a.b/gpu": "1"}))], "overhead": {"cpu": "100m"}},
        "status": {"containerStatuses": [{"name": "c", "allocatedResources": {"a.b/gpu": "2"}}]},
    }))
    .unwrap();
    let text = |source| pod.allocated(source).to_string();
    assert_eq!(text(SpecSource::Counts), "a.b/gpu=2,cpu=1100m");
    assert_eq!(text(SpecSource::Ignored), "a.b/gpu=2,cpu=100m");
}

fn asks(requests: &Value, limits: &Value) -> Value {
    json!({"name": "c", "resources": {"requests": requests, "limits": limits}})
}

#[rstest]
#[case::p49(json!({"containers": [container(&json!({"cpu": "1"}))]}), "Burstable", Some(qos::Class::Ls))]
#[case::p50(json!({"containers": [container(&json!({"cpu": "0"}))]}), "BestEffort", Some(qos::Class::Be))]
#[case::nothing(json!({"containers": [{"name": "c"}]}), "BestEffort", Some(qos::Class::Be))]
#[case::other_resources(
    json!({"containers": [container(&json!({"a.b/gpu": "1", "memory": "-1"}))]}), "BestEffort", Some(qos::Class::Be))]
#[case::guaranteed(
    json!({"containers": [asks(&json!({"cpu": "1", "memory": "1Gi"}), &json!({"cpu": "1000m", "memory": "1024Mi", "a.b/gpu": "1"}))]}),
    "Guaranteed", Some(qos::Class::Lsr))]
#[case::sums_are_compared(
    json!({"containers": [
        asks(&json!({"cpu": "1", "memory": "1Gi"}), &json!({"cpu": "2", "memory": "1Gi"})),
        asks(&json!({"cpu": "2", "memory": "1Gi"}), &json!({"cpu": "1", "memory": "1Gi"})),
    ]}),
    "Guaranteed", Some(qos::Class::Lsr))]
#[case::memory_is_not_limited(
    json!({"containers": [asks(&json!({"cpu": "1"}), &json!({"cpu": "1"}))]}), "Burstable", Some(qos::Class::Ls))]
#[case::limits_alone(
    json!({"containers": [asks(&json!({}), &json!({"cpu": "1", "memory": "1Gi"}))]}), "Burstable", Some(qos::Class::Ls))]
#[case::one_container_is_not_limited(
    json!({"containers": [asks(&json!({"cpu": "1", "memory": "1"}), &json!({"cpu": "1", "memory": "1"})), {"name": "d"}]}),
    "Burstable", Some(qos::Class::Ls))]
#[case::init_containers_are_inspected(
    json!({
        "containers": [asks(&json!({"cpu": "1", "memory": "1"}), &json!({"cpu": "1", "memory": "1"}))],
        "initContainers": [{"name": "i"}],
    }),
    "Burstable", Some(qos::Class::Ls))]
#[case::empty_resources_of_the_pod_are_inspected_alone(
    json!({"containers": [container(&json!({"cpu": "1"}))], "resources": {}}), "BestEffort", Some(qos::Class::Be))]
#[case::resources_of_the_pod(
    json!({"containers": [{"name": "c"}], "resources": {"requests": {"cpu": "1", "memory": "1"}, "limits": {"cpu": "1", "memory": "1"}}}),
    "Guaranteed", Some(qos::Class::Lsr))]
#[case::resources_of_the_pod_without_limits(
    json!({"containers": [], "resources": {"requests": {"cpu": "1"}, "limits": null}}), "Burstable", Some(qos::Class::Ls))]
fn kubernetes_classes_a_pod(
    #[case] spec: Value,
    #[case] expected: &str,
    #[case] koordinators: Option<qos::Class>,
) {
    let pod = pod(&spec);
    assert_eq!(pod.kubernetes_qos_name(), expected);
    assert_eq!(KubernetesQos::computed(&pod.spec).to_string(), expected);
    let class = qos::Class::with_default(None, pod.kubernetes_qos_name());
    assert_eq!(class, koordinators);
}

#[rstest]
#[case::p151("Guaranteed", "Guaranteed")]
#[case::no_class("guaranteed", "guaranteed")]
#[case::empty("", "BestEffort")]
fn the_class_in_the_status_takes_precedence(#[case] written: &str, #[case] expected: &str) {
    let pod: Pod = serde_json::from_value(json!({
        "spec": {"containers": [container(&json!({"cpu": "0"}))]}, "status": {"qosClass": written},
    }))
    .unwrap();
    assert_eq!(pod.kubernetes_qos_name(), expected);
    let class = KubernetesQos::from_name(expected);
    assert_eq!(class.is_some(), expected != "guaranteed");
}

#[test]
fn null_is_absent_and_unknown_members_are_ignored() {
    let nothing: Pod = serde_json::from_value(json!({})).unwrap();
    let nulls = json!({
        "metadata": {"name": null, "labels": null, "annotations": null, "later": 1},
        "spec": {
            "containers": null, "initContainers": null, "overhead": null, "resources": null, "priority": null,
            "nodeName": null, "later": {},
        },
        "status": {
            "phase": null, "qosClass": null, "conditions": null, "containerStatuses": null,
            "initContainerStatuses": null, "resources": null, "allocatedResources": null,
        },
        "apiVersion": "v1",
    });
    assert_eq!(serde_json::from_value::<Pod>(nulls.clone()).unwrap(), nothing);
    let members = json!({"metadata": null, "spec": null, "status": null});
    assert_eq!(serde_json::from_value::<Pod>(members).unwrap(), nothing);
    let slim: Pod<CpuAndMemory, IgnoredAny> = serde_json::from_value(nulls).unwrap();
    assert_eq!(slim, Pod::default());
    let inside = json!({
        "containers": [{"name": null, "restartPolicy": null, "resources": null}, {"resources": {"requests": null, "limits": null}}],
        "resources": {"requests": {"cpu": null}},
    });
    assert_eq!(requested(&inside), "cpu=0");
}

#[test]
fn an_invalid_amount_is_rejected_by_name() {
    let spec = json!({"spec": {"containers": [container(&json!({"cpu": "many"}))]}});
    let error = serde_json::from_value::<Pod>(spec).unwrap_err().to_string();
    assert_eq!(error, "cpu: \"many\" is not a quantity");
}

#[test]
fn all_read_fields_of_a_pod_are_present() {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {
            "name": "p", "namespace": "ns", "uid": "u", "deletionTimestamp": "2026-11-20T10:00:00Z",
            "labels": {names::QOS_CLASS: "BE"}, "annotations": {"a": "b"},
        },
        "spec": {"nodeName": "n", "priority": -5, "priorityClassName": "low"},
        "status": {"phase": "Running"},
    }))
    .unwrap();
    let PodMetadata {
        name,
        namespace,
        uid,
        labels,
        annotations,
        deletion_timestamp,
    } = pod.metadata;
    let texts = [name, namespace, uid, deletion_timestamp].map(Option::unwrap);
    assert_eq!(texts, ["p", "ns", "u", "2026-11-20T10:00:00Z"]);
    assert_eq!((&*labels[names::QOS_CLASS], &*annotations["a"]), ("BE", "b"));
    assert_eq!(
        (pod.spec.node_name.as_deref(), pod.spec.priority),
        (Some("n"), Some(-5))
    );
    assert_eq!(pod.status.phase.as_deref(), Some("Running"));
}

#[test]
fn large_pods_are_summed_in_linear_time() {
    let requests = |index: usize, amount: u32| json!({"requests": {format!("a.b/{index}"): amount}});
    let init = (0..20_000).map(|index| {
        let policy = if index % 2 == 0 { "Always" } else { "Never" };
        json!({"name": format!("c{index}"), "restartPolicy": policy, "resources": requests(index, 1)})
    });
    let statuses =
        (0..20_000).map(|index| json!({"name": format!("c{index}"), "resources": requests(index, 2)}));
    let pod: Pod = serde_json::from_value(json!({
        "spec": {"initContainers": init.collect::<Value>()}, "status": {"initContainerStatuses": statuses.collect::<Value>()},
    }))
    .unwrap();
    let amounts = |list: Amounts| {
        assert_eq!(list.iter().count(), 20_000);
        (0..4)
            .map(|index| list.get(&format!("a.b/{index}")).unwrap().to_string())
            .collect::<String>()
    };
    assert_eq!(amounts(pod.requests(RequestBasis::Spec)), "1111");
    assert_eq!(amounts(pod.requests(RequestBasis::Actual)), "2121");
    assert_eq!(amounts(pod.allocated(SpecSource::Counts)), "2121");
}

#[rstest]
#[case::few(0)]
#[case::many(40)]
fn of_two_states_of_one_name_the_first_counts(#[case] others: u32) {
    let state = |name: &str, cpu: &str| json!({"name": name, "resources": {"requests": {"cpu": cpu}}});
    let others = (0..others).map(|index| state(&format!("a{index}"), "9"));
    let states: Value = others.chain([state("c", "2"), state("c", "3")]).collect();
    let pod: Pod = serde_json::from_value(json!({
        "spec": {"containers": [container(&json!({"cpu": "1"}))]}, "status": {"containerStatuses": states},
    }))
    .unwrap();
    assert_eq!(pod.requests(RequestBasis::Actual).to_string(), "cpu=2");
    assert_eq!(pod.allocated(SpecSource::Ignored).to_string(), "cpu=2");
}

const RESOURCES: [&str; 4] = ["cpu", "memory", "hugepages-2Mi", "a.b/gpu"];

fn any_list(least: i64) -> impl Strategy<Value = BTreeMap<&'static str, i64>> {
    proptest::collection::btree_map(select(RESOURCES.to_vec()), least..5, 0..4)
}

/// A list in milli-cores, and thousands of other units: whole numbers for either kind of list.
fn written(list: &BTreeMap<&str, i64>) -> Value {
    let amount = |name: &str, amount: i64| match name {
        "cpu" => format!("{amount}m"),
        _ => format!("{amount}k"),
    };
    let list = list
        .iter()
        .map(|(name, number)| ((*name).to_owned(), amount(name, *number).into()));
    Value::Object(list.collect())
}

fn any_container(name: &'static str, least: i64) -> impl Strategy<Value = Value> {
    (any_list(least), option::of(select(vec!["Always", "Never"]))).prop_map(move |(requests, policy)| {
        json!({"name": name, "restartPolicy": policy, "resources": {"requests": written(&requests)}})
    })
}

fn any_spec(least: i64) -> impl Strategy<Value = Value> {
    let containers = (any_container("a", least), any_container("b", least));
    let init = vec(any_container("i", least), 0..5);
    (containers, init, any_list(least), option::of(any_list(least))).prop_map(
        |((a, b), mut init, overhead, whole)| {
            for (index, container) in init.iter_mut().enumerate() {
                container["name"] = format!("i{index}").into();
            }
            let whole = whole.map(|whole| json!({"requests": written(&whole)}));
            json!({"containers": [a, b], "initContainers": init, "overhead": written(&overhead), "resources": whole})
        },
    )
}

fn any_state(name: &'static str) -> impl Strategy<Value = Value> {
    (option::of(any_list(0)), any_list(0)).prop_map(move |(actual, allocated)| {
        let actual = actual.map(|actual| json!({"requests": written(&actual)}));
        json!({"name": name, "resources": actual, "allocatedResources": written(&allocated)})
    })
}

fn any_status() -> impl Strategy<Value = Value> {
    let states = (
        option::of(any_state("a")),
        option::of(any_state("b")),
        option::of(any_state("i0")),
    );
    let whole = option::of(any_state("p"));
    let reason = option::of(select(vec!["Infeasible", "Deferred"]));
    (states, whole, reason).prop_map(|((a, b, init), whole, reason)| {
        let condition = reason.map(|reason| json!({"type": "PodResizePending", "reason": reason}));
        let whole = whole.unwrap_or_default();
        json!({
            "containerStatuses": a.into_iter().chain(b).collect::<Vec<_>>(),
            "initContainerStatuses": init.into_iter().collect::<Vec<_>>(),
            "conditions": condition.into_iter().collect::<Vec<_>>(),
            "resources": whole.get("resources"), "allocatedResources": whole.get("allocatedResources"),
        })
    })
}

/// Requests of a spec, with complete lists of all sidecars so far at each step.
fn plain_requests(spec: &PodSpec) -> Amounts {
    let mut main = Amounts::default();
    for container in &spec.containers {
        main = main.plus(&container.resources.requests);
    }
    let (mut sidecars, mut at_start) = (Amounts::default(), Amounts::default());
    for container in &spec.init_containers {
        let requests = &container.resources.requests;
        if container.is_sidecar() {
            main = main.plus(requests);
            sidecars = sidecars.plus(requests);
            at_start = at_start.max(&sidecars);
        } else {
            at_start = at_start.max(&requests.plus(&sidecars));
        }
    }
    let mut requests = main.max(&at_start);
    for (name, amount) in spec
        .resources
        .iter()
        .flat_map(|resources| resources.requests.iter())
    {
        if name != "a.b/gpu" {
            requests.set(name, *amount);
        }
    }
    requests.plus(&spec.overhead)
}

/// CPU in milli-cores and memory in bytes, 0 if absent.
fn cpu_and_memory(amounts: &Amounts) -> (u64, u64) {
    let amount = |name| {
        amounts
            .get(name)
            .copied()
            .unwrap_or(crate::quantity::Quantity::ZERO)
    };
    (amount("cpu").milli().unwrap(), amount("memory").units().unwrap())
}

proptest! {
    #[test]
    fn requests_equal_a_naive_computation(spec in any_spec(-4)) {
        let pod = pod(&spec);
        let requests = pod.requests(RequestBasis::Spec);
        let plain = plain_requests(&pod.spec);
        prop_assert_eq!(&requests, &plain);
        prop_assert_eq!(requests.to_string(), plain.to_string());
    }

    #[test]
    fn both_kinds_of_lists_have_the_same_sums(spec in any_spec(0), status in any_status()) {
        let written = json!({"spec": spec, "status": status});
        let full: Pod = serde_json::from_value(written.clone()).unwrap();
        let slim: Pod<CpuAndMemory, IgnoredAny> = serde_json::from_value(written).unwrap();
        for basis in [RequestBasis::Spec, RequestBasis::Actual] {
            let sums = slim.requests(basis).amounts();
            prop_assert_eq!((sums.cpu, sums.memory), cpu_and_memory(&full.requests(basis)));
        }
        for source in [SpecSource::Counts, SpecSource::Ignored] {
            let sums = slim.allocated(source).amounts();
            prop_assert_eq!((sums.cpu, sums.memory), cpu_and_memory(&full.allocated(source)));
        }
    }
}
