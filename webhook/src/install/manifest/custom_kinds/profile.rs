//! The kind `ClusterColocationProfile`.

use serde_json::{Value, json};

use super::{
    AGE, Column, CustomKind,
    schema::{anything, object, selector, text, texts, whole, with},
};
use crate::store::colocation::profiles;

pub(super) static KIND: CustomKind = CustomKind {
    group: profiles::GROUP,
    kind: "ClusterColocationProfile",
    singular: "clustercolocationprofile",
    plural: profiles::PLURAL,
    short: &[],
    is_namespaced: false,
    has_status: true,
    columns: &[
        Column::text("QoS", ".spec.qosClass"),
        Column::text("PriorityClass", ".spec.priorityClassName"),
        Column::text("Scheduler", ".spec.schedulerName"),
        Column {
            priority: 1,
            ..Column::text("Probability", ".spec.probability")
        },
        AGE,
    ],
    schema: definition,
};

fn definition() -> Value {
    let spec = object(
        "Which pods, and what they get.",
        &[
            (
                "namespaceSelector",
                selector("Namespaces of the pods; all if absent."),
            ),
            ("selector", selector("Labels of the pods; all if absent.")),
            ("probability", probability()),
            (
                "qosClass",
                with(
                    text("The class of service that pods get."),
                    json!({"enum": ["", "LSE", "LSR", "LS", "BE", "SYSTEM"]}),
                ),
            ),
            (
                "priorityClassName",
                text("The PriorityClass that pods get, with its value and its policy of preemption."),
            ),
            (
                "koordinatorPriority",
                json!({"type": "integer", "format": "int32", "description": "The priority among pods of one class."}),
            ),
            ("labels", texts("Labels that pods get.")),
            ("annotations", texts("Annotations that pods get.")),
            (
                "labelKeysMapping",
                texts("Labels that are copied: from the key to the value."),
            ),
            (
                "annotationKeysMapping",
                texts("Annotations that are copied: from the key to the value."),
            ),
            (
                "labelSuffixes",
                texts("What is added behind the values of labels that are there."),
            ),
            ("schedulerName", text("The scheduler of the pods.")),
            (
                "patch",
                with(
                    anything("A strategic merge patch of the pods."),
                    json!({"nullable": true}),
                ),
            ),
        ],
    );
    let about = "What new pods of some namespaces and labels get, so that they share nodes with others.";
    whole(about, spec, anything("Nothing yet."))
}

/// A percentage, as a number or as a text with its sign.
fn probability() -> Value {
    json!({
        "description": "The share of the pods in percent, 0 to 100, as 50 or 50%; all if absent.",
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": true,
        "maxLength": 16,
        "x-kubernetes-validations": [{
            "rule": "type(self) == int ? self >= 0 && self <= 100 : self.matches('^(100|[0-9]{1,2})%$')",
            "message": "must be from 0 to 100, or from 0% to 100%",
        }],
    })
}
