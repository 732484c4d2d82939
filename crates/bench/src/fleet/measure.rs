//! Figures of one case, from snapshots at its beginning and its end: memory, CPU time, writes and review times.

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
use crate::percentile;

/// How often resident memory is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);
const MIB: f64 = 1024.0 * 1024.0;

/// The row of one case.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Case {
    /// Which.
    pub(super) name: &'static str,
    /// How long it took.
    pub(super) seconds: f64,
    /// The largest resident memory of the process.
    pub(super) resident_mib: f64,
    /// The same without what the stand-ins had before there was a replica, with all agents connected. Kubelets and what
    /// the API server sends come later, so it is rather too much.
    pub(super) replica_mib: f64,
    /// CPU time of the replica.
    pub(super) cpu_s_per_min: f64,
    /// How long the replica could have run while others did on its CPU: what the times below have of neighbours.
    pub(super) waited_s_per_min: f64,
    /// Decisions of background work.
    pub(super) previews: u64,
    /// Writes of a hint annotation that the replica asked for.
    pub(super) nudges: usize,
    /// Writes without content that it asked for.
    pub(super) touches: usize,
    /// Writes that changed a Node, those of kubelets included.
    pub(super) writes: usize,
    /// Until every node was as it should be, and in a restart every agent's report taken.
    pub(super) applied_s: Option<f64>,
    /// Reviews of kubelets' writes behind the next two.
    pub(super) reviews: usize,
    /// Time of a review.
    pub(super) review_p50_ms: f64,
    /// Time of a review.
    pub(super) review_p99_ms: f64,
    /// Kubelets' writes that found no replica ready, or got no answer within a second.
    pub(super) unanswered: usize,
}

/// What has been counted at some time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Snapshot {
    /// When.
    pub(super) at: Instant,
    /// CPU time of all replicas.
    pub(super) cpu: CpuTime,
    /// Previews of all replicas.
    pub(super) previews: u64,
    /// Writes.
    pub(super) counts: RequestCounts,
}

/// The largest resident memory since somebody last asked.
#[derive(Debug, Default)]
pub(super) struct PeakMemory(AtomicUsize);

impl PeakMemory {
    /// Begins to look, until the runtime ends.
    pub(super) fn watch(load: &Handle) -> Arc<Self> {
        let peak = Arc::new(Self::default());
        let own = Arc::clone(&peak);
        load.spawn(async move {
            loop {
                own.0.fetch_max(resident().unwrap_or_default(), Ordering::Relaxed);
                sleep(LOOK_EVERY).await;
            }
        });
        peak
    }

    /// The largest since the last call, in MiB.
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
    /// The replica on that CPU is about to end.
    ///
    /// # Errors
    /// If the kernel does not say what it used.
    pub(super) fn add(&mut self, cpu: u32, previews: u64) -> Result<()> {
        self.cpu = self.cpu + used(cpu)?;
        self.previews += previews;
        Ok(())
    }

    /// What counts now, with the replica on that CPU.
    ///
    /// # Errors
    /// If the kernel does not say what it used.
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
    /// The row of what happened until another mark.
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
