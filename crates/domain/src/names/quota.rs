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

/// Label on an ElasticQuota: the name of the quota that it is a part of.
pub const QUOTA_PARENT: &str = "quota.scheduling.koordinator.sh/parent";

/// Label on an ElasticQuota: `true` if other quotas may be parts of it.
pub const QUOTA_IS_PARENT: &str = "quota.scheduling.koordinator.sh/is-parent";

/// Label on an ElasticQuota: `true` if it is the first of its tree.
pub const QUOTA_IS_ROOT: &str = "quota.scheduling.koordinator.sh/is-root";

/// Label on an ElasticQuota: `true` if sums of `min` do not bind it.
pub const QUOTA_ALLOW_FORCE_UPDATE: &str = "quota.scheduling.koordinator.sh/allow-force-update";

/// Annotation on an ElasticQuota: JSON resource list by which what is left over is shared.
pub const QUOTA_SHARED_WEIGHT: &str = "quota.scheduling.koordinator.sh/shared-weight";

/// Annotation on an ElasticQuota: JSON list of the resources whose `max` may not fall below what is used.
pub const QUOTA_STRICT_KEYS: &str = "quota.scheduling.koordinator.sh/max-strict-check-resource-keys";

/// Annotation on an ElasticQuota: JSON resource list that limits its pods instead of `max`.
pub const QUOTA_ADMISSION: &str = "quota.scheduling.koordinator.sh/admission";

/// Annotation on an ElasticQuota: JSON resource list that Koordinator's scheduler guarantees to it.
pub const QUOTA_GUARANTEED: &str = "quota.scheduling.koordinator.sh/guaranteed";
