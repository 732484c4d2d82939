//! The kind `Reservation`.

use serde_json::{Value, json};

use super::{
    AGE, Column, CustomKind,
    schema::{anything, object, selector, text, whole, with},
};

pub(super) static KIND: CustomKind = CustomKind {
    group: "scheduling.koordinator.sh",
    kind: "Reservation",
    singular: "reservation",
    plural: "reservations",
    short: &[],
    is_namespaced: false,
    has_status: true,
    columns: &[
        Column::text("Phase", ".status.phase"),
        AGE,
        Column::text("Node", ".status.nodeName"),
        Column::text("TTL", ".spec.ttl"),
        Column::text("Expires", ".spec.expires"),
    ],
    schema: definition,
};

fn definition() -> Value {
    let switch = |about: &str| json!({"type": "boolean", "description": about});
    let spec = object(
        "Reserved resources, their owners and their duration.",
        &[
            (
                "template",
                with(
                    anything("Pod for which resources are reserved."),
                    json!({"nullable": false}),
                ),
            ),
            ("owners", owners()),
            (
                "ttl",
                json!({"type": "string", "default": "24h", "maxLength": 64, "description": "Duration, as 1h30m; 0s means unlimited."}),
            ),
            (
                "expires",
                json!({"type": "string", "format": "date-time", "description": "End time; takes precedence over ttl."}),
            ),
            (
                "preAllocation",
                switch("If true, it may use resources that running pods on the node still hold."),
            ),
            (
                "allocateOnce",
                json!({"type": "boolean", "default": true, "description": "If true, it ends with its first owner."}),
            ),
            (
                "allocatePolicy",
                with(
                    text("Policy for fitting owners."),
                    json!({"enum": ["Aligned", "Restricted"]}),
                ),
            ),
            ("unschedulable", switch("If true, no new owner may use it.")),
            (
                "taints",
                json!({"type": "array", "maxItems": 64, "items": anything("A taint, as nodes have them."), "description": "Taints that owners must tolerate."}),
            ),
            ("preAllocationPolicy", policy()),
        ],
    );
    let spec = with(
        spec,
        json!({
            "required": ["owners", "template"],
            "x-kubernetes-validations": [{
                "rule": "has(self.ttl) || has(self.expires)",
                "message": "must have ttl or expires",
            }],
        }),
    );
    let about = "Resources of a node that are reserved for future pods.";
    whole(about, spec, anything("Current state."))
}

fn policy() -> Value {
    object(
        "Reserves resources before pods leave.",
        &[
            (
                "mode",
                json!({"type": "string", "enum": ["Default", "Cluster"], "default": "Default"}),
            ),
            ("enableMultiple", json!({"type": "boolean", "default": false})),
        ],
    )
}

/// Pods that may use it: an object, a controller's pods, or those with some labels.
fn owners() -> Value {
    let required = json!({"required": ["apiVersion", "kind", "name", "uid"]});
    let controller = with(
        anything("The controller of the pods, and its namespace."),
        required,
    );
    let controller = with(
        controller,
        json!({"properties": {
            "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "name": {"type": "string"},
            "uid": {"type": "string"}, "namespace": {"type": "string"},
        }}),
    );
    let owner = with(
        object(
            "Pods that may use it.",
            &[
                ("object", anything("One pod.")),
                ("controller", controller),
                ("labelSelector", selector("Labels of the pods.")),
            ],
        ),
        json!({"x-kubernetes-validations": [{
            "rule": "has(self.object) || has(self.controller) || has(self.labelSelector)",
            "message": "must have object, controller or labelSelector",
        }]}),
    );
    json!({
        "type": "array", "minItems": 1, "maxItems": 64, "items": owner,
        "description": "Pods that may use the reserved resources.",
    })
}
