//! `EstimatorInputs` adds the distance of memory from the kubelet's eviction threshold to the brake inputs. It also
//! adds the kubelet's own report of memory pressure. See docs/estimator.md#brakes.

use headroom_domain::estimate::spare_ppm;

use super::{super::period::BrakeInputs, EstimatorInputs};

impl EstimatorInputs {
    /// Bytes available above the kubelet's threshold when they were fewest in the last brake period.
    pub(in crate::decide) fn spare_bytes(&self) -> Option<u64> {
        let available = self.brake_inputs?.least_available?;
        Some(available.saturating_sub(self.threshold()?))
    }

    /// Adds the memory margin to a period's measurements. Before a directive contains raw allocatable, they are returned
    /// unchanged.
    pub(super) fn with_eviction_margin(&self, mut inputs: BrakeInputs) -> BrakeInputs {
        let memory = &mut inputs.pressure.memory;
        let Some(pods) = &self.server_view.pods else {
            return inputs;
        };
        memory.has_pressure_condition = pods.has_memory_pressure;
        memory.spare_ppm = inputs
            .least_available
            .zip(self.threshold())
            .and_then(|(available, threshold)| spare_ppm(available, threshold, pods.view.raw.memory));
        inputs
    }

    /// The kubelet's threshold on this machine, in bytes.
    fn threshold(&self) -> Option<u64> {
        let memory = self.machine.memory?;
        Some(self.eviction.bytes(memory.total))
    }
}
