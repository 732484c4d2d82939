//! `Derivation`: the numbers behind a node's ratio, from capacity over measured slack to the published value.

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

/// The numbers of one resource of one node. See [`headroom_domain::estimate`] for what they mean.
///
/// They are those of the agent's report, and what the webhook knows of raw allocatable, of what is bound and of the policy:
/// the same that the agent was told, unless that changed since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Derivation {
    /// The resource.
    pub resource: Resource,
    /// How much the agent sees.
    pub sight: AgentMode,
    /// The timing that the agent runs with.
    pub timing: Timing,
    /// C: physical capacity.
    pub capacity: u64,
    /// theta, in ppm: that of the policy in force, or of the default one while that is not known.
    pub theta_ppm: u32,
    /// m, in ppm.
    pub margin_ppm: u32,
    /// M and its latch; absent from older agents.
    pub calibration: Option<Calibration>,
    /// True while outcomes keep slack from counting. An older agent says so by its reasons alone.
    pub is_latched: bool,
    /// A, T, P0, P, Rw, R and S.
    pub slack: Slack,
    /// What P0 was made of, if that is known.
    pub highs: Option<Highs>,
    /// How long before the last frame the highest conditioned peak was, in whole frames.
    pub peak_age: Duration,
    /// Valid share of the history, in ppm.
    pub coverage_ppm: u32,
    /// The same in frames, of those of the ring.
    pub valid_frames: u32,
    /// Coverage, or the trusted share of the requests if that is less, in ppm.
    pub confidence_ppm: u32,
    /// Bounds of the ratio: those of the policy in force, or of the default one.
    pub policy_bounds: Bounds,
    /// The same for an agent that sees that much.
    pub bounds: Bounds,
    /// What these numbers come to: S', A* and the target.
    pub derived: Target,
    /// The ratio that the agent says that it moves towards.
    pub target: Cents,
    /// How far it has come; absent from older agents.
    pub progress: Option<Progress>,
    /// The ratio that the agent publishes.
    pub published: Cents,
    /// The brake in force.
    pub brake: Brake,
}

impl Derivation {
    /// The numbers of one resource; `None` until the agent has reported with a view of its node and the webhook
    /// knows raw allocatable and what is bound.
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
            // What it has measured before does not count.
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

    /// A + S'.
    pub fn wanted(&self) -> i128 {
        i128::from(self.slack.raw) + self.derived.scaled
    }
}

/// What the agent sees, as far as it bounds the ratio. Of a blind agent nothing counts either way.
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

/// The latch, as told, or as an older agent's reasons tell it where it makes a difference.
fn is_latched(hint: &ResourceHint) -> bool {
    let code = Reason::MarginLatched.code();
    hint.calibration.map_or_else(
        || hint.reasons.iter().any(|reason| reason == code),
        |calibration| calibration.is_latched,
    )
}

/// What P0 was made of. Without a climb P0 is the highest peak, so that of CPU is known in any case.
fn highs(hint: &ResourceHint, resource: Resource) -> Option<Highs> {
    match resource {
        Resource::Cpu => hint.highs.or(Some(Highs {
            highest: hint.peak,
            ..Highs::default()
        })),
        Resource::Memory => hint.highs,
    }
}

/// The number of frames whose share of the ring, cut off, is that.
fn valid_frames(coverage_ppm: u32, timing: &Timing) -> u32 {
    let millionths = u64::from(coverage_ppm) * u64::from(timing.ring_frames);
    u32::try_from(millionths.div_ceil(1_000_000)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
