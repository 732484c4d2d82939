//! Counts of pods that wait during rollouts.

use headroom_domain::capacity::places::PlaceKind;

/// Minutes in a frame.
const MINUTES: u64 = 5;

/// Waiting pods of controllers of one kind, in pods times frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct WaitingTime {
    /// Pods that were bound.
    pub(super) bound: u64,
    /// Bound pods that had to wait for a frame at least.
    pub(super) delayed: u64,
    pub(super) all: u64,
    /// Part in which the pod would have fit, had each allocatable stayed as before the rollout's first departure.
    pub(super) by_policy: u64,
    /// Part of that in the first ten minutes after the pod's creation.
    pub(super) by_policy_at_first: u64,
    /// Rollouts that have ended.
    pub(super) finished: u64,
}

/// Waiting pods of a fleet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Pending {
    pub(super) daemon_sets: WaitingTime,
    pub(super) others: WaitingTime,
}

impl WaitingTime {
    fn add(&mut self, other: Self) {
        let Self {
            bound,
            delayed,
            all,
            by_policy,
            by_policy_at_first,
            finished,
        } = other;
        self.bound += bound;
        self.delayed += delayed;
        self.all += all;
        self.by_policy += by_policy;
        self.by_policy_at_first += by_policy_at_first;
        self.finished += finished;
    }

    /// Pod-minutes of all waiting pods.
    pub(super) const fn all_minutes(&self) -> u64 {
        self.all * MINUTES
    }

    /// Pod-minutes in which the pod would have fit, had each allocatable stayed.
    pub(super) const fn minutes_by_policy(&self) -> u64 {
        self.by_policy * MINUTES
    }

    /// Part of [`Self::minutes_by_policy`] in the first ten minutes after a pod's creation.
    pub(super) const fn minutes_at_first(&self) -> u64 {
        self.by_policy_at_first * MINUTES
    }
}

impl Pending {
    pub(super) const fn of_kind_mut(&mut self, kind: PlaceKind) -> &mut WaitingTime {
        match kind {
            PlaceKind::DaemonSet => &mut self.daemon_sets,
            PlaceKind::Tied | PlaceKind::Other => &mut self.others,
        }
    }

    /// Adds the waiting pods of another group or seed.
    pub(super) fn add(&mut self, other: &Self) {
        let Self { daemon_sets, others } = *other;
        self.daemon_sets.add(daemon_sets);
        self.others.add(others);
    }
}
