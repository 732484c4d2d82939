//! Computes the amounts that a kubelet has allocated for a pod. A kubelet counts these when it restarts. It does not
//! count the spec, which any user with the right to resize the pod can write.

use std::borrow::Cow;

use super::{
    Container, PodSpec, PodStatus, ResourceList,
    containers::{Statuses, total},
};

/// Substitute for a container whose amounts the kubelet does not report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SpecSource {
    /// Requests in the spec, unless the kubelet has deferred a resize.
    Counts,
    /// Zero for every resource of the container.
    Ignored,
}

/// Allocated amounts of a pod including overhead: the pod-level amounts if the kubelet reports them, otherwise the
/// sum of its parts. A list that names CPU or memory is complete: other resources are zero.
///
/// Time is linear in the size of the pod.
pub fn allocated<R: ResourceList, L>(spec: &PodSpec<R, L>, status: &PodStatus<R>, source: SpecSource) -> R {
    let whole = &status.allocated_resources;
    let mut allocated = if whole.has_cpu_or_memory() {
        R::default()
    } else {
        of_parts(spec, status, source)
    };
    for (name, amount) in whole.iter() {
        allocated.set(name, amount);
    }
    allocated
}

/// Sum over the parts of the spec, for kubelets that report no pod-level amounts.
fn of_parts<R: ResourceList, L>(spec: &PodSpec<R, L>, status: &PodStatus<R>, source: SpecSource) -> R {
    let source = if is_resize_pending(status) {
        SpecSource::Ignored
    } else {
        source
    };
    let statuses = Statuses::new(status);
    let mut allocated = total(spec, |container| {
        Cow::Owned(of_container(container, &statuses, source))
    });
    if let Some(resources) = &spec.resources {
        let in_force = status.resources.as_ref().map(|actual| &actual.requests);
        let asked = resources.requests.iter();
        for (name, asked) in asked.filter(|(name, _)| R::is_of_pods(name)) {
            let asked = match source {
                SpecSource::Counts => Some(asked),
                SpecSource::Ignored => None,
            };
            let in_force = in_force.and_then(|in_force| reported(in_force, name));
            if let Some(amount) = in_force.or(asked) {
                allocated.set(name, amount);
            }
        }
    }
    allocated.add(&spec.overhead);
    allocated
}

/// Amounts of a container: allocated, otherwise in force, otherwise chosen by `source`.
fn of_container<R: ResourceList, L>(
    container: &Container<R, L>,
    statuses: &Statuses<'_, R>,
    source: SpecSource,
) -> R {
    let mut allocated = R::default();
    if let Some(status) = statuses.get(&container.name) {
        let in_force = status.resources.as_ref().map(|actual| &actual.requests);
        for list in [Some(&status.allocated_resources), in_force]
            .into_iter()
            .flatten()
        {
            allocated.fill(list);
            if list.has_cpu_or_memory() {
                return allocated;
            }
        }
    }
    match source {
        SpecSource::Counts => allocated.fill(&container.resources.requests),
        SpecSource::Ignored => {}
    }
    allocated
}

/// Amount of a resource in a kubelet's list; `None` if the list does not cover it.
fn reported<R: ResourceList>(list: &R, name: &R::Name) -> Option<R::Amount> {
    let is_complete = list.has_cpu_or_memory();
    list.get(name).or_else(|| is_complete.then_some(R::ZERO))
}

fn is_resize_pending<R>(status: &PodStatus<R>) -> bool {
    let mut conditions = status.conditions.iter();
    conditions.any(|condition| condition.r#type == "PodResizePending")
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

    fn pod(spec: &Value, status: &Value) -> Pod<CpuAndMemory> {
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec, "status": status})).unwrap()
    }

    fn allocated(pod: &Pod<CpuAndMemory>, source: SpecSource) -> PerResource<u64> {
        pod.allocated(source).amounts()
    }

    fn asks(name: &str, cpu: &str) -> Value {
        json!({"name": name, "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}})
    }

    fn has(name: &str, cpu: &str) -> Value {
        json!({"name": name, "allocatedResources": {"cpu": cpu, "memory": "1Gi"}})
    }

    /// A pod that requests 8 CPUs; allocated amounts without and with its spec.
    #[rstest]
    #[case::no_status(json!({}), 0, 8000)]
    #[case::the_container_waits(json!({"containerStatuses": [{"name": "a"}]}), 0, 8000)]
    #[case::set_aside(json!({"containerStatuses": [has("a", "1")]}), 1000, 1000)]
    #[case::in_force_alone(json!({"containerStatuses": [{"name": "a", "resources": {"requests": {"cpu": "2"}}}]}), 2000, 2000)]
    #[case::set_aside_goes_first(
        json!({"containerStatuses": [{"name": "a", "resources": {"requests": {"cpu": "2"}}, "allocatedResources": {"cpu": "3"}}]}),
        3000, 3000)]
    #[case::memory_alone_is_set_aside(json!({"containerStatuses": [{"name": "a", "allocatedResources": {"memory": "1Gi"}}]}), 0, 0)]
    #[case::a_negative_amount_is_none(json!({"containerStatuses": [{"name": "a", "allocatedResources": {"cpu": "-4"}}]}), 0, 8000)]
    #[case::of_another_container(json!({"containerStatuses": [has("b", "1")]}), 0, 8000)]
    #[case::deferred_without_amounts(json!({"conditions": [{"type": "PodResizePending", "reason": "Deferred"}]}), 0, 0)]
    #[case::deferred(
        json!({"conditions": [{"type": "PodResizePending", "reason": "Deferred"}], "containerStatuses": [has("a", "1")]}),
        1000, 1000)]
    #[case::of_the_pod(json!({"allocatedResources": {"cpu": "5"}, "containerStatuses": [has("a", "1")]}), 5000, 5000)]
    fn amounts_from_the_kubelet_override_the_spec(
        #[case] status: Value,
        #[case] ignored: u64,
        #[case] counted: u64,
    ) {
        let pod = pod(&json!({"containers": [asks("a", "8")]}), &status);
        assert_eq!(allocated(&pod, SpecSource::Ignored).cpu, ignored);
        assert_eq!(allocated(&pod, SpecSource::Counts).cpu, counted);
    }

    #[test]
    fn overhead_is_included_for_pods_and_added_for_containers() {
        let spec = json!({"containers": [asks("a", "1")], "overhead": {"cpu": "250m"}});
        let of_pod = pod(&spec, &json!({"allocatedResources": {"cpu": "1250m"}}));
        let of_containers = pod(&spec, &json!({"containerStatuses": [has("a", "1")]}));
        assert_eq!(allocated(&of_pod, SpecSource::Ignored).cpu, 1250);
        assert_eq!(allocated(&of_containers, SpecSource::Ignored).cpu, 1250);
    }

    #[test]
    fn the_pod_level_request_counts_while_the_kubelet_reports_none() {
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
    fn sidecars_add_up_and_init_containers_count_their_spec() {
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
