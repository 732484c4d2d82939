//! The policies that the simulator compares: Headroom's own, and others by their published definitions.

mod fixed;
mod katalyst;
mod koordinator;
mod measured_slack;
mod oracle;
mod peak_predictors;
mod variants;

use headroom_domain::{policy::Bounds, resource::Resource};

pub(super) use self::measured_slack::MeasuredSlack;
use super::{node::Node, source::Machine};

/// A rule for how much of a node is handed out.
pub(super) trait Policy {
    /// What the node advertises as it stands now: asked at the beginning of each frame, and whenever a pod was bound.
    fn allocatable(&mut self, node: &Node) -> u64;

    /// The highest use of the present pods that the policy reckons with, system included; none if it has no such notion.
    /// Asked after [`Self::allocatable`].
    fn predicted_peak(&mut self, node: &Node) -> Option<u64>;

    /// The node's frame `now` has run.
    fn end_frame(&mut self, _node: &Node) {}
}

/// What policies are made for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    /// What is simulated.
    pub(super) resource: Resource,
    /// The node.
    pub(super) machine: Machine,
    /// Bounds of every ratio that is not fixed.
    pub(super) bounds: Bounds,
    /// theta of ours, in ppm.
    pub(super) theta_ppm: u32,
    /// Do outcomes calibrate the margin of ours (OCM)?
    pub(super) is_calibrated: bool,
    /// Does ours brake?
    pub(super) has_brakes: bool,
    /// What the oracle hands out of capacity, in ppm: all of it, but where it is moved along risk.
    pub(super) oracle_ppm: u32,
}

/// A policy by name.
#[derive(Debug)]
pub(super) struct Kind {
    /// Its name in reports and for `--policy`.
    pub(super) name: &'static str,
    /// What it is and who published it.
    pub(super) about: &'static str,
    /// Makes one for a node.
    pub(super) build: fn(&Settings) -> Box<dyn Policy>,
}

/// The policy that nothing is amplified by; excess is over what it does.
pub(super) const RAW: &str = "raw";
/// Ours.
pub(super) const OURS: &str = "headroom";
/// Ours, reduced to the peak.
pub(super) const PEAK_RULE: &str = "headroom-peak-rule";
/// The bound nobody can beat.
pub(super) const ORACLE: &str = "oracle";

/// Kubernetes as it is.
pub(super) static RAW_KIND: &Kind = &fixed::RAW;

/// All policies, in the order of reports.
pub(super) static KINDS: &[&Kind] = &[
    RAW_KIND,
    &fixed::STATIC_125,
    &fixed::STATIC_150,
    &fixed::BORG_DEFAULT,
    &katalyst::KIND,
    &koordinator::KIND,
    &peak_predictors::N_SIGMA_10H,
    &peak_predictors::RC_LIKE,
    &peak_predictors::MAX_10H,
    &peak_predictors::N_SIGMA_24H,
    &measured_slack::KIND,
    &oracle::KIND,
];

/// Ours, changed: run when asked for by name, and the peak rule along theta.
pub(super) static IDEAS: &[&Kind] = &[
    &variants::PEAK_RULE,
    &variants::WEEKLY,
    &variants::WEEK_OF_FRAMES,
    &variants::MIN_OF_FIVE,
    &variants::SIBLINGS,
];

/// All of both.
pub(super) fn all() -> impl Iterator<Item = &'static Kind> {
    KINDS.iter().chain(IDEAS).copied()
}

impl Settings {
    /// `wanted` within the bounds of the ratio.
    fn bounded(&self, wanted: i128) -> u64 {
        self.at_least(wanted.min(self.share(self.bounds.max.0)))
    }

    /// `wanted`, but no less than the least ratio.
    fn at_least(&self, wanted: i128) -> u64 {
        u64::try_from(wanted.max(self.share(self.bounds.min.0))).unwrap_or_default()
    }

    fn share(&self, cents: u32) -> i128 {
        i128::from(self.machine.raw) * i128::from(cents) / 100
    }

    /// What may be requested in all if the present pods peak at `peak`: a pod fits if its request fits beside that.
    fn beside(&self, node: &Node, peak: u64) -> i128 {
        i128::from(node.bound()) + i128::from(self.machine.capacity) - i128::from(peak)
    }
}

#[cfg(test)]
mod tests;
