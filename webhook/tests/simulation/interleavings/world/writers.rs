//! Writers of the model Node other than the webhook: its kubelet, people and other controllers.

use std::collections::BTreeMap;

use headroom_domain::{
    names,
    policy::Mode,
    resource::{PerResource, Resource},
};
use serde_json::{Value, json};

use super::{
    ANNOTATED, CLOUD, EDITS, HUMAN, KUBELET, ModelWorld, NAME, PROBLEM_DETECTOR, SYNC, StepResult, pick,
};
use crate::interleavings::{
    Annotation, Others,
    node::{allocatable, amount_in, marker_of, put, put_condition, text, written_by_marker},
};

impl ModelWorld {
    pub(super) fn annotate(&mut self, annotation: Annotation) -> StepResult {
        let mut node = self.stored().clone();
        let (key, value) = match annotation {
            Annotation::Ratio(ratio) => (names::RATIO, ratio.map(|ratio| self.ratio(ratio))),
            Annotation::Mode(mode) => (
                names::MODE,
                mode.map(|mode| pick(&Mode::ALL, mode).name().to_owned()),
            ),
        };
        put(&mut node["metadata"]["annotations"], key, value.map(Value::from));
        if marker_of(&node).is_none() {
            self.believe_without_marker(&node);
        }
        self.store(node)
    }

    /// The text of a ratio annotation for both resources.
    fn ratio(&mut self, ratio: usize) -> String {
        let (cpu, memory) = (pick(&ANNOTATED, ratio), pick(&ANNOTATED, ratio + 1));
        self.oracle.annotated(cpu);
        self.oracle.annotated(memory);
        let decimal = |cents: u32| format!("{}.{:02}", cents / 100, cents % 100);
        format!(r#"{{"cpu":{},"memory":{}}}"#, decimal(cpu), decimal(memory))
    }

    /// A Node as a kubelet makes it.
    pub(super) fn register(&mut self) {
        self.lives += 1;
        self.version += 1;
        let amounts = |amounts: &PerResource<u64>| {
            let texts =
                Resource::ALL.map(|resource| (resource.name(), text(resource, *amounts.get(resource))));
            json!(BTreeMap::from(texts))
        };
        let beat = self.time();
        let condition =
            |kind: &str, status: &str| json!({"type": kind, "status": status, "lastHeartbeatTime": beat});
        self.revisions = vec![json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": NAME, "uid": format!("u{}", self.lives), "annotations": {},
                "resourceVersion": self.version.to_string(),
            },
            "status": {
                "capacity": amounts(&self.capacity), "allocatable": amounts(&self.raw),
                "conditions": [condition("DiskPressure", "False"), condition("Ready", "True")],
            },
        })];
        for resource in Resource::ALL {
            self.oracle.record_raw(resource, *self.raw.get(resource));
        }
    }

    pub(super) fn recreate(&mut self, is_copy: bool) -> StepResult {
        if is_copy {
            self.lives += 1;
            let mut node = self.stored().clone();
            node["metadata"]["uid"] = format!("u{}", self.lives).into();
            for resource in Resource::ALL {
                self.claim(&node, resource, allocatable(&node, resource));
            }
            return self.store(node);
        }
        self.oracle.forget();
        self.register();
        let raw = self.raw;
        self.check(&raw)
    }

    /// The kubelet's sync: what differs between what it finds and the copy that it sees.
    pub(super) fn sync(&mut self, lag: usize, is_report: bool) -> StepResult {
        self.wait(SYNC);
        let seen = self.observed(lag).clone();
        let mut node = self.stored().clone();
        let mut has_news = is_report;
        for (list, amounts) in [("capacity", self.capacity), ("allocatable", self.raw)] {
            for resource in Resource::ALL {
                let found = text(resource, *amounts.get(resource));
                if seen["status"][list][resource.name()] != found.as_str() {
                    has_news = true;
                    node["status"][list][resource.name()] = found.into();
                    if list == "allocatable" {
                        self.claim(&node, resource, *amounts.get(resource));
                    }
                }
            }
        }
        if !has_news {
            return Ok(());
        }
        for resource in Resource::ALL {
            let raw = *self.raw.get(resource);
            let is_said = node["status"]["capacity"] != self.stored()["status"]["capacity"];
            // The copy already has the value, so the kubelet omits it, and so has the Node, from any writer.
            if is_said && allocatable(&node, resource) == raw {
                self.claim(&node, resource, raw);
            }
            // A reported value that equals our written one is not recognized, unless the capacity shows it.
            let is_heard = allocatable(self.stored(), resource) != raw
                || written_by_marker(self.stored(), resource) != Some(raw)
                || self.has_missed_news();
            if resource == Resource::Cpu
                && is_heard
                && seen["status"]["allocatable"]["cpu"] != text(resource, raw).as_str()
            {
                self.is_raw_unsaid = false;
            } else if resource == Resource::Cpu && is_said {
                self.is_raw_unsaid = allocatable(&node, resource) != raw;
            }
        }
        for kind in ["DiskPressure", "Ready"] {
            let status = if kind == "Ready" { "True" } else { "False" };
            let beat = self.time();
            put_condition(
                &mut node,
                json!({"type": kind, "status": status, "lastHeartbeatTime": beat}),
            );
        }
        self.write(KUBELET, node)
    }

    pub(super) fn write_of_others(&mut self, what: Others) -> StepResult {
        let edit = match what {
            Others::Edit(edit) => Some(pick(&EDITS, edit)),
            Others::Revert { lag } => Some(allocatable(self.observed(lag), Resource::Cpu)),
            Others::Problem | Others::Device | Others::Address(_) => None,
        };
        if edit.is_some_and(|edit| self.is_mistakable(edit)) {
            return Ok(());
        }
        let mut node = self.stored().clone();
        let user = match what {
            Others::Problem => {
                let beat = self.time();
                put_condition(
                    &mut node,
                    json!({"type": "KernelDeadlock", "status": "False", "lastHeartbeatTime": beat}),
                );
                PROBLEM_DETECTOR
            }
            Others::Device => {
                self.has_device = !self.has_device;
                let count = self.has_device.then(|| json!("1"));
                put(
                    &mut node["status"]["capacity"],
                    "example.com/device",
                    count.clone(),
                );
                put(&mut node["status"]["allocatable"], "example.com/device", count);
                KUBELET
            }
            Others::Address(last) => {
                node["status"]["addresses"] =
                    json!([{"type": "InternalIP", "address": format!("10.0.0.{last}")}]);
                CLOUD
            }
            Others::Edit(_) | Others::Revert { .. } => {
                if let Some(edit) = edit {
                    self.edit(&mut node, edit);
                }
                HUMAN
            }
        };
        self.write(user, node)
    }

    /// A client states that allocatable is `value`. Even a kubelet can seem to report more than its capacity: from an
    /// old copy it sends one of the two and omits the other.
    fn claim(&mut self, node: &Value, resource: Resource, value: u64) {
        if value > amount_in(node, "capacity", resource) {
            self.oracle.shown(resource, value);
        } else {
            self.oracle.record_raw(resource, value);
        }
    }

    fn edit(&mut self, node: &mut Value, cpu_milli: u64) {
        if allocatable(node, Resource::Cpu) != cpu_milli {
            self.claim(node, Resource::Cpu, cpu_milli);
            node["status"]["allocatable"]["cpu"] = text(Resource::Cpu, cpu_milli).into();
        }
    }
}
