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
    pod_quota::Usage,
    profile::PriorityClass,
    quota::{QuotaKey, QuotaTree},
    slo::strategies::Strategies,
};

use crate::store::{
    by_name::Listing,
    claim_limit::ClaimLimit,
    claims::Claim,
    colocation::profiles::KnownProfile,
    node::{Labels, Node},
    quota::claims::AdmittedQuota,
    room::RoomRequest,
};

/// What is known about pods, bound or not, all in memory.
pub trait PodLookup: Send + Sync {
    /// Labels and annotations of a pod; `None` while it is not known.
    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<PodKeys>>;
}

/// Colocation profiles and what applying them takes, all in memory.
pub trait ProfileLookup: Send + Sync {
    /// All profiles, by name.
    fn profiles(&self) -> Arc<Listing<KnownProfile>>;

    /// The labels of a namespace; `None` while it is not known.
    fn namespace(&self, name: &str) -> Option<Arc<Labels>>;

    /// What a PriorityClass gives to its pods; `None` while it is not known.
    fn priority_class(&self, name: &str) -> Option<Arc<PriorityClass>>;
}

/// The labels that pods must have, in memory.
pub trait LabelRuleLookup: Send + Sync {
    /// The rules in force.
    fn label_rules(&self) -> Arc<LabelRules>;
}

/// Decides on all quotas; gives what is to be recorded, if anything is.
pub type Decide<'d> = dyn FnMut(&dyn QuotaTree) -> Option<(QuotaKey, AdmittedQuota)> + 'd;

/// Quotas and the pods that belong to them, in memory.
pub trait QuotaLookup: Send + Sync {
    /// Looks at all quotas at one moment.
    fn visit_tree(&self, visit: &mut dyn FnMut(&dyn QuotaTree));

    /// Decides on all quotas at one moment, and records what was admitted, if anything is to be recorded, before anybody
    /// else decides. What is returned ends the record unless it is kept.
    fn decide(&self, decide: &mut Decide<'_>) -> Option<Box<dyn Claim>>;

    /// What the scheduler has noted of the pods of a quota, as it is written in an annotation; empty for nothing.
    fn noted_use(&self, key: &QuotaKey) -> Box<str>;
}

/// The nodes of quota trees, in memory.
pub trait TreeNodesLookup: Send + Sync {
    /// The nodes of a tree; `None` where nothing is said of them.
    fn nodes(&self, tree: &str) -> Option<Arc<LabelSelector>>;
}

/// What quotas have given out to pods, in memory.
pub trait RoomLookup: Send + Sync {
    /// What the quota of each level of the request has given out to other pods, of the resources that it names; `None` while
    /// not all pods are known.
    fn usage(&self, request: &RoomRequest, now: Instant) -> Option<Vec<Usage>>;

    /// Has the Pod count from now on if `fits` finds that there is room beside what the quotas have given out. Nobody else is
    /// answered in between. `fits` is not asked while not all pods are known. There is nothing to keep of a Pod that asks for
    /// nothing of what is limited.
    ///
    /// # Errors
    /// It fits and cannot count, because too many pods were admitted and are not stored.
    fn claim(
        &self,
        request: RoomRequest,
        now: Instant,
        fits: &mut dyn FnMut(&[Usage]) -> bool,
    ) -> Result<Option<Box<dyn Claim>>, ClaimLimit>;
}

/// What people wrote on a pod. Pods that have the same share it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PodKeys {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The keys of its annotations. A value is empty unless the key is one of Koordinator's domains and the value has at most
    /// 256 bytes.
    pub annotations: BTreeMap<String, String>,
}

/// What is known about nodes, all in memory.
pub trait NodeLookup: Send + Sync {
    /// The configured policy for a node with these labels, which are read only if something depends on them; a mode
    /// annotation on the Node comes on top. `None` while the policy is not known.
    fn policy<'l>(&self, labels: &dyn Fn() -> Cow<'l, Labels>) -> Option<Policy>;

    /// The hint that counts for a node now.
    fn hint(&self, asked: &HintQuery<'_>) -> Option<EffectiveHint>;

    /// The Node as this replica has it in its store, with its annotations parsed; `None` while it is not there. What a
    /// request carries can be another state of it.
    fn stored(&self, node: &str) -> Option<Arc<Node>>;

    /// True while somebody else keeps writing the ratio of a node whose ratio is ours; `None` where that cannot be told.
    fn is_contested(&self, node: &str) -> Option<bool>;

    /// What the pods of a node hold beside what is `stored` of its allocatable, in milli-cores and bytes; `None` while that
    /// is not known. `is_told` says whether its kubelet tells what it has set aside.
    fn pod_demand(
        &self,
        node: &str,
        stored: PerResource<Option<u64>>,
        is_told: bool,
    ) -> Option<PerResource<PodDemand>>;

    /// The entries of Koordinator's other keys; none while they are not known.
    fn strategies(&self) -> Arc<Strategies>;

    /// How far the stored heartbeat of an amplified node may stay behind; zero for not at all.
    fn heartbeat_interval(&self) -> Duration;

    /// True if a ratio above the current hint is refused where it is written, and not only warned of.
    fn denies_above_hint(&self) -> bool;

    /// The user that the webhook is to the API server.
    fn webhook_user(&self) -> &str;
}
