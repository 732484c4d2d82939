//! Names on ElasticQuotas, on their profiles, and on their pods.

/// Label on a Pod: the name of its ElasticQuota.
pub const QUOTA_NAME: &str = "quota.scheduling.koordinator.sh/name";

/// Label on an ElasticQuota or an ElasticQuotaProfile: ID of its quota tree.
pub const QUOTA_TREE_ID: &str = "quota.scheduling.koordinator.sh/tree-id";

/// Annotation on an ElasticQuota: JSON list of the namespaces whose pods count towards it.
pub const QUOTA_NAMESPACES: &str = "quota.scheduling.koordinator.sh/namespaces";

/// Label on a Pod: `false` if its quota may not preempt it.
pub const QUOTA_PREEMPTIBLE: &str = "quota.scheduling.koordinator.sh/preemptible";

/// Annotation on an ElasticQuota: JSON resource list with the requests of its pods.
pub const QUOTA_CHILD_REQUEST: &str = "quota.scheduling.koordinator.sh/child-request";

/// Quota of pods that belong to no other quota.
pub const DEFAULT_QUOTA: &str = "koordinator-default-quota";

/// Quota of the cluster's system pods.
pub const SYSTEM_QUOTA: &str = "koordinator-system-quota";

/// Root of all quotas of a cluster.
pub const ROOT_QUOTA: &str = "koordinator-root-quota";

/// Label on an ElasticQuota: name of its parent quota.
pub const QUOTA_PARENT: &str = "quota.scheduling.koordinator.sh/parent";

/// Label on an ElasticQuota: `true` if it may have child quotas.
pub const QUOTA_IS_PARENT: &str = "quota.scheduling.koordinator.sh/is-parent";

/// Label on an ElasticQuota: `true` if it is the root of its tree.
pub const QUOTA_IS_ROOT: &str = "quota.scheduling.koordinator.sh/is-root";

/// Label on an ElasticQuota: `true` if the checks on sums of `min` do not apply to it.
pub const QUOTA_ALLOW_FORCE_UPDATE: &str = "quota.scheduling.koordinator.sh/allow-force-update";

/// Annotation on an ElasticQuota: JSON resource list with its weight when unused resources are shared.
pub const QUOTA_SHARED_WEIGHT: &str = "quota.scheduling.koordinator.sh/shared-weight";

/// Annotation on an ElasticQuota: JSON list of resources whose `max` may not fall below their use.
pub const QUOTA_STRICT_KEYS: &str = "quota.scheduling.koordinator.sh/max-strict-check-resource-keys";

/// Annotation on an ElasticQuota: JSON resource list that replaces `max` as the limit of its pods.
pub const QUOTA_ADMISSION: &str = "quota.scheduling.koordinator.sh/admission";

/// Annotation on an ElasticQuota: JSON resource list guaranteed by Koordinator's scheduler.
pub const QUOTA_GUARANTEED: &str = "quota.scheduling.koordinator.sh/guaranteed";
