//! Figures of one case, from snapshots at its start and end: memory, CPU time, writes and review times.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Result;
use serde::Serialize;
use tokio::{runtime::Handle, time::sleep};

use super::{
    api_server::RequestCounts,
    pinning::{CpuTime, resident, used},
};
use crate::statistics::percentile;

/// Sampling interval of resident memory.
const POLL_EVERY: Duration = Duration::from_millis(200);
const MIB: f64 = 1024.0 * 1024.0;

#[derive(Debug, Clone, Serialize)]
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) seconds: f64,
    /// Peak resident memory of the process.
    pub(super) resident_mib: f64,
    /// `resident_mib` minus the memory of the stand-ins with all agents connected, before the first replica. Kubelets
    /// and the API server's answers come later, so this is an upper bound.
    pub(super) replica_mib: f64,
    /// CPU time of the replica.
    pub(super) cpu_s_per_min: f64,
    /// Run-queue wait of the replica on its CPU: the share of other processes in the times below.
    pub(super) waited_s_per_min: f64,
    pub(super) previews: u64,
    /// Writes of a hint annotation that the replica requested.
    pub(super) nudges: usize,
    /// Writes without content that it requested.
    pub(super) touches: usize,
    /// Writes that changed a Node, including those of kubelets.
    pub(super) writes: usize,
    /// Time until every node was up to date; in a restart also until every agent's report was accepted.
    pub(super) applied_s: Option<f64>,
    /// Reviews behind `review_p50_ms` and `review_p99_ms`.
    pub(super) reviews: usize,
    pub(super) review_p50_ms: f64,
    pub(super) review_p99_ms: f64,
    /// Writes of kubelets without a ready replica or without an answer within one second.
    pub(super) unanswered: usize,
}

/// Counters at one point in time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Snapshot {
    pub(super) at: Instant,
    /// Of all replicas so far.
    pub(super) cpu: CpuTime,
    pub(super) previews: u64,
    pub(super) counts: RequestCounts,
}

/// Peak resident memory since the last [`Self::reset`].
#[derive(Debug, Default)]
pub(super) struct PeakMemory(AtomicUsize);

impl PeakMemory {
    /// Starts to sample, until the runtime ends.
    pub(super) fn watch(load: &Handle) -> Arc<Self> {
        let peak = Arc::new(Self::default());
        let own = Arc::clone(&peak);
        load.spawn(async move {
            loop {
                own.0.fetch_max(resident().unwrap_or_default(), Ordering::Relaxed);
                sleep(POLL_EVERY).await;
            }
        });
        peak
    }

    /// Peak since the last call, in MiB.
    pub(super) fn reset(&self) -> Result<f64> {
        let now = resident()?;
        Ok(mib(self.0.swap(now, Ordering::Relaxed).max(now)))
    }
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52 bytes")]
pub(super) fn mib(bytes: usize) -> f64 {
    bytes as f64 / MIB
}

/// CPU time and previews of replicas that have ended.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EndedReplicas {
    cpu: CpuTime,
    previews: u64,
}

impl EndedReplicas {
    /// Adds the replica on this CPU before it ends.
    ///
    /// # Errors
    /// If procfs cannot be read.
    pub(super) fn add(&mut self, cpu: u32, previews: u64) -> Result<()> {
        self.cpu = self.cpu + used(cpu)?;
        self.previews += previews;
        Ok(())
    }

    /// Current counters, including the replica on this CPU.
    ///
    /// # Errors
    /// If procfs cannot be read.
    pub(super) fn snapshot(&self, cpu: u32, previews: u64, counts: RequestCounts) -> Result<Snapshot> {
        Ok(Snapshot {
            at: Instant::now(),
            cpu: self.cpu + used(cpu)?,
            previews: self.previews + previews,
            counts,
        })
    }
}

impl Snapshot {
    /// Figures of the time between two snapshots.
    pub(super) fn row(
        &self,
        end: &Self,
        name: &'static str,
        (resident_mib, replica_mib): (f64, f64),
        applied: Option<Duration>,
        (times_ms, unanswered): (Vec<f64>, usize),
    ) -> Case {
        let seconds = (end.at - self.at).as_secs_f64();
        let cpu = end.cpu.since(self.cpu);
        let a_minute = |time: Duration| time.as_secs_f64() / seconds * 60.0;
        Case {
            name,
            seconds,
            resident_mib,
            replica_mib,
            cpu_s_per_min: a_minute(cpu.ran),
            waited_s_per_min: a_minute(cpu.waited),
            previews: end.previews - self.previews,
            nudges: end.counts.nudges - self.counts.nudges,
            touches: end.counts.touches - self.counts.touches,
            writes: end.counts.stored - self.counts.stored,
            applied_s: applied.map(|time| time.as_secs_f64()),
            reviews: times_ms.len(),
            review_p50_ms: percentile(&times_ms, 50),
            review_p99_ms: percentile(&times_ms, 99),
            unanswered,
        }
    }
}
