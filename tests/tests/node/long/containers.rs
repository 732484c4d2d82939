//! Identities of the containers of pods, and their restarts.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::Api;

/// Identity of a container, and the number of its restarts.
pub(super) type Container = (String, i32);

/// Only containers of these pods, which run.
pub(super) async fn read(pods: &Api<Pod>, names: &[&str]) -> Vec<Container> {
    let mut containers = Vec::new();
    for name in names {
        let pod = pods.get(name).await.expect("read a pod");
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        assert_eq!(phase, Some("Running"), "{name}: {:#?}", pod.status);
        let status = status(&pod).expect("a container");
        containers.push((status.container_id.expect("an identity"), status.restart_count));
    }
    containers
}

/// State of the pod's only container; `None` before the kubelet's first report.
pub(super) fn status(pod: &Pod) -> Option<ContainerStatus> {
    pod.status.as_ref()?.container_statuses.as_ref()?.first().cloned()
}

/// Number of restarts of the pod's only container.
pub(super) fn restarts(pod: &Pod) -> i32 {
    status(pod).map_or(0, |status| status.restart_count)
}

/// The kubelet's reason why the pod's only container does not run yet, or not again.
pub(super) fn waits_for(pod: &Pod) -> Option<String> {
    status(pod)?.state?.waiting?.reason
}
