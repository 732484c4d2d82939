//! [`QuotaView`]: quotas, their pods and the rules for both, for readers that admit nothing: debug queries, and the
//! check for quotas above their limit.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use headroom_rules::{
    pod_quota::{ParentPods, Transformation, USED_BY_SUM},
    quota::{Quota, QuotaRules},
    switch::Switches,
};

use crate::store::{
    arrivals::Arrivals,
    colocation::pods::PodsByName,
    known::KnownSources,
    lookup::QuotaLookup as _,
    quota::{
        index::QuotaIndex,
        with_pods::{QuotasOfPods, QuotasWithPods},
    },
    quota_pods::{QuotaPods, counting::QuotaCounting},
    quota_request::{GroupUsage, PodGroup},
    sources::{self, Source},
};

/// Known quotas and pods, and the rules that apply to them.
#[derive(Clone)]
pub struct QuotaView {
    /// The quotas, and all pods by name.
    pub quotas: Arc<QuotasWithPods>,
    /// Use of quotas by their pods.
    pub pod_usage: Arc<QuotaPods>,
    pub known: KnownSources,
    /// Reads how admission judges now.
    pub behaviour: Arc<dyn Fn() -> QuotaBehaviour + Send + Sync>,
}

/// Settings by which quotas and pods are evaluated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QuotaBehaviour {
    /// Comparison of pods with their quotas.
    pub evaluation: Evaluation,
    /// True if a Pod without a label belongs to a quota.
    pub has_default: bool,
    /// Renaming of resources by annotation.
    pub transformation: Transformation,
    /// Handling of pods in quotas that have child quotas.
    pub parents: ParentPods,
    pub rules: QuotaRules,
    pub switches: Switches,
}

/// Comparison of pods with their quotas, and its consequence.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Evaluation {
    #[default]
    Off,
    /// A Pod that is too much is let in with a warning.
    Warns,
    /// A Pod that is too much is refused.
    Refuses,
}

impl Evaluation {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Warns => "warns",
            Self::Refuses => "refuses",
        }
    }
}

/// State and age of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceAge {
    /// True while its store counts.
    pub is_known: bool,
    /// Time since the last sign of life; `None` while it is not followed.
    pub age: Option<Duration>,
}

impl QuotaView {
    /// The quotas as pods belong to them.
    pub fn of_pods(&self) -> QuotasOfPods {
        QuotasOfPods(Arc::clone(&self.quotas))
    }

    /// State of the source of quotas and of the source of their pods.
    pub fn sources(&self) -> [SourceAge; 2] {
        let of = |source: &'static Source| SourceAge {
            is_known: self.known.is_known(source),
            age: self.known.age(source),
        };
        [of(&sources::QUOTAS), of(&sources::QUOTA_PODS)]
    }

    /// Use of a quota by its pods; `None` while not all pods are known.
    pub fn usage(&self, quota: &Quota, behaviour: &QuotaBehaviour) -> Option<GroupUsage> {
        let groups = self.groups(quota, behaviour);
        let mut sums = self
            .pod_usage
            .sums(&groups, behaviour.transformation, Instant::now())?;
        if !behaviour.switches.is_on(&USED_BY_SUM) {
            sums.usage.noted = self.quotas.noted_use(&quota.key());
        }
        Some(sums)
    }

    /// The groups of pods that a quota has.
    pub fn groups(&self, quota: &Quota, behaviour: &QuotaBehaviour) -> Vec<PodGroup> {
        let mut groups = Vec::new();
        self.quotas
            .visit_tree(&mut |tree| groups = PodGroup::of_quota(quota, behaviour.has_default, tree));
        groups
    }
}

impl Default for QuotaView {
    fn default() -> Self {
        let arrivals = Arrivals::default();
        Self {
            quotas: Arc::new(QuotasWithPods {
                index: QuotaIndex::new(arrivals.clone()),
                pods: Arc::new(PodsByName::new(arrivals)),
            }),
            pod_usage: QuotaPods::new(QuotaCounting::default(), Arrivals::default()),
            known: KnownSources::default(),
            behaviour: Arc::new(QuotaBehaviour::default),
        }
    }
}

impl fmt::Debug for QuotaView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuotaView")
            .field("known", &self.known)
            .finish_non_exhaustive()
    }
}
