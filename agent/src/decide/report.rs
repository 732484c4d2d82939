//! When the agent reports, and what a report and `/status` say.

use headroom_domain::{
    estimate::{Estimate, Profile, Timing},
    hint::{AgentMode, Brake, NodeHint, PodTrust, ResourceHint, Signal},
    ratio::Cents,
    resource::{PerResource, Resource},
};

use super::{CALM, Decider, LastMeasurements, period::ppm};
use crate::{
    gather::PodFrame,
    kernel::probe::{Hook, Verdict},
    local::status::{
        self, HistoryStatus, Measured, PodsStatus, ProgramStatus, ResourceStatus, SignalStatus, Status,
    },
    metrics,
    sample::{
        Origin,
        clock::{Clocks, nanoseconds},
    },
};

/// Decides when to report, and numbers the reports.
#[derive(Debug)]
pub(super) struct ReportSchedule {
    timing: Timing,
    seq: u64,
    last_report: Option<LastReport>,
    has_frame_ended: bool,
}

/// The part of a report whose change is worth another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LastReport {
    published: PerResource<Cents>,
    brake: PerResource<Brake>,
    sight: AgentMode,
    generation: u64,
    held_milli: u64,
    at_ns: u64,
}

impl ReportSchedule {
    pub(super) const fn new(timing: Timing) -> Self {
        Self {
            timing,
            seq: 0,
            last_report: None,
            has_frame_ended: false,
        }
    }

    /// Notes that there are new numbers.
    pub(super) const fn frame_ended(&mut self) {
        self.has_frame_ended = true;
    }

    /// The number of the report that is due: something changed, it is time, or, where all is compressed to be shown,
    /// a frame ended.
    pub(super) fn due(
        &mut self,
        at: Clocks,
        sight: AgentMode,
        generation: u64,
        estimates: &PerResource<Estimate>,
        held_milli: u64,
    ) -> Option<u64> {
        let now = LastReport {
            published: estimates.map(|_, estimate| estimate.published),
            brake: estimates.map(|_, estimate| estimate.brake),
            sight,
            generation,
            held_milli,
            at_ns: at.monotonic_ns,
        };
        let has_changed = self.last_report.is_none_or(|said| {
            LastReport {
                at_ns: now.at_ns,
                ..said
            } != now
        });
        let elapsed = self
            .last_report
            .map_or(0, |said| now.at_ns.saturating_sub(said.at_ns));
        let is_shown = self.timing.profile == Profile::Demo && std::mem::take(&mut self.has_frame_ended);
        if !has_changed && !is_shown && elapsed < nanoseconds(self.timing.report_every) {
            return None;
        }
        self.last_report = Some(now);
        Some(self.next_seq(at))
    }

    /// Numbers follow the time since boot, so that they go on rising when the agent is started again.
    pub(super) fn next_seq(&mut self, at: Clocks) -> u64 {
        self.seq = self.seq.saturating_add(1).max(at.boottime_ns / 1_000_000);
        metrics::REPORTS.with([]).increment(1);
        self.seq
    }

    const fn seq(&self) -> u64 {
        self.seq
    }
}

impl Decider {
    pub(super) fn hint(
        &self,
        seq: u64,
        estimates: &PerResource<Estimate>,
        sight: AgentMode,
        generation: u64,
    ) -> Option<NodeHint> {
        let usage = PerResource {
            cpu: self.last.frame.used_milli(),
            memory: self.last.memory_bytes,
        };
        let trust = self.estimator.trust().into_iter().map(|trust| PodTrust {
            exclusive_cpus_milli: self.exclusive_milli.get(&trust.uid).copied().unwrap_or(0),
            uid: trust.uid,
            cpu_ppm: trust.ppm.cpu,
            memory_ppm: trust.ppm.memory,
        });
        Some(NodeHint {
            node: self.identity.node.clone(),
            node_uid: self.server_view.pods.as_ref()?.node_uid.clone(),
            boot_id: self.identity.boot_id.clone(),
            seq,
            // Each stream says so for itself.
            is_primary: false,
            pods_generation: generation,
            sight,
            timing: self.timing(),
            is_draining: false,
            resources: estimates
                .map(|resource, estimate| self.resource_hint(resource, estimate, *usage.get(resource))),
            trust: trust.collect(),
            steal_ppm: ppm(
                self.last.second.steal_milli(),
                u64::from(self.machine.cpus) * 1000,
            )
            .min(1_000_000),
            signals: self.signals(),
            past: Some(self.began.past(self.last.at)),
        })
    }

    /// The Node counts isolated CPUs in; what pods may use of it does not.
    fn resource_hint(&self, resource: Resource, estimate: &Estimate, usage: u64) -> ResourceHint {
        let hint = estimate.hint(usage);
        let isolated = match resource {
            Resource::Cpu => u64::from(self.machine.online.saturating_sub(self.machine.cpus)) * 1000,
            Resource::Memory => 0,
        };
        ResourceHint {
            capacity: hint.capacity.saturating_add(isolated),
            isolated,
            ..hint
        }
    }

    /// Every signal that has a value now.
    fn signals(&self) -> Vec<Signal> {
        let shown = self.signal_status(self.measured()).into_iter();
        let measured = shown.filter_map(|status| {
            let SignalStatus {
                name, unit, value, ..
            } = status;
            let value = value?;
            Some(Signal { name, unit, value })
        });
        measured.collect()
    }

    /// Runs of the program of a hook and nanoseconds spent in them, as far as the kernel was asked to count.
    fn runs(&self, hook: Hook) -> (u64, u64) {
        let runs = self.last.runs.iter().find(|runs| runs.hook == hook);
        runs.map_or((0, 0), |runs| (runs.count, nanoseconds(runs.time)))
    }

    /// Everything, for people; the streams are known elsewhere.
    pub fn status(&self) -> Status {
        let (sight, mode_sentence) = self.cpu_source.mode(self.blind_reason.as_ref());
        let (node_uid, generation) = match &self.server_view.pods {
            Some(pods) => (pods.node_uid.clone(), pods.view.generation),
            None => (String::new(), 0),
        };
        let (estimates, measured) = (self.estimates(), self.measured());
        let PodFrame {
            used,
            unmeasured: _,
            untracked,
            unreadable,
        } = &self.last.pods;
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        Status {
            node: self.identity.node.clone(),
            node_uid,
            boot_id: self.identity.boot_id.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            mode: sight.name().to_owned(),
            mode_sentence,
            history: HistoryStatus::from_domain(self.began.past(self.last.at)),
            timing: self.timing().name().to_owned(),
            source: match self.cpu_source.origin {
                Origin::Ebpf => "ebpf",
                Origin::Procfs => "procfs",
            }
            .to_owned(),
            programs: self
                .cpu_source
                .verdicts
                .iter()
                .map(|verdict| self.program(verdict))
                .collect(),
            measured,
            signals: self.signal_status(measured),
            resources: Resource::ALL
                .map(|resource| ResourceStatus::from_estimate(resource, estimates.get(resource)))
                .into(),
            pods: PodsStatus {
                tracked: count(used.len()),
                untracked: count(*untracked),
                unreadable: count(*unreadable),
            },
            seq: self.schedule.seq(),
            generation,
            streams: Vec::new(),
        }
    }

    fn measured(&self) -> Option<Measured> {
        let LastMeasurements {
            second,
            brake_inputs: judged,
            memory_bytes,
            metrics,
            oom_kills,
            ..
        } = &self.last;
        if second.length_ns() == 0 {
            return None;
        }
        let pressure = judged.map_or_else(Default::default, |judged| judged.pressure.memory);
        let cpu = judged.map_or_else(Default::default, |judged| judged.pressure.cpu);
        Some(Measured {
            from_ns: second.from_ns,
            until_ns: second.until_ns,
            cpu_used_milli: second.used_milli(),
            cpu_busy_milli: second.busy_milli(),
            cpu_demand_milli: second.demand_milli(self.machine.cpus),
            cpu_peak_milli: judged.map_or(0, |judged| judged.peak_milli),
            exclusive_milli: self.exclusive_milli.values().sum(),
            steal_milli: second.steal_milli(),
            switches_per_s: second.switches_per_s(),
            lost_windows: second.lost_windows,
            mem_used_bytes: *memory_bytes,
            mem_available_bytes: metrics.memory.map_or(0, |memory| memory.node.available),
            mem_spare_bytes: self.spare_bytes(),
            working_set_bytes: metrics.memory.and_then(|memory| memory.working_set).unwrap_or(0),
            direct_reclaim_ms: pressure.direct_reclaim_ms,
            refault_mb_s: pressure.refault_mb_s,
            swap_out_mb_s: pressure.swap_out_mb_s,
            limit_hits: pressure.limit_hits,
            oom_kills: oom_kills.map_or(0, |(first, now)| now.saturating_sub(first)),
            sigma8_ppm: cpu.sigma8_ppm,
            runq_p50_us: judged.map_or(0, |judged| judged.runq_p50_us),
            runq_p99_us: cpu.runq_p99_us,
            burst_ppm: judged.map_or(0, |judged| judged.burst_ppm),
            psi_cpu_some_ppm: cpu.some_ppm,
            psi_mem_some_ppm: pressure.some_ppm,
            psi_mem_full_ppm: pressure.full_ppm,
        })
    }

    fn program(&self, verdict: &Verdict) -> ProgramStatus {
        let (runs, run_time_ns) = self.runs(verdict.hook);
        let program = status::program(verdict);
        let resting = self.cpu_source.rests(&[verdict.hook]).then(|| CALM.to_owned());
        ProgramStatus {
            runs,
            run_time_ns,
            reason: program.reason.or(resting),
            ..program
        }
    }
}
