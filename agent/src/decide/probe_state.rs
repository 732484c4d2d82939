//! What follows for the node when the kernel programs shed, were attached again, or are lost.

use std::time::Duration;

use headroom_domain::estimate::Visibility;
use tracing::{info, warn};

use super::{Decider, Machine, frame::LONGEST_POLL_NS, period::BrakeInputs};
use crate::{
    decide::sample_metrics::SampleMetrics,
    gather::GatheredSignal,
    kernel::supervisor::{ProbeState, Shed},
    local::signals::Need,
    sample::{Origin, Poll, clock::Clocks, cpus::CpuSet},
};

impl Decider {
    /// Takes in how the kernel programs stand, if otherwise than before.
    pub(super) fn record_probe_state(&mut self, standing: &ProbeState) {
        let calm = ProbeState::counting(Shed::Nothing);
        let before = self.last.probe_state.replace(standing.clone()).unwrap_or(calm);
        if before == *standing {
            return;
        }
        // Shedding changes sampling alone; otherwise busy time went uncounted just before.
        if before.reattached() != standing.reattached() {
            self.frames.void();
        }
        self.cpu_source.observe(standing);
        self.refresh_cpu_source();
    }

    /// Tells the estimator at once whether the kernel programs count; the end of each brake period tells the rest.
    pub(super) fn refresh_cpu_source(&mut self) {
        let judged = self.last.brake_inputs.map(|judged| judged.pressure.visibility);
        let known = judged.unwrap_or(Visibility::ALL);
        let counts = self.cpu_source.origin == Origin::Ebpf;
        self.estimator.set_visibility(Visibility {
            windows: counts,
            waits: counts && known.waits,
            ..known
        });
    }

    /// Takes in which CPUs a poll counted over; their capacity is the estimator's, and the Node has all that are online.
    pub(super) fn record_cpus(&mut self, poll: &Poll) {
        let Machine {
            online,
            cpus,
            shared_cpus,
            memory: _,
        } = &mut self.machine;
        let before = (*online, *cpus, *shared_cpus);
        (*online, *cpus, *shared_cpus) = (poll.online, poll.cpus, poll.shared_cpus);
        if before == (*online, *cpus, *shared_cpus) {
            return;
        }
        self.is_view_stale = true;
        info!(
            online,
            isolated = *online - *cpus,
            shared = shared_cpus,
            "CPUs of the node: brakes are for those that pods share"
        );
    }

    /// Takes in that nothing was seen since the last sample for longer than a poll: the machine or the agent stood still.
    /// Its frame does not count, and no brake is released by time that nobody saw.
    pub(super) fn observe_gap(&mut self, at: Clocks) {
        let before = self.last.at;
        let gap_ns = at.monotonic_ns.saturating_sub(before.monotonic_ns);
        if before == Clocks::default() || gap_ns <= LONGEST_POLL_NS {
            return;
        }
        let unseen = Duration::from_nanos(gap_ns);
        warn!(
            ?unseen,
            "nothing was seen for a while: the machine or the agent stood still; brakes stay for as much longer"
        );
        self.estimator
            .prolong_brakes(unseen, Duration::from_nanos(at.monotonic_ns));
    }

    /// CPUs that pods hold, each for itself alone.
    pub fn exclusive_cpus(&self) -> &CpuSet {
        &self.exclusive
    }

    /// What a period showed, with what is seen besides: pods, and which CPUs they share.
    pub(super) fn with_sight(&self, mut judged: BrakeInputs) -> BrakeInputs {
        let SampleMetrics { failing, lacking, .. } = &self.last.metrics;
        let visibility = &mut judged.pressure.visibility;
        visibility.pods = !lacking.contains(&Need::Kubepods) && !failing.contains(&GatheredSignal::Pods);
        visibility.shared_cpus = !failing.contains(&GatheredSignal::Cpusets);
        judged
    }
}
