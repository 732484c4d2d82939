//! `ReportSchedule` decides when a report is due, and numbers the reports.

use headroom_domain::{
    estimate::{Profile, Timing},
    hint::{AgentMode, Brake},
    ratio::Cents,
    resource::PerResource,
};

use super::inputs::Reportable;
use crate::{
    metrics,
    sample::clock::{Clocks, nanoseconds},
};

/// Decides when to report, and numbers the reports.
#[derive(Debug)]
pub(super) struct ReportSchedule {
    timing: Timing,
    /// Of the last report. It never falls within a boot: servers take a lower one for an old report and drop it.
    seq: u64,
    last_report: Option<LastReport>,
    has_frame_ended: bool,
}

/// The part of a report whose change is worth another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LastReport {
    published: PerResource<Cents>,
    brake: PerResource<Brake>,
    mode: AgentMode,
    generation: u64,
    exclusive_milli: u64,
    at_ns: u64,
}

impl ReportSchedule {
    pub(super) const fn new(timing: Timing) -> Self {
        Self {
            timing,
            seq: 0,
            last_report: None,
            has_frame_ended: false,
        }
    }

    /// Records that there are new numbers.
    pub(super) const fn frame_ended(&mut self) {
        self.has_frame_ended = true;
    }

    /// The number of the report that is due: something changed, it is time, or, where all is compressed to be shown,
    /// a frame ended.
    pub(super) fn due(&mut self, state: &Reportable) -> Option<u64> {
        let now = LastReport {
            published: state.estimates.map(|_, estimate| estimate.published),
            brake: state.estimates.map(|_, estimate| estimate.brake),
            mode: state.mode,
            generation: state.generation,
            exclusive_milli: state.exclusive_milli,
            at_ns: state.at.monotonic_ns,
        };
        let has_changed = self.last_report.is_none_or(|last| {
            LastReport {
                at_ns: now.at_ns,
                ..last
            } != now
        });
        let elapsed = self
            .last_report
            .map_or(0, |last| now.at_ns.saturating_sub(last.at_ns));
        let is_shown = self.timing.profile == Profile::Demo && std::mem::take(&mut self.has_frame_ended);
        if !has_changed && !is_shown && elapsed < nanoseconds(self.timing.report_every) {
            return None;
        }
        self.last_report = Some(now);
        Some(self.next_seq(state.at))
    }

    /// Numbers follow the time since boot, so that they go on rising when the agent is started again.
    pub(super) fn next_seq(&mut self, at: Clocks) -> u64 {
        self.seq = self.seq.saturating_add(1).max(at.boottime_ns / 1_000_000);
        metrics::REPORTS.with([]).increment(1);
        self.seq
    }

    /// The number of the last report; 0 before the first.
    pub(super) const fn seq(&self) -> u64 {
        self.seq
    }
}
