//! Computes the amounts that a kubelet has set aside for a pod. The kubelet counts these when it restarts, not the
//! spec, which any user with the right to resize the pod can write.

use std::borrow::Cow;

use super::{
    Container, PodSpec, PodStatus, ResourceList,
    containers::{Statuses, total},
};

/// What stands in for a container of which the kubelet reports nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SpecSource {
    /// What its spec asks for, unless the kubelet puts a resize off.
    Counts,
    /// Nothing.
    Ignored,
}

/// The amounts set aside for a pod, overhead included: those of the pod as a whole where the kubelet reports them, else
/// those of its parts. A list that names CPU or memory is complete: what it lacks is nothing.
///
/// Time is bounded by the size of the pod.
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

/// As the spec is made up, where the kubelet reports no amounts of the whole.
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

/// The amounts of a container: set aside, else in force, else as `source` has it.
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

/// The amount that a list of a kubelet has of a resource; `None` if the list says nothing of it.
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
