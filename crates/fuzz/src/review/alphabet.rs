//! Names and values that writes and rewrites are made of.

use serde_json::{Value, json};

/// Names that paths of writes are made of; some need escaping in pointers or in JSON.
pub(super) const NAMES: [&str; 12] = [
    "metadata",
    "annotations",
    "labels",
    "status",
    "allocatable",
    "conditions",
    "cpu",
    "a",
    "a/b",
    "~1",
    "",
    "é\"\\",
];

/// A value to be written.
pub(super) fn value(byte: usize) -> Value {
    match byte % 10 {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(0),
        3 => json!(1.5),
        4 => json!("x"),
        5 => json!([]),
        6 => json!([1, {"a": null}]),
        7 => json!({}),
        8 => json!({"a": {"cpu": "4"}, "": null}),
        _ => json!({"annotations": {"a/b": "~"}}),
    }
}
