//! Parses a Pod object of the API server and drops all fields but those that the store reads.

use headroom_domain::{
    capacity::amount,
    quantity::Quantity,
    resource::{PerResource, Resource},
};
use k8s_openapi::{Metadata, NamespaceResourceScope, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::Deserialize;

/// A Pod as the API server sends it.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct WatchedPod {
    /// Names, versions, annotations.
    pub metadata: ObjectMeta,
    /// What was asked for.
    #[serde(default)]
    pub spec: PodSpec,
    /// What became of it.
    #[serde(default)]
    pub status: PodStatus,
}

/// What was asked for.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// The node it is bound to.
    pub node_name: Option<String>,
    /// The containers that run together.
    pub containers: Vec<Container>,
    /// The containers that run before, or beside them from before.
    pub init_containers: Vec<Container>,
    /// What the runtime takes for itself.
    pub overhead: List,
    /// Resources of the pod as a whole.
    pub resources: Resources,
}

/// A container.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Its name, unique in the pod.
    pub name: String,
    /// What it asks for.
    pub resources: Resources,
    /// `Always` makes an init container a sidecar.
    pub restart_policy: Option<String>,
}

/// Resources of something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// The requests.
    pub requests: List,
}

/// What became of a pod.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// Where it is in its life.
    pub phase: Option<String>,
    /// Its quality of service class.
    pub qos_class: Option<String>,
    /// Conditions.
    pub conditions: Vec<PodCondition>,
    /// States of the containers.
    pub container_statuses: Vec<ContainerStatus>,
    /// States of the init containers.
    pub init_container_statuses: Vec<ContainerStatus>,
    /// Resources of the pod as a whole, as the node runs it.
    pub resources: Option<Resources>,
    /// Requests of the pod as a whole, as the node set them aside.
    pub allocated_resources: List,
}

/// A condition of a pod.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct PodCondition {
    /// Its type.
    pub r#type: String,
    /// Its reason.
    pub reason: Option<String>,
}

/// The state of a container.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// The container's name.
    pub name: String,
    /// Resources as the node runs it; absent where the kubelet does not say.
    pub resources: Option<Resources>,
    /// Requests as the node set them aside.
    pub allocated_resources: List,
}

/// Amounts of a resource list, in milli-cores and bytes; other resources are not read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "WrittenAmounts")]
pub struct List(pub PerResource<Option<u64>>);

#[derive(Deserialize)]
struct WrittenAmounts {
    cpu: Option<String>,
    memory: Option<String>,
}

impl From<WrittenAmounts> for List {
    /// Fractions of a unit count as a whole one. What is no amount counts as absent.
    fn from(written: WrittenAmounts) -> Self {
        let WrittenAmounts { cpu, memory } = written;
        let read = |resource, text: Option<String>| amount(resource, &text?.parse::<Quantity>().ok()?);
        Self(PerResource {
            cpu: read(Resource::Cpu, cpu),
            memory: read(Resource::Memory, memory),
        })
    }
}

impl List {
    /// The amount of a resource, 0 if it is absent.
    pub fn amount(&self, resource: Resource) -> u64 {
        self.0.get(resource).unwrap_or_default()
    }
}

impl Container {
    /// True for an init container that stays while the pod runs.
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}

impl k8s_openapi::Resource for WatchedPod {
    const API_VERSION: &'static str = "v1";
    const GROUP: &'static str = "";
    const KIND: &'static str = "Pod";
    const VERSION: &'static str = "v1";
    const URL_PATH_SEGMENT: &'static str = "pods";
    type Scope = NamespaceResourceScope;
}

impl Metadata for WatchedPod {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
