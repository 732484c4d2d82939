//! [`Plausibility`]: detects nodes whose series cannot be those of one machine, such as series that are stored twice.

use headroom_domain::resource::{PerResource, Resource};

use super::slots::NodeFrame;

/// Requests above this multiple of capacity are not those of one node: even amplified nodes have less by default.
const MOST_REQUESTED: u64 = 2;
/// One frame in this number may exceed a limit: rates overshoot for a moment, and pods are counted twice while they are
/// replaced.
const TOLERATED: u64 = 20;

/// Amount that exceeds a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExcessKind {
    /// Use above capacity.
    Use,
    /// Requests above twice the capacity.
    Requests,
}

/// Frames of a node in which one amount exceeded its limit. CPU is in milli-cores, memory in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Excess {
    pub kind: ExcessKind,
    pub resource: Resource,
    /// Frames with the excess.
    pub frames: u64,
    /// Frames that were checked.
    pub of_frames: u64,
    /// The highest amount, with the capacity at that time.
    pub highest: u64,
    pub capacity: u64,
}

/// A node that is left out of the advice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImplausibleNode {
    pub name: String,
    /// Excess in most frames.
    pub excess: Excess,
}

impl ExcessKind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Use => "use",
            Self::Requests => "requests",
        }
    }

    /// The limit in words.
    pub const fn limit(self) -> &'static str {
        match self {
            Self::Use => "its capacity",
            Self::Requests => "twice its capacity",
        }
    }
}

/// Checks of one node so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Plausibility {
    frames: u64,
    used: PerResource<ExcessCount>,
    requested: PerResource<ExcessCount>,
}

#[derive(Debug, Clone, Copy, Default)]
struct ExcessCount {
    frames: u64,
    highest: u64,
    capacity: u64,
}

impl Plausibility {
    /// Checks a frame of a node with this capacity.
    pub fn check(&mut self, moment: &NodeFrame, capacity: PerResource<u64>) {
        self.frames += 1;
        for resource in Resource::ALL {
            let capacity = *capacity.get(resource);
            let sum = |amounts: &mut dyn Iterator<Item = u64>| amounts.fold(0, u64::saturating_add);
            let samples = moment.used.get(resource);
            let mean = sum(&mut samples.iter().copied())
                .checked_div(u64::try_from(samples.len()).unwrap_or(u64::MAX))
                .unwrap_or_default();
            let pods = || moment.pods.values();
            let of_pods = sum(&mut pods().filter_map(|pod| *pod.used.get(resource)));
            let requested = sum(&mut pods().filter_map(|pod| *pod.requests.get(resource)));
            self.used
                .get_mut(resource)
                .count(mean.max(of_pods), capacity, capacity);
            let most = capacity.saturating_mul(MOST_REQUESTED);
            self.requested.get_mut(resource).count(requested, most, capacity);
        }
    }

    /// The excess in most frames, if there are too many.
    pub fn excess(&self) -> Option<Excess> {
        let kinds = [
            (ExcessKind::Requests, &self.requested),
            (ExcessKind::Use, &self.used),
        ];
        let all = kinds.into_iter().flat_map(|(kind, counts)| {
            Resource::ALL.map(|resource| {
                let count = counts.get(resource);
                Excess {
                    kind,
                    resource,
                    frames: count.frames,
                    of_frames: self.frames,
                    highest: count.highest,
                    capacity: count.capacity,
                }
            })
        });
        let most = all.max_by_key(|excess| excess.frames)?;
        (most.frames * TOLERATED > self.frames).then_some(most)
    }
}

impl ExcessCount {
    fn count(&mut self, amount: u64, limit: u64, capacity: u64) {
        if amount <= limit {
            return;
        }
        self.frames += 1;
        if amount > self.highest {
            (self.highest, self.capacity) = (amount, capacity);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::slots::PodMoment;

    const CAPACITY: PerResource<u64> = PerResource {
        cpu: 4000,
        memory: 8 << 30,
    };

    fn frame(used: u64, of_pods: u64, requests: u64) -> NodeFrame {
        let cpu = |amount| PerResource {
            cpu: Some(amount),
            memory: None,
        };
        let pod = PodMoment {
            used: cpu(of_pods / 2),
            anonymous: None,
            requests: cpu(requests / 2),
        };
        NodeFrame {
            index: 0,
            used: PerResource {
                cpu: vec![used - 1, used + 1],
                memory: Vec::new(),
            },
            slots: 2,
            capacity: PerResource::default(),
            allocatable: PerResource::default(),
            pods: [("n/a".to_owned(), pod), ("n/b".to_owned(), pod)].into(),
        }
    }

    fn excess(frames: &[NodeFrame]) -> Option<Excess> {
        let mut checks = Plausibility::default();
        for frame in frames {
            checks.check(frame, CAPACITY);
        }
        checks.excess()
    }

    #[test]
    fn amounts_at_their_limits_are_plausible() {
        assert_eq!(excess(&[frame(4000, 4000, 8000)]), None);
        assert_eq!(excess(&[]), None);
    }

    #[test]
    fn each_excess_is_reported_with_its_amount() {
        for (moment, kind, highest) in [
            (frame(4001, 0, 0), ExcessKind::Use, 4001),
            (frame(100, 4002, 0), ExcessKind::Use, 4002),
            (frame(100, 0, 8002), ExcessKind::Requests, 8002),
        ] {
            let expected = Excess {
                kind,
                resource: Resource::Cpu,
                frames: 1,
                of_frames: 1,
                highest,
                capacity: 4000,
            };
            assert_eq!(excess(&[moment]), Some(expected));
        }
    }

    #[test]
    fn a_few_frames_above_the_limit_are_tolerated() {
        let mut frames = vec![frame(100, 100, 100); 39];
        frames.extend([frame(100, 100, 9000)]);
        assert_eq!(excess(&frames), None);
        frames.extend(vec![frame(100, 100, 9500); 2]);
        let found = excess(&frames).unwrap();
        assert_eq!((found.frames, found.of_frames, found.highest), (3, 42, 9500));
    }
}
