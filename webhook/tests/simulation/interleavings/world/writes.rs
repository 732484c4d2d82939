//! Writes of the model Node: the webhook's own, nudges and touches, and what the API server makes of any of them.

use headroom_domain::{
    names,
    resource::{PerResource, Resource},
};
use headroom_webhook::control::nudge::Nudge;
use serde_json::{Value, json};

use super::{KEPT, KUBELET, ModelWorld, NAME, StepResult};
use crate::interleavings::{
    floor,
    node::{
        allocatable, amount_in, heartbeat_of, marker_of, raw_of_annotation, raw_of_marker, uid_of,
        written_by_marker,
    },
    oracle::Recorded,
};

impl ModelWorld {
    /// A nudge, if one is due and the replica is there: true if it was.
    pub(super) fn nudge(&mut self, replica: usize) -> Result<bool, String> {
        let Some(nudge) = self.due_nudge(replica) else {
            return Ok(false);
        };
        self.arrive(&nudge).map(|()| true)
    }

    /// The nudge that is due, if one is and the replica is there.
    pub(super) fn due_nudge(&self, replica: usize) -> Option<Nudge> {
        let replica = &self.replicas[replica];
        replica.nudge(NAME).filter(|_| replica.is_up)
    }

    /// A nudge comes to the API server, which stores it for the revision that it rests on alone.
    pub(super) fn arrive(&mut self, nudge: &Nudge) -> StepResult {
        let is_overtaken =
            |version: u64| self.stored()["metadata"]["resourceVersion"] != version.to_string().as_str();
        if nudge.version.is_some_and(is_overtaken) {
            return Ok(());
        }
        let mut node = self.stored().clone();
        node["metadata"]["annotations"][names::HINT] = nudge.note.clone().into();
        self.write(&ours(), node)
    }

    /// A touch by a leader, if anything is amiss and the Node is still the one it looked at: true if it was.
    pub(super) fn sweep(&mut self, replica: usize) -> Result<bool, String> {
        let Some(version) = self.replicas[replica]
            .sweep(NAME)
            .filter(|_| self.replicas[replica].is_up)
        else {
            return Ok(false);
        };
        if self.stored()["metadata"]["resourceVersion"] == version.to_string().as_str() {
            self.write(&ours(), self.stored().clone())?;
        }
        Ok(true)
    }

    /// A write of the status: policies, the webhook, and then it is stored.
    pub(super) fn write(&mut self, user: &str, node: Value) -> StepResult {
        let old = self.stored().clone();
        let is_told = self.truths() != self.told_before;
        let is_by_marker = self.is_raw_told_by_marker();
        let said = PerResource::from_fn(|resource| {
            let stored = allocatable(&old, resource);
            let can_be_raw = written_by_marker(&old, resource) != Some(stored)
                && stored <= amount_in(&node, "capacity", resource);
            let raw = raw_of_marker(&old, resource).or_else(|| raw_of_annotation(&old, resource));
            [raw, Some(stored).filter(|_| can_be_raw)]
        });
        for resource in Resource::ALL {
            let [_, stored] = *said.get(resource);
            if let Some(stored) = stored.filter(|&stored| self.oracle.was_shown(resource, stored)) {
                self.oracle.counts_as_told(resource, stored);
            }
        }
        self.oracle.believe(&said);
        self.oracle.recorded(recorded_in(&old));
        let is_kubelet = user == KUBELET;
        let sent = PerResource::from_fn(|resource| allocatable(&node, resource));
        let mut node = if is_kubelet && self.has_floor {
            floor::after(&old, node)
        } else {
            node
        };
        let is_sync = is_kubelet && heartbeat_of(&node) != heartbeat_of(&old);
        let replica = &self.replicas[self.route];
        if is_kubelet && !replica.is_up {
            // No replica observes a value that the floor policy dropped, until the kubelet's next write.
            for resource in Resource::ALL {
                let is_kept =
                    |stored| *sent.get(resource) != stored && allocatable(&node, resource) == stored;
                if let [_, Some(stored)] = *said.get(resource)
                    && is_kept(stored)
                {
                    self.oracle.counts_as_told(resource, stored);
                }
            }
        }
        if replica.is_up {
            let review = review(user, &node, &old);
            let patch = replica.review(&review);
            json_patch::patch(&mut node, &patch).map_err(|error| format!("a patch does not fit: {error}"))?;
            let mut again = review;
            again["request"]["object"] = node.clone();
            let mut second = replica.review(&again);
            if user == ours() {
                // A replica that is behind nudges with a hint as it came, not as bounds leave it; the second call, which no API
                // server makes, reads the latter, and has nothing to complain about.
                second
                    .0
                    .retain(|operation| operation.path().as_str() != "/status/conditions");
            }
            if !second.is_empty() {
                return Err(format!("called again, it changes its own result: {second:?}"));
            }
        }
        self.is_raw_unsaid |= is_by_marker && !is_sync && marker_of(&node).is_none();
        self.store(node)?;
        self.told_before = self.truths();
        if is_told { Ok(()) } else { self.check_covered(&old) }
    }

    /// Stores what differs from what is stored.
    pub(in crate::interleavings) fn store(&mut self, mut node: Value) -> StepResult {
        if node == *self.stored() {
            return Ok(());
        }
        self.version += 1;
        node["metadata"]["resourceVersion"] = self.version.to_string().into();
        if uid_of(&node) != uid_of(self.stored()) {
            self.revisions.clear();
        }
        let last = self.revisions.last().unwrap_or(&node);
        let before = PerResource::from_fn(|resource| allocatable(last, resource));
        self.revisions.push(node);
        if self.revisions.len() > KEPT {
            self.revisions.remove(0);
        }
        self.check(&before)
    }
}

/// Content of a Node's marker.
fn recorded_in(node: &Value) -> PerResource<Option<Recorded>> {
    PerResource::from_fn(|resource| {
        let raw = raw_of_marker(node, resource)?;
        let written = written_by_marker(node, resource).unwrap_or(raw);
        Some(Recorded { raw, written })
    })
}

/// The user of nudges and sweeps.
fn ours() -> String {
    format!(
        "system:serviceaccount:{}:{}",
        names::NAMESPACE,
        names::WEBHOOK_SERVICE_ACCOUNT
    )
}

fn review(user: &str, object: &Value, old_object: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "r-1",
            "kind": {"group": "", "version": "v1", "kind": "Node"},
            "resource": {"group": "", "version": "v1", "resource": "nodes"},
            "subResource": "status",
            "name": NAME,
            "operation": "UPDATE",
            "userInfo": {"username": user},
            "object": object,
            "oldObject": old_object,
        },
    })
}
