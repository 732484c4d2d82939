//! Reads fields of a Node for the node endpoints, from an object as sent or from a draft with writes.

use std::{borrow::Cow, cell::OnceCell};

use headroom_domain::{
    capacity::{Annotations, NodeState},
    hint::Machine,
    names,
    policy::{Mode, Policy},
    quantity::Quantity,
    resource::{PerResource, Resource},
};
use serde_json::Number;

use crate::{
    admission::{
        draft::{Draft, Fields, Tree},
        endpoint::{Ctx, Endpoint, Step},
    },
    store::{
        lookup::NodeLookup,
        node::{self, Labels, object},
    },
};

/// Endpoint whose steps read the stores of nodes.
pub(super) type NodeEndpoint = Endpoint<dyn NodeLookup>;
pub(super) type NodeStep = Step<dyn NodeLookup>;
/// Inputs of a step of nodes.
pub(super) type NodeCtx<'a> = Ctx<'a, dyn NodeLookup + 'static>;

/// The path of the conditions.
pub(super) const CONDITIONS: [&str; 2] = ["status", "conditions"];
/// Member of a condition with the time of its reporter's last update.
pub(super) const HEARTBEAT: &str = names::LAST_HEARTBEAT_TIME;

/// The path of an annotation.
pub(super) fn annotation_path(key: &str) -> [&str; 3] {
    ["metadata", "annotations", key]
}

/// An annotation as messages name it.
pub(super) fn annotation_field(key: &str) -> String {
    format!("metadata.annotations[{key}]")
}

/// An annotation's value; anything but text is not one.
pub(super) fn annotation<'f>(fields: &'f impl Fields, key: &str) -> Option<Cow<'f, str>> {
    fields.read_text(&annotation_path(key))
}

/// The Node's UID, empty if it has none yet.
pub(super) fn uid(fields: &impl Fields) -> String {
    let uid = fields.read_text(&["metadata", "uid"]);
    uid.unwrap_or_default().into_owned()
}

/// The path of the labels.
const LABELS: [&str; 2] = ["metadata", "labels"];

/// Labels of the Node; unreadable ones count as none.
pub(super) fn labels(fields: &impl Fields) -> Labels {
    fields.read(&LABELS).ok().flatten().unwrap_or_default()
}

/// The resource version of an object as it is stored; 0 where it has none.
pub(super) fn version(fields: &impl Fields) -> u64 {
    let version = fields.read_text(&["metadata", "resourceVersion"]);
    version
        .and_then(|version| version.parse().ok())
        .unwrap_or_default()
}

/// Keys of guarded annotations, known or not.
pub(super) fn guarded_keys(fields: &impl Fields) -> impl Iterator<Item = &str> {
    fields.guarded_names(&["metadata", "annotations"]).into_iter()
}

/// True if the Node's kubelet reports reservations in pod statuses.
pub(super) fn tells_allocated(fields: &impl Fields) -> bool {
    let version = fields.read_text(&["status", "nodeInfo", "kubeletVersion"]);
    object::tells_allocated(&version.unwrap_or_default())
}

/// Fields that the capacity rules read. An unreadable field counts as missing, never as an error. Annotations that
/// `known` has with the same text are not parsed again.
pub(super) fn state(fields: &impl Fields, known: &Annotations) -> NodeState {
    let annotations = Annotations::read(|key| annotation(fields, key), known);
    state_with(fields, annotations)
}

/// States of the stored object and of a draft that replaces it. Annotations with the stored text are parsed once.
pub(super) fn states(old: &Tree<'_>, draft: &Draft<'_>, known: &Annotations) -> (NodeState, NodeState) {
    let new = state(draft, known);
    let old = if draft.is_as_stored(&["metadata", "annotations"]) {
        state_with(old, new.annotations.clone())
    } else {
        state(old, known)
    };
    (old, new)
}

/// The state of an object that has these annotations.
fn state_with(fields: &impl Fields, annotations: Annotations) -> NodeState {
    let quantities = |list: &str| PerResource::from_fn(|resource| quantity(fields, list, resource));
    NodeState {
        allocatable: quantities("allocatable"),
        capacity: quantities("capacity"),
        ready_heartbeat: ready_heartbeat(fields),
        annotations,
    }
}

/// Machine that an object in this state describes.
pub(super) fn machine(fields: &impl Fields, state: &NodeState) -> Machine {
    let is_pressed = |condition: &Tree<'_>| {
        let has_text = |name, text| condition.read_text(&[name]).is_some_and(|own| own == text);
        has_text("type", "MemoryPressure") && has_text("status", "True")
    };
    let has_memory_pressure =
        fields.with_elements(&CONDITIONS, |conditions| conditions.iter().any(is_pressed));
    node::machine(state, has_memory_pressure)
}

/// The policy configured for a Node with the labels that it has, or is to have; `None` while it is not known. Of labels
/// that are more than are read at once, those count that the watch brought.
pub(super) fn configured_policy(ctx: &NodeCtx<'_>, fields: &impl Fields) -> Option<Policy> {
    let stored = OnceCell::new();
    ctx.store.policy(&|| {
        let stored = || {
            stored
                .get_or_init(|| ctx.store.stored(&ctx.request.name))
                .as_ref()
        };
        match fields.is_wide(&LABELS).then(stored).flatten() {
            Some(node) => Cow::Borrowed(&node.labels),
            None => Cow::Owned(labels(fields)),
        }
    })
}

/// Policy in force: the configured one with the mode of the Node's annotation. If that mode does not exist or the
/// policy ignores it, the configured one stays and the second value contains the reason.
pub(super) fn policy(ctx: &NodeCtx<'_>, fields: &impl Fields) -> Option<(Policy, Option<String>)> {
    let policy = configured_policy(ctx, fields)?;
    Some(
        match annotation(fields, names::MODE).map(|text| text.parse::<Mode>()) {
            None => (policy, None),
            Some(Ok(mode)) => match policy.with_mode(mode) {
                Some(policy) => (policy, None),
                None => (policy, Some(ignored(policy))),
            },
            Some(Err(error)) => (policy, Some(error.to_string())),
        },
    )
}

/// Reason why an annotation of a user has no effect, for warnings.
pub(super) fn ignored(policy: Policy) -> String {
    format!(
        "has no effect: amplification.annotations is {}",
        policy.annotations.name()
    )
}

/// A quantity: text, or a number as users write it.
pub(super) fn quantity(fields: &impl Fields, list: &str, resource: Resource) -> Option<Quantity> {
    let path = ["status", list, resource.name()];
    if let Some(text) = fields.read_text(&path) {
        return text.trim().parse().ok();
    }
    let number: Number = fields.read(&path).ok()??;
    number.to_string().parse().ok()
}

/// `lastHeartbeatTime` of the Ready condition, as written.
pub(super) fn ready_heartbeat(fields: &impl Fields) -> Option<String> {
    let is_ready = |condition: &&Tree<'_>| condition.read_text(&["type"]).is_some_and(|kind| kind == "Ready");
    fields.with_elements(&CONDITIONS, |conditions| {
        let heartbeat = conditions.iter().find(is_ready)?.read_text(&[HEARTBEAT])?;
        Some(heartbeat.into_owned())
    })
}
