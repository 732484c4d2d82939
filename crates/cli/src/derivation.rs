//! [`Derivation`]: the numbers behind a node's ratio, from capacity and measured slack to the published value.

mod terms;

use std::time::Duration;

use headroom_domain::{
    estimate::{Inputs, Reason, Slack, Target, Timing, Visibility, confidence_ppm, slack, target},
    hint::{AgentMode, Brake, Calibration, Highs, Progress, ResourceHint},
    policy::{Bounds, Policy},
    ratio::Cents,
    resource::Resource,
};

pub(crate) use self::terms::SYMBOL;
use crate::view::NodeView;

/// Numbers of one resource of one node; [`headroom_domain::estimate`] explains them.
///
/// They are from the agent's report, and from the webhook's current raw allocatable, bound requests and policy. The
/// agent may have had
/// older values of the latter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Derivation {
    pub resource: Resource,
    pub sight: AgentMode,
    pub timing: Timing,
    /// C: physical capacity of the machine.
    pub capacity: u64,
    /// theta, in ppm, of the policy in force, or of the default policy while that is unknown.
    pub theta_ppm: u32,
    /// m: applied margin, in ppm.
    pub margin_ppm: u32,
    /// M and its latch; `None` for older agents.
    pub calibration: Option<Calibration>,
    /// True while outcomes latch amplification off. An older agent reports it only by its reasons.
    pub is_latched: bool,
    /// A, T, P0, P, Rw, R and S.
    pub slack: Slack,
    /// Inputs of P0, if known.
    pub highs: Option<Highs>,
    /// Age of the highest conditioned peak at the last frame, in whole frames.
    pub peak_age: Duration,
    /// Valid share of the history, in ppm.
    pub coverage_ppm: u32,
    /// Valid frames of the history.
    pub valid_frames: u32,
    /// The smaller of coverage and the trusted share of the requests, in ppm.
    pub confidence_ppm: u32,
    /// Bounds of the ratio, of the policy in force or of the default policy.
    pub policy_bounds: Bounds,
    /// Bounds after the limits of the agent's mode.
    pub bounds: Bounds,
    /// Results of these numbers: S', A* and the target.
    pub derived: Target,
    /// Target in the agent's report.
    pub target: Cents,
    /// Progress to the target; `None` for older agents.
    pub progress: Option<Progress>,
    /// Ratio that the agent publishes.
    pub published: Cents,
    pub brake: Brake,
}

impl Derivation {
    /// Derives one resource. `None` until the agent has reported with a view of its node, and the webhook knows raw
    /// allocatable and
    /// bound requests.
    pub fn derive(node: &NodeView, resource: Resource) -> Option<Self> {
        let report = &node.hint.as_ref()?.report;
        let (raw, bound) = (*node.raw?.get(resource), *node.bound?.get(resource));
        let hint = report.resources.get(resource);
        if hint.capacity == 0 || raw == 0 {
            return None;
        }
        let (sight, timing) = (report.sight, report.timing.timing());
        let policy = node
            .policy
            .as_ref()
            .map_or_else(Policy::default, |in_force| in_force.policy);
        let (theta_ppm, policy_bounds) = (*policy.target_ppm.get(resource), *policy.bounds.get(resource));
        let bounds = Bounds {
            max: visibility(sight, hint).highest(resource, policy_bounds.max),
            ..policy_bounds
        };
        let slack = slack(&Inputs {
            resource,
            capacity: hint.usable_capacity(),
            raw,
            target_ppm: theta_ppm,
            peak: hint.peak,
            margin_ppm: hint.margin_ppm,
            warm_requests: hint.warm_requests,
            bound,
        });
        let is_latched = is_latched(hint);
        let valid_frames = match sight {
            // Earlier measurements of a blind agent do not count.
            AgentMode::Blind => 0,
            AgentMode::Full | AgentMode::FullShed | AgentMode::Proc => {
                valid_frames(hint.coverage_ppm, &timing)
            }
        };
        let age = u32::try_from(hint.peak_age_frames).unwrap_or(u32::MAX);
        Some(Self {
            resource,
            sight,
            timing,
            capacity: hint.usable_capacity(),
            theta_ppm,
            margin_ppm: hint.margin_ppm,
            calibration: hint.calibration,
            is_latched,
            slack,
            highs: highs(hint, resource),
            peak_age: timing.frame().saturating_mul(age),
            coverage_ppm: hint.coverage_ppm,
            valid_frames,
            confidence_ppm: confidence_ppm(hint.coverage_ppm, hint.warm_requests, bound),
            policy_bounds,
            bounds,
            derived: target(&slack, valid_frames, timing.ring_frames, bounds, is_latched),
            target: hint.target,
            progress: hint.progress,
            published: hint.published,
            brake: hint.brake,
        })
    }

    /// The sum A + S', before the bounds.
    pub fn wanted(&self) -> i128 {
        i128::from(self.slack.raw) + self.derived.scaled
    }
}

/// Limits of the agent's mode. For a blind agent, measurements do not count.
fn visibility(sight: AgentMode, hint: &ResourceHint) -> Visibility {
    match sight {
        AgentMode::Full | AgentMode::FullShed => Visibility::ALL,
        AgentMode::Proc | AgentMode::Blind => {
            let code = Reason::NoBrake.code();
            let has_pressure = hint.reasons.iter().all(|reason| reason != code);
            Visibility {
                cpu_pressure: has_pressure,
                memory_pressure: has_pressure,
                ..Visibility::PROCFS
            }
        }
    }
}

/// The latch as reported; for an older agent, from its reasons.
fn is_latched(hint: &ResourceHint) -> bool {
    let code = Reason::MarginLatched.code();
    hint.calibration.map_or_else(
        || hint.reasons.iter().any(|reason| reason == code),
        |calibration| calibration.is_latched,
    )
}

/// Inputs of P0. Without a climb, P0 is the highest peak, so that they are always known for CPU.
fn highs(hint: &ResourceHint, resource: Resource) -> Option<Highs> {
    match resource {
        Resource::Cpu => hint.highs.or(Some(Highs {
            highest: hint.peak,
            ..Highs::default()
        })),
        Resource::Memory => hint.highs,
    }
}

/// Number of frames whose truncated share of the ring is this coverage.
fn valid_frames(coverage_ppm: u32, timing: &Timing) -> u32 {
    let millionths = u64::from(coverage_ppm) * u64::from(timing.ring_frames);
    u32::try_from(millionths.div_ceil(1_000_000)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
