//! Builds the objects of the fleet: Nodes with the size of a kubelet with 50 images, pods and the ConfigMap.
//!
//! Only the parts of a Node that writes change are stored; the rest is the same for all Nodes and is added to the
//! text on request.

use std::sync::LazyLock;

use anyhow::{Context as _, Result};
use headroom_domain::{capacity::amount, names, quantity::Quantity, resource::Resource};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::node_status::review;

/// Allocatable as the kubelet reports it.
pub(super) const RAW_CPU: &str = "16";
pub(super) const RAW_CPU_MILLI: u64 = 16_000;
const RAW_MEMORY: &str = "64718860Ki";
/// Memory capacity of a node, in bytes.
pub(super) const MEMORY: u64 = 64_821_260 << 10;
/// Requests of all pods of a node, in milli-cores.
const REQUESTED_MILLI: usize = 12_000;

static IMAGES: LazyLock<String> = LazyLock::new(|| review::images().to_string());
static MANAGED_FIELDS: LazyLock<String> = LazyLock::new(|| review::managed_fields().to_string());
/// Members of a pod that the webhook does not read.
static POD_REST: LazyLock<String> = LazyLock::new(|| {
    let variables: Vec<Value> = (0..12)
        .map(|index| json!({"name": format!("SERVICE_{index:02}"), "value": "v".repeat(40)}))
        .collect();
    let fields: Map<String, Value> = (0..24)
        .map(|index| (format!("f:member-{index:02}"), json!({})))
        .collect();
    json!({"env": variables, "managedFields": [{"manager": "kubelet", "operation": "Update", "fieldsV1": fields}]})
        .to_string()
});

/// The parts of a Node that writes change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NodeText {
    pub(super) version: u64,
    pub(super) cpu_milli: u64,
    /// `metadata` without managedFields and resourceVersion.
    metadata: String,
    status: String,
}

pub(super) fn node_name(node: usize) -> String {
    format!(
        "ip-10-{}-{}-{}.eu-central-1.compute.internal",
        node >> 16,
        node >> 8 & 255,
        node & 255
    )
}

pub(super) fn node_uid(node: usize) -> String {
    format!("{node:08x}-d9a0-4c9b-8f3e-2f6c1b1c9a10")
}

pub(super) fn pod_uid(pod: usize) -> String {
    format!("{pod:08x}-1e6b-4b0e-9c55-7a3f2d9be001")
}

impl NodeText {
    /// A node that was never amplified.
    ///
    /// # Errors
    /// None in practice.
    pub(super) fn raw(node: usize, version: u64) -> Result<Self> {
        let mut annotations: Map<String, Value> = (0..12)
            .map(|index| {
                (
                    format!("controller-{index:02}.example.com/state"),
                    "0123456789abcdef".repeat(4).into(),
                )
            })
            .collect();
        annotations.insert(
            "volumes.kubernetes.io/controller-managed-attach-detach".to_owned(),
            "true".into(),
        );
        let object = json!({
            "metadata": {
                "name": node_name(node), "uid": node_uid(node), "creationTimestamp": "2026-09-01T08:00:00Z",
                "labels": review::labels(), "annotations": annotations,
            },
            "status": {
                "capacity": {"cpu": RAW_CPU, "memory": "64821260Ki", "pods": "110"},
                "allocatable": {"cpu": RAW_CPU, "memory": RAW_MEMORY, "pods": "110"},
                "conditions": review::conditions(&now()),
                "nodeInfo": {"kubeletVersion": "v1.36.3", "kernelVersion": "6.12.41", "osImage": "Debian GNU/Linux 13 (trixie)"},
            },
        });
        Self::serialize(&object, version)
    }

    /// Inverse of [`Self::object`].
    ///
    /// # Errors
    /// If `object` is no Node.
    pub(super) fn serialize(object: &Value, version: u64) -> Result<Self> {
        let part = |name: &str| object.get(name).context("the Node has no metadata or status");
        let (metadata, status) = (part("metadata")?, part("status")?);
        let cpu = status.pointer("/allocatable/cpu").and_then(Value::as_str);
        let cpu: Quantity = cpu.context("the Node has no allocatable CPU")?.parse()?;
        Ok(Self {
            version,
            cpu_milli: amount(Resource::Cpu, &cpu).context("allocatable CPU is not a valid amount")?,
            metadata: metadata.to_string(),
            status: status.to_string(),
        })
    }

    /// The parts that writes may change.
    ///
    /// # Errors
    /// None in practice.
    pub(super) fn object(&self) -> Result<Value> {
        let part = |text: &str| serde_json::from_str::<Value>(text);
        Ok(json!({"metadata": part(&self.metadata)?, "status": part(&self.status)?}))
    }

    /// The whole object as JSON text.
    pub(super) fn text(&self) -> String {
        let Self {
            version,
            metadata,
            status,
            ..
        } = self;
        let (metadata, status) = (rest(metadata), rest(status));
        let (fields, images) = (&*MANAGED_FIELDS, &*IMAGES);
        format!(
            r#"{{"kind":"Node","apiVersion":"v1","metadata":{{"resourceVersion":"{version}","managedFields":{fields},{metadata},"spec":{{"podCIDR":"10.244.7.0/24"}},"status":{{"images":{images},{status}}}"#
        )
    }
}

/// An object's JSON text without its opening brace.
fn rest(object: &str) -> &str {
    object.strip_prefix('{').unwrap_or(object)
}

/// Current time in whole seconds, as kubelets write it.
fn now() -> String {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}

/// A kubelet's write: its own allocatable and new heartbeats.
pub(super) fn sync(object: &mut Value) {
    if let Some(allocatable) = object
        .pointer_mut("/status/allocatable")
        .and_then(Value::as_object_mut)
    {
        allocatable.insert("cpu".to_owned(), RAW_CPU.into());
        allocatable.insert("memory".to_owned(), RAW_MEMORY.into());
    }
    let heartbeat = now();
    let conditions = object
        .pointer_mut("/status/conditions")
        .and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten().filter_map(Value::as_object_mut) {
        let kind = condition.get("type").and_then(Value::as_str).unwrap_or_default();
        if !kind.starts_with(names::DOMAIN) {
            condition.insert("lastHeartbeatTime".to_owned(), heartbeat.clone().into());
        }
    }
}

/// Pod number `pod` of `pods` on `nodes` nodes, running, with allocated resources in its status.
pub(super) fn pod(pod: usize, pods: usize, nodes: usize) -> String {
    let (node, uid) = (node_name(pod % nodes), pod_uid(pod));
    let milli = REQUESTED_MILLI / pods.div_ceil(nodes).max(1);
    let asks = format!(r#"{{"cpu":"{milli}m","memory":"1Gi"}}"#);
    let version = pod + 1;
    format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"service-{pod:06}","namespace":"team-{}","uid":"{uid}","resourceVersion":"{version}","creationTimestamp":"2026-11-01T08:00:00Z","labels":{{"app":"service-{pod:06}"}}}},"spec":{{"nodeName":"{node}","containers":[{{"name":"main","image":"registry.example.com/service:v1","resources":{{"requests":{asks}}}}}],"rest":{}}},"status":{{"phase":"Running","qosClass":"Burstable","containerStatuses":[{{"name":"main","ready":true,"allocatedResources":{asks},"resources":{{"requests":{asks}}}}}]}}}}"#,
        pod % 50,
        &*POD_REST,
    )
}

pub(super) fn config_map(policy: &str, version: u64) -> String {
    json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {"name": names::SLO_CONFIG, "namespace": names::SLO_CONFIG_NAMESPACE, "resourceVersion": version.to_string()},
        "data": {names::AMPLIFICATION_CONFIG: policy},
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_the_size_of_one_with_fifty_images_and_parses_back() {
        let node = NodeText::raw(7, 3).unwrap();
        let text = node.text();
        assert!((36_000..=44_000).contains(&text.len()), "{}", text.len());
        let object: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(object["metadata"]["resourceVersion"], "3");
        assert_eq!(object["status"]["images"].as_array().unwrap().len(), 50);
        assert_eq!(NodeText::serialize(&object, 4).unwrap().cpu_milli, RAW_CPU_MILLI);
        assert_eq!(NodeText::serialize(&node.object().unwrap(), 3).unwrap(), node);
    }

    #[test]
    fn a_sync_writes_raw_values_and_keeps_our_conditions() {
        let mut object = json!({"metadata": {}, "status": {
            "allocatable": {"cpu": "20", "memory": "1"},
            "conditions": [{"type": "Ready"}, {"type": names::BRAKED}],
        }});
        sync(&mut object);
        assert_eq!(
            object["status"]["allocatable"],
            json!({"cpu": RAW_CPU, "memory": RAW_MEMORY})
        );
        assert!(object["status"]["conditions"][0]["lastHeartbeatTime"].is_string());
        assert_eq!(object["status"]["conditions"][1], json!({"type": names::BRAKED}));
    }

    #[test]
    fn pods_are_spread_over_the_nodes_and_have_a_usual_size() {
        let text = pod(12, 150_000, 5_000);
        let object: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(object["spec"]["nodeName"], node_name(12));
        assert_eq!(
            object["spec"]["containers"][0]["resources"]["requests"]["cpu"],
            "400m"
        );
        assert!((1_800..=4_000).contains(&text.len()), "{}", text.len());
    }
}
