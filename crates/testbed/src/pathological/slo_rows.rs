//! Shapes of reviews of Koordinator's ConfigMap, whose values are JSON documents.

use super::Row;

/// Shapes for the ConfigMap only. A unit is a part of the JSON document under a key.
pub(super) const SLO_ROWS: &[Row] = &[
    ("brackets under a key", &["TEXT", "[", "END"]),
    ("unknown members", &[r"TEXT{", r#"\"%\":0,"#, r#"\"a\":0}END"#]),
    (
        "members that are nearly known",
        &[r"TEXT{", r#"\"cpuReclaimThresholdPercen%\":0,"#, r#"\"a\":0}END"#],
    ),
    (
        "one member many times",
        &[r"TEXT{", r#"\"enable\":true,"#, r#"\"enable\":true}END"#],
    ),
    ("empty entries", &[r#"TEXT{\"nodeConfigs\":["#, "{},", "{}]}END"]),
    (
        "null for entries",
        &[r#"TEXT{\"nodeConfigs\":["#, "null,", "null]}END"],
    ),
    (
        "entries of other values",
        &[
            r#"TEXT{\"nodeConfigs\":["#,
            r#"{\"nodeSelector\":{\"matchLabels\":{\"x\":\"%\"}}},"#,
            "null]}END",
        ],
    ),
    (
        "entries of other keys",
        &[
            r#"TEXT{\"nodeConfigs\":["#,
            r#"{\"nodeSelector\":{\"matchLabels\":{\"%\":\"1\"}}},"#,
            "null]}END",
        ],
    ),
    (
        "equal entries",
        &[
            r#"TEXT{\"nodeConfigs\":["#,
            r#"{\"nodeSelector\":{\"matchLabels\":{\"x\":\"1\"}}},"#,
            "null]}END",
        ],
    ),
    (
        "entries that exclude",
        &[
            r#"TEXT{\"nodeConfigs\":["#,
            r#"{\"nodeSelector\":{\"matchExpressions\":[{\"key\":\"x\",\"operator\":\"NotIn\",\"values\":[\"%\"]}]}},"#,
            "null]}END",
        ],
    ),
    (
        "entries of one value and another key that is absent",
        &[
            r#"TEXT{\"nodeConfigs\":["#,
            r#"{\"nodeSelector\":{\"matchLabels\":{\"x\":\"1\",\"y\":\"%\"},\"matchExpressions\":[{\"key\":\"z\",\"operator\":\"Exists\"}]}},"#,
            "null]}END",
        ],
    ),
    (
        "a selector of many values",
        &[
            r#"TEXT{\"nodeConfigs\":[{\"nodeSelector\":{\"matchExpressions\":[{\"key\":\"x\",\"operator\":\"In\",\"values\":["#,
            r#"\"%\","#,
            r#"\"a\"]}]}},{\"nodeSelector\":{\"matchExpressions\":[{\"key\":\"x\",\"operator\":\"NotIn\",\"values\":["#,
            r#"\"%\","#,
            r#"\"b\"]}]}}]}END"#,
        ],
    ),
    (
        "a selector of many expressions",
        &[
            r#"TEXT{\"nodeConfigs\":[{\"nodeSelector\":{\"matchExpressions\":["#,
            r#"{\"key\":\"x\",\"operator\":\"In\",\"values\":[\"1\",\"2\"]},"#,
            r#"{\"key\":\"x\",\"operator\":\"Exists\"}]}}]}END"#,
        ],
    ),
    (
        "entries out of range",
        &[
            r#"TEXT{\"nodeConfigs\":["#,
            r#"{\"nodeSelector\":{\"matchLabels\":{\"x\":\"%\"}},\"degradeTimeMinutes\":0},"#,
            "null]}END",
        ],
    ),
    (
        "a long number",
        &[r#"TEXT{\"degradeTimeMinutes\":1"#, "0", "}END"],
    ),
    (
        "a long text",
        &[r#"TEXT{\"cpuCalculatePolicy\":\""#, "x", r#"\"}END"#],
    ),
    (
        "escapes",
        &[r#"TEXT{\"cpuCalculatePolicy\":\""#, r"\\u0001", r#"\"}END"#],
    ),
    (
        "extensions",
        &[r#"TEXT{\"extensions\":{\"a\":["#, r#"{\"\":0},"#, "0]}}END"],
    ),
    (
        "many keys",
        &[r"OTHERS", r#""colocation-confi%":"","#, r#""a":""}}}}"#],
    ),
];
