//! A Pod with only the fields that rules read, and what follows from them: its requests, the amounts that its kubelet
//! has set aside, and its QoS class in Kubernetes.
//!
//! A reader chooses what amounts are kept. [`Amounts`] has every resource, for rules about one pod. [`CpuAndMemory`] has
//! those two and costs no map, for a watch of all pods. The sums are written once, for both.

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
    list::{CpuAndMemory, ResourceList},
    request::{RequestBasis, requests},
};
use crate::{amounts::Amounts, nullable, selector::Labels};

/// A Pod as JSON has it. Unknown members are passed over; what is absent or `null` is empty.
///
/// `R` has the amounts of requests, `L` those of limits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(
    default,
    bound(deserialize = "R: Deserialize<'de> + Default, L: Deserialize<'de> + Default")
)]
pub struct Pod<R = Amounts, L = R> {
    /// Its names and labels.
    #[serde(deserialize_with = "nullable::or_default")]
    pub metadata: PodMetadata,
    /// The desired state.
    #[serde(deserialize_with = "nullable::or_default")]
    pub spec: PodSpec<R, L>,
    /// The observed state.
    #[serde(deserialize_with = "nullable::or_default")]
    pub status: PodStatus<R>,
}

/// The metadata of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodMetadata {
    /// Its name; absent before the API server has generated one.
    pub name: Option<String>,
    /// Its namespace; may be absent in a request to create it.
    pub namespace: Option<String>,
    /// Its UID.
    pub uid: Option<String>,
    /// Its labels.
    #[serde(deserialize_with = "nullable::or_default")]
    pub labels: Labels,
    /// Its annotations.
    #[serde(deserialize_with = "nullable::or_default")]
    pub annotations: BTreeMap<String, String>,
    /// When its deletion was asked for; absent unless it is being deleted.
    pub deletion_timestamp: Option<String>,
}

/// The desired state of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(
    default,
    rename_all = "camelCase",
    bound(deserialize = "R: Deserialize<'de> + Default, L: Deserialize<'de> + Default")
)]
pub struct PodSpec<R = Amounts, L = R> {
    /// The node it is bound to.
    pub node_name: Option<String>,
    /// Its priority.
    pub priority: Option<i32>,
    /// The containers that run together.
    #[serde(deserialize_with = "nullable::or_default")]
    pub containers: Vec<Container<R, L>>,
    /// The containers that run before those, or beside them from before.
    #[serde(deserialize_with = "nullable::or_default")]
    pub init_containers: Vec<Container<R, L>>,
    /// What the runtime needs for itself.
    #[serde(deserialize_with = "nullable::or_default")]
    pub overhead: R,
    /// Resources of the pod as a whole. `{}` is not the same as none: see [`KubernetesQos`].
    pub resources: Option<ResourceRequirements<R, L>>,
}

/// A container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(
    default,
    rename_all = "camelCase",
    bound(deserialize = "R: Deserialize<'de> + Default, L: Deserialize<'de> + Default")
)]
pub struct Container<R = Amounts, L = R> {
    /// Its name, unique in the pod.
    #[serde(deserialize_with = "nullable::or_default")]
    pub name: String,
    /// The resources that it asks for.
    #[serde(deserialize_with = "nullable::or_default")]
    pub resources: ResourceRequirements<R, L>,
    /// `Always` makes an init container a sidecar.
    pub restart_policy: Option<String>,
}

/// The resources that a container, or a pod as a whole, asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(
    default,
    bound(deserialize = "R: Deserialize<'de> + Default, L: Deserialize<'de> + Default")
)]
pub struct ResourceRequirements<R = Amounts, L = R> {
    /// What it needs.
    #[serde(deserialize_with = "nullable::or_default")]
    pub requests: R,
    /// What it may use at most.
    #[serde(deserialize_with = "nullable::or_default")]
    pub limits: L,
}

/// The observed state of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(
    default,
    rename_all = "camelCase",
    bound(deserialize = "R: Deserialize<'de> + Default")
)]
pub struct PodStatus<R = Amounts> {
    /// Its phase.
    pub phase: Option<String>,
    /// Its QoS class, as a kubelet or a client has written it.
    pub qos_class: Option<String>,
    /// Its conditions.
    #[serde(deserialize_with = "nullable::or_default")]
    pub conditions: Vec<PodCondition>,
    /// States of the containers.
    #[serde(deserialize_with = "nullable::or_default")]
    pub container_statuses: Vec<ContainerStatus<R>>,
    /// States of the init containers.
    #[serde(deserialize_with = "nullable::or_default")]
    pub init_container_statuses: Vec<ContainerStatus<R>>,
    /// Resources of the pod as a whole, as the node runs it.
    pub resources: Option<ActualResources<R>>,
    /// Requests of the pod as a whole, as the node has set them aside.
    #[serde(deserialize_with = "nullable::or_default")]
    pub allocated_resources: R,
}

/// A condition of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PodCondition {
    /// Its type.
    #[serde(deserialize_with = "nullable::or_default")]
    pub r#type: String,
    /// Its reason.
    pub reason: Option<String>,
}

/// The state of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(
    default,
    rename_all = "camelCase",
    bound(deserialize = "R: Deserialize<'de> + Default")
)]
pub struct ContainerStatus<R = Amounts> {
    /// The container's name.
    #[serde(deserialize_with = "nullable::or_default")]
    pub name: String,
    /// Resources as the node runs it; absent where the kubelet does not report them.
    pub resources: Option<ActualResources<R>>,
    /// Requests as the node has set them aside.
    #[serde(deserialize_with = "nullable::or_default")]
    pub allocated_resources: R,
}

/// The resources with which something runs. Its limits are not read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, bound(deserialize = "R: Deserialize<'de> + Default"))]
pub struct ActualResources<R = Amounts> {
    /// The requests in force.
    #[serde(deserialize_with = "nullable::or_default")]
    pub requests: R,
}

impl<R: ResourceList, L> Pod<R, L> {
    /// Its requests: see [`requests`].
    pub fn requests(&self, basis: RequestBasis) -> R {
        requests(&self.spec, &self.status, basis)
    }

    /// The amounts that its kubelet has set aside: see [`allocated`].
    pub fn allocated(&self, source: SpecSource) -> R {
        allocated(&self.spec, &self.status, source)
    }
}

impl Pod {
    /// The name of its QoS class in Kubernetes: what the status has, be it no class at all, or else what the spec makes it.
    pub fn kubernetes_qos_name(&self) -> &str {
        let written = self.status.qos_class.as_deref().filter(|name| !name.is_empty());
        written.unwrap_or_else(|| KubernetesQos::computed(&self.spec).name())
    }
}

impl<R, L> Container<R, L> {
    /// True for an init container that stays while the pod runs.
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}

#[cfg(test)]
mod tests;
