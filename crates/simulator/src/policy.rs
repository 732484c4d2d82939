//! The policies that the simulator compares: Headroom's own, and others by their published definitions.

mod fixed;
mod katalyst;
mod koordinator;
mod measured_slack;
mod oracle;
mod peak_predictors;
mod places;
mod variants;

use headroom_domain::{estimate::KnownWorkloads, policy::Bounds, resource::Resource};

pub(super) use self::measured_slack::MeasuredSlack;
use super::{node::Node, source::Machine};

/// A rule for a node's allocatable.
pub(super) trait Policy {
    /// Allocatable in the node's current state. Called at the start of each frame, and after a pod was bound.
    fn allocatable(&mut self, node: &Node) -> u64;

    /// Highest use of the present pods that the policy expects, system included; `None` for a policy without
    /// predictions. Called after [`Self::allocatable`].
    fn predicted_peak(&mut self, node: &Node) -> Option<u64>;

    /// Called before a frame with the knowledge of the workloads of the node's pods.
    fn learn(&mut self, _known: KnownWorkloads) {}

    /// Called after the node's frame `now` has run.
    fn end_frame(&mut self, _node: &Node) {}
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    pub(super) resource: Resource,
    pub(super) machine: Machine,
    /// Bounds of every ratio that is not fixed.
    pub(super) bounds: Bounds,
    /// theta of Headroom's policy, in ppm.
    pub(super) theta_ppm: u32,
    /// True if outcomes calibrate the margin of Headroom's policy.
    pub(super) is_calibrated: bool,
    pub(super) has_brakes: bool,
    /// Share of capacity that the oracle advertises, in ppm: all of it, except on the frontier.
    pub(super) oracle_ppm: u32,
}

#[derive(Debug)]
pub(super) struct Kind {
    /// Name in reports and for `--policy`.
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) build: fn(&Settings) -> Box<dyn Policy>,
}

/// The policy without amplification; excess is relative to it.
pub(super) const RAW: &str = "raw";
pub(super) const OURS: &str = "headroom";
/// Headroom's policy before places and succession.
pub(super) const WITHOUT_PLACES: &str = "headroom-without-places";
/// Headroom's policy with places and without succession.
pub(super) const WITHOUT_SUCCESSION: &str = "headroom-without-succession";
/// Headroom's policy with trust by workload.
pub(super) const WITH_WORKLOADS: &str = "headroom-with-workloads";
/// Headroom's policy with a place for every pod.
pub(super) const PLACES_FOR_ALL: &str = "headroom-places-for-all";
/// Headroom's policy reduced to the predicted peak.
pub(super) const PEAK_RULE: &str = "headroom-peak-rule";
/// The upper bound for all policies.
pub(super) const ORACLE: &str = "oracle";

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

/// Variants of Headroom's policy: run only when named, and the peak rule also on the frontier.
pub(super) static IDEAS: &[&Kind] = &[
    &variants::PEAK_RULE,
    &variants::WEEKLY,
    &variants::WEEK_OF_FRAMES,
    &variants::MIN_OF_FIVE,
    &variants::SIBLINGS,
    &measured_slack::WITHOUT_PLACES,
    &measured_slack::WITHOUT_SUCCESSION,
    &measured_slack::PLACES_FOR_ALL,
    &measured_slack::WITH_WORKLOADS,
];

pub(super) fn all() -> impl Iterator<Item = &'static Kind> {
    KINDS.iter().chain(IDEAS).copied()
}

impl Settings {
    /// Limits `wanted` to the bounds of the ratio.
    fn bounded(&self, wanted: i128) -> u64 {
        self.at_least(wanted.min(self.share(self.bounds.max.0)))
    }

    /// Limits `wanted` to the lower bound of the ratio.
    fn at_least(&self, wanted: i128) -> u64 {
        u64::try_from(wanted.max(self.share(self.bounds.min.0))).unwrap_or_default()
    }

    fn share(&self, cents: u32) -> i128 {
        i128::from(self.machine.raw) * i128::from(cents) / 100
    }

    /// Requests that may be bound in all if the present pods peak at `peak`: a pod fits if its request fits in
    /// addition to that.
    fn beside(&self, node: &Node, peak: u64) -> i128 {
        i128::from(node.bound()) + i128::from(self.machine.capacity) - i128::from(peak)
    }
}

#[cfg(test)]
pub(super) mod tests;
