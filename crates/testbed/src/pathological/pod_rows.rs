//! Shapes of reviews of pods.

use super::Row;

pub(super) const POD_ROWS: &[Row] = &[
    (
        "empty containers",
        &[r#"HEAD"object":{"spec":{"containers":["#, "{},", "{}]}}}}"],
    ),
    (
        "containers with names",
        &[
            r#"HEAD"object":{"spec":{"containers":["#,
            r#"{"name":"%"},"#,
            "{}]}}}}",
        ],
    ),
    (
        "containers with a GPU each",
        &[
            r#"HEAD"object":{"spec":{"containers":["#,
            r#"{"resources":{"requests":{"koordinator.sh/gpu":1}}},"#,
            "{}]}}}}",
        ],
    ),
    (
        "init containers with a GPU each",
        &[
            r#"HEAD"object":{"spec":{"initContainers":["#,
            r#"{"resources":{"limits":{"koordinator.sh/gpu":"1"}}},"#,
            "{}]}}}}",
        ],
    ),
    (
        "containers with batch resources",
        &[
            r#"HEAD"object":{"spec":{"containers":["#,
            r#"{"name":"%","resources":{"requests":{"kubernetes.io/batch-cpu":1},"limits":{"kubernetes.io/batch-cpu":1}}},"#,
            "{}]}}}}",
        ],
    ),
    (
        "requests of many resources",
        &[
            r#"HEAD"object":{"spec":{"containers":[{"resources":{"requests":{"koordinator.sh/gpu":1,"#,
            r#""%":1,"#,
            r#""x":1}}}]}}}}"#,
        ],
    ),
    (
        "requests of one resource many times",
        &[
            r#"HEAD"object":{"spec":{"containers":[{"resources":{"requests":{"koordinator.sh/gpu":1,"#,
            r#""a":1,"#,
            r#""x":1}}}]}}}}"#,
        ],
    ),
    (
        "a long quantity",
        &[
            r#"HEAD"object":{"spec":{"containers":[{"resources":{"requests":{"koordinator.sh/gpu":""#,
            "1",
            r#""}}}]}}}}"#,
        ],
    ),
    (
        "a long name of a resource",
        &[
            r#"HEAD"object":{"spec":{"containers":[{"resources":{"requests":{"koordinator.sh/gpu":1,""#,
            "x",
            r#"":1}}}]}}}}"#,
        ],
    ),
    (
        "a long name of a container",
        &[
            r#"HEAD"object":{"spec":{"containers":[{"name":""#,
            r"\u0001",
            r#"","resources":{"requests":{"koordinator.sh/gpu":1,"kubernetes.io/batch-cpu":1}}}]}}}}"#,
        ],
    ),
    (
        "small objects in a container with a GPU",
        &[
            r#"HEAD"object":{"spec":{"containers":[{"resources":{"requests":{"koordinator.sh/gpu":1}},"env":["#,
            r#"{"name":"a"},"#,
            "{}]}]}}}}",
        ],
    ),
    (
        "environments of many containers with a GPU",
        &[
            r#"HEAD"object":{"spec":{"containers":["#,
            r#"{"resources":{"requests":{"koordinator.sh/gpu":1}},"env":[{"name":"a","value":"b"},{"name":"c","value":"d"}]},"#,
            "{}]}}}}",
        ],
    ),
    (
        "long texts in containers with a GPU",
        &[
            r#"HEAD"object":{"spec":{"containers":[{"resources":{"requests":{"koordinator.sh/gpu":1}},"args":[""#,
            r"\u0001",
            r#""]},{"resources":{"requests":{"koordinator.sh/gpu":1}}}]}}}}"#,
        ],
    ),
    (
        "an annotation of small objects",
        &[
            r#"HEAD"object":{"metadata":{"annotations":{"node.koordinator.sh/extended-resource-spec":"{\"x\":["#,
            r#"{\"\":0},"#,
            r#"0]}"}}}}}"#,
        ],
    ),
    (
        "an annotation of many containers",
        &[
            r#"HEAD"object":{"metadata":{"annotations":{"node.koordinator.sh/extended-resource-spec":"{\"containers\":{"#,
            r#"\"%\":{\"limits\":{\"a\":1}},"#,
            r#"\"\":{}}}"}}}}}"#,
        ],
    ),
    (
        "many volumes",
        &[
            r#"HEAD"object":{"spec":{"containers":[{}],"volumes":["#,
            r#"{"name":"%"},"#,
            "{}]}}}}",
        ],
    ),
];
