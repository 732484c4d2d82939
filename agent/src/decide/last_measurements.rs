//! `LastMeasurements` keeps the newest measured values for display. `StatusView` puts them into `/status` and signals,
//! `hint` into reports.

use std::{mem, sync::Arc};

use super::cpu_totals::CpuTotals;
use crate::{
    gather::{PodFrame, Sample},
    kernel::probe::Runs,
    sample::plain::PlainReadings,
};

/// A stretch of at least this is shown: a second, less half a poll that may come early.
const SHOWN_NS: u64 = 875_000_000;

#[derive(Debug, Default)]
pub(super) struct LastMeasurements {
    /// The stretch that is under way.
    open: CpuTotals,
    pub(super) second: CpuTotals,
    /// Mean over the last frame.
    pub(super) frame: CpuTotals,
    pub(super) memory_bytes: u64,
    /// OOM kills of the machine at the agent's start, and now.
    oom_kills: Option<(u64, u64)>,
    pub(super) pods: PodFrame,
    pub(super) runs: Vec<Runs>,
    pub(super) plain: Arc<PlainReadings>,
}

impl LastMeasurements {
    pub(super) fn observe(&mut self, sample: &Sample) {
        if let Some(vm) = sample.memory_pressure.vm {
            let now = vm.oom_kills;
            let (first, _) = self.oom_kills.unwrap_or((now, now));
            self.oom_kills = Some((first, now));
        }
        if let Some(runs) = &sample.runs {
            self.runs = runs.to_vec();
        }
        if let Some(plain) = &sample.plain {
            self.plain = Arc::clone(plain);
        }
        if let Some(memory) = sample.memory {
            self.memory_bytes = memory.node.used();
        }
        if let Some(pods) = &sample.pods {
            self.pods.clone_from(pods);
        }
        if let Some(poll) = &sample.poll {
            self.open.add(&CpuTotals::count(poll));
            if self.open.length_ns() >= SHOWN_NS {
                self.second = mem::take(&mut self.open);
            }
        }
    }

    /// OOM kills since the agent began to count.
    pub(super) fn oom_kills(&self) -> u64 {
        self.oom_kills.map_or(0, |(first, now)| now.saturating_sub(first))
    }
}
