//! Shapes of reviews of ElasticQuotas.

use super::Row;

pub(super) const QUOTA_ROWS: &[Row] = &[
    (
        "a max of many resources",
        &[r#"HEAD"object":{"spec":{"max":{"#, r#""%":1,"#, r#""x":1}}}}}"#],
    ),
    (
        "a max of one resource many times",
        &[r#"HEAD"object":{"spec":{"max":{"#, r#""a":1,"#, r#""x":1}}}}}"#],
    ),
    (
        "a min and a max of many resources",
        &[
            r#"HEAD"object":{"spec":{"min":{"#,
            r#""%":"2","#,
            r#""x":1},"max":{"#,
            r#""%":"1","#,
            r#""x":1}}}}}"#,
        ],
    ),
    (
        "a long amount",
        &[r#"HEAD"object":{"spec":{"max":{"cpu":""#, "1", r#""}}}}}"#],
    ),
    (
        "a use of many resources",
        &[
            r#"HEAD"object":{"status":{"used":{"#,
            r#""%":1,"#,
            r#""x":1}}}}}"#,
        ],
    ),
    (
        "many namespaces",
        &[
            r#"HEAD"object":{"metadata":{"annotations":{"quota.scheduling.koordinator.sh/namespaces":"["#,
            r#"\"%\","#,
            r#"\"x\"]"}}}}}"#,
        ],
    ),
    (
        "one namespace many times",
        &[
            r#"HEAD"object":{"metadata":{"annotations":{"quota.scheduling.koordinator.sh/namespaces":"["#,
            r#"\"a\","#,
            r#"\"x\"]"}}}}}"#,
        ],
    ),
    (
        "brackets for namespaces",
        &[
            r#"HEAD"object":{"metadata":{"annotations":{"quota.scheduling.koordinator.sh/namespaces":""#,
            "[",
            r#""}}}}}"#,
        ],
    ),
    (
        "a weight of many resources",
        &[
            r#"HEAD"object":{"metadata":{"annotations":{"quota.scheduling.koordinator.sh/shared-weight":"{"#,
            r#"\"%\":1,"#,
            r#"\"x\":1}"}}}}}"#,
        ],
    ),
    (
        "a guarantee of many resources",
        &[
            r#"HEAD"object":{"metadata":{"annotations":{"quota.scheduling.koordinator.sh/guaranteed":"{"#,
            r#"\"%\":1,"#,
            r#"\"x\":1}"}}}}}"#,
        ],
    ),
    (
        "a limit of new pods for many resources",
        &[
            r#"HEAD"object":{"metadata":{"annotations":{"quota.scheduling.koordinator.sh/admission":"{"#,
            r#"\"%\":1,"#,
            r#"\"x\":1}"}}}}}"#,
        ],
    ),
    (
        "many keys to check",
        &[
            r#"HEAD"object":{"metadata":{"annotations":{"quota.scheduling.koordinator.sh/max-strict-check-resource-keys":"["#,
            r#"\"%\","#,
            r#"\"x\"]"}}}}}"#,
        ],
    ),
    (
        "labels of quotas",
        &[
            r#"HEAD"object":{"metadata":{"labels":{"quota.scheduling.koordinator.sh/parent":"p","#,
            r#""%":"","#,
            r#""a":"b"}}}}}"#,
        ],
    ),
    (
        "a long parent",
        &[
            r#"HEAD"object":{"metadata":{"labels":{"quota.scheduling.koordinator.sh/parent":""#,
            "p",
            r#""}}}}}"#,
        ],
    ),
];
