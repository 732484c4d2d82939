//! [`Decider`] turns samples and directives into the node's hint and its status; `start` drives it. It is pure: time
//! comes with the samples.
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
mod exclusive_cpus;
mod frame;
mod hint;
mod inputs;
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
use self::{inputs::EstimatorInputs, report_schedule::ReportSchedule, status::StatusView};
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

/// Who the agent speaks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Name of the Node.
    pub node: String,
    /// The kernel's boot id.
    pub boot_id: String,
}

/// Everything the agent knows of its node.
#[derive(Debug)]
pub struct Decider {
    identity: Identity,
    inputs: EstimatorInputs,
    schedule: ReportSchedule,
    view: StatusView,
}

impl Decider {
    /// Knows nothing of the node yet. `poll` is the interval of samples.
    pub fn new(identity: Identity, cpu_source: CpuSource, timing: Timing, poll: Duration) -> Self {
        Self {
            identity,
            inputs: EstimatorInputs::new(cpu_source, timing, poll),
            schedule: ReportSchedule::new(timing),
            view: StatusView::default(),
        }
    }

    /// Applies settings, at the start and whenever they change.
    pub fn adopt(&mut self, settings: &Settings) {
        self.inputs.adopt(settings);
    }

    /// Applies a directive; it lowers at once what it demands.
    pub fn direct(&mut self, directive: Directive) {
        self.inputs.direct(directive);
        self.view.log_mode(&self.inputs);
    }

    /// Records a sample.
    pub fn observe(&mut self, sample: Sample) {
        self.view.observe(&sample);
        if let Some(mean) = self.inputs.observe(sample) {
            self.view.end_frame(mean);
            self.schedule.frame_ended();
        }
        self.view.log_mode(&self.inputs);
    }

    /// The next report, if one is due. There is none before a hint server has told whom it would be about.
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

    /// Everything, for people; the streams are known elsewhere.
    pub fn status(&self) -> Status {
        self.view
            .status(&self.identity, &self.inputs, self.schedule.seq())
    }

    /// The pods that have a cgroup here or are told of by a hint server, by UID.
    pub fn pods(&self) -> Vec<PodStatus> {
        self.view.pods(&self.inputs)
    }

    /// The history begins at this time, for this reason.
    pub fn begin(&mut self, at: Clocks, why: Beginning) {
        self.inputs.begin(at, why);
    }

    /// Whose state it is.
    pub fn owner(&self) -> Owner {
        Owner {
            node: self.identity.node.clone(),
            timing: self.inputs.timing().name().to_owned(),
        }
    }

    /// Goes on from a record; `at` and `wall`, the time since 1970, are now.
    ///
    /// # Errors
    /// The record is not of an estimator of this timing. Nothing has changed.
    pub fn resume(&mut self, record: CheckpointFile, at: Clocks, wall: Duration) -> Result<(), ResumeError> {
        let boot = record.boot(&self.identity.boot_id, wall);
        self.inputs.resume(record, boot, at, wall)
    }

    /// The record to save now; `None` before the first sample, when it would say no more than what it would replace.
    pub fn record(&self, wall: Duration) -> Option<CheckpointFile> {
        self.inputs
            .record(self.owner(), self.identity.boot_id.clone(), wall)
    }

    /// Is there more to save than there was when this was last asked? At the end of each frame, and when a brake comes
    /// or goes: what it lowered must not be back after a crash.
    pub fn has_more_to_save(&mut self) -> bool {
        self.inputs.has_more_to_save()
    }
}

#[cfg(test)]
mod tests;
