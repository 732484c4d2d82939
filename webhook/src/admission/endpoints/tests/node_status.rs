//! Tests of `/mutate-node-status` with every case of Koordinator's webhook: a review in, the stored object out.
//!
//! Rows have the numbers of Koordinator's cases (N1 to N58). Where Headroom differs, the name also contains the
//! reason: a defect (D) of Koordinator (`docs/compatibility.md`) or a rule (G, `docs/capacity.md`). Headroom also
//! writes a marker, which the rows do not contain; it is compared separately.

mod already_amplified;
mod ratios;
mod raw_annotation;
mod shared_kubelets;
mod uncovered_reviews;

use headroom_domain::names;
use serde_json::Map;

use super::*;

const PATH: &str = "/mutate-node-status";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// The node's kubelet in a status sync: the Ready heartbeat moves.
    Sync,
    /// The node's kubelet without a heartbeat, as when it registers.
    Kubelet,
    /// Another user, such as Koordinator's slo-controller.
    Other,
}

const ANYONE: &[By] = &[By::Sync, By::Kubelet, By::Other];

/// One row: a write of `nodes/status` on a node without our marker, and the stored result.
#[derive(Debug, Clone, Copy)]
struct Row {
    /// Koordinator's rule or defect, and why ours differs.
    name: &'static str,
    /// Writers that the row applies to.
    by: &'static [By],
    /// Allocatable as stored before, if it is another than the written one.
    old: Option<&'static str>,
    /// Allocatable as written; empty if the object has none.
    new: &'static str,
    /// The ratio annotation, stored and written.
    ratio: Option<&'static str>,
    /// The raw annotation, stored and written.
    raw: Option<&'static str>,
    allocatable: &'static str,
    raw_after: Option<&'static str>,
    /// True if our marker stands on the node afterwards.
    is_marked: bool,
}

/// Common values of the rows.
const ROW: Row = Row {
    name: "",
    by: ANYONE,
    old: None,
    new: "",
    ratio: None,
    raw: None,
    allocatable: "",
    raw_after: None,
    is_marked: true,
};

/// A node as it is stored.
struct NodeFixture {
    stored: Value,
    hour: u32,
}

impl Row {
    async fn check(&self, by: By) {
        let Self { name, .. } = *self;
        let mut node = NodeFixture::new(self.old.unwrap_or(self.new));
        node.annotate(names::RATIO, self.ratio);
        node.annotate(names::RAW_ALLOCATABLE, self.raw);
        node.write(by, |object| set_allocatable(object, self.new)).await;
        assert_eq!(
            node.allocatable(),
            allocatable(self.allocatable),
            "{name} by {by:?}"
        );
        assert_eq!(
            node.annotation(names::RAW_ALLOCATABLE),
            self.raw_after,
            "{name} by {by:?}"
        );
        assert_eq!(node.annotation(names::RATIO), self.ratio, "{name} by {by:?}");
        assert_eq!(
            node.annotation(names::MARKER).is_some(),
            self.is_marked,
            "{name} by {by:?}"
        );
        let patch = node.write(By::Other, |_| ()).await;
        assert_eq!(
            patch,
            Patch(vec![]),
            "{name} by {by:?}, carried on by somebody else"
        );
    }
}

async fn check(rows: &[Row]) {
    for row in rows {
        for &by in row.by {
            row.check(by).await;
        }
    }
}

impl NodeFixture {
    /// Node with these allocatable values. Its capacity is 64 CPUs and 7Ei: its reservation is more than any
    /// amplification here.
    fn new(allocatable: &str) -> Self {
        let mut stored = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n1", "uid": "u-n1", "labels": {"kubernetes.io/os": "linux"}},
            "spec": {"podCIDR": "10.0.0.0/24"},
            "status": {
                "capacity": {"cpu": "64", "memory": "7Ei", "pods": "110"},
                "conditions": [
                    {"type": "MemoryPressure", "status": "False", "lastHeartbeatTime": heartbeat(0)},
                    {"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat(0)},
                ],
                "declaredFeatures": ["FutureFeature"],
            },
        });
        set_allocatable(&mut stored, allocatable);
        Self { stored, hour: 0 }
    }

    /// A node of 4 CPUs and 8Gi that a kubelet's sync has amplified.
    async fn amplified(ratio: &str) -> Self {
        let mut node = Self::new(RAW);
        node.annotate(names::RATIO, Some(ratio));
        node.write(By::Sync, |_| ()).await;
        node
    }

    /// Writes `nodes/status` through the endpoint: the changed object, patched, is stored.
    async fn write(&mut self, by: By, change: impl FnOnce(&mut Value)) -> Patch {
        self.write_as(&user_info(by), by == By::Sync, change).await
    }

    /// Writes `nodes/status` as that user, with a moved Ready heartbeat or without.
    async fn write_as(&mut self, user: &Value, is_sync: bool, change: impl FnOnce(&mut Value)) -> Patch {
        let mut object = self.stored.clone();
        if is_sync {
            self.hour += 1;
            for condition in object["status"]["conditions"].as_array_mut().unwrap() {
                condition["lastHeartbeatTime"] = heartbeat(self.hour).into();
            }
        }
        change(&mut object);
        let review = review_as(user, &object, &self.stored);
        let patch = patch_of(&verdict(&review).await);
        let mut stored = object.clone();
        json_patch::patch(&mut stored, &patch).unwrap();
        assert_eq!(besides_ours(&stored), besides_ours(&object));
        let mut again = review;
        again["request"]["object"] = stored.clone();
        assert_eq!(
            patch_of(&verdict(&again).await),
            Patch(vec![]),
            "called again: {again:#}"
        );
        self.stored = stored;
        patch
    }

    /// Sets or removes an annotation, as a PATCH of `nodes` does.
    fn annotate(&mut self, key: &str, value: Option<&str>) {
        let metadata = self.stored["metadata"].as_object_mut().unwrap();
        let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
        let annotations = annotations.as_object_mut().unwrap();
        match value {
            Some(value) => drop(annotations.insert(key.to_owned(), value.into())),
            None => drop(annotations.remove(key)),
        }
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.stored["metadata"].get("annotations")?.get(key)?.as_str()
    }

    fn annotations(&self) -> Map<String, Value> {
        annotations(&self.stored)
    }

    fn raw(&self) -> Option<&str> {
        self.annotation(names::RAW_ALLOCATABLE)
    }

    fn allocatable(&self) -> Option<Value> {
        self.stored["status"].get("allocatable").cloned()
    }

    fn cpu(&self) -> &str {
        self.stored["status"]["allocatable"]["cpu"].as_str().unwrap()
    }
}

/// The kubelet's own values on most nodes here.
const RAW: &str = r#"{"cpu":"4","memory":"8Gi"}"#;

fn heartbeat(hour: u32) -> String {
    format!("2026-01-01T{hour:02}:00:00Z")
}

/// Allocatable from JSON, absent for the empty text.
fn allocatable(json: &str) -> Option<Value> {
    (!json.is_empty()).then(|| serde_json::from_str(json).expect(json))
}

fn set_allocatable(object: &mut Value, json: &str) {
    let status = object["status"].as_object_mut().unwrap();
    match allocatable(json) {
        Some(value) => drop(status.insert("allocatable".to_owned(), value)),
        None => drop(status.remove("allocatable")),
    }
}

fn annotations(object: &Value) -> Map<String, Value> {
    let annotations = object["metadata"].get("annotations").and_then(Value::as_object);
    annotations.cloned().unwrap_or_default()
}

/// The object without the fields that this endpoint changes.
fn besides_ours(object: &Value) -> Value {
    let mut object = object.clone();
    let of_others: Map<String, Value> = annotations(&object)
        .into_iter()
        .filter(|(key, _)| key != names::RAW_ALLOCATABLE && !key.starts_with(names::DOMAIN))
        .collect();
    object["metadata"]["annotations"] = of_others.into();
    let allocatable = object["status"].get_mut("allocatable");
    if let Some(allocatable) = allocatable.and_then(Value::as_object_mut) {
        allocatable.retain(|resource, _| resource != "cpu" && resource != "memory");
    }
    object
}

fn user_info(by: By) -> Value {
    match by {
        By::Sync | By::Kubelet => json!({"username": "system:node:n1", "groups": ["system:nodes"]}),
        By::Other => json!({"username": "system:serviceaccount:koordinator-system:koord-manager"}),
    }
}

fn review(by: By, object: &Value, old_object: &Value) -> Value {
    review_as(&user_info(by), object, old_object)
}

fn review_as(user: &Value, object: &Value, old_object: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "r-1",
            "kind": {"group": "", "version": "v1", "kind": "Node"},
            "resource": {"group": "", "version": "v1", "resource": "nodes"},
            "subResource": "status",
            "name": "n1",
            "operation": "UPDATE",
            "userInfo": user,
            "object": object,
            "oldObject": old_object,
        },
    })
}

/// The answer to a review, with status and body.
async fn answer(review: &Value) -> (StatusCode, Bytes) {
    super::answer(FixtureCluster::default(), PATH, review).await
}

/// Verdict on an allowed review.
async fn verdict(review: &Value) -> Value {
    let (status, body) = answer(review).await;
    assert_eq!(status, StatusCode::OK, "{body:?}");
    let body: Value = serde_json::from_slice(&body).unwrap();
    let verdict = &body["response"];
    assert_eq!(
        (&verdict["allowed"], verdict.get("status")),
        (&json!(true), None),
        "{verdict:#}"
    );
    verdict.clone()
}
