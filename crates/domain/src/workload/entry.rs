//! [`ProfileEntry`]: the observations of one workload over the last day.

use super::{
    HourlyUse, PERIODS_A_SLOT, SLOTS, WorkloadProfile, slot_of,
    tally::{OnNode, Tally},
    trust::{Coverage, trust_ppm},
    versions::Versions,
};
use crate::resource::{PerResource, Resource};

/// Bytes per count of a stored memory request: 32 bits then hold 4 PiB.
const MEMORY_UNIT: u64 = 1 << 20;

/// Largest request per slot, in milli-cores or MiB, rounded down.
type Requests = [u32; SLOTS];

/// Observations of the workload: finished hours, the hour that is under way, and the period that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProfileEntry {
    /// Hash of the namespace that it counts against.
    pub(super) namespace: u64,
    hourly: PerResource<HourlyUse>,
    requests: PerResource<Requests>,
    /// Slots in which two nodes or more reported, by bit.
    shared: u32,
    /// The hour under way: yesterday's values of its slot stay until it ends.
    hour: PerResource<HourlyUse>,
    hour_request: PerResource<u64>,
    is_hour_shared: bool,
    tally: PerResource<Tally>,
    period: u64,
    versions: Versions,
    /// Period of the last report.
    pub(super) seen: u64,
    /// Pods and nodes of the last finished period with reports.
    pods: u32,
    nodes: u32,
}

const fn unit(resource: Resource) -> u64 {
    match resource {
        Resource::Cpu => 1,
        Resource::Memory => MEMORY_UNIT,
    }
}

impl ProfileEntry {
    pub(super) fn new(namespace: u64, period: u64) -> Self {
        Self {
            namespace,
            hourly: PerResource::default(),
            requests: PerResource::default(),
            shared: 0,
            hour: PerResource::default(),
            hour_request: PerResource::default(),
            is_hour_shared: false,
            tally: PerResource::default(),
            period,
            versions: Versions::default(),
            seen: period,
            pods: 0,
            nodes: 0,
        }
    }

    /// Records the pods of one node in the current period. The caller has called [`Self::advance`].
    pub(super) fn record(&mut self, on_node: &PerResource<OnNode>, versions: impl Iterator<Item = u64>) {
        for resource in Resource::ALL {
            let node = on_node.get(resource);
            self.tally.get_mut(resource).add(node);
            let request = self.hour_request.get_mut(resource);
            *request = (*request).max(node.request);
        }
        for version in versions {
            self.versions.observe(version, self.period);
        }
        self.seen = self.period;
    }

    /// Moves on to `period`: the finished period counts, a finished hour renews the value of its slot, and
    /// hours without a report are forgotten.
    pub(super) fn advance(&mut self, period: u64) {
        if period <= self.period {
            return;
        }
        let slot = slot_of(self.period);
        for resource in Resource::ALL {
            self.tally.get(resource).raise(self.hour.get_mut(resource), slot);
        }
        let PerResource { cpu, memory } = &self.tally;
        let nodes = cpu.nodes().max(memory.nodes());
        if nodes > 0 {
            self.nodes = nodes;
            self.pods = cpu.pods().max(memory.pods());
            self.is_hour_shared |= nodes > 1;
        }
        self.tally = PerResource::default();
        let (from, to) = (self.period / PERIODS_A_SLOT, period / PERIODS_A_SLOT);
        self.period = period;
        if to == from {
            return;
        }
        self.end_hour(slot);
        let slots = u64::try_from(SLOTS).unwrap_or(u64::MAX);
        for hour in from + 1..to.min(from + slots) {
            self.forget(slot_of(hour * PERIODS_A_SLOT));
        }
    }

    fn end_hour(&mut self, slot: usize) {
        for resource in Resource::ALL {
            let used = self.hour.get(resource).slot(slot);
            self.hourly.get_mut(resource).renew(slot, used);
            let request = *self.hour_request.get(resource) / unit(resource);
            if let Some(place) = self.requests.get_mut(resource).get_mut(slot) {
                *place = u32::try_from(request).unwrap_or(u32::MAX);
            }
        }
        let bit = 1 << slot;
        self.shared = self.shared & !bit | u32::from(self.is_hour_shared) << slot;
        self.hour = PerResource::default();
        self.hour_request = PerResource::default();
        self.is_hour_shared = false;
    }

    fn forget(&mut self, slot: usize) {
        for resource in Resource::ALL {
            self.hourly.get_mut(resource).set(slot, None);
            if let Some(place) = self.requests.get_mut(resource).get_mut(slot) {
                *place = 0;
            }
        }
        self.shared &= !(1 << slot);
    }

    /// Use by slot, with the hour under way.
    fn hourly(&self, resource: Resource) -> HourlyUse {
        self.hourly.get(resource).largest(self.hour.get(resource))
    }

    /// r̂: the smallest, over observed slots, of the largest request in the slot. A request that grows counts only once
    /// a day was observed with it.
    fn request(&self, resource: Resource) -> u64 {
        let now = slot_of(self.period);
        let observed = |slot: &usize| self.hourly.get(resource).slot(*slot).is_some();
        let stored = self.requests.get(resource);
        let earlier = (0..SLOTS)
            .filter(observed)
            .filter(|slot| *slot != now)
            .filter_map(|slot| stored.get(slot));
        let earlier = earlier.map(|request| u64::from(*request) * unit(resource)).min();
        let current = *self.hour_request.get(resource);
        match earlier {
            Some(earlier) if current > 0 => earlier.min(current),
            Some(earlier) => earlier,
            None => current,
        }
    }

    /// Profile that new pods of this version may count on. Call [`Self::advance`] first.
    pub(super) fn profile(&self, version: u64) -> WorkloadProfile {
        let shared = self.shared | u32::from(self.is_hour_shared) << slot_of(self.period);
        let coverage = |resource| Coverage {
            slots: self.hourly(resource).observed(),
            shared_slots: shared.count_ones(),
            version_age: self.versions.age(version, self.period),
        };
        WorkloadProfile {
            hourly: PerResource::from_fn(|resource| self.hourly(resource)),
            request: PerResource::from_fn(|resource| self.request(resource)),
            trust_ppm: PerResource::from_fn(|resource| trust_ppm(coverage(resource))),
        }
    }

    /// Pods and nodes in the last finished period with reports.
    pub(super) const fn counts(&self) -> (u32, u32) {
        (self.pods, self.nodes)
    }

    /// Version that appeared last, and its age in periods.
    pub(super) fn newest_version(&self) -> Option<(u64, u64)> {
        let (hash, since) = self.versions.newest()?;
        Some((hash, self.period.saturating_sub(since)))
    }
}
