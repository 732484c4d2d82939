//! How near memory is to where the kubelet evicts pods, and what the kubelet itself says of it. See docs/estimator.md#brakes.

use std::mem;

use headroom_domain::estimate::spare_ppm;
use tracing::info;

use super::{Decider, period::BrakeInputs};
use crate::config::Settings;

impl Decider {
    /// Takes what the settings say of deciding, at the start and whenever they change.
    pub fn adopt(&mut self, settings: &Settings) {
        let eviction = settings.eviction_hard_memory;
        if mem::replace(&mut self.eviction, eviction) != eviction {
            info!(%eviction, "memory is short by another hard eviction threshold of the kubelet");
        }
        self.calibrate(settings.margin_calibration);
    }

    /// Bytes available above the kubelet's threshold when they were fewest in the last brake period.
    pub(super) fn spare_bytes(&self) -> Option<u64> {
        let available = self.last.brake_inputs.as_ref()?.least_available?;
        Some(available.saturating_sub(self.threshold()?))
    }

    /// What a period showed, with what only the servers and flags tell: without raw allocatable there is no row to judge.
    pub(super) fn with_scarcity(&self, mut judged: BrakeInputs) -> BrakeInputs {
        let memory = &mut judged.pressure.memory;
        let Some(pods) = &self.server_view.pods else {
            return judged;
        };
        memory.is_told_of_pressure = pods.has_memory_pressure;
        memory.spare_ppm = judged
            .least_available
            .zip(self.threshold())
            .and_then(|(available, threshold)| spare_ppm(available, threshold, pods.view.raw.memory));
        judged
    }

    /// The kubelet's threshold on this machine, in bytes.
    fn threshold(&self) -> Option<u64> {
        let memory = self.machine.memory?;
        Some(self.eviction.bytes(memory.total))
    }
}
