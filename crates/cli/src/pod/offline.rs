//! Applies the rules of `/mutate-pod` to pods from files.

use std::sync::Arc;

use headroom_domain::selector::Labels;
use headroom_proto::v1alpha1::{FieldWrite, PodDecision, ProfileVerdict};
use headroom_rules::{
    completion::complete,
    explain::Explanation,
    pod_object::PlainPod,
    profile::{CreatedObject, PriorityClass, ProfileMatch, ProfileRules, ProfileTarget},
    switch::Switches,
};
use serde_json::Value;

use super::{
    PodName,
    decided::{DecidedPod, DecisionOrigin, ReplicaDecision},
    objects::FileObjects,
};
use crate::documents;

/// Namespace of pods without one.
const DEFAULT_NAMESPACE: &str = "default";

/// Applies the rules to a new pod, with default feature gates.
pub fn decide(pod: &Value, objects: &FileObjects, switches: &Switches) -> DecidedPod {
    let metadata = |member: &str| documents::at(pod, &["metadata", member]);
    let text = |member: &str| metadata(member).as_str().unwrap_or_default();
    let namespace = match text("namespace") {
        "" => DEFAULT_NAMESPACE,
        namespace => namespace,
    };
    let created = CreatedObject {
        target: ProfileTarget::Pod,
        review: None,
        namespace,
        // Invalid labels were refused when the file was read.
        labels: serde_json::from_value::<Option<Labels>>(metadata("labels").clone())
            .unwrap_or_default()
            .unwrap_or_default(),
        namespace_labels: objects.namespaces.get(namespace).map(Arc::clone),
    };
    let class = |name: &str| -> Option<Arc<PriorityClass>> { objects.classes.get(name).map(Arc::clone) };
    let rules = ProfileRules {
        profiles: &objects.profiles,
        class: &class,
        switches,
    };
    let mut completed = PlainPod::new(pod.clone());
    let reasons = match complete(&mut completed, &created, rules) {
        Ok(()) => Vec::new(),
        Err(error) => vec![headroom_kit::log::chain(&error).to_string()],
    };
    let outcome = if reasons.is_empty() { "allowed" } else { "failed" };
    let decision = PodDecision {
        outcome: outcome.to_owned(),
        reasons,
        namespace: namespace.to_owned(),
        name: text("name").to_owned(),
        generate_name: text("generateName").to_owned(),
        ..shown(&completed.explanation)
    };
    let name = if decision.name.is_empty() {
        &decision.generate_name
    } else {
        &decision.name
    };
    DecidedPod {
        pod: PodName {
            namespace: namespace.to_owned(),
            name: name.clone(),
        },
        origin: DecisionOrigin::Files {
            missing: missing(&created, objects, switches),
            warnings: completed.warnings,
        },
        decisions: vec![ReplicaDecision {
            replica: String::new(),
            decision,
        }],
        left_out: 0,
    }
}

/// Objects that profiles reference and no file contains.
fn missing(created: &CreatedObject<'_>, objects: &FileObjects, switches: &Switches) -> Vec<String> {
    let mut missing = Vec::new();
    let mut add = |object: String| {
        if !missing.contains(&object) {
            missing.push(object);
        }
    };
    for known in objects.profiles.values() {
        let Ok(profile) = &known.compiled else {
            continue;
        };
        match created.matches(profile, switches) {
            ProfileMatch::OtherLabels | ProfileMatch::OtherNamespace => {}
            ProfileMatch::UnknownNamespace => add(format!("Namespace {}", created.namespace)),
            ProfileMatch::Matches => {
                let class = profile.priority_class_name();
                if let Some(name) = class.filter(|name| !objects.classes.contains_key(*name)) {
                    add(format!("PriorityClass {name}"));
                }
            }
        }
    }
    missing
}

/// Converts an explanation to the message that the webhook sends.
fn shown(explanation: &Explanation) -> PodDecision {
    let profiles = explanation.profiles().into_iter().map(|profile| ProfileVerdict {
        name: profile.name,
        result: profile.result.name().to_owned(),
        reason: profile.reason,
    });
    let writes = explanation.writes().into_iter().map(|write| FieldWrite {
        path: write.path,
        value: write.value,
        writer: write.writer.to_string(),
    });
    PodDecision {
        endpoint: "mutate-pod".to_owned(),
        operation: "CREATE".to_owned(),
        profiles: profiles.collect(),
        writes: writes.collect(),
        left_out: u32::try_from(explanation.left_out()).unwrap_or(u32::MAX),
        ..PodDecision::default()
    }
}
