//! [`QuotaView`]: quotas, their pods and how both are judged, for those who admit nothing: people, and who looks for quotas
//! above their limit.

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
    quota::{index::QuotaIndex, with_pods::QuotasWithPods},
    quota_pods::QuotaPods,
    room::{GroupUsage, PodGroup},
    sources::{self, Source},
};

/// What is known, and what it is judged by.
#[derive(Clone)]
pub struct QuotaView {
    /// The quotas, and all pods by name.
    pub quotas: Arc<QuotasWithPods>,
    /// What the quotas have given out.
    pub room: Arc<QuotaPods>,
    /// Which sources are known.
    pub known: KnownSources,
    /// Reads how admission judges now.
    pub behaviour: Arc<dyn Fn() -> QuotaBehaviour + Send + Sync>,
}

/// How quotas and pods are judged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QuotaBehaviour {
    /// Whether pods are compared with their quotas.
    pub evaluation: Evaluation,
    /// Whether a Pod belongs to a quota without a label.
    pub has_default: bool,
    /// Whether resources are renamed by annotation.
    pub transformation: Transformation,
    /// Whether quotas with quotas below them take pods.
    pub parents: ParentPods,
    /// The rules of quotas.
    pub rules: QuotaRules,
    /// The switches.
    pub switches: Switches,
}

/// Whether pods are compared with their quotas, and what follows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Evaluation {
    /// They are not.
    #[default]
    Off,
    /// A Pod that is too much is let in with a warning.
    Warns,
    /// A Pod that is too much is refused.
    Refuses,
}

impl Evaluation {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Warns => "warns",
            Self::Refuses => "refuses",
        }
    }
}

/// Whether a source is known, and how old that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceAge {
    /// True while what is known of it counts.
    pub is_known: bool,
    /// Time since the last sign of life; `None` while it is not followed.
    pub age: Option<Duration>,
}

impl QuotaView {
    /// Whether the quotas are known, and whether all that pods ask for is.
    pub fn sources(&self) -> [SourceAge; 2] {
        let of = |source: &'static Source| SourceAge {
            is_known: self.known.is_known(source),
            age: self.known.age(source),
        };
        [of(&sources::QUOTAS), of(&sources::QUOTA_PODS)]
    }

    /// What the pods of a quota have; `None` while not all pods are known.
    pub fn usage(&self, quota: &Quota, behaviour: &QuotaBehaviour) -> Option<GroupUsage> {
        let groups = self.groups(quota, behaviour);
        let mut sums = self
            .room
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
    /// Nothing is known.
    fn default() -> Self {
        let arrivals = Arrivals::default();
        Self {
            quotas: Arc::new(QuotasWithPods {
                index: QuotaIndex::new(arrivals.clone()),
                pods: Arc::new(PodsByName::new(arrivals)),
            }),
            room: QuotaPods::new(),
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
