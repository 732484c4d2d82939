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
        "What is kept free, for whom and for how long.",
        &[
            (
                "template",
                with(
                    anything("The pod for which resources are kept free."),
                    json!({"nullable": false}),
                ),
            ),
            ("owners", owners()),
            (
                "ttl",
                json!({"type": "string", "default": "24h", "maxLength": 64, "description": "How long, as 1h30m; 0s is for ever."}),
            ),
            (
                "expires",
                json!({"type": "string", "format": "date-time", "description": "Until when; it counts before ttl."}),
            ),
            (
                "preAllocation",
                switch("Whether it may take what pods on the node still have."),
            ),
            (
                "allocateOnce",
                json!({"type": "boolean", "default": true, "description": "Whether it ends with its first owner."}),
            ),
            (
                "allocatePolicy",
                with(
                    text("How owners are fitted in."),
                    json!({"enum": ["Aligned", "Restricted"]}),
                ),
            ),
            ("unschedulable", switch("Whether no owner may begin to use it.")),
            (
                "taints",
                json!({"type": "array", "maxItems": 64, "items": anything("A taint, as nodes have them."), "description": "What owners must tolerate."}),
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
    let about = "Resources of a node that are kept free for pods to come.";
    whole(about, spec, anything("What became of it."))
}

fn policy() -> Value {
    object(
        "How resources are kept free before pods leave.",
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
        "description": "Pods that may use what is kept free.",
    })
}
