//! Computes the requests of a pod as the Kubernetes scheduler counts them (`PodRequests`).

use headroom_domain::resource::{PerResource, Resource};

use super::object::{Container, ContainerStatus, List, Resources, WatchedPod};

/// The pod's requests, in milli-cores and bytes.
pub fn requests(pod: &WatchedPod) -> PerResource<u64> {
    PerResource::from_fn(|resource| {
        of_pod(resource, pod)
            .unwrap_or_else(|| of_containers(resource, pod))
            .saturating_add(pod.spec.overhead.amount(resource))
    })
}

/// The request of the pod as a whole; `None` if it has none of its own.
fn of_pod(resource: Resource, pod: &WatchedPod) -> Option<u64> {
    let wanted = &pod.spec.resources.requests;
    let spec = (*wanted.0.get(resource))?;
    let Some(Resources { requests: actual }) = &pod.status.resources else {
        return Some(spec);
    };
    Some(in_effect(
        resource,
        pod,
        wanted,
        actual,
        &pod.status.allocated_resources,
    ))
}

/// The larger of what the containers need together and what starting them needs.
fn of_containers(resource: Resource, pod: &WatchedPod) -> u64 {
    let mut together: u64 = 0;
    for container in &pod.spec.containers {
        together = together.saturating_add(of_container(resource, pod, container));
    }
    let mut sidecars: u64 = 0;
    let mut at_start: u64 = 0;
    for container in &pod.spec.init_containers {
        if container.is_sidecar() {
            let request = of_container(resource, pod, container);
            together = together.saturating_add(request);
            sidecars = sidecars.saturating_add(request);
            at_start = at_start.max(sidecars);
        } else {
            // It ends before the next begins and is never resized: its own request beside the sidecars so far.
            let request = container.resources.requests.amount(resource);
            at_start = at_start.max(sidecars.saturating_add(request));
        }
    }
    together.max(at_start)
}

/// The request of a container that may be resized in place.
fn of_container(resource: Resource, pod: &WatchedPod, container: &Container) -> u64 {
    let wanted = &container.resources.requests;
    let statuses = pod
        .status
        .container_statuses
        .iter()
        .chain(&pod.status.init_container_statuses);
    let Some(status) = statuses.into_iter().find(|status| status.name == container.name) else {
        return wanted.amount(resource);
    };
    let ContainerStatus {
        name: _,
        resources: Some(actual),
        allocated_resources: allocated,
    } = status
    else {
        return wanted.amount(resource);
    };
    in_effect(resource, pod, wanted, &actual.requests, allocated)
}

/// The largest of what is wanted, in force and set aside; what is wanted does not count once the node refused it.
fn in_effect(resource: Resource, pod: &WatchedPod, wanted: &List, actual: &List, allocated: &List) -> u64 {
    let granted = actual.amount(resource).max(allocated.amount(resource));
    if is_resize_infeasible(pod) {
        granted
    } else {
        granted.max(wanted.amount(resource))
    }
}

fn is_resize_infeasible(pod: &WatchedPod) -> bool {
    let pending = pod
        .status
        .conditions
        .iter()
        .find(|condition| condition.r#type == "PodResizePending");
    pending.is_some_and(|condition| condition.reason.as_deref() == Some("Infeasible"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn pod(spec: &Value, status: &Value) -> WatchedPod {
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec, "status": status})).unwrap()
    }

    fn cpu(spec: &Value, status: &Value) -> u64 {
        requests(&pod(spec, status)).cpu
    }

    fn asks(name: &str, cpu: &str) -> Value {
        json!({"name": name, "resources": {"requests": {"cpu": cpu, "memory": "1Gi", "nvidia.com/gpu": "1"}}})
    }

    fn sidecar(name: &str, cpu: &str) -> Value {
        let mut container = asks(name, cpu);
        container["restartPolicy"] = "Always".into();
        container
    }

    #[rstest]
    #[case::no_requests(json!({"containers": [{"name": "a"}]}), 0)]
    #[case::containers_add_up(json!({"containers": [asks("a", "1"), asks("b", "250m")]}), 1250)]
    #[case::largest_init_container_counts(
        json!({"containers": [asks("a", "1")], "initContainers": [asks("i", "3"), asks("j", "2")]}), 3000)]
    #[case::small_init_containers_do_not(
        json!({"containers": [asks("a", "1")], "initContainers": [asks("i", "500m")]}), 1000)]
    #[case::sidecars_add_to_the_containers(
        json!({"containers": [asks("a", "1")], "initContainers": [sidecar("s", "200m"), sidecar("t", "300m")]}), 1500)]
    #[case::init_container_beside_earlier_sidecars_only(
        json!({"containers": [asks("a", "1")], "initContainers": [sidecar("s", "200m"), asks("i", "2"), sidecar("t", "300m")]}), 2200)]
    #[case::sidecars_alone_may_be_the_most(
        json!({"initContainers": [sidecar("s", "2"), asks("i", "1")], "containers": []}), 3000)]
    #[case::overhead_comes_on_top(
        json!({"containers": [asks("a", "1")], "overhead": {"cpu": "250m", "memory": "120Mi"}}), 1250)]
    #[case::overhead_comes_on_top_of_init_containers(
        json!({"containers": [asks("a", "1")], "initContainers": [asks("i", "3")], "overhead": {"cpu": "250m"}}), 3250)]
    #[case::pod_level_request_wins(
        json!({"containers": [asks("a", "1"), asks("b", "1")], "resources": {"requests": {"cpu": "1500m"}}}), 1500)]
    #[case::pod_level_overhead_still_on_top(
        json!({"containers": [asks("a", "1")], "resources": {"requests": {"cpu": "2"}}, "overhead": {"cpu": "100m"}}), 2100)]
    #[case::pod_level_request_for_memory_leaves_cpu(
        json!({"containers": [asks("a", "1")], "resources": {"requests": {"memory": "2Gi"}}}), 1000)]
    #[case::a_quantity_that_is_none_counts_nothing(json!({"containers": [asks("a", "many")]}), 0)]
    fn requests_are_counted_as_the_scheduler_counts_them(#[case] spec: Value, #[case] expected: u64) {
        assert_eq!(cpu(&spec, &json!({})), expected);
    }

    fn state(actual: &Value, allocated: &str) -> Value {
        json!({"containerStatuses": [{"name": "a", "resources": actual, "allocatedResources": {"cpu": allocated}}]})
    }

    #[rstest]
    #[case::growing_counts_at_once("2", state(&json!({"requests": {"cpu": "1"}}), "1"), 2000)]
    #[case::shrinking_counts_when_done("1", state(&json!({"requests": {"cpu": "2"}}), "1"), 2000)]
    #[case::allocated_but_not_actual("1", state(&json!({"requests": {"cpu": "1"}}), "3"), 3000)]
    #[case::kubelet_without_resize("2", json!({"containerStatuses": [{"name": "a", "allocatedResources": {"cpu": "9"}}]}), 2000)]
    #[case::status_of_another_container("2", json!({"containerStatuses": [{"name": "b", "resources": {"requests": {"cpu": "9"}}}]}), 2000)]
    fn a_resize_in_place_counts_the_larger_side(
        #[case] wanted: &str,
        #[case] status: Value,
        #[case] expected: u64,
    ) {
        assert_eq!(
            cpu(&json!({"containers": [asks("a", wanted)]}), &status),
            expected
        );
    }

    #[rstest]
    #[case("Infeasible", 1000)]
    #[case("Deferred", 8000)]
    fn a_refused_resize_does_not_count(#[case] reason: &str, #[case] expected: u64) {
        let mut status = state(&json!({"requests": {"cpu": "1"}}), "1");
        status["conditions"] = json!([{"type": "PodResizePending", "status": "True", "reason": reason}]);
        assert_eq!(cpu(&json!({"containers": [asks("a", "8")]}), &status), expected);
    }

    #[test]
    fn a_sidecar_is_resized_and_an_init_container_is_not() {
        let grown = |name: &str| json!([{"name": name, "resources": {"requests": {"cpu": "4"}}}]);
        let spec = json!({"containers": [], "initContainers": [sidecar("s", "1"), asks("i", "1")]});
        assert_eq!(cpu(&spec, &json!({"initContainerStatuses": grown("s")})), 5000);
        assert_eq!(cpu(&spec, &json!({"initContainerStatuses": grown("i")})), 2000);
    }

    #[test]
    fn a_pod_level_resize_counts_the_larger_side() {
        let spec =
            json!({"containers": [asks("a", "1")], "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}});
        let status = json!({"resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "2500m"}});
        assert_eq!(cpu(&spec, &status), 3000);
        assert_eq!(requests(&pod(&spec, &status)).memory, 1 << 30);
    }

    #[test]
    fn fractions_of_a_byte_count_as_a_byte() {
        let spec = json!({"containers": [{"name": "a", "resources": {"requests": {"memory": "100m"}}}]});
        assert_eq!(requests(&pod(&spec, &json!({}))).memory, 1);
    }

    #[test]
    fn sums_saturate() {
        let huge = json!({"name": "a", "resources": {"requests": {"memory": "9223372036854775807"}}});
        let spec = json!({"containers": [huge, huge, huge], "overhead": {"memory": "1Ei"}});
        assert_eq!(requests(&pod(&spec, &json!({}))).memory, u64::MAX);
    }
}
