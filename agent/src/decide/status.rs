//! `StatusView` builds the agent's status for users: `/status` on request, the pods, and the signals. It also records
//! metrics of samples and logs changes of the mode.

use std::collections::BTreeMap;

use headroom_domain::{estimate::PodUse, resource::Resource};

use super::{
    Identity, cpu_totals::CpuTotals, inputs::EstimatorInputs, last_measurements::LastMeasurements,
    mode_log::ModeLog, sample_metrics::SampleMetrics,
};
use crate::{
    gather::{PodFrame, Sample},
    kernel::{
        cpu_source::CALM,
        probe::{Hook, HookVerdict},
    },
    local::{
        signals::{self, Readings},
        status::{
            self, HistoryStatus, Measured, PodStatus, PodsStatus, ProgramStatus, ResourceStatus,
            SignalStatus, Status,
        },
    },
    sample::{Origin, clock::nanoseconds},
};

/// Last measurements and last logged state. Decisions are read from [`EstimatorInputs`] on request.
#[derive(Debug, Default)]
pub(super) struct StatusView {
    last: LastMeasurements,
    metrics: SampleMetrics,
    mode_log: ModeLog,
}

impl StatusView {
    /// Records a sample, in metrics too.
    pub(super) fn observe(&mut self, sample: &Sample) {
        self.metrics.record(sample);
        self.last.observe(sample);
    }

    /// Records the mean over a frame that ended.
    pub(super) fn end_frame(&mut self, mean: CpuTotals) {
        self.last.frame = mean;
    }

    /// Logs changes of the visibility.
    pub(super) fn log_mode(&mut self, inputs: &EstimatorInputs) {
        self.mode_log
            .log_changes(inputs.cpu_source(), inputs.blind_reason());
    }

    pub(super) const fn last(&self) -> &LastMeasurements {
        &self.last
    }

    /// Everything; the streams are known elsewhere. `seq` is the number of the last report.
    pub(super) fn status(&self, identity: &Identity, inputs: &EstimatorInputs, seq: u64) -> Status {
        let (mode, mode_sentence) = inputs.mode();
        let (node_uid, generation) = inputs.node_view().map_or_else(Default::default, |pods| {
            (pods.node_uid.clone(), pods.view.generation)
        });
        let (estimates, measured) = (inputs.estimates(), self.measured(inputs));
        let PodFrame {
            used,
            unmeasured: _,
            untracked,
            unreadable,
        } = &self.last.pods;
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let cpu_source = inputs.cpu_source();
        Status {
            node: identity.node.clone(),
            node_uid,
            boot_id: identity.boot_id.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            mode: mode.name().to_owned(),
            mode_sentence,
            history: HistoryStatus::from_domain(inputs.past(inputs.at())),
            timing: inputs.timing().name().to_owned(),
            source: match cpu_source.origin {
                Origin::Ebpf => "ebpf",
                Origin::Procfs => "procfs",
            }
            .to_owned(),
            programs: cpu_source
                .verdicts
                .iter()
                .map(|verdict| self.program(verdict, inputs))
                .collect(),
            measured,
            signals: self.signal_status(inputs, measured),
            resources: Resource::ALL
                .map(|resource| ResourceStatus::from_estimate(resource, estimates.get(resource)))
                .into(),
            pods: PodsStatus {
                tracked: count(used.len()),
                untracked: count(*untracked),
                unreadable: count(*unreadable),
            },
            seq,
            generation,
            streams: Vec::new(),
        }
    }

    /// Measurements; `None` before the first second.
    pub(super) fn measured(&self, inputs: &EstimatorInputs) -> Option<Measured> {
        let LastMeasurements {
            second, memory_bytes, ..
        } = &self.last;
        if second.length_ns() == 0 {
            return None;
        }
        let period = inputs.brake_inputs();
        let memory = period.map_or_else(Default::default, |period| period.pressure.memory);
        let cpu = period.map_or_else(Default::default, |period| period.pressure.cpu);
        let read = self.metrics.memory;
        Some(Measured {
            from_ns: second.from_ns,
            until_ns: second.until_ns,
            cpu_used_milli: second.used_milli(),
            cpu_busy_milli: second.busy_milli(),
            cpu_demand_milli: second.demand_milli(inputs.machine().cpus),
            cpu_peak_milli: period.map_or(0, |period| period.peak_milli),
            exclusive_milli: inputs.exclusive().milli(),
            steal_milli: second.steal_milli(),
            switches_per_s: second.switches_per_s(),
            lost_windows: second.lost_windows,
            mem_used_bytes: *memory_bytes,
            mem_available_bytes: read.map_or(0, |memory| memory.node.available),
            mem_spare_bytes: inputs.spare_bytes(),
            working_set_bytes: read.and_then(|memory| memory.working_set).unwrap_or(0),
            direct_reclaim_ms: memory.direct_reclaim_ms,
            refault_mb_s: memory.refault_mb_s,
            swap_out_mb_s: memory.swap_out_mb_s,
            limit_hits: memory.limit_hits,
            oom_kills: self.last.oom_kills(),
            sigma8_ppm: cpu.sigma8_ppm,
            runq_p50_us: period.map_or(0, |period| period.runq_p50_us),
            runq_p99_us: cpu.runq_p99_us,
            burst_ppm: period.map_or(0, |period| period.burst_ppm),
            psi_cpu_some_ppm: cpu.some_ppm,
            psi_mem_some_ppm: memory.some_ppm,
            psi_mem_full_ppm: memory.full_ppm,
        })
    }

    pub(super) fn signal_status(
        &self,
        inputs: &EstimatorInputs,
        measured: Option<Measured>,
    ) -> Vec<SignalStatus> {
        let used = &self.last.pods.used;
        let sum = |part: fn(&PodUse) -> u64| used.values().map(part).fold(0, u64::saturating_add);
        let pods = (!used.is_empty()).then(|| (sum(|pod| pod.high.cpu), sum(|pod| pod.high.memory)));
        signals::status(&Readings {
            measured,
            pods,
            plain: &self.last.plain,
            events: self.metrics.events,
            cpu_source: inputs.cpu_source(),
            failing: &self.metrics.failing,
            lacking: &self.metrics.lacking,
        })
    }

    /// Pods that have a cgroup here or are in a directive, by UID.
    pub(super) fn pods(&self, inputs: &EstimatorInputs) -> Vec<PodStatus> {
        let used = &self.last.pods.used;
        let listed = inputs.node_view().map(|pods| &pods.view.pods);
        let trust: BTreeMap<_, _> = inputs
            .trust()
            .into_iter()
            .map(|trust| (trust.uid, trust.ppm.cpu.min(trust.ppm.memory)))
            .collect();
        let mut uids: Vec<&String> = listed
            .into_iter()
            .flat_map(BTreeMap::keys)
            .chain(used.keys())
            .collect();
        uids.sort_unstable();
        uids.dedup();
        let status = |uid: &String| PodStatus {
            uid: uid.clone(),
            used: used.get(uid).copied(),
            request: listed.and_then(|listed| listed.get(uid)).copied(),
            trust_ppm: trust.get(uid).copied().unwrap_or(0),
            exclusive_milli: inputs.exclusive().of_pod(uid),
        };
        uids.into_iter().map(status).collect()
    }

    /// A kernel program, with its runs and the time that they took as far as the kernel was asked to count.
    fn program(&self, verdict: &HookVerdict, inputs: &EstimatorInputs) -> ProgramStatus {
        let (runs, run_time_ns) = self.runs(verdict.hook);
        let program = status::program(verdict);
        let is_resting = inputs.cpu_source().rests(&[verdict.hook]);
        ProgramStatus {
            runs,
            run_time_ns,
            reason: program.reason.or(is_resting.then(|| CALM.to_owned())),
            ..program
        }
    }

    fn runs(&self, hook: Hook) -> (u64, u64) {
        let runs = self.last.runs.iter().find(|runs| runs.hook == hook);
        runs.map_or((0, 0), |runs| (runs.count, nanoseconds(runs.time)))
    }
}
