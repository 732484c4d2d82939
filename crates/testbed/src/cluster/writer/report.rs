//! Report of a status writer: capacity, raw allocatable and conditions of the node. Creates the first Node, and PATCHes with the
//! differences from the stored Node.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use headroom_domain::{
    quantity::{Format, Quantity},
    resource::Resource,
};
use k8s_openapi::{
    api::core::v1::{Node, NodeCondition, NodeStatus},
    apimachinery::pkg::{api::resource::Quantity as Text, apis::meta::v1::Time},
};
use serde_json::{Map, Value, json};
use xtask::setup::controlplane::release::Release;

use super::NodeOptions;

/// Maximum number of pods: the kubelet's default.
const PODS: u64 = 110;
/// Type, status, reason and message of each condition. All except the last message are a kubelet's.
const CONDITIONS: [[&str; 4]; 4] = [
    [
        "MemoryPressure",
        "False",
        "KubeletHasSufficientMemory",
        "kubelet has sufficient memory available",
    ],
    [
        "DiskPressure",
        "False",
        "KubeletHasNoDiskPressure",
        "kubelet has no disk pressure",
    ],
    [
        "PIDPressure",
        "False",
        "KubeletHasSufficientPID",
        "kubelet has sufficient PID available",
    ],
    [
        "Ready",
        "True",
        "KubeletReady",
        "a status writer is posting ready status; there is no kubelet",
    ],
];

type Amounts = BTreeMap<&'static str, Quantity>;

/// Raw values of the node.
#[derive(Debug, Clone)]
pub(super) struct Report {
    capacity: Amounts,
    allocatable: Amounts,
    release: String,
}

impl Report {
    pub(super) fn new(options: &NodeOptions) -> Result<Self> {
        let NodeOptions {
            name: _,
            backend: _,
            cpus,
            memory_bytes,
            reserved_cpu_milli,
            reserved_memory_bytes,
            sync: _,
            report: _,
            api_server_url: _,
        } = options;
        let cpu_milli = u64::from(*cpus) * 1000;
        let allocatable_milli = cpu_milli.saturating_sub(u64::from(*reserved_cpu_milli));
        let allocatable_bytes = memory_bytes.saturating_sub(*reserved_memory_bytes);
        Ok(Self {
            capacity: amounts(cpu_milli, *memory_bytes),
            allocatable: amounts(allocatable_milli, allocatable_bytes),
            release: Release::pinned()?.kubernetes().to_owned(),
        })
    }

    /// The Node to create. It has no conditions; that of a kubelet is not Ready. The first PATCH sets the conditions.
    pub(super) fn node(&self, name: &str) -> Result<Node> {
        let node = json!({
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"},
            },
            "status": {
                "capacity": differing(&self.capacity, None),
                "allocatable": differing(&self.allocatable, None),
                "addresses": [{"type": "Hostname", "address": name}],
                "nodeInfo": {
                    // Version comparison ignores build metadata after `+`.
                    "kubeletVersion": format!("{}+status-writer", self.release),
                    "operatingSystem": "linux",
                    "osImage": "status writer",
                },
            },
        });
        serde_json::from_value(node).context("describe the Node")
    }

    /// Strategic merge PATCH of `status` with all differences, and a heartbeat for each condition. `None` if nothing differs and
    /// no heartbeat is due.
    pub(super) fn patch(&self, stored: &NodeStatus, is_due: bool, now: &Time) -> Option<Value> {
        let mut patch = Map::new();
        for (field, own, stored) in [
            ("capacity", &self.capacity, &stored.capacity),
            ("allocatable", &self.allocatable, &stored.allocatable),
        ] {
            let differing = differing(own, stored.as_ref());
            if !differing.is_empty() {
                patch.insert(field.to_owned(), differing.into());
            }
        }
        let stored = stored.conditions.as_deref().unwrap_or_default();
        let mut has_changed = !patch.is_empty();
        let conditions = CONDITIONS.map(|condition| {
            let [kind, ..] = condition;
            let mut entry = changes(condition, stored.iter().find(|stored| stored.type_ == kind), now);
            has_changed |= !entry.is_empty();
            entry.insert("type".to_owned(), json!(kind));
            entry.insert("lastHeartbeatTime".to_owned(), json!(now));
            Value::Object(entry)
        });
        patch.insert("conditions".to_owned(), conditions.to_vec().into());
        (has_changed || is_due).then(|| patch.into())
    }
}

fn amounts(cpu_milli: u64, memory_bytes: u64) -> Amounts {
    Amounts::from([
        (Resource::Cpu.name(), Quantity::from_milli(cpu_milli)),
        (
            Resource::Memory.name(),
            Quantity::from_units(memory_bytes, Format::BinarySi),
        ),
        ("pods", Quantity::from_units(PODS, Format::DecimalSi)),
    ])
}

/// Amounts whose stored value is missing or different. `4` equals `4000m`.
fn differing(own: &Amounts, stored: Option<&BTreeMap<String, Text>>) -> Map<String, Value> {
    let is_stored = |name: &str, amount: &Quantity| {
        let stored = stored.and_then(|stored| stored.get(name)?.0.parse().ok());
        stored.is_some_and(|stored: Quantity| stored == *amount)
    };
    own.iter()
        .filter(|(name, amount)| !is_stored(name, amount))
        .map(|(name, amount)| ((*name).to_owned(), amount.to_string().into()))
        .collect()
}

/// Fields that differ in the stored condition.
fn changes(
    [_, status, reason, message]: [&str; 4],
    stored: Option<&NodeCondition>,
    now: &Time,
) -> Map<String, Value> {
    let mut changes = Map::new();
    let of_stored = |field: fn(&NodeCondition) -> Option<&str>| stored.and_then(field);
    for (name, own, stored) in [
        ("status", status, of_stored(|it| Some(&it.status))),
        ("reason", reason, of_stored(|it| it.reason.as_deref())),
        ("message", message, of_stored(|it| it.message.as_deref())),
    ] {
        if stored != Some(own) {
            changes.insert(name.to_owned(), own.into());
        }
    }
    if changes.contains_key("status") {
        changes.insert("lastTransitionTime".to_owned(), json!(now));
    }
    changes
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;

    use super::*;

    fn report() -> Report {
        let options = NodeOptions {
            cpus: 4,
            memory_bytes: 8 << 30,
            reserved_cpu_milli: 200,
            reserved_memory_bytes: 1 << 30,
            ..NodeOptions::new("n")
        };
        Report::new(&options).unwrap()
    }

    fn noon() -> Time {
        Time("2026-01-01T12:00:00Z".parse::<Timestamp>().unwrap())
    }

    /// Status in the API server after the first PATCH.
    fn stored() -> Value {
        let mut status = serde_json::to_value(report().node("n").unwrap().status).unwrap();
        let patch = report().patch(&NodeStatus::default(), false, &noon()).unwrap();
        status["conditions"] = patch["conditions"].clone();
        status
    }

    fn patch(stored: Value, is_due: bool) -> Option<Value> {
        let now = Time("2026-01-01T12:05:00Z".parse::<Timestamp>().unwrap());
        report().patch(&serde_json::from_value(stored).unwrap(), is_due, &now)
    }

    #[test]
    fn first_patch_after_creation_has_only_conditions() {
        let mut status = stored();
        status["conditions"] = json!([]);
        let patch = patch(status, false).unwrap();
        assert_eq!(
            patch.as_object().unwrap().keys().collect::<Vec<_>>(),
            ["conditions"]
        );
        assert_eq!(patch["conditions"][3]["status"], "True");
        assert_eq!(
            patch["conditions"][3]["lastTransitionTime"],
            "2026-01-01T12:05:00Z"
        );
    }

    #[test]
    fn unchanged_status_is_patched_only_for_heartbeats() {
        assert_eq!(patch(stored(), false), None);
        let patch = patch(stored(), true).unwrap();
        let heartbeat = |kind: &str| json!({"type": kind, "lastHeartbeatTime": "2026-01-01T12:05:00Z"});
        let all = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"].map(heartbeat);
        assert_eq!(patch, json!({ "conditions": all }));
    }

    #[test]
    fn changed_allocatable_is_reset_and_nothing_else() {
        let mut status = stored();
        status["allocatable"]["cpu"] = json!("4560m");
        let patch = patch(status, false).unwrap();
        assert_eq!(patch["allocatable"], json!({"cpu": "3800m"}));
        assert_eq!(patch.get("capacity"), None);
        assert_eq!(patch["conditions"][3].get("status"), None);
    }

    #[test]
    fn equal_quantity_in_another_notation_is_no_change() {
        let mut status = stored();
        assert_eq!(
            status["allocatable"],
            json!({"cpu": "3800m", "memory": "7Gi", "pods": "110"})
        );
        status["allocatable"] = json!({"cpu": "3.8", "memory": "7516192768", "pods": "110", "x.io/y": "1"});
        assert_eq!(patch(status, false), None);
    }

    #[test]
    fn changed_condition_is_reset() {
        let mut status = stored();
        status["conditions"][3]["status"] = json!("Unknown");
        let patch = patch(status, false).unwrap();
        let expected = json!({
            "type": "Ready", "status": "True",
            "lastHeartbeatTime": "2026-01-01T12:05:00Z", "lastTransitionTime": "2026-01-01T12:05:00Z",
        });
        assert_eq!(patch["conditions"][3], expected);
    }
}
