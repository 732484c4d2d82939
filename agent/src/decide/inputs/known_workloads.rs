//! Both directions of trust by workload: the use of pods for reports, and the profiles that servers sent.

use headroom_domain::{
    estimate::{Frame, Profile},
    hint::{AgentMode, FrameUse, PodFrameUse},
};

use super::EstimatorInputs;

/// Time after a frame's end in which reports contain its pods' use: streams may skip a report.
const USE_REPORTED_NS: u64 = 60_000_000_000;

impl EstimatorInputs {
    /// Keeps the use of the pods in the frame that ended, if it is valid.
    pub(super) fn keep_frame_use(&mut self, frame: &Frame) {
        self.frame_use = frame.is_valid.then(|| (pod_use(frame), self.at.monotonic_ns));
    }

    /// Brings the estimator's profiles of workloads up to date.
    pub(super) fn refresh_workloads(&mut self) {
        let known = self.known.combined(self.estimator.timing());
        self.estimator.set_workloads(known);
    }

    /// Use of the pods in a frame that ended within the last minute, for the profiles of workloads. An agent that
    /// does not measure with kernel programs, and one whose durations are compressed, give no evidence.
    pub(in crate::decide) fn frame_use(&self) -> Option<FrameUse> {
        let (frame_use, ended_ns) = self.frame_use.as_ref()?;
        let age_ns = self.at.monotonic_ns.saturating_sub(*ended_ns);
        let gives_evidence = matches!(self.mode().0, AgentMode::Full | AgentMode::FullShed)
            && self.timing() == Profile::Production;
        (gives_evidence && age_ns < USE_REPORTED_NS).then(|| frame_use.clone())
    }
}

/// Use of a frame's pods, for a report.
fn pod_use(frame: &Frame) -> FrameUse {
    let pods = frame.pods.iter().map(|(uid, used)| PodFrameUse {
        uid: uid.clone(),
        low: used.low,
        high: used.high,
    });
    FrameUse {
        frame: frame.index,
        pods: pods.collect(),
    }
}
