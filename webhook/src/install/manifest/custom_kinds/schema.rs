//! Parts of schemas that several kinds have.

use serde_json::{Map, Value, json};

/// Maximum number of labels, amounts or other members of a map. Bounds the cost of a schema's rules.
pub(super) const MOST_MEMBERS: u32 = 256;
/// Longest text in a map.
const LONGEST_TEXT: u32 = 4096;

/// An object with these members.
pub(super) fn object(about: &str, members: &[(&str, Value)]) -> Value {
    let members: Map<String, Value> = members
        .iter()
        .map(|(name, schema)| ((*name).to_owned(), schema.clone()))
        .collect();
    json!({"type": "object", "description": about, "properties": members})
}

/// An object whose schema has more: rules, required members.
pub(super) fn with(mut schema: Value, more: Value) -> Value {
    if let (Some(schema), Value::Object(more)) = (schema.as_object_mut(), more) {
        schema.extend(more);
    }
    schema
}

/// Whole object: its version, its kind and its content.
pub(super) fn whole(about: &str, spec: Value, status: Value) -> Value {
    let text = json!({"type": "string"});
    object(
        about,
        &[
            ("apiVersion", text.clone()),
            ("kind", text),
            ("metadata", json!({"type": "object"})),
            ("spec", spec),
            ("status", status),
        ],
    )
}

/// Schema of a string.
pub(super) fn text(about: &str) -> Value {
    json!({"type": "string", "description": about})
}

/// Schema of a map of strings.
pub(super) fn texts(about: &str) -> Value {
    json!({
        "type": "object", "description": about, "maxProperties": MOST_MEMBERS,
        "additionalProperties": {"type": "string", "maxLength": LONGEST_TEXT},
    })
}

/// Amounts by the names of resources, none of them negative.
pub(super) fn amounts(about: &str) -> Value {
    json!({
        "type": "object", "description": about, "maxProperties": MOST_MEMBERS,
        "additionalProperties": {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": true, "maxLength": 64,
            "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
        },
        "x-kubernetes-validations": [{
            "rule": "self.all(name, type(self[name]) == int ? self[name] >= 0 : !self[name].startsWith('-'))",
            "message": "an amount must not be negative",
        }],
    })
}

/// A label selector that Kubernetes takes.
pub(super) fn selector(about: &str) -> Value {
    let values = json!({
        "type": "array", "maxItems": MOST_MEMBERS, "items": {"type": "string", "maxLength": 63},
        "x-kubernetes-list-type": "atomic",
    });
    let requirement = with(
        object(
            "A condition on one label.",
            &[
                ("key", json!({"type": "string", "minLength": 1, "maxLength": 317})),
                (
                    "operator",
                    json!({"type": "string", "enum": ["In", "NotIn", "Exists", "DoesNotExist"]}),
                ),
                ("values", values),
            ],
        ),
        json!({
            "required": ["key", "operator"],
            "x-kubernetes-validations": [{
                "rule": "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
                "message": "In and NotIn need values, Exists and DoesNotExist must have none",
            }],
        }),
    );
    let requirements = json!({
        "type": "array", "maxItems": 64, "items": requirement, "x-kubernetes-list-type": "atomic",
    });
    let labels = json!({
        "type": "object", "maxProperties": MOST_MEMBERS, "additionalProperties": {"type": "string", "maxLength": 63},
    });
    with(
        object(
            about,
            &[("matchLabels", labels), ("matchExpressions", requirements)],
        ),
        json!({"x-kubernetes-map-type": "atomic"}),
    )
}

/// An object of which nothing is checked.
pub(super) fn anything(about: &str) -> Value {
    json!({"type": "object", "description": about, "x-kubernetes-preserve-unknown-fields": true})
}
