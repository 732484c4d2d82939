//! Questions that admission steps may ask of the stores, one trait for each kind of store. An endpoint declares which
//! one its steps see; a step cannot name another.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use headroom_domain::{
    capacity::PodDemand,
    hint::{EffectiveHint, HintQuery},
    policy::Policy,
    resource::PerResource,
    selector::LabelSelector,
};
use headroom_rules::{
    enhanced::LabelRules,
    fluid::{dataset::Catalog, plugins::PluginProfile},
    mixed_resources::DefaultResources,
    pod_quota::Usage,
    profile::PriorityClass,
    quota::{QuotaKey, QuotaTree},
    slo::strategies::Strategies,
};

use crate::store::{
    by_name::Listing,
    colocation::profiles::KnownProfile,
    node::{Labels, Node},
    pending_admissions::PendingAdmission,
    pending_limit::PendingLimit,
    quota::pending::AdmittedQuota,
    quota_request::{PodName, QuotaRequest},
};

/// Known pods, bound or not, all in memory.
pub trait PodLookup: Send + Sync {
    /// Labels and annotations of a pod; `None` while it is not known.
    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<PodKeys>>;
}

/// Colocation profiles and the objects needed to apply them, all in memory.
pub trait ProfileLookup: Send + Sync {
    fn profiles(&self) -> Arc<Listing<KnownProfile>>;

    /// The labels of a namespace; `None` while it is not known.
    fn namespace(&self, name: &str) -> Option<Arc<Labels>>;

    /// Values that a PriorityClass gives to its pods; `None` while the class is unknown.
    fn priority_class(&self, name: &str) -> Option<Arc<PriorityClass>>;
}

/// The labels that pods must have, in memory.
pub trait LabelRuleLookup: Send + Sync {
    fn label_rules(&self) -> Arc<LabelRules>;
}

/// Claims, Datasets and runtimes of Fluid, and the plugins that place pods, in memory.
pub trait FluidLookup: Catalog + Send + Sync {
    /// Plugins in force: those of Fluid's ConfigMap, or the last good ones, or Fluid's defaults.
    fn plugins(&self) -> Arc<PluginProfile>;
}

/// LimitRanges that give cpu or memory to containers without them, in memory.
pub trait LimitRangeLookup: Send + Sync {
    /// LimitRanges of a namespace by name; none while they are not known.
    fn limit_ranges(&self, namespace: &str) -> Vec<(String, DefaultResources)>;
}

/// Decides over all quotas; returns the admission to record, if any.
pub type Decide<'d> = dyn FnMut(&dyn QuotaTree) -> Option<(QuotaKey, AdmittedQuota)> + 'd;

/// Quotas and the pods that belong to them, in memory.
pub trait QuotaLookup: Send + Sync {
    /// Visits all quotas at one moment.
    fn visit_tree(&self, visit: &mut dyn FnMut(&dyn QuotaTree));

    /// Decides over all quotas at one moment, and records an admission before any other decision. Dropping the
    /// returned value ends the record.
    fn decide(&self, decide: &mut Decide<'_>) -> Option<Box<dyn PendingAdmission>>;

    /// Use of a quota's pods that the scheduler recorded, as written in its annotation; empty if it recorded none.
    fn noted_use(&self, key: &QuotaKey) -> Box<str>;
}

/// The nodes of quota trees, in memory.
pub trait TreeNodesLookup: Send + Sync {
    /// Nodes of a tree, from the first profile in the namespace of the tree's root, or with `None` from the first in any
    /// namespace; `None` if no profile selects them.
    fn nodes(&self, tree: &str, namespace: Option<&str>) -> Option<Arc<LabelSelector>>;
}

/// Use of quotas by their pods, in memory.
pub trait QuotaUsageLookup: Send + Sync {
    /// Use by other pods of the quota at each level of the request, for the resources that the request names; `None`
    /// while not all pods are known.
    fn usage(&self, request: &QuotaRequest, now: Instant) -> Option<Vec<Usage>>;

    /// True if more pods of the controller with that UID, in the Pod's namespace, were admitted and not stored than were
    /// stored lately. One more is refused then.
    fn is_ahead(&self, pod: &PodName, controller: &str, now: Instant) -> bool;

    /// Counts the Pod from now on if `fits` finds quota left beyond the current use. No other request is decided in
    /// between. `fits` is not called while not all pods are known. A Pod that requests none of the limited resources
    /// leaves no record.
    ///
    /// # Errors
    /// It fits and cannot count, because too many pods, or too many of its controller, were admitted and are not stored.
    fn admit(
        &self,
        request: QuotaRequest,
        now: Instant,
        fits: &mut dyn FnMut(&[Usage]) -> bool,
    ) -> Result<Option<Box<dyn PendingAdmission>>, PendingLimit>;
}

/// Labels and annotations of a pod that rules read: those of Koordinator's domain and ours, and those with a key that
/// the configuration names. Pods with equal ones share them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PodKeys {
    pub labels: BTreeMap<String, String>,
    /// A value is empty unless the key is of one of the domains and the value has at most 256 bytes.
    pub annotations: BTreeMap<String, String>,
}

/// Known nodes, all in memory.
pub trait NodeLookup: Send + Sync {
    /// Configured policy for a node with these labels, which are read only if an entry depends on them; a mode
    /// annotation on the Node takes precedence. `None` while the policy is unknown.
    fn policy<'l>(&self, labels: &dyn Fn() -> Cow<'l, Labels>) -> Option<Policy>;

    /// The hint that counts for a node now.
    fn hint(&self, asked: &HintQuery<'_>) -> Option<EffectiveHint>;

    /// Node in this replica's store, with its annotations parsed; `None` while it is missing. The request may contain
    /// another state of it.
    fn stored(&self, node: &str) -> Option<Arc<Node>>;

    /// True while another controller keeps writing the ratio of a node whose ratio is ours; `None` if that is not
    /// known.
    fn is_contested(&self, node: &str) -> Option<bool>;

    /// Demand of a node's pods compared with the `stored` allocatable, in milli-cores and bytes; `None` while it is
    /// unknown. `is_told` is true if the kubelet reports its reservations.
    fn pod_demand(
        &self,
        node: &str,
        stored: PerResource<Option<u64>>,
        is_told: bool,
    ) -> Option<PerResource<PodDemand>>;

    /// The entries of Koordinator's other keys; none while they are not known.
    fn strategies(&self) -> Arc<Strategies>;

    /// Maximum age of an amplified node's stored heartbeat; zero turns quieting off.
    fn heartbeat_interval(&self) -> Duration;

    /// True if a ratio above the current hint is refused where it is written, and not only warned of.
    fn denies_above_hint(&self) -> bool;

    /// The user that the webhook is to the API server.
    fn webhook_user(&self) -> &str;
}
