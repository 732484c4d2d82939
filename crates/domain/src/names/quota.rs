//! Names on ElasticQuotas, on their profiles, and on pods that belong to one.

/// Label on a Pod: the name of its ElasticQuota.
pub const QUOTA_NAME: &str = "quota.scheduling.koordinator.sh/name";

/// Label on an ElasticQuota and on an ElasticQuotaProfile: the tree that it belongs to.
pub const QUOTA_TREE_ID: &str = "quota.scheduling.koordinator.sh/tree-id";

/// Annotation on an ElasticQuota: JSON list of the namespaces whose pods belong to it.
pub const QUOTA_NAMESPACES: &str = "quota.scheduling.koordinator.sh/namespaces";

/// Label on a Pod: `false` if its quota may not take resources back from it.
pub const QUOTA_PREEMPTIBLE: &str = "quota.scheduling.koordinator.sh/preemptible";

/// Annotation on an ElasticQuota: JSON resource list of what its pods ask for.
pub const QUOTA_CHILD_REQUEST: &str = "quota.scheduling.koordinator.sh/child-request";

/// The quota of pods that belong to no other.
pub const DEFAULT_QUOTA: &str = "koordinator-default-quota";

/// The quota of the cluster's own pods.
pub const SYSTEM_QUOTA: &str = "koordinator-system-quota";

/// The quota above all others.
pub const ROOT_QUOTA: &str = "koordinator-root-quota";

/// Annotation on an ElasticQuota: JSON resource list of the limits that hold for new pods in place of `spec.max`.
pub const QUOTA_ADMISSION: &str = "quota.scheduling.koordinator.sh/admission";
