//! Shapes of reviews that also fit any other object.

use super::Row;

pub(super) const NODE_ROWS: &[Row] = &[
    (
        "empty objects without a head",
        &[r#"{"request":{"object":{"#, r#""":{},"#, r#""":{}}}}"#],
    ),
    ("an array for a review", &["[", "{},", "{}]"]),
    (
        "empty objects in the object",
        &[r#"HEAD OLD"object":{"#, r#""":{},"#, r#""":{}}}}"#],
    ),
    (
        "empty objects in metadata",
        &[r#"HEAD OLD"object":{"metadata":{"#, r#""":{},"#, r#""":{}}}}}"#],
    ),
    (
        "small objects in metadata",
        &[
            r#"HEAD OLD"object":{META,"metadata":{"#,
            r#""%":{"":0},"#,
            r#""":{}}}}}"#,
        ],
    ),
    (
        "empty arrays in spec",
        &[r#"HEAD OLD"object":{META,"spec":{"#, r#""":[],"#, r#""":[]}}}}"#],
    ),
    (
        "empty names in annotations",
        &[
            r#"HEAD OLD"object":{"metadata":{"annotations":{"#,
            r#""":"","#,
            r#""":""}}}}}"#,
        ],
    ),
    (
        "equal names in annotations",
        &[
            r#"HEAD OLD"object":{"metadata":{"annotations":{"#,
            r#""a":"b","#,
            r#""a":"b"}}}}}"#,
        ],
    ),
    (
        "escaped names in annotations",
        &[
            r#"HEAD OLD"object":{"metadata":{"annotations":{"#,
            r#""\u0041\n":"\u0041","#,
            r#""a":"b"}}}}}"#,
        ],
    ),
    (
        "annotations of headroom.sh",
        &[
            r#"HEAD OLD"object":{"metadata":{"name":"n1","uid":"u1","annotations":{"#,
            r#""headroom.sh/%":"","#,
            r#""a":"b"}}}}}"#,
        ],
    ),
    (
        "additional annotations in both",
        &[
            r#"HEAD"oldObject":{"metadata":{"name":"n1","uid":"u1","annotations":{MARKER,"#,
            r#""%":"","#,
            r#""a":"b"}},"status":{AMOUNTS,"conditions":[READY]}},"object":{"metadata":{"name":"n1","uid":"u1","annotations":{MARKER,"#,
            r#""%":"","#,
            r#""a":"c"}},"status":{AMOUNTS,"conditions":[READY]}}}}"#,
        ],
    ),
    (
        "many labels",
        &[
            r#"HEAD OLD"object":{"metadata":{"labels":{"#,
            r#""%":"","#,
            r#""a":"b"}}}}}"#,
        ],
    ),
    (
        "numbers in labels",
        &[
            r#"HEAD OLD"object":{"metadata":{"labels":{"#,
            r#""a":0,"#,
            r#""a":0}}}}}"#,
        ],
    ),
    (
        "empty conditions",
        &[
            r#"HEAD OLD"object":{META,"status":{AMOUNTS,"conditions":["#,
            "{},",
            "{}]}}}}",
        ],
    ),
    (
        "small conditions",
        &[
            r#"HEAD OLD"object":{META,"status":{AMOUNTS,"conditions":["#,
            r#"{"":0},"#,
            "{}]}}}}",
        ],
    ),
    (
        "ready conditions",
        &[
            r#"HEAD OLD"object":{META,"status":{AMOUNTS,"conditions":["#,
            r#"{"type":"Ready"},"#,
            "{}]}}}}",
        ],
    ),
    (
        "arrays for conditions",
        &[
            r#"HEAD OLD"object":{META,"status":{AMOUNTS,"conditions":["#,
            "[],",
            "[]]}}}}",
        ],
    ),
    (
        "numbers for conditions",
        &[
            r#"HEAD OLD"object":{META,"status":{AMOUNTS,"conditions":["#,
            "0,",
            "0]}}}}",
        ],
    ),
    (
        "short texts for conditions",
        &[
            r#"HEAD OLD"object":{META,"status":{AMOUNTS,"conditions":["#,
            r#""a","#,
            "0]}}}}",
        ],
    ),
    (
        "wide conditions in both",
        &[
            r#"HEAD"oldObject":{META,"status":{AMOUNTS,"conditions":[READY,{"#,
            r#""%":0,"#,
            r#""":1}]}},"object":{META,"status":{AMOUNTS,"conditions":[READY,{"#,
            r#""%":0,"#,
            r#""":0}]}}}}"#,
        ],
    ),
    (
        "long messages in both",
        &[
            r#"HEAD"oldObject":{META,"status":{AMOUNTS,"conditions":[READY,{"message":""#,
            r"\u0001",
            r#""}]}},"object":{META,"status":{AMOUNTS,"conditions":[READY,{"message":""#,
            r"\u0001",
            r#""}]}}}}"#,
        ],
    ),
    (
        "small objects that differ",
        &[
            r#"HEAD"oldObject":{META,"status":{AMOUNTS,"conditions":[READY],"x":["#,
            r#"{"":0},"#,
            r#"1]}},"object":{META,"status":{AMOUNTS,"conditions":[READY],"x":["#,
            r#"{"":0},"#,
            "2]}}}}",
        ],
    ),
    (
        "many members that differ",
        &[
            r#"HEAD"oldObject":{META,"status":{AMOUNTS,"conditions":[READY],"#,
            r#""%":[{"":0},{"":1}],"#,
            r#""x":1}},"object":{META,"status":{AMOUNTS,"conditions":[READY],"#,
            r#""%":[{"":0},{"":2}],"#,
            r#""x":2}}}}"#,
        ],
    ),
    ("brackets", &["", "[", ""]),
    ("braces", &["", r#"{"a":"#, ""]),
    (
        "brackets in brackets",
        &[
            r#"HEAD OLD"object":{META,"status":{"x":["#,
            "[[[[[[[[[[[[]]]]]]]]]]]],",
            "0]}}}}",
        ],
    ),
    (
        "a marker of objects",
        &[
            r#"HEAD OLD"object":{"metadata":{"uid":"u1","annotations":{"headroom.sh/amplified-allocatable":"{\"x\":["#,
            r#"{\"\":0},"#,
            r#"0]}"}},"status":{AMOUNTS}}}}"#,
        ],
    ),
    (
        "a stored marker of objects",
        &[
            r#"HEAD"object":{META,"status":{AMOUNTS}},"oldObject":{"metadata":{"uid":"u1","annotations":{"headroom.sh/amplified-allocatable":"{\"x\":["#,
            r#"{\"\":0},"#,
            r#"0]}"}},"status":{AMOUNTS}}}}"#,
        ],
    ),
    (
        "a hint of objects",
        &[
            r#"HEAD OLD"object":{"metadata":{"uid":"u1","annotations":{"headroom.sh/hint":"["#,
            r#"{\"\":0},"#,
            r#"0]"}}}}}"#,
        ],
    ),
    (
        "a ratio of many resources",
        &[
            r#"HEAD OLD"object":{"metadata":{"uid":"u1","annotations":{"node.koordinator.sh/resource-amplification-ratio":"{"#,
            r#"\"%\":1,"#,
            r#"\"cpu\":1}"}}}}}"#,
        ],
    ),
    (
        "a ratio that is one text",
        &[
            r#"HEAD OLD"object":{"metadata":{"uid":"u1","annotations":{"node.koordinator.sh/resource-amplification-ratio":"\""#,
            "x",
            r#"\""}}}}}"#,
        ],
    ),
    (
        "a mode that does not exist",
        &[
            r#"HEAD OLD"object":{META,"metadata":{"uid":"u1","annotations":{"headroom.sh/mode":""#,
            "x",
            r#""}}}}}"#,
        ],
    ),
    (
        "many groups",
        &[
            r#"HEAD"userInfo":{"groups":["#,
            r#""a","#,
            r#""a"]},"object":{},"oldObject":{}}}"#,
        ],
    ),
    (
        "a long operation",
        &[r#"HEAD"operation":""#, "A", r#"","object":{},"oldObject":{}}}"#],
    ),
    (
        "a long uid",
        &[r#"HEAD OLD"uid":""#, "u", r#"","object":{META}}}"#],
    ),
    (
        "a long name",
        &[r#"HEAD OLD"name":""#, "n", r#"","object":{META}}}"#],
    ),
    (
        "a text for a switch",
        &[r#"HEAD OLD"dryRun":""#, "x", r#"","object":{META}}}"#],
    ),
    ("space", &["HEAD OLD", " ", r#""object":{META}}}"#]),
    ("a long version", &[r#"{"apiVersion":""#, "v", r#""}"#]),
];
