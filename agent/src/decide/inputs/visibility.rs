//! Passes the current visibility to the estimator: kernel programs that sample less, are attached again or are lost,
//! CPUs that go online or offline, and gaps without samples.

use std::time::Duration;

use headroom_domain::estimate::Visibility;
use tracing::{info, warn};

use super::{
    super::{frame::LONGEST_POLL_NS, machine::Machine, period::BrakeInputs},
    EstimatorInputs,
};
use crate::{
    gather::{GatheredSignal, Sample},
    kernel::supervisor::{ProbeState, Shed},
    sample::{Origin, Poll, clock::Clocks},
};

impl EstimatorInputs {
    /// Records how the kernel programs stand, if otherwise than before.
    pub(super) fn record_probe_state(&mut self, now: &ProbeState) {
        let calm = ProbeState::counting(Shed::Nothing);
        let before = self.probe_state.replace(now.clone()).unwrap_or(calm);
        if before == *now {
            return;
        }
        // Shedding only changes the sampling; in the other cases busy time went uncounted just before.
        if before.reattached() != now.reattached() {
            self.frames.void();
        }
        self.cpu_source.observe(now);
        self.refresh_visibility();
    }

    /// Updates the state of the kernel programs at once; the end of each brake period updates the rest.
    pub(super) fn refresh_visibility(&mut self) {
        let known = self.brake_inputs.map(|inputs| inputs.pressure.visibility);
        let known = known.unwrap_or(Visibility::ALL);
        let counts = self.cpu_source.origin == Origin::Ebpf;
        self.estimator.set_visibility(Visibility {
            windows: counts && known.windows,
            waits: counts && known.waits,
            ..known
        });
    }

    /// Records which CPUs a poll counted over; their capacity is the estimator's, and the Node has all that are online.
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
            "CPUs of the node; brakes use those that pods share"
        );
    }

    /// Accounts for a time without measurements that is longer than a poll: the machine or the agent stood still, or CPU
    /// counters could not be read. No brake is released by it. `has_poll`: this sample counts CPU time.
    pub(super) fn observe_gap(&mut self, at: Clocks, has_poll: bool) {
        let now_ns = at.monotonic_ns;
        if self.at == Clocks::default() {
            (self.polled_ns, self.accounted_ns) = (now_ns, now_ns);
            return;
        }
        let has_stood_still = now_ns.saturating_sub(self.at.monotonic_ns) > LONGEST_POLL_NS;
        let is_unread = !has_poll && now_ns.saturating_sub(self.polled_ns) > LONGEST_POLL_NS;
        if has_stood_still || is_unread {
            let unseen = Duration::from_nanos(now_ns.saturating_sub(self.accounted_ns));
            // The reader of the counters logs that they are unreadable.
            if has_stood_still {
                warn!(
                    ?unseen,
                    "no samples for a while: the machine or the agent was stopped; brakes are \
                     extended by that time"
                );
            }
            self.estimator
                .prolong_brakes(unseen, Duration::from_nanos(now_ns));
            self.accounted_ns = now_ns;
        }
        if has_poll {
            (self.polled_ns, self.accounted_ns) = (now_ns, now_ns);
        }
    }

    /// Measurements of a period, completed by its last sample: pods, their shared CPUs, and failing signals.
    pub(super) fn with_pod_visibility(mut inputs: BrakeInputs, sample: &Sample) -> BrakeInputs {
        use GatheredSignal::{
            Cpu, CpuPressure, Cpusets, Events, KubepodsPressure, LimitEvents, Memory, MemoryPressure, Pods,
            Stat, Vmstat,
        };
        let fails = |signals: &[GatheredSignal]| signals.iter().any(|signal| sample.failing.contains(signal));
        let visibility = &mut inputs.pressure.visibility;
        visibility.pods = sample.kubepods.is_some() && !fails(&[Pods]);
        visibility.shared_cpus = sample.knows_shared_cpus && !fails(&[Cpusets]);
        if !sample.knows_shared_cpus {
            // Of CPUs of which it is not known how many they are, all may be busy.
            inputs.pressure.cpu.busy_ppm = 1_000_000;
        }
        visibility.cpu_counters &= !fails(&[Cpu, Stat, CpuPressure]);
        visibility.memory_pressure &= !fails(&[MemoryPressure]);
        visibility.memory_counters &= !fails(&[
            Memory,
            MemoryPressure,
            KubepodsPressure,
            LimitEvents,
            Vmstat,
            Events,
        ]);
        // These distinguish machine pressure from that of pods at their own limits: without them all pressure counts.
        inputs.pressure.memory.has_global_reclaim |= fails(&[Vmstat, LimitEvents]);
        inputs
    }
}
