//! Names and values of writes and rewrites.

use serde_json::{Value, json};

/// Names in paths of writes. Some need escaping in JSON pointers or in JSON.
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

/// Value that a byte of the input selects.
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
