//! A Pod with only the fields that rules read, and the values derived from them: its requests, the amounts that its
//! kubelet has allocated, and its Kubernetes QoS class.
//!
//! The reader chooses the type of amounts. [`Amounts`] has every resource, for rules about one pod. [`CpuAndMemory`]
//! has only these two and needs no map, for a watch of all pods. Both share the code that sums.

mod allocated;
mod containers;
mod kubernetes_qos;
mod list;
mod request;

use std::collections::BTreeMap;

use serde::Deserialize;

pub use self::{
    allocated::{SpecSource, allocated},
    kubernetes_qos::KubernetesQos,
    list::{BEYOND, CpuAndMemory, ResourceList},
    request::{RequestBasis, requests},
};
use crate::{amounts::Amounts, nullable, selector::Labels};

/// A Pod in JSON. Unknown members are ignored; absent members and `null` are empty.
///
/// `R` is the type of requests, `L` that of limits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(
    default,
    bound(deserialize = "R: Deserialize<'de> + Default, L: Deserialize<'de> + Default")
)]
pub struct Pod<R = Amounts, L = R> {
    /// Name, UID, labels, annotations and deletion timestamp.
    #[serde(deserialize_with = "nullable::or_default")]
    pub metadata: PodMetadata,
    /// Desired state, from the member `spec`.
    #[serde(deserialize_with = "nullable::or_default")]
    pub spec: PodSpec<R, L>,
    /// Observed state, from the member `status`.
    #[serde(deserialize_with = "nullable::or_default")]
    pub status: PodStatus<R>,
}

/// Metadata of a pod; members that no rule reads are ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodMetadata {
    /// Name; absent until the API server has generated it.
    pub name: Option<String>,
    /// Namespace; may be absent in a create request.
    pub namespace: Option<String>,
    /// UID; absent until the API server has set it.
    pub uid: Option<String>,
    /// Labels by key; empty if absent.
    #[serde(deserialize_with = "nullable::or_default")]
    pub labels: Labels,
    /// Annotations by key; empty if absent.
    #[serde(deserialize_with = "nullable::or_default")]
    pub annotations: BTreeMap<String, String>,
    /// Deletion timestamp; absent unless the pod is being deleted.
    pub deletion_timestamp: Option<String>,
}

/// Desired state of a pod; members that no rule reads are ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(
    default,
    rename_all = "camelCase",
    bound(deserialize = "R: Deserialize<'de> + Default, L: Deserialize<'de> + Default")
)]
pub struct PodSpec<R = Amounts, L = R> {
    /// Node to which the pod is bound; absent before that.
    pub node_name: Option<String>,
    /// Value of `spec.priority`; absent before admission sets it.
    pub priority: Option<i32>,
    /// App containers, which run together.
    #[serde(deserialize_with = "nullable::or_default")]
    pub containers: Vec<Container<R, L>>,
    /// Init containers, which run before the app containers; a sidecar keeps running next to them.
    #[serde(deserialize_with = "nullable::or_default")]
    pub init_containers: Vec<Container<R, L>>,
    /// Resources that the container runtime needs in addition.
    #[serde(deserialize_with = "nullable::or_default")]
    pub overhead: R,
    /// Resources of the pod as a whole. `{}` differs from absent: see [`KubernetesQos`].
    pub resources: Option<ResourceRequirements<R, L>>,
}

/// A container or init container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(
    default,
    rename_all = "camelCase",
    bound(deserialize = "R: Deserialize<'de> + Default, L: Deserialize<'de> + Default")
)]
pub struct Container<R = Amounts, L = R> {
    /// Name, unique in the pod.
    #[serde(deserialize_with = "nullable::or_default")]
    pub name: String,
    /// Requests and limits of the container.
    #[serde(deserialize_with = "nullable::or_default")]
    pub resources: ResourceRequirements<R, L>,
    /// `Always` makes an init container a sidecar.
    pub restart_policy: Option<String>,
}

/// Requests and limits of a container or of the pod as a whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(
    default,
    bound(deserialize = "R: Deserialize<'de> + Default, L: Deserialize<'de> + Default")
)]
pub struct ResourceRequirements<R = Amounts, L = R> {
    /// Requested amounts by resource, which the scheduler reserves.
    #[serde(deserialize_with = "nullable::or_default")]
    pub requests: R,
    /// Upper limits of use, by resource.
    #[serde(deserialize_with = "nullable::or_default")]
    pub limits: L,
}

/// Observed state of a pod; members that no rule reads are ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(
    default,
    rename_all = "camelCase",
    bound(deserialize = "R: Deserialize<'de> + Default")
)]
pub struct PodStatus<R = Amounts> {
    /// Phase of the pod, such as `Running`.
    pub phase: Option<String>,
    /// QoS class as written by a kubelet or another client.
    pub qos_class: Option<String>,
    /// Conditions, in the order of the status.
    #[serde(deserialize_with = "nullable::or_default")]
    pub conditions: Vec<PodCondition>,
    /// States of the app containers.
    #[serde(deserialize_with = "nullable::or_default")]
    pub container_statuses: Vec<ContainerStatus<R>>,
    /// States of the init containers.
    #[serde(deserialize_with = "nullable::or_default")]
    pub init_container_statuses: Vec<ContainerStatus<R>>,
    /// Resources of the pod as a whole that are in force on the node.
    pub resources: Option<ActualResources<R>>,
    /// Requests of the pod as a whole that the kubelet has allocated.
    #[serde(deserialize_with = "nullable::or_default")]
    pub allocated_resources: R,
}

/// Type and reason of a pod condition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PodCondition {
    /// Type of the condition, such as `PodResizePending`.
    #[serde(deserialize_with = "nullable::or_default")]
    pub r#type: String,
    /// Reason of the condition, such as `Deferred`.
    pub reason: Option<String>,
}

/// State of a container; only its resources are read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(
    default,
    rename_all = "camelCase",
    bound(deserialize = "R: Deserialize<'de> + Default")
)]
pub struct ContainerStatus<R = Amounts> {
    /// Name of the container in the spec.
    #[serde(deserialize_with = "nullable::or_default")]
    pub name: String,
    /// Resources in force on the node; absent if the kubelet does not report them.
    pub resources: Option<ActualResources<R>>,
    /// Requests that the kubelet has allocated.
    #[serde(deserialize_with = "nullable::or_default")]
    pub allocated_resources: R,
}

/// Resources in force on the node. Limits are not read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, bound(deserialize = "R: Deserialize<'de> + Default"))]
pub struct ActualResources<R = Amounts> {
    /// Requests in force, by resource.
    #[serde(deserialize_with = "nullable::or_default")]
    pub requests: R,
}

impl<R: ResourceList, L> Pod<R, L> {
    /// Requests of the pod: see [`requests`].
    pub fn requests(&self, basis: RequestBasis) -> R {
        requests(&self.spec, &self.status, basis)
    }

    /// Amounts that the kubelet has allocated: see [`allocated()`].
    pub fn allocated(&self, source: SpecSource) -> R {
        allocated(&self.spec, &self.status, source)
    }
}

impl Pod {
    /// Name of the Kubernetes QoS class: the value in the status, even if it is not a valid class, otherwise the
    /// class computed from the spec.
    pub fn kubernetes_qos_name(&self) -> &str {
        let written = self.status.qos_class.as_deref().filter(|name| !name.is_empty());
        written.unwrap_or_else(|| KubernetesQos::computed(&self.spec).name())
    }
}

impl<R, L> Container<R, L> {
    /// Returns true for an init container that keeps running with the pod.
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}

#[cfg(test)]
mod tests;
