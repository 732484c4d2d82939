//! `SampleMetrics` counts metrics from samples, apart from any decision; `StatusView` calls it. It also keeps the sets
//! of failing readings and of sources that the machine lacks.

use std::collections::BTreeSet;

use crate::{
    decide::cgroup_warnings::CgroupWarnings,
    gather::{GatheredSignal, MemoryUse, Sample},
    kernel::hooks::EventCounters,
    local::signals::Need,
    metrics::{self, LOST_WINDOWS, MISSED_SWITCHES, OOM_KILLS, REFAULTED, RUNQ_WAIT, SWAPPED_OUT, SWITCHES},
    sample::memory::{Vmstat, page_bytes},
};

#[derive(Debug, Default)]
pub(super) struct SampleMetrics {
    /// Readings that fail at the moment.
    pub(super) failing: BTreeSet<GatheredSignal>,
    pub(super) lacking: BTreeSet<Need>,
    /// Memory in use, at the last sample of it.
    pub(super) memory: Option<MemoryUse>,
    /// Counters of rare events, at the last sample with kernel programs.
    pub(super) events: Option<EventCounters>,
    cgroup_warnings: CgroupWarnings,
    vm: Option<Vmstat>,
}

impl SampleMetrics {
    pub(super) fn record(&mut self, sample: &Sample) {
        if let Some(poll) = &sample.poll {
            let counts = &poll.counts;
            LOST_WINDOWS.with([]).increment(counts.lost_windows);
            SWITCHES.with([]).increment(counts.switches);
            MISSED_SWITCHES.with([]).increment(counts.missed_switches);
            for (upper_ns, count) in counts.waits.buckets() {
                RUNQ_WAIT.add(metrics::seconds(upper_ns), count);
            }
        }
        if let Some(counters) = sample.event_counters {
            counters.add_to_metrics(&self.events.unwrap_or_default());
            self.events = Some(counters);
        }
        let counters = &sample.memory_pressure;
        self.note(Need::MemoryPressure, counters.node.is_some());
        self.note(Need::KubepodsPressure, counters.kubepods.is_some());
        self.note(Need::LimitEvents, counters.limit.is_some());
        if let Some(vm) = counters.vm {
            self.count(vm);
        }
        self.cgroup_warnings.observe(sample);
        self.note(Need::CpuPressure, sample.cpu_pressure.is_some());
        self.note(Need::Kubepods, sample.kubepods.is_some());
        if let Some(memory) = sample.memory {
            self.note(Need::WorkingSet, memory.working_set.is_some());
            self.memory = Some(memory);
        }
        if self.failing != sample.failing {
            self.failing.clone_from(&sample.failing);
        }
    }

    fn note(&mut self, need: Need, is_there: bool) {
        if is_there {
            self.lacking.remove(&need);
        } else {
            self.lacking.insert(need);
        }
    }

    fn count(&mut self, now: Vmstat) {
        let before = self.vm.replace(now).unwrap_or(now);
        let Vmstat {
            scanned: _,
            stalls: _,
            refaulted,
            swapped_out,
            oom_kills,
        } = now;
        let bytes = |pages: u64| pages.saturating_mul(page_bytes());
        OOM_KILLS
            .with([])
            .increment(oom_kills.saturating_sub(before.oom_kills));
        REFAULTED
            .with([])
            .increment(bytes(refaulted.saturating_sub(before.refaulted)));
        SWAPPED_OUT
            .with([])
            .increment(bytes(swapped_out.saturating_sub(before.swapped_out)));
    }
}

#[cfg(test)]
mod tests {
    use headroom_kit::metric::Catalogue;

    use super::*;
    use crate::{
        decide::fixtures::sample,
        sample::{memory::MemoryCounters, psi::Psi},
    };

    /// Samples with this number of OOM kills since boot, and windows lost since the previous sample.
    fn counted(oom_kills: u64, lost_windows: u64) -> Sample {
        let mut sample = sample(4, 100);
        sample.poll.as_mut().unwrap().counts.lost_windows = lost_windows;
        sample.memory_pressure = MemoryCounters {
            vm: Some(Vmstat {
                oom_kills,
                ..Vmstat::default()
            }),
            ..MemoryCounters::default()
        };
        sample
    }

    #[test]
    fn counters_since_boot_count_from_the_first_sample() {
        let listed = [LOST_WINDOWS.metric(), SWITCHES.metric(), OOM_KILLS.metric()];
        let catalogue = Catalogue::new(&[&listed]).unwrap();
        let (recorder, exporter) = catalogue.recorder().unwrap();
        let text = ::metrics::with_local_recorder(&recorder, || {
            let mut metrics = SampleMetrics::default();
            for sample in [counted(7, 3), counted(9, 1), counted(8, 0)] {
                metrics.record(&sample);
            }
            exporter.render()
        });
        let value = |metric: &headroom_kit::metric::Metric| {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix(metric.name)?.strip_prefix(' '));
            line.map(str::to_owned)
        };
        // Three samples with 250 switches each.
        assert_eq!(
            listed.map(value),
            ["4", "750", "2"].map(|value| Some(value.to_owned())),
            "{text}"
        );
    }

    #[test]
    fn missing_sources_are_those_of_the_last_sample() {
        let mut metrics = SampleMetrics::default();
        metrics.record(&Sample {
            cpu_pressure: None,
            kubepods: None,
            failing: [GatheredSignal::Pods].into(),
            ..sample(4, 100)
        });
        let of_memory = [Need::MemoryPressure, Need::KubepodsPressure, Need::LimitEvents];
        let all = [Need::CpuPressure, Need::Kubepods].into_iter().chain(of_memory);
        assert_eq!(metrics.lacking, all.collect());
        assert_eq!(metrics.failing, [GatheredSignal::Pods].into());
        metrics.record(&Sample {
            memory_pressure: MemoryCounters {
                node: Some(Psi::default()),
                ..MemoryCounters::default()
            },
            ..sample(5, 100)
        });
        assert_eq!(
            metrics.lacking,
            [Need::KubepodsPressure, Need::LimitEvents].into()
        );
        assert!(metrics.failing.is_empty());
    }
}
