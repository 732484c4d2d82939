//! [`KnownByServers`] keeps the profiles of workloads that each hint server sent, and combines them carefully.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use headroom_domain::{
    estimate::{KnownWorkloads, Timing},
    workload::{Workload, WorkloadProfile},
};
use headroom_proto::WorkloadDirective;

use crate::sample::clock::Clocks;

/// Time for which a server's profiles count after their arrival.
const KEPT_FOR: Duration = Duration::from_secs(600);
/// Seconds in a day.
const DAY_SECONDS: u64 = 86_400;

/// Profiles by server.
#[derive(Debug, Default)]
pub(super) struct KnownByServers {
    servers: BTreeMap<SocketAddr, Received>,
}

#[derive(Debug)]
struct Received {
    known: WorkloadDirective,
    at: Clocks,
}

impl Received {
    fn is_old(&self, now: Clocks) -> bool {
        u128::from(now.boottime_ns.saturating_sub(self.at.boottime_ns)) > KEPT_FOR.as_nanos()
    }
}

impl KnownByServers {
    /// Replaces the profiles of a server.
    pub(super) fn receive(&mut self, server: SocketAddr, known: WorkloadDirective, at: Clocks) {
        self.servers.insert(server, Received { known, at });
    }

    /// Drops profiles that no server has confirmed for ten minutes. Returns true if there were any.
    pub(super) fn expire(&mut self, now: Clocks) -> bool {
        let before = self.servers.len();
        self.servers.retain(|_, received| !received.is_old(now));
        self.servers.len() != before
    }

    /// Profiles of all servers: the smallest trust and the largest use. A server without a profile has no say about a
    /// workload: unknown is not zero. The hours are those of the server that was received last.
    pub(super) fn combined(&self, timing: &Timing) -> Option<KnownWorkloads> {
        let newest = self
            .servers
            .values()
            .max_by_key(|received| received.at.boottime_ns)?;
        let frames_a_day = u64::from(timing.ring_frames.max(1));
        let frame_ns = u64::try_from(timing.frame().as_nanos())
            .unwrap_or(u64::MAX)
            .max(1);
        let of_day = u64::from(newest.known.seconds_of_day) * frames_a_day / DAY_SECONDS;
        let frame = newest.at.boottime_ns / frame_ns;
        let mut profiles: BTreeMap<Workload, WorkloadProfile> = BTreeMap::new();
        for (workload, profile) in self
            .servers
            .values()
            .flat_map(|received| &received.known.profiles)
        {
            profiles
                .entry(*workload)
                .and_modify(|known| *known = known.most_careful(profile))
                .or_insert(*profile);
        }
        Some(KnownWorkloads {
            offset: (of_day + frames_a_day - frame % frames_a_day) % frames_a_day,
            frames_a_day,
            profiles,
        })
    }
}

#[cfg(test)]
mod tests {
    use headroom_domain::{estimate::Profile, resource::PerResource};

    use super::*;

    const WORKLOAD: Workload = Workload {
        controller: 1,
        version: 1,
    };

    fn directive(trust: u32, seconds_of_day: u32) -> WorkloadDirective {
        let profile = WorkloadProfile {
            trust_ppm: PerResource {
                cpu: trust,
                memory: 0,
            },
            ..WorkloadProfile::default()
        };
        WorkloadDirective {
            seconds_of_day,
            profiles: BTreeMap::from([(WORKLOAD, profile)]),
        }
    }

    fn at(seconds: u64) -> Clocks {
        Clocks {
            boottime_ns: seconds * 1_000_000_000,
            ..Clocks::default()
        }
    }

    fn combined(known: &KnownByServers) -> Option<KnownWorkloads> {
        known.combined(&Profile::Production.timing())
    }

    #[test]
    fn the_smallest_trust_of_the_servers_counts_for_ten_minutes() {
        let [one, other] = [1, 2].map(|last| SocketAddr::from(([10, 0, 0, last], 1)));
        let mut known = KnownByServers::default();
        assert_eq!(combined(&known), None);
        known.receive(one, directive(900_000, 0), at(100));
        known.receive(other, directive(500_000, 0), at(50));
        let trust =
            |known: &KnownByServers| combined(known).map(|known| known.profiles[&WORKLOAD].trust_ppm.cpu);
        assert_eq!(trust(&known), Some(500_000));
        assert!(!known.expire(at(650)));
        assert!(known.expire(at(651)));
        assert_eq!(trust(&known), Some(900_000));
        assert!(known.expire(at(701)));
        assert_eq!(trust(&known), None);
    }

    #[test]
    fn a_server_that_does_not_know_a_workload_takes_no_trust() {
        let [one, other] = [1, 2].map(|last| SocketAddr::from(([10, 0, 0, last], 1)));
        let mut known = KnownByServers::default();
        known.receive(one, directive(900_000, 0), at(100));
        known.receive(other, WorkloadDirective::default(), at(100));
        let profiles = combined(&known).unwrap().profiles;
        assert_eq!(profiles[&WORKLOAD].trust_ppm.cpu, 900_000);
    }

    #[test]
    fn frames_are_numbered_by_the_clock_of_the_server() {
        let mut known = KnownByServers::default();
        let server = SocketAddr::from(([10, 0, 0, 1], 1));
        // Frame 300 of this boot ends at 02:00 of the server: frame 24 of its day.
        known.receive(server, directive(0, 7200), at(300 * 300));
        assert_eq!(combined(&known).unwrap().offset, (24 + 288 - 12) % 288);
    }
}
