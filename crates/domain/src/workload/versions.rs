//! [`Versions`]: the last versions of a workload and the time since which each is observed.

/// Versions that are remembered; a rollout has two.
const KEPT: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Version {
    hash: u64,
    /// Period in which it was first observed.
    since: u64,
    /// Period in which it was last observed.
    seen: u64,
}

/// The versions observed last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Versions([Option<Version>; KEPT]);

impl Versions {
    /// Records that pods of a version ran in this period. The version that was not observed for longest is replaced.
    pub(super) fn observe(&mut self, hash: u64, period: u64) {
        let known = self.0.iter_mut().flatten().find(|version| version.hash == hash);
        if let Some(known) = known {
            known.seen = known.seen.max(period);
            return;
        }
        let oldest = self
            .0
            .iter_mut()
            .min_by_key(|place| place.map(|version| version.seen));
        if let Some(place) = oldest {
            *place = Some(Version {
                hash,
                since: period,
                seen: period,
            });
        }
    }

    /// Periods since a version was first observed.
    pub(super) fn age(&self, hash: u64, now: u64) -> Option<u64> {
        let known = self.0.iter().flatten().find(|version| version.hash == hash);
        known.map(|version| now.saturating_sub(version.since))
    }

    /// Hash of the version that appeared last, and the period of that.
    pub(super) fn newest(&self) -> Option<(u64, u64)> {
        let versions = self.0.iter().flatten();
        versions
            .max_by_key(|version| version.since)
            .map(|version| (version.hash, version.since))
    }
}
