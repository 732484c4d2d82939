//! Computes the amounts that a kubelet has set aside for a pod. The kubelet counts these when it restarts, not the
//! spec, which any user with the right to resize the pod can write.

use headroom_domain::resource::{PerResource, Resource};

use super::object::{Container, List, Resources, WatchedPod};

/// What stands in for a container of which the kubelet says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecSource {
    /// What its spec asks for, unless the kubelet puts a resize off.
    Counts,
    /// Nothing.
    Ignored,
}

/// What is set aside for a pod, in milli-cores and bytes.
pub fn allocated(pod: &WatchedPod, spec: SpecSource) -> PerResource<u64> {
    let spec = if is_resize_pending(pod) {
        SpecSource::Ignored
    } else {
        spec
    };
    PerResource::from_fn(|resource| of_pod(resource, pod, spec))
}

/// Of the pod as a whole, where the kubelet says so: its overhead is in it. Else as its spec is made up.
fn of_pod(resource: Resource, pod: &WatchedPod, spec: SpecSource) -> u64 {
    let status = &pod.status;
    if let Some(whole) = amount(resource, status.allocated_resources) {
        return whole;
    }
    let overhead = pod.spec.overhead.amount(resource);
    let asked = pod.spec.resources.requests.0.get(resource).as_ref();
    let in_force = status
        .resources
        .and_then(|Resources { requests }| amount(resource, requests));
    let request = match (asked, in_force, spec) {
        (Some(_), Some(in_force), _) => in_force,
        (Some(asked), None, SpecSource::Counts) => *asked,
        (Some(_), None, SpecSource::Ignored) | (None, ..) => of_containers(resource, pod, spec),
    };
    request.saturating_add(overhead)
}

/// The larger of what the containers have together and what starting them needs.
fn of_containers(resource: Resource, pod: &WatchedPod, spec: SpecSource) -> u64 {
    let of = |container| of_container(resource, pod, container, spec);
    let mut together = pod.spec.containers.iter().map(of).fold(0, u64::saturating_add);
    let (mut sidecars, mut at_start) = (0_u64, 0_u64);
    for container in &pod.spec.init_containers {
        if container.is_sidecar() {
            let has = of(container);
            together = together.saturating_add(has);
            sidecars = sidecars.saturating_add(has);
            at_start = at_start.max(sidecars);
        } else {
            // It is never resized: what the kubelet let in is what it asks for.
            let asked = container.resources.requests.amount(resource);
            at_start = at_start.max(sidecars.saturating_add(asked));
        }
    }
    together.max(at_start)
}

fn of_container(resource: Resource, pod: &WatchedPod, container: &Container, spec: SpecSource) -> u64 {
    let statuses = &pod.status.container_statuses;
    let mut statuses = statuses.iter().chain(&pod.status.init_container_statuses);
    let status = statuses.find(|status| status.name == container.name);
    let in_force = || amount(resource, status?.resources?.requests);
    let has = status
        .and_then(|status| amount(resource, status.allocated_resources))
        .or_else(in_force);
    has.unwrap_or(match spec {
        SpecSource::Counts => container.resources.requests.amount(resource),
        SpecSource::Ignored => 0,
    })
}

/// The amount in a list that says something of CPU or memory; in such a list, what is missing is nothing.
fn amount(resource: Resource, list: List) -> Option<u64> {
    let List(PerResource { cpu, memory }) = &list;
    (cpu.is_some() || memory.is_some()).then(|| list.amount(resource))
}

fn is_resize_pending(pod: &WatchedPod) -> bool {
    let conditions = &pod.status.conditions;
    conditions
        .iter()
        .any(|condition| condition.r#type == "PodResizePending")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn pod(spec: &Value, status: &Value) -> WatchedPod {
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec, "status": status})).unwrap()
    }

    fn asks(name: &str, cpu: &str) -> Value {
        json!({"name": name, "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}})
    }

    fn has(name: &str, cpu: &str) -> Value {
        json!({"name": name, "allocatedResources": {"cpu": cpu, "memory": "1Gi"}})
    }

    /// A pod that asks for 8 CPUs; what is set aside without and with its spec.
    #[rstest]
    #[case::nothing_is_said(json!({}), 0, 8000)]
    #[case::the_container_waits(json!({"containerStatuses": [{"name": "a"}]}), 0, 8000)]
    #[case::set_aside(json!({"containerStatuses": [has("a", "1")]}), 1000, 1000)]
    #[case::in_force_alone(json!({"containerStatuses": [{"name": "a", "resources": {"requests": {"cpu": "2"}}}]}), 2000, 2000)]
    #[case::set_aside_goes_first(
        json!({"containerStatuses": [{"name": "a", "resources": {"requests": {"cpu": "2"}}, "allocatedResources": {"cpu": "3"}}]}),
        3000, 3000)]
    #[case::memory_alone_is_set_aside(json!({"containerStatuses": [{"name": "a", "allocatedResources": {"memory": "1Gi"}}]}), 0, 0)]
    #[case::a_negative_amount_is_none(json!({"containerStatuses": [{"name": "a", "allocatedResources": {"cpu": "-4"}}]}), 0, 8000)]
    #[case::of_another_container(json!({"containerStatuses": [has("b", "1")]}), 0, 8000)]
    #[case::deferred_and_nothing_said(json!({"conditions": [{"type": "PodResizePending", "reason": "Deferred"}]}), 0, 0)]
    #[case::deferred(
        json!({"conditions": [{"type": "PodResizePending", "reason": "Deferred"}], "containerStatuses": [has("a", "1")]}),
        1000, 1000)]
    #[case::of_the_pod(json!({"allocatedResources": {"cpu": "5"}, "containerStatuses": [has("a", "1")]}), 5000, 5000)]
    fn the_kubelets_word_goes_before_the_specs(
        #[case] status: Value,
        #[case] ignored: u64,
        #[case] counted: u64,
    ) {
        let pod = pod(&json!({"containers": [asks("a", "8")]}), &status);
        assert_eq!(allocated(&pod, SpecSource::Ignored).cpu, ignored);
        assert_eq!(allocated(&pod, SpecSource::Counts).cpu, counted);
    }

    #[test]
    fn overhead_is_in_what_is_set_aside_for_the_pod_and_on_top_of_containers() {
        let spec = json!({"containers": [asks("a", "1")], "overhead": {"cpu": "250m"}});
        let of_pod = pod(&spec, &json!({"allocatedResources": {"cpu": "1250m"}}));
        let of_containers = pod(&spec, &json!({"containerStatuses": [has("a", "1")]}));
        assert_eq!(allocated(&of_pod, SpecSource::Ignored).cpu, 1250);
        assert_eq!(allocated(&of_containers, SpecSource::Ignored).cpu, 1250);
    }

    #[test]
    fn a_request_of_the_pod_counts_while_the_kubelet_says_nothing() {
        let spec = json!({"containers": [asks("a", "1")], "resources": {"requests": {"cpu": "3"}}});
        assert_eq!(allocated(&pod(&spec, &json!({})), SpecSource::Counts).cpu, 3000);
        let in_force = json!({"resources": {"requests": {"cpu": "2"}}});
        assert_eq!(allocated(&pod(&spec, &in_force), SpecSource::Counts).cpu, 2000);
        let of_containers = json!({"containerStatuses": [has("a", "1")]});
        assert_eq!(
            allocated(&pod(&spec, &of_containers), SpecSource::Ignored).cpu,
            1000
        );
    }

    #[test]
    fn sidecars_add_up_and_init_containers_count_as_they_ask() {
        let mut sidecar = asks("s", "1");
        sidecar["restartPolicy"] = "Always".into();
        let spec = json!({"containers": [asks("a", "1")], "initContainers": [sidecar, asks("i", "4")]});
        let status = json!({"containerStatuses": [has("a", "1")], "initContainerStatuses": [has("s", "2")]});
        assert_eq!(allocated(&pod(&spec, &status), SpecSource::Ignored).cpu, 6000);
        let spec = json!({"containers": [asks("a", "1")], "initContainers": [spec["initContainers"][0]]});
        assert_eq!(allocated(&pod(&spec, &status), SpecSource::Ignored).cpu, 3000);
    }

    #[test]
    fn sums_saturate() {
        let huge =
            |name: &str| json!({"name": name, "allocatedResources": {"memory": "9223372036854775807"}});
        let spec = json!({"containers": [asks("a", "1"), asks("b", "1"), asks("c", "1")]});
        let status = json!({"containerStatuses": [huge("a"), huge("b"), huge("c")]});
        assert_eq!(
            allocated(&pod(&spec, &status), SpecSource::Ignored).memory,
            u64::MAX
        );
    }
}
