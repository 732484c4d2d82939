//! `KillJudge` attributes each OOM kill to a shortage of the machine, of all pods together, or of one pod. The sampling
//! thread calls it.
//!
//! Each poll is judged by itself, so that a kill of one kind hides none of another. The conditions, in this order:
//!
//! ```text
//! the victim's pod met its own limit         -> the pod's: brakes nothing
//! kubepods met its limit                     -> kubepods': a brake
//! a task reclaimed for the whole machine     -> the machine's: a brake
//! none of these                              -> another cgroup's limit: brakes nothing
//! ```
//!
//! The influence of a tenant: a pod that meets its limit all the time hides kills of its own processes,
//! and of no other cgroup's, from the brake for kills. Reclaim, pressure and the memory left above the eviction threshold
//! still brake.

use std::{collections::BTreeMap, mem, path::PathBuf, time::Duration};

use super::Vmstat;
use crate::sample::{
    SampleError,
    cgroup::{LimitEvents, OomCounts, Ooms, PodOoms},
};

/// A limit that was met calls for a kill at once; it is counted this much later at most.
const AT_LIMIT_FOR: Duration = Duration::from_secs(1);
/// Time within which a task that reclaims for the machine in vain is killed, or another task for it.
const STALLED_FOR: Duration = Duration::from_secs(5);
/// Version 1 counts each time that a limit was met, killed or not. While tasks reclaim for the whole machine, so that a kill
/// could be the machine's, it is read this often how far the counts are.
const READ_EVERY: Duration = Duration::from_secs(1);

/// OOM kills that were not a pod's own, since the judge was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kills {
    /// For want of memory of the machine.
    pub node: u64,
    pub limit: u64,
}

/// Counters of one poll.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KillCounts {
    /// Time of the poll, in CLOCK_MONOTONIC nanoseconds.
    pub at_ns: u64,
    pub vm: Vmstat,
    /// Tasks the OOM killer chose, as the kernel programs saw it; 0 without them. Read before `vm`: a task that is chosen
    /// between the two readings shows as a kill first, and never as chosen and not killed.
    pub victims: u64,
    /// Number of times kubepods met its limit; `None` without kubepods.
    pub limit: Option<LimitEvents>,
}

/// Judges the kills of each poll.
#[derive(Debug, Default)]
pub struct KillJudge {
    before: Option<KillCounts>,
    /// Maximum lead of the victims over the kills. A task that is ending already is chosen and not counted as killed.
    ahead: i128,
    /// Time at which a task was last observed to reclaim for the whole machine, kubepods at its limit, and a kill at
    /// any other limit.
    stalled_ns: Option<u64>,
    limit_ns: Option<u64>,
    below_ns: Option<u64>,
    pods: BTreeMap<String, PodSeen>,
    /// Time of the last reading of the pods.
    read_ns: Option<u64>,
    /// Kills of pods at their limit that the machine's counter, which is read before, does not have yet.
    early: u64,
    kills: Kills,
}

/// State of one pod.
#[derive(Debug, Default)]
struct PodSeen {
    cgroups: BTreeMap<PathBuf, OomCounts>,
    /// Time of the last reading in which it had met its limit.
    at_limit_ns: Option<u64>,
}

impl KillJudge {
    /// Records the counts of a poll, and returns the kills so far. `pods` reads the kills of pods, and is called when
    /// a kill could be theirs. If it fails, no kill counts as theirs, and the failure is returned as well.
    pub fn attribute(
        &mut self,
        counted: KillCounts,
        pods: impl FnOnce() -> Result<PodOoms, SampleError>,
    ) -> (Kills, Result<(), SampleError>) {
        let now = counted.at_ns;
        let Some(before) = self.before.replace(counted) else {
            self.ahead = ahead(&counted);
            let read = pods().map(|pods| {
                self.pods_killed(now, pods);
            });
            return (self.kills, read);
        };
        let killed = counted.vm.oom_kills.saturating_sub(before.vm.oom_kills);
        let surplus = ahead(&counted).saturating_sub(self.ahead).max(0);
        self.ahead = self.ahead.saturating_add(surplus);
        if counted.vm.stalls > before.vm.stalls {
            self.stalled_ns = Some(now);
        }
        let (limit, own, below) = self.at_limits(&counted, &before);

        let is_unclear =
            is_within(self.stalled_ns, now, STALLED_FOR) && !is_within(self.read_ns, now, READ_EVERY);
        let must_read = killed > 0 || below > 0 || is_unclear && limit.ooms.is_none();
        let (of_pods, read) = if must_read {
            match pods() {
                Ok(pods) => (self.pods_killed(now, pods), Ok(())),
                Err(error) => (0, Err(error)),
            }
        } else {
            (0, Ok(()))
        };
        let explained = of_pods.saturating_add(mem::take(&mut self.early));
        self.early = of_pods.saturating_sub(killed);
        if of_pods > 0 {
            self.below_ns = Some(now);
        }
        let is_below = is_within(self.below_ns, now, AT_LIMIT_FOR);
        let surplus = if is_below {
            0
        } else {
            u64::try_from(surplus).unwrap_or(u64::MAX)
        };
        let rest = killed.saturating_sub(explained).saturating_add(surplus);
        self.kills.limit = self.kills.limit.saturating_add(own);
        if is_within(self.limit_ns, now, AT_LIMIT_FOR) {
            // Version 2 has counted them itself.
            let of_limit = if limit.ooms.is_none() { rest } else { 0 };
            self.kills.limit = self.kills.limit.saturating_add(of_limit);
        } else if is_within(self.stalled_ns, now, STALLED_FOR) {
            self.kills.node = self.kills.node.saturating_add(rest);
        }
        (self.kills, read)
    }

    /// Increase of kubepods' limit counters since the previous poll, with its kills at that limit and at those below
    /// it; records the time.
    fn at_limits(&mut self, counted: &KillCounts, before: &KillCounts) -> (LimitEvents, u64, u64) {
        let limit = match (&counted.limit, &before.limit) {
            (Some(now), Some(then)) => now.since(then),
            (None, _) | (_, None) => LimitEvents::default(),
        };
        let (own, below) = limit.ooms.map_or((0, 0), |Ooms { own, with_below }| {
            (own, with_below.saturating_sub(own))
        });
        if own > 0 || limit.ooms.is_none() && limit.hits > 0 {
            self.limit_ns = Some(counted.at_ns);
        }
        if below > 0 {
            self.below_ns = Some(counted.at_ns);
        }
        (limit, own, below)
    }

    /// Number of killed processes of pods that had met their own limit, since the previous reading of pods; 0 at the
    /// first reading.
    fn pods_killed(&mut self, now: u64, pods: PodOoms) -> u64 {
        let is_first = self.read_ns.replace(now).is_none();
        let mut before = mem::take(&mut self.pods);
        let mut killed = 0_u64;
        for (uid, cgroups) in pods {
            let PodSeen {
                cgroups: then,
                at_limit_ns,
            } = before.remove(&uid).unwrap_or_default();
            let mut grown = OomCounts::default();
            for (cgroup, now) in &cgroups {
                let then = then.get(cgroup).copied().unwrap_or_default();
                grown.kills += now.kills.saturating_sub(then.kills);
                grown.at_limit += now.at_limit.saturating_sub(then.at_limit);
            }
            let at_limit_ns = if grown.at_limit > 0 && !is_first {
                Some(now)
            } else {
                at_limit_ns
            };
            if is_within(at_limit_ns, now, AT_LIMIT_FOR) {
                killed = killed.saturating_add(grown.kills);
            }
            self.pods.insert(uid, PodSeen { cgroups, at_limit_ns });
        }
        killed
    }
}

/// True if `then` is at most `length` before `now`, in nanoseconds.
fn is_within(then: Option<u64>, now: u64, length: Duration) -> bool {
    then.is_some_and(|then| u128::from(now.saturating_sub(then)) <= length.as_nanos())
}

/// Lead of the victims over the kills, from the start of both counters.
fn ahead(counted: &KillCounts) -> i128 {
    i128::from(counted.victims) - i128::from(counted.vm.oom_kills)
}

#[cfg(test)]
mod tests;
