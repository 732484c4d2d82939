//! [`Decider`] turns samples and directives into the node's hint and its status; `start` drives it. It is pure: time
//! is part of the samples.
//!
//! ```text
//! Sample, Directive, Settings -> EstimatorInputs -> estimates -> ReportSchedule -> NodeHint
//! Sample ---------------------------> StatusView -> Status, signals
//! ```
//!
//! `EstimatorInputs`, `ReportSchedule` and `StatusView` each have their own state. [`Decider`] passes samples to the first
//! and the last; schedule and view also read the state of `EstimatorInputs`, and nothing flows back to it.

mod cgroup_warnings;
mod cpu_totals;
mod driver_mismatch;
mod exclusive_cpus;
mod frame;
mod hint;
mod inputs;
mod known_by_servers;
mod last_measurements;
mod machine;
mod mode;
mod mode_log;
mod period;
mod report_schedule;
mod sample_metrics;
mod saturation;
mod server_view;
mod status;
mod wait_coverage;

#[cfg(test)]
mod fixtures;

use std::time::Duration;

use headroom_domain::{
    estimate::{ResumeError, Timing},
    hint::{Beginning, NodeHint},
};

pub use self::mode::BlindReason;
use self::{
    driver_mismatch::DriverMismatch, inputs::EstimatorInputs, report_schedule::ReportSchedule,
    status::StatusView,
};
use crate::{
    config::Settings,
    gather::Sample,
    kernel::cpu_source::CpuSource,
    local::{
        checkpoint::{CheckpointFile, Owner},
        status::{PodStatus, Status},
    },
    publish::Directive,
    sample::{clock::Clocks, cpus::CpuSet},
};

/// Node and boot that the agent reports for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub node: String,
    pub boot_id: String,
}

/// Everything the agent knows of its node.
#[derive(Debug)]
pub struct Decider {
    identity: Identity,
    inputs: EstimatorInputs,
    schedule: ReportSchedule,
    view: StatusView,
    driver_mismatch: DriverMismatch,
}

impl Decider {
    /// Knows nothing of the node yet. `poll` is the interval of samples.
    pub fn new(identity: Identity, cpu_source: CpuSource, timing: Timing, poll: Duration) -> Self {
        Self {
            identity,
            inputs: EstimatorInputs::new(cpu_source, timing, poll),
            schedule: ReportSchedule::new(timing),
            view: StatusView::default(),
            driver_mismatch: DriverMismatch::default(),
        }
    }

    /// Applies settings, at the start and whenever they change.
    pub fn adopt(&mut self, settings: &Settings) {
        self.inputs.adopt(settings);
    }

    /// Applies a directive; a lowering takes effect immediately.
    pub fn direct(&mut self, directive: Directive) {
        self.inputs.direct(directive);
        self.view.log_mode(&self.inputs);
    }

    pub fn observe(&mut self, sample: Sample) {
        self.view.observe(&sample);
        let bound = self.inputs.node_view().map(|pods| &pods.view.pods);
        self.driver_mismatch.observe(&sample, bound);
        if let Some(mean) = self.inputs.observe(sample) {
            self.view.end_frame(mean);
            self.schedule.frame_ended();
        }
        self.view.log_mode(&self.inputs);
    }

    /// Next report, if one is due; `None` before the first directive, which names the Node.
    pub fn report(&mut self) -> Option<NodeHint> {
        let state = self.inputs.reportable()?;
        let seq = self.schedule.due(&state)?;
        Some(hint::hint(&self.identity, &self.inputs, &self.view, &state, seq))
    }

    /// The last report of an agent that is about to end.
    pub fn final_report(&mut self) -> Option<NodeHint> {
        let state = self.inputs.reportable()?;
        let seq = self.schedule.next_seq(state.at);
        Some(NodeHint {
            is_draining: true,
            ..hint::hint(&self.identity, &self.inputs, &self.view, &state, seq)
        })
    }

    /// CPUs that pods hold, each for itself alone.
    pub const fn exclusive_cpus(&self) -> &CpuSet {
        self.inputs.exclusive_cpus()
    }

    /// Complete status for users; the caller adds the streams.
    pub fn status(&self) -> Status {
        self.view
            .status(&self.identity, &self.inputs, self.schedule.seq())
    }

    /// Pods that have a cgroup here or are in a directive, by UID.
    pub fn pods(&self) -> Vec<PodStatus> {
        self.view.pods(&self.inputs)
    }

    /// The history begins at this time, for this reason.
    pub fn begin(&mut self, at: Clocks, why: Beginning) {
        self.inputs.begin(at, why);
    }

    pub fn owner(&self) -> Owner {
        Owner {
            node: self.identity.node.clone(),
            timing: self.inputs.timing().name().to_owned(),
        }
    }

    /// Resumes from a record; `at` and `wall`, the time since 1970, are now.
    ///
    /// # Errors
    /// The record is not of an estimator of this timing. Nothing has changed.
    pub fn resume(&mut self, record: CheckpointFile, at: Clocks, wall: Duration) -> Result<(), ResumeError> {
        let boot = record.boot(&self.identity.boot_id, wall);
        self.inputs.resume(record, boot, at, wall)
    }

    /// Record to save now; `None` before the first sample, when it would equal the saved one.
    pub fn record(&self, wall: Duration) -> Option<CheckpointFile> {
        self.inputs
            .record(self.owner(), self.identity.boot_id.clone(), wall)
    }

    /// True if there is more to save than at the last call: after each frame, and after a change of a brake, whose
    /// lowering must survive a crash.
    pub fn has_more_to_save(&mut self) -> bool {
        self.inputs.has_more_to_save()
    }
}

#[cfg(test)]
mod tests;
