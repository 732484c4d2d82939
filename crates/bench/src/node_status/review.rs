//! Builds admission reviews of a kubelet with 50 images: object and oldObject of 40 kB each. `bench fleet` uses parts
//! of them.

use headroom_domain::{
    capacity::{Annotations, NodeState},
    names,
};
use headroom_webhook::store::node::{Labels, Node};
use serde_json::{Map, Value, json};

use crate::review_router::admission_review;

pub(super) const HINT: &str = r#"{"boot":"8f5c7d0e-7f0b-4a53-9f7e-0d8e8f0f2a11","cpu":{"brake":0,"p":6120,"pub":128},"memory":{"brake":0,"p":24000000000,"pub":100},"mode":"FULL","seq":4711,"timing":"production","uid":"d3b07384-d9a0-4c9b-8f3e-2f6c1b1c9a10","v":1,"why":["slack"]}"#;

/// Nesting level of the members of metadata, spec and status in a review.
pub(super) const OPENED: u32 = 4;

const UID: &str = "d3b07384-d9a0-4c9b-8f3e-2f6c1b1c9a10";
const NAME: &str = "ip-10-20-30-40.eu-central-1.compute.internal";
/// Maximum number of images that a kubelet reports.
const IMAGES: usize = 50;

/// Result of a kubelet's status sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Unchanged: the node is not amplified.
    Plain,
    /// Amplified and stored: the stored heartbeat has reached its maximum age.
    Amplified,
    /// Amplified and quieted: only heartbeats would change, so the patch restores the stored status.
    Quieted,
}

impl Kind {
    #[cfg(test)]
    pub(super) const ALL: [Self; 3] = [Self::Plain, Self::Amplified, Self::Quieted];

    /// Names of the steps that change the object.
    pub(crate) const fn acts(self) -> &'static [&'static str] {
        match self {
            Self::Plain => &[],
            Self::Amplified => &["amplify"],
            Self::Quieted => &["amplify", "quiet"],
        }
    }
}

/// One status sync of a kubelet, with raw allocatable and new heartbeats.
pub(crate) struct Sync {
    pub(crate) body: Vec<u8>,
    pub(crate) object_bytes: usize,
}

/// Syncs, 10 s apart, after which the heartbeat of an amplified node is due.
const DUE: usize = 30;

/// `count` syncs of one node, 10 s apart.
pub(crate) fn kubelet_syncs(kind: Kind, count: usize) -> Vec<Sync> {
    let since = if kind == Kind::Amplified { DUE } else { 1 };
    (0..count)
        .map(|turn| sync(kind, &heartbeat(turn), &heartbeat(turn + since)))
        .collect()
}

/// The stored node as a watch event delivers it.
pub(super) fn stored(kind: Kind) -> Node {
    let annotations = annotations(kind != Kind::Plain);
    let text = |key| annotations.get(key)?.as_str().map(str::to_owned);
    Node {
        name: NAME.to_owned(),
        uid: UID.to_owned(),
        version: 81_726_354,
        labels: Labels::new(),
        state: NodeState {
            annotations: Annotations::read(text, &Annotations::default()),
            ..NodeState::default()
        },
        mode: None,
        tells_allocated: true,
        has_memory_pressure: false,
        own_conditions: Vec::new(),
    }
}

fn heartbeat(turn: usize) -> String {
    format!("2026-11-20T10:{:02}:{:02}Z", turn / 6 % 60, turn % 6 * 10)
}

fn sync(kind: Kind, before: &str, now: &str) -> Sync {
    let is_ours = kind != Kind::Plain;
    let old = node(before, if is_ours { "20480m" } else { "16" }, is_ours);
    let object = node(now, "16", is_ours);
    let object_bytes = object.to_string().len();
    let user = format!("{}{NAME}", names::NODE_USER_PREFIX);
    let gvr = json!({"group": "", "version": "v1", "resource": "nodes"});
    let body = admission_review(&json!({
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "", "version": "v1", "kind": "Node"},
        "resource": gvr,
        "subResource": "status",
        "requestKind": {"group": "", "version": "v1", "kind": "Node"},
        "requestResource": gvr,
        "requestSubResource": "status",
        "name": NAME,
        "operation": "UPDATE",
        "userInfo": {"username": user, "groups": [names::NODES_GROUP, "system:authenticated"]},
        "object": object,
        "oldObject": old,
        "dryRun": false,
        "options": {"kind": "PatchOptions", "apiVersion": "meta.k8s.io/v1"},
    }));
    Sync { body, object_bytes }
}

fn node(heartbeat: &str, cpu: &str, is_ours: bool) -> Value {
    json!({
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {
            "name": NAME,
            "uid": UID,
            "resourceVersion": "81726354",
            "creationTimestamp": "2026-09-01T08:00:00Z",
            "labels": labels(),
            "annotations": annotations(is_ours),
            "managedFields": managed_fields(),
        },
        "spec": {"podCIDR": "10.244.7.0/24", "podCIDRs": ["10.244.7.0/24"], "providerID": "cloud:///zone-a/i-0123456789abcdef0"},
        "status": {
            "capacity": {"cpu": "16", "ephemeral-storage": "209702892Ki", "hugepages-1Gi": "0", "hugepages-2Mi": "0", "memory": "64821260Ki", "pods": "110"},
            "allocatable": {"cpu": cpu, "ephemeral-storage": "193262185116", "hugepages-1Gi": "0", "hugepages-2Mi": "0", "memory": "64718860Ki", "pods": "110"},
            "conditions": conditions(heartbeat),
            "addresses": [{"type": "InternalIP", "address": "10.20.30.40"}, {"type": "Hostname", "address": NAME}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "machineID": "ec2a1b9b2c3d4e5f6a7b8c9d0e1f2a3b", "systemUUID": "ec2a1b9b-2c3d-4e5f-6a7b-8c9d0e1f2a3b",
                "bootID": "8f5c7d0e-7f0b-4a53-9f7e-0d8e8f0f2a11", "kernelVersion": "6.12.41", "osImage": "Debian GNU/Linux 13 (trixie)",
                "containerRuntimeVersion": "containerd://2.1.4", "kubeletVersion": "v1.36.3", "kubeProxyVersion": "",
                "operatingSystem": "linux", "architecture": "amd64",
            },
            "images": images(),
            "runtimeHandlers": [{"name": "", "features": {"recursiveReadOnlyMounts": true, "userNamespaces": true}}],
            "features": {"supplementalGroupsPolicy": true},
        },
    })
}

pub(crate) fn labels() -> Value {
    let own = (0..14).map(|index| {
        (
            format!("topology.example.com/level-{index:02}"),
            Value::from(format!("value-{index:04}")),
        )
    });
    let known = [
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "node.kubernetes.io/instance-type",
    ];
    Value::Object(
        own.chain(known.map(|key| (key.to_owned(), "amd64".into())))
            .collect(),
    )
}

/// Annotations of controllers, and those of our last write if `is_ours`.
fn annotations(is_ours: bool) -> Value {
    let mut annotations: Map<String, Value> = (0..12)
        .map(|index| {
            (
                format!("controller-{index:02}.example.com/state"),
                format!("{index:x}").repeat(64).into(),
            )
        })
        .collect();
    let marker = json!({
        "at": heartbeat(0), "cpu": "20480m",
        "from": {"cpu": {"capacity": "16", "raw": "16"}, "memory": {"capacity": "64821260Ki", "raw": "64718860Ki"}},
        "memory": "64718860Ki", "uid": UID,
    });
    let ours = [
        (names::RATIO, r#"{"cpu":1.28}"#.to_owned()),
        (
            names::RAW_ALLOCATABLE,
            r#"{"cpu":"16","memory":"64718860Ki"}"#.to_owned(),
        ),
        (names::MARKER, marker.to_string()),
        (names::HINT, HINT.to_owned()),
        (names::STATIC_RATIO, String::new()),
    ];
    annotations.extend(
        ours.into_iter()
            .filter(|_| is_ours)
            .map(|(key, text)| (key.to_owned(), text.into())),
    );
    annotations.insert(
        "volumes.kubernetes.io/controller-managed-attach-detach".to_owned(),
        "true".into(),
    );
    Value::Object(annotations)
}

pub(crate) fn managed_fields() -> Value {
    let fields = |count: usize| -> Value {
        let own = (0..count).map(|index| (format!("f:topology.example.com/level-{index:02}"), json!({})));
        Value::Object(own.collect())
    };
    let entry = |manager: &str, subresource: &str, count: usize| {
        json!({
            "manager": manager, "operation": "Update", "apiVersion": "v1", "time": "2026-11-20T10:00:00Z", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": fields(count)}, "f:status": {"f:conditions": {"k:{\"type\":\"Ready\"}": {"f:lastHeartbeatTime": {}}}}},
            "subresource": subresource,
        })
    };
    json!([
        entry("kubelet", "status", 14),
        entry("kube-controller-manager", "", 14),
        entry("node-problem-detector", "status", 4)
    ])
}

pub(crate) fn conditions(heartbeat: &str) -> Value {
    let kinds = [
        (
            "MemoryPressure",
            "False",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available",
        ),
        (
            "DiskPressure",
            "False",
            "KubeletHasNoDiskPressure",
            "kubelet has no disk pressure",
        ),
        (
            "PIDPressure",
            "False",
            "KubeletHasSufficientPID",
            "kubelet has sufficient PID available",
        ),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        (
            "KernelDeadlock",
            "False",
            "KernelHasNoDeadlock",
            "kernel has no deadlock",
        ),
        (
            "ReadonlyFilesystem",
            "False",
            "FilesystemIsNotReadOnly",
            "Filesystem is not read-only",
        ),
    ];
    let condition = |(kind, status, reason, message): (&str, &str, &str, &str)| json!({"type": kind, "status": status, "lastHeartbeatTime": heartbeat, "lastTransitionTime": "2026-09-01T08:00:40Z", "reason": reason, "message": message});
    kinds.map(condition).into_iter().collect()
}

/// Up to five names per image, as kubelets report them.
pub(crate) fn images() -> Value {
    let image = |index: usize| {
        let digest = format!(
            "{:064x}",
            (index as u128 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c834)
        );
        let repository = format!(
            "registry.eu-central-1.example.com/platform/team-{:02}/service-{index:03}",
            index % 9
        );
        json!({
            "names": [
                format!("{repository}@sha256:{digest}"),
                format!("{repository}:v1.{index}.0-build.20261101.{index:05}"),
                format!("mirror.eu-central-1.example.com/cache/{repository}@sha256:{digest}"),
                format!("mirror.eu-central-1.example.com/cache/{repository}:v1.{index}.0-build.20261101.{index:05}"),
                format!("{repository}:stable"),
            ],
            "sizeBytes": 150_000_000 + index * 1_234_567,
        })
    };
    (0..IMAGES).map(image).collect()
}
