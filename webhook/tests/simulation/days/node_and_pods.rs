//! The simulated Node and its pods, and their conversion to the objects that informers receive.

use std::collections::BTreeMap;

use headroom_domain::{
    capacity::{Annotations, Decision, NodeState, amount},
    pod::{
        ActualResources, Container, ContainerStatus, CpuAndMemory, PodCondition, PodSpec, PodStatus,
        ResourceRequirements,
    },
    quantity::{Format, Quantity},
    resource::{PerResource, Resource},
};
use headroom_webhook::store::{node, pods};
use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
    jiff::Timestamp,
};

pub(super) const NAME: &str = "n1";
pub(super) const UID: &str = "u1";

/// The Node as it is stored.
pub(super) struct Stored {
    pub(super) version: u64,
    pub(super) state: NodeState,
    pub(super) has_memory_pressure: bool,
}

/// A pod that is bound and has not ended.
#[derive(Clone)]
pub(super) struct SimulatedPod {
    pub(super) requests: PerResource<u64>,
    /// Reservation of the kubelet for it.
    pub(super) allocated: PerResource<u64>,
    /// Of what it asks for, in percent.
    pub(super) used: u64,
    /// Height of its peaks over its mean, in percent of the mean.
    pub(super) burst: u64,
    /// The frame in which it is gone, if it is being deleted.
    pub(super) gone_at: Option<u64>,
}

impl Stored {
    /// Node as the watch delivers it.
    pub(super) fn object(&self) -> node::object::WatchedNode {
        let texts = |quantities: &PerResource<Option<Quantity>>| {
            Resource::ALL
                .into_iter()
                .filter_map(|resource| {
                    let quantity = quantities.get(resource).as_ref()?;
                    Some((resource.name().to_owned(), quantity.to_string()))
                })
                .collect()
        };
        let annotations = self.state.annotations.texts().into_iter();
        let annotations = annotations.filter_map(|(key, text)| Some((key.to_owned(), text?.to_owned())));
        let condition = |kind: &str, status: bool| node::object::NodeCondition {
            r#type: kind.to_owned(),
            status: if status { "True" } else { "False" }.to_owned(),
            last_heartbeat_time: self.state.ready_heartbeat.clone(),
            ..node::object::NodeCondition::default()
        };
        node::object::WatchedNode {
            metadata: ObjectMeta {
                name: Some(NAME.to_owned()),
                uid: Some(UID.to_owned()),
                resource_version: Some(self.version.to_string()),
                annotations: Some(annotations.collect()),
                ..ObjectMeta::default()
            },
            status: node::object::ReportedStatus {
                allocatable: texts(&self.state.allocatable),
                capacity: texts(&self.state.capacity),
                conditions: vec![
                    condition("MemoryPressure", self.has_memory_pressure),
                    condition("Ready", true),
                ],
                node_info: node::object::Info {
                    kubelet_version: "v1.36.3".to_owned(),
                },
            },
        }
    }

    /// Allocatable, in milli-cores or bytes.
    pub(super) fn allocatable(&self, resource: Resource) -> u64 {
        let quantity = self.state.allocatable.get(resource).as_ref();
        amount(resource, quantity.expect("a value")).expect("an amount")
    }
}

impl SimulatedPod {
    /// Request as the scheduler counts it.
    pub(super) fn counted(&self, resource: Resource) -> u64 {
        *self.requests.get(resource).max(self.allocated.get(resource))
    }

    /// Pod as the watch delivers it.
    pub(super) fn object(&self, uid: &str, version: u64) -> pods::object::WatchedPod {
        let metadata = ObjectMeta {
            name: Some(uid.to_owned()),
            uid: Some(uid.to_owned()),
            resource_version: Some(version.to_string()),
            deletion_timestamp: self.gone_at.map(|_| Time(Timestamp::UNIX_EPOCH)),
            ..ObjectMeta::default()
        };
        let allocated = CpuAndMemory(self.allocated.map(|_, amount| Some(*amount)));
        let is_deferred = Resource::ALL
            .into_iter()
            .any(|resource| self.requests.get(resource) > self.allocated.get(resource));
        let pending = is_deferred.then(|| PodCondition {
            r#type: "PodResizePending".to_owned(),
            reason: Some("Deferred".to_owned()),
        });
        let container = Container {
            name: "a".to_owned(),
            resources: ResourceRequirements {
                requests: CpuAndMemory(self.requests.map(|_, request| Some(*request))),
                ..ResourceRequirements::default()
            },
            restart_policy: None,
        };
        pods::object::WatchedPod {
            metadata,
            spec: PodSpec {
                node_name: Some(NAME.to_owned()),
                containers: vec![container],
                ..PodSpec::default()
            },
            status: PodStatus {
                phase: Some("Running".to_owned()),
                qos_class: Some("Burstable".to_owned()),
                conditions: pending.into_iter().collect(),
                container_statuses: vec![ContainerStatus {
                    name: "a".to_owned(),
                    resources: Some(ActualResources { requests: allocated }),
                    allocated_resources: allocated,
                }],
                ..PodStatus::default()
            },
            controller: None,
        }
    }
}

/// Amounts in milli-cores and bytes as quantities.
pub(super) fn quantities(amounts: PerResource<u64>) -> PerResource<Option<Quantity>> {
    PerResource {
        cpu: Some(Quantity::from_milli(amounts.cpu)),
        memory: Some(Quantity::from_units(amounts.memory, Format::BinarySi)),
    }
}

/// Stores a decision in the object that is being written.
pub(super) fn store(new: &mut NodeState, decision: &Decision) {
    for resource in Resource::ALL {
        if let Some(quantity) = decision.allocatable.get(resource) {
            *new.allocatable.get_mut(resource) = Some(*quantity);
        }
    }
    let mut texts: BTreeMap<_, _> = new.annotations.texts().into();
    for (key, value) in &decision.annotations {
        let before = texts.insert(key, value.as_deref());
        assert!(
            before.is_some(),
            "an annotation {key} that the model does not have"
        );
    }
    let text = |key: &'static str| texts[key].map(str::to_owned);
    new.annotations = Annotations::read(text, &new.annotations);
}
