//! The kinds `ElasticQuota` and `ElasticQuotaProfile`.

use serde_json::{Value, json};

use super::{
    AGE, Column, CustomKind,
    schema::{amounts, anything, object, selector, text, texts, whole, with},
};

pub(super) static QUOTA: CustomKind = CustomKind {
    group: "scheduling.sigs.k8s.io",
    kind: "ElasticQuota",
    singular: "elasticquota",
    plural: "elasticquotas",
    short: &[],
    is_namespaced: true,
    // Koordinator's scheduler writes the status of a quota with the quota.
    has_status: false,
    columns: &[
        Column::text(
            "Parent",
            r".metadata.labels.quota\.scheduling\.koordinator\.sh/parent",
        ),
        Column::text("Min CPU", ".spec.min.cpu"),
        Column::text("Max CPU", ".spec.max.cpu"),
        Column::text("Used CPU", ".status.used.cpu"),
        AGE,
    ],
    schema: quota,
};

pub(super) static QUOTA_PROFILE: CustomKind = CustomKind {
    group: "quota.koordinator.sh",
    kind: "ElasticQuotaProfile",
    singular: "elasticquotaprofile",
    plural: "elasticquotaprofiles",
    short: &["eqp"],
    is_namespaced: true,
    has_status: false,
    columns: &[
        Column::text("Quota", ".spec.quotaName"),
        Column::text("Ratio", ".spec.resourceRatio"),
        AGE,
    ],
    schema: profile,
};

fn quota() -> Value {
    let spec = object(
        "Guaranteed and maximum amounts of the quota's pods.",
        &[
            ("min", amounts("Guaranteed amounts.")),
            (
                "max",
                amounts("Maximum amounts; an unnamed resource has no limit."),
            ),
        ],
    );
    let status = anything("Current use.");
    whole("Share of the cluster for some pods.", spec, status)
}

fn profile() -> Value {
    let spec = object(
        "Nodes whose resources form a quota.",
        &[
            (
                "quotaName",
                json!({"type": "string", "minLength": 1, "description": "The quota."}),
            ),
            ("nodeSelector", selector("Labels of the nodes.")),
            ("quotaLabels", texts("Labels of the quota.")),
            (
                "resourceRatio",
                text("Share of the resources, above 0 and up to 1."),
            ),
        ],
    );
    let spec = with(spec, json!({"required": ["nodeSelector", "quotaName"]}));
    whole(
        "Forms a quota from the resources of nodes.",
        spec,
        anything("Nothing yet."),
    )
}
