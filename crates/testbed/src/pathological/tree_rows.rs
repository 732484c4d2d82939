//! Shapes of expensive ElasticQuotaProfiles.

use super::Row;

pub(super) const TREE_ROWS: &[Row] = &[
    (
        "many labels",
        &[
            r#"HEAD"object":{"spec":{"quotaLabels":{"#,
            r#""%":"","#,
            r#""x":""}}}}}"#,
        ],
    ),
    (
        "many labels with faults",
        &[
            r#"HEAD"object":{"spec":{"quotaLabels":{"#,
            r#""%/a/b":"x y","#,
            r#""x":""}}}}}"#,
        ],
    ),
    (
        "a long label",
        &[r#"HEAD"object":{"spec":{"quotaLabels":{"x":""#, "a", r#""}}}}}"#],
    ),
    (
        "a selector of many labels",
        &[
            r#"HEAD"object":{"spec":{"nodeSelector":{"matchLabels":{"#,
            r#""%":"","#,
            r#""x":""}}}}}}"#,
        ],
    ),
    (
        "a selector of many values",
        &[
            r#"HEAD"object":{"spec":{"nodeSelector":{"matchExpressions":[{"key":"a","operator":"In","values":["#,
            r#""%","#,
            r#""x"]}]}}}}}"#,
        ],
    ),
];
