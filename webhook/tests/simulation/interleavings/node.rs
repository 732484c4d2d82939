//! Helpers that read and write a Node as JSON.

use headroom_domain::{
    capacity::{Annotations, NodeState, amount},
    names,
    quantity::{Format, Quantity},
    resource::{PerResource, Resource},
};
use jiff::Timestamp;
use serde_json::Value;

/// The UID of a Node.
pub(super) fn uid_of(node: &Value) -> &str {
    node["metadata"]["uid"].as_str().expect("a UID")
}

/// The Ready heartbeat of a Node.
pub(super) fn heartbeat_of(node: &Value) -> Timestamp {
    ready_of(node).parse().expect("a time")
}

fn ready_of(node: &Value) -> &str {
    let conditions = node["status"]["conditions"].as_array().expect("conditions");
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready");
    ready.expect("Ready")["lastHeartbeatTime"]
        .as_str()
        .expect("a time")
}

/// Fields of a Node that the capacity rules read.
pub(super) fn state(node: &Value) -> NodeState {
    let quantities = |list: &str| {
        PerResource::from_fn(|resource| node["status"][list][resource.name()].as_str()?.parse().ok())
    };
    let annotation = |key: &str| Some(node["metadata"]["annotations"].get(key)?.as_str()?.into());
    NodeState {
        allocatable: quantities("allocatable"),
        capacity: quantities("capacity"),
        ready_heartbeat: Some(ready_of(node).to_owned()),
        annotations: Annotations {
            marker: annotation(names::MARKER),
            ..Annotations::default()
        },
    }
}

pub(super) fn text(resource: Resource, amount: u64) -> String {
    match resource {
        Resource::Cpu => Quantity::from_milli(amount),
        Resource::Memory => Quantity::from_units(amount, Format::BinarySi),
    }
    .to_string()
}

/// Allocatable of a Node in milli-cores or bytes.
pub(super) fn allocatable(node: &Value, resource: Resource) -> u64 {
    amount_in(node, "allocatable", resource)
}

/// An amount in one of the lists of a Node, in milli-cores or bytes.
pub(super) fn amount_in(node: &Value, list: &str, resource: Resource) -> u64 {
    let text = node["status"][list][resource.name()].as_str();
    amount(resource, &text.expect("a value").parse().expect("a quantity")).expect("an amount")
}

/// Sets or removes a member.
pub(super) fn put(object: &mut Value, key: &str, value: Option<Value>) {
    let members = object.as_object_mut().expect("an object");
    match value {
        Some(value) => drop(members.insert(key.to_owned(), value)),
        None => drop(members.remove(key)),
    }
}

/// Puts a condition in the place of the one of its type.
pub(super) fn put_condition(node: &mut Value, condition: Value) {
    let conditions = node["status"]["conditions"].as_array_mut().expect("conditions");
    match conditions.iter_mut().find(|is| is["type"] == condition["type"]) {
        Some(is) => *is = condition,
        None => conditions.push(condition),
    }
}

/// The marker of a Node, if it can be read.
pub(super) fn marker_of(node: &Value) -> Option<Value> {
    let marker = node["metadata"]["annotations"][names::MARKER].as_str()?;
    serde_json::from_str(marker).ok()
}

/// Written value in the marker, in milli-cores or bytes.
pub(super) fn written_by_marker(node: &Value, resource: Resource) -> Option<u64> {
    let written = marker_of(node)?[resource.name()].as_str()?.parse().ok()?;
    amount(resource, &written)
}

/// The raw value that the marker says, in milli-cores or bytes.
pub(super) fn raw_of_marker(node: &Value, resource: Resource) -> Option<u64> {
    let raw = marker_of(node)?["from"][resource.name()]["raw"]
        .as_str()?
        .parse()
        .ok()?;
    amount(resource, &raw)
}

/// The raw value that the raw annotation says, which counts where there is no marker.
pub(super) fn raw_of_annotation(node: &Value, resource: Resource) -> Option<u64> {
    let raw = node["metadata"]["annotations"][names::RAW_ALLOCATABLE].as_str()?;
    let raw: Value = serde_json::from_str(raw).ok()?;
    amount(resource, &raw[resource.name()].as_str()?.parse().ok()?)
}

/// The ratio that people ask for in annotations, in cents.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a small positive number"
)]
pub(super) fn own_cents(node: &Value, resource: Resource) -> Option<u32> {
    let annotations = &node["metadata"]["annotations"];
    let own = annotations[names::STATIC_RATIO]
        .as_str()
        .or(annotations[names::RATIO].as_str());
    let own: Value = serde_json::from_str(own?).ok()?;
    Some((own[resource.name()].as_f64()? * 100.0).round() as u32)
}
