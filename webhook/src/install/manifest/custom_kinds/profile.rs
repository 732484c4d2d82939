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
        "Selects pods, and contains the fields that they get.",
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
                    text("QoS class that the pods get."),
                    json!({"enum": ["", "LSE", "LSR", "LS", "BE", "SYSTEM"]}),
                ),
            ),
            (
                "priorityClassName",
                text("PriorityClass that the pods get, with its value and preemption policy."),
            ),
            (
                "koordinatorPriority",
                json!({"type": "integer", "format": "int32", "description": "Priority among pods of one class."}),
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
                texts("Suffixes for the values of existing labels."),
            ),
            ("schedulerName", text("The scheduler of the pods.")),
            (
                "patch",
                with(
                    anything("Strategic merge patch for the pods."),
                    json!({"nullable": true}),
                ),
            ),
        ],
    );
    let about =
        "Fields that new pods of some namespaces and labels get, so that they share nodes with others.";
    whole(about, spec, anything("Nothing yet."))
}

/// A percentage, as a number or as a text with its sign.
fn probability() -> Value {
    json!({
        "description": "Share of the pods in percent, 0 to 100, as 50 or 50%; all if absent.",
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": true,
        "maxLength": 16,
        "x-kubernetes-validations": [{
            "rule": "type(self) == int ? self >= 0 && self <= 100 : self.matches('^(100|[0-9]{1,2})%$')",
            "message": "must be from 0 to 100, or from 0% to 100%",
        }],
    })
}
