//! Runs the rules of `/mutate-pod` on pods out of files.

use std::sync::Arc;

use headroom_domain::selector::Labels;
use headroom_proto::v1alpha1::{FieldWrite, PodDecision, ProfileVerdict};
use headroom_rules::{
    completion::complete,
    explain::Explanation,
    pod_object::PlainPod,
    profile::{Newcomer, PriorityClass, ProfileMatch, ProfileRules, ProfileTarget},
    switch::Switches,
};
use serde_json::Value;

use super::{
    PodName,
    decided::{DecidedPod, DecisionOrigin, ReplicaDecision},
    objects::FileObjects,
};
use crate::documents;

/// The namespace of pods that name none.
const DEFAULT_NAMESPACE: &str = "default";

/// What the rules make of a new pod, with their gates at their defaults.
pub fn decide(pod: &Value, objects: &FileObjects, switches: &Switches) -> DecidedPod {
    let metadata = |member: &str| documents::at(pod, &["metadata", member]);
    let text = |member: &str| metadata(member).as_str().unwrap_or_default();
    let namespace = match text("namespace") {
        "" => DEFAULT_NAMESPACE,
        namespace => namespace,
    };
    let newcomer = Newcomer {
        target: ProfileTarget::Pod,
        review: None,
        namespace,
        // What are no labels has been refused.
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
    let reasons = match complete(&mut completed, &newcomer, rules) {
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
            missing: missing(&newcomer, objects, switches),
            warnings: completed.warnings,
        },
        decisions: vec![ReplicaDecision {
            replica: String::new(),
            decision,
        }],
        left_out: 0,
    }
}

/// The objects that profiles need and no file has.
fn missing(newcomer: &Newcomer<'_>, objects: &FileObjects, switches: &Switches) -> Vec<String> {
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
        match newcomer.matches(profile, switches) {
            ProfileMatch::OtherLabels | ProfileMatch::OtherNamespace => {}
            ProfileMatch::UnknownNamespace => add(format!("Namespace {}", newcomer.namespace)),
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

/// The decision as the webhook would send it.
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
