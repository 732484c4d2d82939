//! Parses a Node object of the API server and drops all fields but those that the store reads.

use std::collections::BTreeMap;

use headroom_domain::{
    capacity::{Annotations, NodeState},
    names,
    quantity::Quantity,
    resource::{PerResource, Resource},
};
use k8s_openapi::{ClusterResourceScope, Metadata, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::Deserialize;

use super::{Node, OwnCondition};
use crate::store::informer::version;

/// A Node as the API server sends it.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct WatchedNode {
    #[serde(deserialize_with = "crate::store::object_meta::deserialize")]
    pub metadata: ObjectMeta,
    /// Status as the kubelet reported it and admission changed it.
    #[serde(default)]
    pub status: ReportedStatus,
}

/// Status as the kubelet reported it and admission changed it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReportedStatus {
    /// Capacity that the scheduler may assign.
    pub allocatable: BTreeMap<String, String>,
    pub capacity: BTreeMap<String, String>,
    pub conditions: Vec<NodeCondition>,
    /// Operating system and architecture of the machine.
    pub node_info: Info,
}

/// Operating system and architecture of a machine.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Info {
    /// The kubelet's version, as in `v1.36.3`.
    pub kubelet_version: String,
}

/// A condition of a node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeCondition {
    pub r#type: String,
    pub status: String,
    pub message: String,
    /// Since when it has its status, as written.
    pub last_transition_time: Option<String>,
    /// Time of the last report, as written: markers repeat the text.
    pub last_heartbeat_time: Option<String>,
}

impl NodeCondition {
    fn own(&self) -> Option<OwnCondition> {
        let Self {
            r#type,
            status,
            message,
            last_transition_time,
            last_heartbeat_time: _,
        } = self;
        OwnCondition::new(r#type, status, message, last_transition_time.as_deref())
    }
}

impl From<WatchedNode> for Node {
    /// An unreadable value counts as missing.
    fn from(object: WatchedNode) -> Self {
        let version = version(&object);
        let WatchedNode {
            metadata,
            status:
                ReportedStatus {
                    allocatable,
                    capacity,
                    conditions,
                    node_info: Info { kubelet_version },
                },
        } = object;
        let mut annotations = metadata.annotations.unwrap_or_default();
        let mode = annotations.get(names::MODE).and_then(|text| text.parse().ok());
        let has_memory_pressure = conditions
            .iter()
            .any(|condition| condition.r#type == "MemoryPressure" && condition.status == "True");
        let own_conditions = conditions.iter().filter_map(NodeCondition::own).collect();
        Self {
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            version,
            labels: metadata.labels.unwrap_or_default(),
            state: NodeState {
                allocatable: quantities(&allocatable),
                capacity: quantities(&capacity),
                ready_heartbeat: conditions
                    .into_iter()
                    .find(|condition| condition.r#type == "Ready")
                    .and_then(|ready| ready.last_heartbeat_time),
                annotations: Annotations::read(|key| annotations.remove(key), &Annotations::default()),
            },
            mode,
            tells_allocated: tells_allocated(&kubelet_version),
            has_memory_pressure,
            own_conditions,
        }
    }
}

/// First minor version of Kubernetes 1 whose kubelet reports reservations.
const TELLS_ALLOCATED_FROM: u32 = 33;

/// True for a kubelet of that version or a later one, as written: `v1.36.3`, `v1.33.0-eks-1234`. An unreadable
/// version counts as later: no pod then counts with more than its status.
pub fn tells_allocated(version: &str) -> bool {
    let mut parts = version.trim_start_matches('v').split('.');
    let mut part = || -> Option<u32> { parts.next()?.parse().ok() };
    match (part(), part()) {
        (Some(1), Some(minor)) => minor >= TELLS_ALLOCATED_FROM,
        (Some(major), _) => major > 1,
        (None, _) => true,
    }
}

fn quantities(list: &BTreeMap<String, String>) -> PerResource<Option<Quantity>> {
    PerResource::from_fn(|resource: Resource| list.get(resource.name())?.parse().ok())
}

impl k8s_openapi::Resource for WatchedNode {
    const API_VERSION: &'static str = "v1";
    const GROUP: &'static str = "";
    const KIND: &'static str = "Node";
    const VERSION: &'static str = "v1";
    const URL_PATH_SEGMENT: &'static str = "nodes";
    type Scope = ClusterResourceScope;
}

impl Metadata for WatchedNode {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use headroom_domain::policy::Mode;
    use serde_json::json;

    use super::*;
    use crate::store::node::Labels;

    fn node(annotations: &serde_json::Value) -> Node {
        let object: WatchedNode = serde_json::from_value(json!({
            "metadata": {
                "name": "n1", "uid": "u1", "resourceVersion": "77", "annotations": annotations,
                "labels": {"pool": "batch"},
                "managedFields": [{"manager": "kubelet", "operation": "Update"}],
            },
            "spec": {"podCIDR": "10.0.0.0/24"},
            "status": {
                "allocatable": {"cpu": "3920m", "memory": "31Gi", "pods": "110"},
                "capacity": {"cpu": "4", "memory": "none"},
                "conditions": [
                    {"type": "DiskPressure", "status": "False", "lastHeartbeatTime": "2026-11-20T00:00:00Z"},
                    {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-20T00:00:01Z"},
                ],
                "images": [{"names": ["a"], "sizeBytes": 1}],
            },
        }))
        .unwrap();
        object.into()
    }

    #[test]
    fn what_the_rules_read_is_kept_as_written() {
        let Node {
            name,
            uid,
            version,
            labels,
            state,
            mode,
            tells_allocated,
            has_memory_pressure,
            own_conditions,
        } = node(&json!({names::RATIO: "{\"cpu\":1.5}", names::MODE: "auto", "other": "x"}));
        assert_eq!(
            (name.as_str(), uid.as_str(), version, mode),
            ("n1", "u1", 77, Some(Mode::Auto))
        );
        assert_eq!(labels, Labels::from([("pool".to_owned(), "batch".to_owned())]));
        assert_eq!(state.allocatable.cpu.unwrap().milli(), Some(3920));
        assert_eq!(state.allocatable.memory.unwrap().to_string(), "31Gi");
        assert_eq!(
            (state.capacity.cpu.unwrap().milli(), state.capacity.memory),
            (Some(4000), None)
        );
        assert_eq!(state.ready_heartbeat.as_deref(), Some("2026-11-20T00:00:01Z"));
        assert_eq!(state.annotations.ratio, Some("{\"cpu\":1.5}".into()));
        assert_eq!(state.annotations.marker, None);
        assert!(!has_memory_pressure, "it is not said to be");
        assert_eq!(own_conditions, []);
        assert!(tells_allocated, "its kubelet's version is not said");
    }

    #[test]
    fn kubelets_tell_what_is_set_aside_from_1_33_on() {
        let expected = [
            ("v1.32.9", false),
            ("v1.9.0", false),
            ("v1.33.0", true),
            ("v1.36.3-k3s1", true),
            ("v2.0.0", true),
            ("v0.1", false),
            ("", true),
            ("kubelet", true),
        ];
        for (version, tells) in expected {
            assert_eq!(tells_allocated(version), tells, "{version}");
        }
    }

    #[test]
    fn the_kubelet_says_that_memory_is_under_pressure() {
        let with = |status: &str| {
            let object: WatchedNode = serde_json::from_value(json!({
                "metadata": {"name": "n1"},
                "status": {"conditions": [
                    {"type": "DiskPressure", "status": "True"},
                    {"type": "MemoryPressure", "status": status},
                ]},
            }))
            .unwrap();
            Node::from(object).has_memory_pressure
        };
        assert_eq!(
            [with("True"), with("False"), with("Unknown")],
            [true, false, false]
        );
    }

    #[test]
    fn our_own_conditions_are_kept_and_no_heartbeat_of_theirs() {
        let with = |heartbeat: &str| {
            let object: WatchedNode = serde_json::from_value(json!({
                "metadata": {"name": "n1"},
                "status": {"conditions": [
                    {"type": "DiskPressure", "status": "False", "message": "others"},
                    {
                        "type": names::BRAKED, "status": "True", "reason": "CpuStop", "message": "ä".repeat(600),
                        "lastTransitionTime": "2026-11-20T00:00:00Z", "lastHeartbeatTime": heartbeat,
                    },
                    {"type": names::CLAMPED, "status": "False", "lastTransitionTime": "soon"},
                ]},
            }))
            .unwrap();
            Node::from(object).own_conditions
        };
        let found = with("2026-11-20T00:00:00Z");
        let [braked, clamped] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!((braked.kind, braked.is_true), (names::BRAKED, true));
        assert_eq!(braked.since, "2026-11-20T00:00:00Z".parse().ok());
        assert_eq!(braked.message, "ä".repeat(512));
        assert_eq!((clamped.is_true, clamped.since), (false, None));
        // A heartbeat alone notifies no follower of Nodes.
        assert_eq!(found, with("2026-11-20T00:05:00Z"));
    }

    #[test]
    fn a_mode_that_is_none_counts_as_absent() {
        assert_eq!(node(&json!({names::MODE: "Auto"})).mode, None);
        assert_eq!(node(&json!(null)).mode, None);
    }
}
