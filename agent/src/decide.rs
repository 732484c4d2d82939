//! Turns samples and directives into the node's hint. Pure: time comes with the samples.
//!
//! ```text
//! Sample -> Frames -> Estimator::end_frame            ┐
//! Sample -> Period -> Estimator::end_brake_period     ├-> estimates -> ReportSchedule -> NodeHint, and Status
//! Directive, machine -> Estimator::set_view           ┘
//! ```

mod calibration;
mod cgroup_warnings;
mod checkpointing;
mod eviction_margin;
mod exclusive_cpus;
mod frame;
mod last_measurements;
mod machine;
mod mode;
mod mode_log;
mod period;
mod probe_state;
mod report;
mod sample_metrics;
mod saturation;
mod server_view;
mod status_details;
mod tally;
mod wait_sight;

#[cfg(test)]
mod fake;

use std::{collections::BTreeMap, mem, time::Duration};

use headroom_domain::{
    estimate::{Estimate, Estimator, Profile, Timing, View},
    hint::{AgentMode, Beginning, NodeHint},
    resource::{PerResource, Resource},
};
use headroom_proto::NodeView;

pub use self::mode::{BlindReason, CALM, CpuSource};
use self::{
    checkpointing::{HistoryStart, Saved},
    frame::{EndedFrame, Frames},
    last_measurements::LastMeasurements,
    machine::Machine,
    mode_log::ModeLog,
    period::Period,
    report::ReportSchedule,
    server_view::ServerView,
    tally::Tally,
};
use crate::{
    args::MarginCalibration,
    config::eviction::Eviction,
    gather::{MemoryUse, PinnedUse, Sample},
    kernel::events::EventCounters,
    metrics,
    publish::Directive,
    sample::{Poll, clock::Clocks, cpus::CpuSet},
};

/// A stretch of at least this is shown in `/status`: a second, less half a poll that may come early.
const SHOWN_NS: u64 = 875_000_000;

/// Who the agent speaks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Name of the Node.
    pub node: String,
    /// The kernel's boot id.
    pub boot_id: String,
}

/// Everything the agent knows of its node.
#[derive(Debug)]
pub struct Decider {
    identity: Identity,
    cpu_source: CpuSource,
    estimator: Estimator,
    margin_calibration: MarginCalibration,
    eviction: Eviction,
    frames: Frames,
    period: Period,
    schedule: ReportSchedule,
    /// What the hint servers told.
    server_view: ServerView,
    machine: Machine,
    /// Milli-cores that pods hold for themselves alone, by UID.
    exclusive_milli: BTreeMap<String, u64>,
    /// Which CPUs those are.
    exclusive: CpuSet,
    blind_reason: Option<BlindReason>,
    mode_log: ModeLog,
    /// Set when what the estimator's view is made of has changed.
    is_view_stale: bool,
    began: HistoryStart,
    saved: Saved,
    last: LastMeasurements,
}

impl Decider {
    /// Knows nothing of the node yet. `poll` is the interval of samples.
    pub fn new(identity: Identity, cpu_source: CpuSource, timing: Timing, poll: Duration) -> Self {
        let mut decider = Self {
            identity,
            cpu_source,
            estimator: Estimator::new(timing),
            margin_calibration: MarginCalibration::On,
            eviction: Eviction::default(),
            frames: Frames::new(timing, poll),
            period: Period::new(timing.brake_period, poll),
            schedule: ReportSchedule::new(timing),
            server_view: ServerView::default(),
            machine: Machine::default(),
            exclusive_milli: BTreeMap::new(),
            exclusive: CpuSet::default(),
            blind_reason: Some(BlindReason::NoDirective),
            mode_log: ModeLog::default(),
            is_view_stale: false,
            began: HistoryStart::before(Clocks::default(), Duration::ZERO, Beginning::NotSaved),
            saved: Saved::default(),
            last: LastMeasurements::default(),
        };
        decider.refresh_cpu_source();
        decider
    }

    /// Takes a directive; it lowers at once what it demands.
    pub fn direct(&mut self, directive: Directive) {
        if !self.server_view.apply(directive, self.last.at) {
            return;
        }
        self.is_view_stale = true;
        self.refresh_mode();
    }

    /// Takes a sample.
    pub fn observe(&mut self, sample: Sample) {
        let judged = self.period.observe(&sample, self.cpu_source.hearing());
        self.last.metrics.record(&sample);
        let Sample {
            at,
            poll,
            probe_state: standing,
            event_counters: rare,
            cpu_pressure: _,
            memory_pressure,
            meminfo,
            memory,
            pods,
            pinned_use: held,
            runs,
            failing: _,
            has_kubepods: _,
        } = sample;
        self.observe_gap(at);
        self.last.at = at;
        if let Some(standing) = standing {
            self.record_probe_state(&standing);
        }
        if let Some(rare) = rare {
            self.record_event_counters(rare);
        }
        if let Some(counters) = memory_pressure {
            self.record_oom_kills(counters.vm.oom_kills);
        }
        if let Some(runs) = runs {
            self.last.runs = runs.to_vec();
        }
        if let Some(meminfo) = meminfo {
            self.is_view_stale |= self.machine.has_other_memory(meminfo);
        }
        if let Some(memory) = memory {
            self.record_memory(memory);
        }
        if let Some(pods) = pods {
            self.last.pods.clone_from(&pods);
            self.frames.record_pods(pods);
        }
        if let Some(held) = held {
            self.record_pinned_use(&held);
        }
        self.void_without_holders(at);
        if let Some(poll) = poll {
            self.record_poll(&poll);
        }
        if let Some(judged) = judged {
            let judged = self.with_sight(self.with_scarcity(judged));
            self.estimator
                .end_brake_period(&judged.pressure, Duration::from_nanos(at.monotonic_ns));
            self.last.brake_inputs = Some(judged);
        }
        self.refresh_mode();
    }

    /// The next report, if one is due. There is none before a hint server has told whom it would be about.
    pub fn report(&mut self) -> Option<NodeHint> {
        let generation = self.reported()?;
        let (estimates, sight) = (self.estimates(), self.sight());
        let held_milli = self.exclusive_milli.values().sum();
        let seq = self
            .schedule
            .due(self.last.at, sight, generation, &estimates, held_milli)?;
        self.hint(seq, &estimates, sight, generation)
    }

    /// The last report of an agent that is about to end.
    pub fn final_report(&mut self) -> Option<NodeHint> {
        let generation = self.reported()?;
        let (estimates, sight) = (self.estimates(), self.sight());
        let seq = self.schedule.next_seq(self.last.at);
        let hint = self.hint(seq, &estimates, sight, generation)?;
        Some(NodeHint {
            is_draining: true,
            ..hint
        })
    }

    /// The generation of pods that a report would be about. The first sample, a quarter of a second after the start, says
    /// what the machine has, and by its time reports are numbered: without it they would go back behind those of the
    /// agent before.
    fn reported(&self) -> Option<u64> {
        let pods = self.server_view.pods.as_ref()?;
        (self.last.at != Clocks::default()).then_some(pods.view.generation)
    }

    /// A CPU may have gone and come back between two polls: the frame under way would count it as there throughout.
    fn record_event_counters(&mut self, rare: EventCounters) {
        if self
            .last
            .event_counters
            .is_some_and(|before| before.cpu_changes != rare.cpu_changes)
        {
            self.frames.void();
        }
        self.last.event_counters = Some(rare);
    }

    fn record_oom_kills(&mut self, now: u64) {
        let (first, _) = self.last.oom_kills.unwrap_or((now, now));
        self.last.oom_kills = Some((first, now));
    }

    fn record_memory(&mut self, memory: MemoryUse) {
        let MemoryUse { node, working_set } = memory;
        // Without a directive nothing is known to be reserved, and all use counts.
        let raw = self
            .server_view
            .pods
            .as_ref()
            .map_or(node.capacity(), |pods| pods.view.raw.memory);
        self.frames
            .record_memory(node.charged(working_set.unwrap_or(0), raw));
        self.last.memory_bytes = node.used();
    }

    fn record_pinned_use(&mut self, found: &[PinnedUse]) {
        self.last.held_ns = self.last.at.monotonic_ns;
        let Some(pods) = &self.server_view.pods else {
            return;
        };
        let listed = &pods.view.pods;
        let holdings = exclusive_cpus::holdings(found, listed);
        self.frames
            .record_unused(exclusive_cpus::unused_ns(found, &holdings, listed));
        self.exclusive = exclusive_cpus::exclusive_cpus(found, &holdings, listed);
        self.is_view_stale |= holdings != self.exclusive_milli;
        self.exclusive_milli = holdings;
    }

    /// Voids the frame while what holders use has not been read for too long: its seconds seem to ask for less than they do.
    fn void_without_holders(&mut self, at: Clocks) {
        let unread_ns = at.monotonic_ns.saturating_sub(self.last.held_ns);
        if !self.exclusive_milli.is_empty() && unread_ns > frame::LONGEST_POLL_NS {
            self.frames.void();
        }
    }

    fn record_poll(&mut self, poll: &Poll) {
        self.record_cpus(poll);
        self.last.open.add(&Tally::count(poll));
        if self.last.open.length_ns() >= SHOWN_NS {
            self.last.second = mem::take(&mut self.last.open);
        }
        if let Some(EndedFrame { frame, mean }) = self.frames.observe(poll) {
            metrics::FRAMES
                .with([if frame.is_valid { "valid" } else { "void" }])
                .increment(1);
            self.last.frame = mean;
            self.estimator.end_frame(&frame);
            self.saved.is_old = true;
            self.schedule.frame_ended();
        }
    }

    /// Brings the estimator's view up to date, and says what has changed in how much is seen.
    fn refresh_mode(&mut self) {
        let known = self.known().map(|(pods, capacity)| {
            let View {
                bounds, target_ppm, ..
            } = pods.view;
            let (bounds, target_ppm) = self.server_view.policy.unwrap_or((bounds, target_ppm));
            // Cloned only when it is needed: this runs at every sample.
            self.is_view_stale.then(|| {
                let mut view = View {
                    capacity,
                    bounds,
                    target_ppm,
                    ..pods.view.clone()
                };
                for (uid, pod) in &mut view.pods {
                    pod.has_own_cpus = self.exclusive_milli.contains_key(uid);
                }
                view
            })
        });
        self.is_view_stale = false;
        let blind_reason = match known {
            Ok(None) => None,
            Ok(Some(view)) => {
                self.estimator.set_view(view);
                None
            }
            Err(blind_reason) => {
                self.estimator.clear_view();
                Some(blind_reason)
            }
        };
        let has_frames = self.estimator.coverage_ppm(Resource::Cpu) > 0;
        self.blind_reason = blind_reason.or((!has_frames).then_some(BlindReason::NoFrame));
        self.mode_log
            .log_changes(&self.cpu_source, self.blind_reason.as_ref());
    }

    /// What the servers told, and the capacity of this machine.
    fn known(&self) -> Result<(&NodeView, PerResource<u64>), BlindReason> {
        let pods = self.server_view.pods.as_ref().ok_or(BlindReason::NoDirective)?;
        let memory = self
            .machine
            .memory
            .filter(|_| self.machine.cpus > 0)
            .ok_or(BlindReason::NoFrame)?;
        let Machine { online, cpus, .. } = self.machine;
        mode::compare(
            PerResource {
                cpu: u64::from(online) * 1000,
                memory: memory.total,
            },
            &pods.view,
        )?;
        Ok((
            pods,
            PerResource {
                cpu: u64::from(cpus) * 1000,
                memory: memory.capacity(),
            },
        ))
    }

    fn sight(&self) -> AgentMode {
        self.cpu_source.mode(self.blind_reason.as_ref()).0
    }

    /// The estimator's result; a blind agent says why and what the machine has.
    fn estimates(&self) -> PerResource<Estimate> {
        let mut estimates = self.estimator.estimates();
        if let Some(blind_reason) = &self.blind_reason {
            let cpu = u64::from(self.machine.cpus) * 1000;
            let memory = self.machine.memory.map_or(0, |memory| memory.capacity());
            for (resource, capacity) in [(Resource::Cpu, cpu), (Resource::Memory, memory)] {
                let estimate = estimates.get_mut(resource);
                estimate.capacity = capacity;
                estimate.reasons = vec![blind_reason.reason()];
            }
        }
        estimates
    }

    fn timing(&self) -> Profile {
        self.estimator.timing().profile
    }
}

#[cfg(test)]
mod tests;
