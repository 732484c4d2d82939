//! Model of the floor policy in the API server: its changes to a kubelet's write of the Node status.
//!
//! Its values come from the rules in Rust. Its note to the webhook and its quieting exist otherwise only in CEL. A test
//! on a real API server compares the CEL with the same rules.

use headroom_domain::{
    capacity::{Write, Writer, floor},
    names,
    resource::Resource,
};
use headroom_webhook::install::manifest::policies::floor::INTERVAL;
use serde_json::{Map, Value, json};

use super::node::{heartbeat_of, state, uid_of};

const HEARTBEAT: &str = "lastHeartbeatTime";

/// The write after the policy.
pub(super) fn after(old: &Value, new: Value) -> Value {
    let uid = uid_of(old).to_owned();
    let marker = old["metadata"]["annotations"][names::MARKER].as_str();
    let is_marked = marker.is_some_and(|marker| marker.contains(&format!("\"uid\":\"{uid}\"")));
    if !is_marked {
        return new;
    }
    let (was, is) = (state(old), state(&new));
    let write = Write {
        uid: &uid,
        writer: Writer::Kubelet,
        old: &was,
        new: &is,
    };
    let (stored, sent) = (heartbeat_of(old), heartbeat_of(&new));
    let is_off = old["metadata"]["annotations"][names::MODE] == "off";
    let held = floor::floored(&write, is_off, |at| {
        let at: jiff::Timestamp = at.parse().expect("a time");
        sent.duration_since(at).unsigned_abs() < floor::HOLDS_FOR
    });
    let mut after = new.clone();
    let mut note = Map::new();
    for resource in Resource::ALL {
        if let Some(value) = held.get(resource) {
            let name = resource.name();
            note.insert(name.to_owned(), new["status"]["allocatable"][name].clone());
            after["status"]["allocatable"][name] = value.to_string().into();
        }
    }
    let age = sent.duration_since(stored);
    let is_young = !age.is_negative() && age.unsigned_abs() < INTERVAL;
    let is_quiet = is_young && timeless(old) == timeless(&after);
    if is_quiet {
        after["status"]["conditions"] = old["status"]["conditions"].clone();
    }
    let had_note = old["metadata"]["annotations"].get(names::KUBELET_RAW).is_some();
    let is_handed_over = !note.is_empty() && (!is_quiet || had_note);
    note.insert("at".to_owned(), heartbeat_of(&after).to_string().into());
    let annotations = after["metadata"]["annotations"]
        .as_object_mut()
        .expect("annotations");
    if is_handed_over {
        annotations.insert(
            names::KUBELET_RAW.to_owned(),
            Value::Object(note).to_string().into(),
        );
    } else {
        annotations.remove(names::KUBELET_RAW);
    }
    after
}

/// The Node without what may differ in a write that is kept quiet.
fn timeless(node: &Value) -> Value {
    let state = state(node);
    let mut node = node.clone();
    for condition in node["status"]["conditions"].as_array_mut().expect("conditions") {
        condition[HEARTBEAT] = json!(null);
    }
    for resource in Resource::ALL {
        let amount = state
            .allocatable
            .get(resource)
            .map(|quantity| quantity.to_string());
        node["status"]["allocatable"][resource.name()] = amount.into();
    }
    node["metadata"]["resourceVersion"] = json!(null);
    node["metadata"]["annotations"]
        .as_object_mut()
        .expect("annotations")
        .remove(names::KUBELET_RAW);
    node
}
