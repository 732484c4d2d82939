//! Computes the requests of a pod like Kubernetes' `PodRequests`.

use std::borrow::Cow;

use super::{
    ActualResources, ContainerStatus, PodSpec, PodStatus, ResourceList,
    containers::{Statuses, total},
};

/// Source of a container's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestBasis {
    /// The spec only; the status is not read.
    Spec,
    /// The largest of the spec, the amounts in force and the allocated amounts, as the scheduler counts a bound pod.
    /// The spec does not count after the node has rejected a resize as infeasible.
    Actual,
}

/// Requests of the pod including overhead: the larger of the sum of its app containers and the need of its init
/// phase, or the pod-level request for CPU, memory and huge pages. Limits are ignored.
///
/// Time is linear in the size of the pod. Negative amounts, which Kubernetes rejects only after admission, are summed
/// like others.
pub fn requests<R: ResourceList, L>(spec: &PodSpec<R, L>, status: &PodStatus<R>, basis: RequestBasis) -> R {
    let actual = match basis {
        RequestBasis::Spec => None,
        RequestBasis::Actual => Some(ActualState::new(status)),
    };
    let mut requests = total(spec, |container| {
        let wanted = &container.resources.requests;
        let in_effect = actual
            .as_ref()
            .and_then(|actual| actual.of_container(&container.name, wanted));
        in_effect.map_or(Cow::Borrowed(wanted), Cow::Owned)
    });
    if let Some(resources) = &spec.resources {
        let wanted = &resources.requests;
        let in_effect = actual.and_then(|actual| actual.of_pod(wanted));
        for (name, asked) in wanted.iter().filter(|(name, _)| R::is_of_pods(name)) {
            let amount = match &in_effect {
                Some(in_effect) => in_effect.get(name).unwrap_or(R::ZERO),
                None => asked,
            };
            requests.set(name, amount);
        }
    }
    requests.add(&spec.overhead);
    requests
}

/// State of a pod's requests as its node reports it.
struct ActualState<'a, R> {
    status: &'a PodStatus<R>,
    containers: Statuses<'a, R>,
    is_resize_infeasible: bool,
}

impl<'a, R: ResourceList> ActualState<'a, R> {
    fn new(status: &'a PodStatus<R>) -> Self {
        let mut conditions = status.conditions.iter();
        let pending = conditions.find(|condition| condition.r#type == "PodResizePending");
        Self {
            status,
            containers: Statuses::new(status),
            is_resize_infeasible: pending
                .is_some_and(|condition| condition.reason.as_deref() == Some("Infeasible")),
        }
    }

    /// Requests of a container in effect; `None` if the node does not report them.
    fn of_container(&self, name: &str, wanted: &R) -> Option<R> {
        let ContainerStatus {
            name: _,
            resources,
            allocated_resources,
        } = self.containers.get(name)?;
        Some(self.in_effect(wanted, resources.as_ref()?, allocated_resources))
    }

    /// Requests of the pod as a whole in effect; `None` if the node does not report them.
    fn of_pod(&self, wanted: &R) -> Option<R> {
        let actual = self.status.resources.as_ref()?;
        Some(self.in_effect(wanted, actual, &self.status.allocated_resources))
    }

    fn in_effect(&self, wanted: &R, actual: &ActualResources<R>, allocated: &R) -> R {
        let mut in_effect = if self.is_resize_infeasible {
            R::default()
        } else {
            wanted.clone()
        };
        in_effect.raise_all(&actual.requests);
        in_effect.raise_all(allocated);
        in_effect
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::{
        super::{CpuAndMemory, Pod},
        *,
    };
    use crate::resource::PerResource;

    fn requests(spec: &Value, status: &Value) -> PerResource<u64> {
        let pod = json!({"metadata": {"name": "p"}, "spec": spec, "status": status});
        let pod: Pod<CpuAndMemory> = serde_json::from_value(pod).unwrap();
        pod.requests(RequestBasis::Actual).amounts()
    }

    fn cpu(spec: &Value, status: &Value) -> u64 {
        requests(spec, status).cpu
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
        assert_eq!(requests(&spec, &status).memory, 1 << 30);
    }

    #[test]
    fn fractions_of_a_byte_count_as_a_byte() {
        let spec = json!({"containers": [{"name": "a", "resources": {"requests": {"memory": "100m"}}}]});
        assert_eq!(requests(&spec, &json!({})).memory, 1);
    }

    #[test]
    fn sums_saturate() {
        let huge = json!({"name": "a", "resources": {"requests": {"memory": "9223372036854775807"}}});
        let spec = json!({"containers": [huge, huge, huge], "overhead": {"memory": "1Ei"}});
        assert_eq!(requests(&spec, &json!({})).memory, u64::MAX);
    }
}
