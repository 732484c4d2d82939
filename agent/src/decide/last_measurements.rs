//! What was measured last, for reports, `/status` and what is compared with the next sample.

use super::{period::BrakeInputs, sample_metrics::SampleMetrics, tally::Tally};
use crate::{
    gather::PodFrame,
    kernel::{events::EventCounters, probe::Runs, supervisor::ProbeState},
    sample::clock::Clocks,
};

/// The last measurements.
#[derive(Debug, Default)]
pub(super) struct LastMeasurements {
    pub(super) at: Clocks,
    /// The stretch that is under way.
    pub(super) open: Tally,
    /// The last whole one.
    pub(super) second: Tally,
    /// Mean over the last frame.
    pub(super) frame: Tally,
    /// Memory in use: at the last sample.
    pub(super) memory_bytes: u64,
    pub(super) brake_inputs: Option<BrakeInputs>,
    /// OOM kills of the machine when the agent first looked, and now.
    pub(super) oom_kills: Option<(u64, u64)>,
    /// How the kernel programs stood.
    pub(super) probe_state: Option<ProbeState>,
    /// Rare events since the kernel programs were attached.
    pub(super) event_counters: Option<EventCounters>,
    pub(super) pods: PodFrame,
    /// Monotonic time at which pods that may hold CPUs were last read.
    pub(super) held_ns: u64,
    pub(super) runs: Vec<Runs>,
    pub(super) metrics: SampleMetrics,
}
