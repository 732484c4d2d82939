//! `EstimatorInputs` owns the estimator and feeds it. Its inputs are samples (gathered into frames and brake periods),
//! the Node as hint servers describe it, and the settings.

mod checkpointing;
mod eviction_margin;
mod known_workloads;
mod visibility;

use std::{mem, time::Duration};

use headroom_domain::{
    estimate::{Estimate, Estimator, Profile, Timing, Trust, View},
    hint::{AgentMode, Beginning, FrameUse},
    resource::{PerResource, Resource},
};
use headroom_proto::NodeView;
use tracing::{info, warn};

use self::checkpointing::{HistoryStart, Saved};
use super::{
    cpu_totals::CpuTotals,
    exclusive_cpus::ExclusiveCpus,
    frame::{EndedFrame, Frames, LONGEST_POLL_NS},
    known_by_servers::KnownByServers,
    machine::Machine,
    mode::{self, BlindReason},
    period::{BrakeInputs, Period},
    server_view::ServerView,
};
use crate::{
    args::{MarginCalibration, eviction::Eviction},
    config::Settings,
    gather::{GatheredSignal, MemoryUse, PinnedUse, Sample},
    kernel::{cpu_source::CpuSource, hooks::EventCounters, supervisor::ProbeState},
    metrics,
    publish::Directive,
    sample::{Poll, clock::Clocks, cpus::CpuSet},
};

/// The estimator and everything that it is fed from.
#[derive(Debug)]
pub(super) struct EstimatorInputs {
    cpu_source: CpuSource,
    estimator: Estimator,
    margin_calibration: MarginCalibration,
    eviction: Eviction,
    frames: Frames,
    period: Period,
    server_view: ServerView,
    known: KnownByServers,
    /// Use of the pods in the last valid frame, and its end in monotonic nanoseconds.
    frame_use: Option<(FrameUse, u64)>,
    machine: Machine,
    exclusive: ExclusiveCpus,
    blind_reason: Option<BlindReason>,
    /// Set by every change of the inputs of the estimator's view. The views are not compared, since that would copy
    /// all pods four times a second.
    is_view_stale: bool,
    began: HistoryStart,
    saved: Saved,
    /// Time of the last sample; zero before the first.
    at: Clocks,
    /// Time of the first sample, in monotonic nanoseconds.
    began_ns: Option<u64>,
    /// True if the last sample was taken with knowledge of the CPUs that pods share.
    knows_shared_cpus: bool,
    /// Up to when CPU counters were read, and up to when brakes allow for that they were not, in monotonic nanoseconds.
    polled_ns: u64,
    accounted_ns: u64,
    /// Of the last period that ended.
    brake_inputs: Option<BrakeInputs>,
    probe_state: Option<ProbeState>,
    /// Since the kernel programs were attached.
    event_counters: Option<EventCounters>,
}

/// Content of a report whose change makes a report due.
#[derive(Debug)]
pub(super) struct Reportable {
    pub(super) at: Clocks,
    pub(super) node_uid: String,
    /// The generation of pods that the estimates count with.
    pub(super) generation: u64,
    pub(super) mode: AgentMode,
    pub(super) estimates: PerResource<Estimate>,
    pub(super) exclusive_milli: u64,
}

impl EstimatorInputs {
    pub(super) fn new(cpu_source: CpuSource, timing: Timing, poll: Duration) -> Self {
        let mut inputs = Self {
            cpu_source,
            estimator: Estimator::new(timing),
            margin_calibration: MarginCalibration::On,
            eviction: Eviction::default(),
            frames: Frames::new(timing, poll),
            period: Period::new(timing.brake_period, poll),
            server_view: ServerView::default(),
            known: KnownByServers::default(),
            frame_use: None,
            machine: Machine::default(),
            exclusive: ExclusiveCpus::default(),
            blind_reason: Some(BlindReason::NoDirective),
            is_view_stale: false,
            began: HistoryStart::before(Clocks::default(), Duration::ZERO, Beginning::NotSaved),
            saved: Saved::default(),
            at: Clocks::default(),
            began_ns: None,
            knows_shared_cpus: false,
            polled_ns: 0,
            accounted_ns: 0,
            brake_inputs: None,
            probe_state: None,
            event_counters: None,
        };
        inputs.refresh_visibility();
        inputs
    }

    /// Applies settings. Switching the calibration of the margin resets it: the bound on bad outcomes counts from
    /// here.
    pub(super) fn adopt(&mut self, settings: &Settings) {
        let eviction = settings.eviction_hard_memory;
        if mem::replace(&mut self.eviction, eviction) != eviction {
            info!(%eviction, "the kubelet's hard eviction threshold has changed");
        }
        let margin_calibration = settings.margin_calibration;
        if mem::replace(&mut self.margin_calibration, margin_calibration) == margin_calibration {
            return;
        }
        let estimates = self.estimator.estimates();
        let before = estimates.map(|_, estimate| estimate.accumulator_ppm);
        warn!(
            ?margin_calibration,
            cpu_ppm = before.cpu,
            memory_ppm = before.memory,
            "the margin is reset: past outcomes no longer count"
        );
        let is_calibrated = margin_calibration == MarginCalibration::On;
        self.estimator.reset_outcomes(is_calibrated);
    }

    /// Applies a directive; a lowering takes effect immediately.
    pub(super) fn direct(&mut self, directive: Directive) {
        if let Directive::Workloads { server, known } = directive {
            self.known.receive(server, known, self.at);
            self.refresh_workloads();
            return;
        }
        if self.server_view.apply(directive, self.at) {
            self.is_view_stale = true;
            if let Some(pods) = &self.server_view.pods {
                self.exclusive.list(&pods.view.pods);
            }
            self.refresh_view();
        }
    }

    /// Records a sample; the mean over the frame that ended with it.
    pub(super) fn observe(&mut self, sample: Sample) -> Option<CpuTotals> {
        // Before the state of the programs changes: a period is evaluated with the state under which its samples were
        // taken.
        let ended_period = self.period.observe(&sample, self.cpu_source.wait_visibility());
        let ended_period = ended_period.map(|inputs| Self::with_pod_visibility(inputs, &sample));
        let Sample {
            at,
            poll,
            probe_state,
            event_counters,
            cpu_pressure: _,
            memory_pressure: _,
            meminfo,
            memory,
            pods,
            pinned_use,
            runs: _,
            plain: _,
            failing,
            empty_pods: _,
            kubepods: _,
            knows_shared_cpus,
        } = sample;
        self.knows_shared_cpus = knows_shared_cpus;
        self.began_ns.get_or_insert(at.monotonic_ns);
        // Before the time moves on, as it is measured from the last sample.
        self.observe_gap(at, poll.as_ref().is_some_and(Poll::covers_time));
        self.at = at;
        if let Some(probe_state) = probe_state {
            self.record_probe_state(&probe_state);
        }
        if let Some(event_counters) = event_counters {
            self.record_event_counters(event_counters);
        }
        if let Some(meminfo) = meminfo {
            self.is_view_stale |= self.machine.has_other_memory(meminfo);
        }
        if let Some(memory) = memory {
            self.record_memory(memory);
        }
        if let Some(pods) = pods {
            self.frames.record_pods(pods);
        }
        // Before the poll, which may end the second and the frame that these belong to.
        if let Some(pinned_use) = pinned_use {
            self.record_pinned_use(&pinned_use);
        }
        // The unused part of exclusive CPUs is unknown, and interrupts of idle CPUs are in /proc/stat alone: without
        // these, the frame's seconds would show too little demand.
        if self.exclusive.is_unread_for(LONGEST_POLL_NS, at) || failing.contains(&GatheredSignal::Stat) {
            self.frames.void();
        }
        let ended_frame = poll.and_then(|poll| self.record_poll(&poll));
        if self.known.expire(at) {
            self.refresh_workloads();
        }
        if let Some(inputs) = ended_period {
            let inputs = self.with_eviction_margin(inputs);
            let now = Duration::from_nanos(at.monotonic_ns);
            self.estimator.end_brake_period(&inputs.pressure, now);
            self.brake_inputs = Some(inputs);
        }
        self.refresh_view();
        ended_frame
    }

    /// Content of a report; `None` before the first directive, and before the first sample. That sample, a quarter of
    /// a second after the start, contains the machine's size, and its time numbers the reports: without it their
    /// numbers would fall behind those of the previous agent. A report before the first reading of cpusets would contain
    /// no exclusive CPUs and raise allocatable, so it waits for them, up to [`LONGEST_POLL_NS`].
    pub(super) fn reportable(&self) -> Option<Reportable> {
        let pods = self.server_view.pods.as_ref()?;
        let age_ns = self.at.monotonic_ns.saturating_sub(self.began_ns?);
        if !self.knows_shared_cpus && age_ns <= LONGEST_POLL_NS {
            return None;
        }
        Some(Reportable {
            at: self.at,
            node_uid: pods.node_uid.clone(),
            generation: pods.view.generation,
            mode: self.mode().0,
            estimates: self.estimates(),
            exclusive_milli: self.exclusive.milli(),
        })
    }

    /// Result of the estimator; a blind agent reports its reason and the machine's size.
    pub(super) fn estimates(&self) -> PerResource<Estimate> {
        let mut estimates = self.estimator.estimates();
        if let Some(blind_reason) = &self.blind_reason {
            let capacity = self.machine.capacity();
            for resource in Resource::ALL {
                let estimate = estimates.get_mut(resource);
                estimate.capacity = *capacity.get(resource);
                estimate.reasons = vec![blind_reason.reason()];
            }
        }
        estimates
    }

    /// Mode of the agent, with a sentence about it.
    pub(super) fn mode(&self) -> (AgentMode, String) {
        self.cpu_source.mode(self.blind_reason.as_ref())
    }

    /// Time of the last sample; zero before the first.
    pub(super) const fn at(&self) -> Clocks {
        self.at
    }

    pub(super) const fn cpu_source(&self) -> &CpuSource {
        &self.cpu_source
    }

    pub(super) const fn blind_reason(&self) -> Option<&BlindReason> {
        self.blind_reason.as_ref()
    }

    pub(super) const fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Node and its pods, from the directives.
    pub(super) const fn node_view(&self) -> Option<&NodeView> {
        self.server_view.pods.as_ref()
    }

    pub(super) const fn exclusive(&self) -> &ExclusiveCpus {
        &self.exclusive
    }

    pub(super) const fn exclusive_cpus(&self) -> &CpuSet {
        self.exclusive.cpus()
    }

    pub(super) const fn brake_inputs(&self) -> Option<&BrakeInputs> {
        self.brake_inputs.as_ref()
    }

    pub(super) fn trust(&self) -> Vec<Trust> {
        self.estimator.trust()
    }

    pub(super) fn timing(&self) -> Profile {
        self.estimator.timing().profile
    }

    /// A CPU may have gone offline and online between two polls: the current frame would count it as always online.
    fn record_event_counters(&mut self, now: EventCounters) {
        let before = self.event_counters.replace(now).unwrap_or(now);
        if before.changes.offline_steps != now.changes.offline_steps {
            self.frames.void();
        }
    }

    fn record_memory(&mut self, memory: MemoryUse) {
        let MemoryUse { node, working_set } = memory;
        // Without a directive nothing is known to be reserved, and all use counts.
        let raw = self
            .node_view()
            .map_or(node.capacity(), |pods| pods.view.raw.memory);
        self.frames
            .record_memory(node.charged(working_set.unwrap_or(0), raw));
    }

    fn record_pinned_use(&mut self, found: &[PinnedUse]) {
        let listed = self.server_view.pods.as_ref().map(|pods| &pods.view.pods);
        let change = self.exclusive.record(found, listed, self.at);
        self.frames.record_unused(change.unused_ns);
        self.is_view_stale |= change.is_other;
    }

    fn record_poll(&mut self, poll: &Poll) -> Option<CpuTotals> {
        self.record_cpus(poll);
        let EndedFrame { frame, mean } = self.frames.observe(poll)?;
        metrics::FRAMES
            .with([if frame.is_valid { "valid" } else { "void" }])
            .increment(1);
        self.keep_frame_use(&frame);
        self.estimator.end_frame(&frame);
        self.saved.is_old = true;
        Some(mean)
    }

    /// Brings the estimator's view up to date, and whether there is one.
    fn refresh_view(&mut self) {
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
                    pod.has_own_cpus = self.exclusive.has(uid);
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
    }

    /// View of the servers, and the capacity of this machine.
    fn known(&self) -> Result<(&NodeView, PerResource<u64>), BlindReason> {
        let pods = self.node_view().ok_or(BlindReason::NoDirective)?;
        if !self.machine.is_known() {
            return Err(BlindReason::NoFrame);
        }
        mode::compare(self.machine.node_capacity(), &pods.view)?;
        Ok((pods, self.machine.capacity()))
    }
}
