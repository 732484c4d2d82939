//! How a node's ratio comes about: the terms of measured slack, from capacity to allocatable.

use std::{fmt, time::Duration};

use headroom_domain::{
    estimate::{Inputs, Slack, floor_cents, slack},
    hint::Brake,
    policy::{Bounds, Policy},
    ratio::Cents,
    resource::Resource,
};

use crate::{
    amount::{age, exact, percent},
    view::{Node, brake},
};

/// The terms of one resource of one node. See [`headroom_domain::estimate`] for what they mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Derivation {
    /// The resource.
    pub resource: Resource,
    /// C: physical capacity.
    pub capacity: u64,
    /// theta, in ppm: that of the policy in force, or of the default one while that is not known.
    pub theta_ppm: u32,
    /// m, in ppm.
    pub margin_ppm: u32,
    /// A, T, P0, P, Rw, R and S.
    pub slack: Slack,
    /// How long before the last frame the highest conditioned peak was, in whole frames.
    pub peak_age: Duration,
    /// Valid share of the history, in ppm.
    pub coverage_ppm: u32,
    /// Bounds of the ratio: those of the policy in force, or of the default one.
    pub bounds: Bounds,
    /// The ratio that the agent moves towards.
    pub target: Cents,
    /// The ratio that the agent publishes.
    pub published: Cents,
    /// The ratio that covers what is bound.
    pub floor: Cents,
    /// The brake in force.
    pub brake: Brake,
}

/// One line of a derivation: symbol, value and meaning.
#[derive(Clone)]
struct Term(&'static str, String, String);

impl Derivation {
    /// The terms for one resource; `None` until the agent has reported with a view of its node and the webhook
    /// knows raw allocatable and what is bound.
    pub fn of(node: &Node, resource: Resource) -> Option<Self> {
        let hint = &node.hint.as_ref()?.report;
        let report = hint.resources.get(resource);
        let (raw, bound) = (*node.raw?.get(resource), *node.bound?.get(resource));
        let policy = node
            .policy
            .as_ref()
            .map_or_else(Policy::default, |in_force| in_force.policy);
        let theta_ppm = *policy.target_ppm.get(resource);
        let frames = u32::try_from(report.peak_age_frames).unwrap_or(u32::MAX);
        if report.capacity == 0 || raw == 0 {
            return None;
        }
        let slack = slack(&Inputs {
            resource,
            capacity: report.capacity,
            raw,
            target_ppm: theta_ppm,
            peak: report.peak,
            margin_ppm: report.margin_ppm,
            warm_requests: report.warm_requests,
            bound,
        });
        Some(Self {
            resource,
            capacity: report.capacity,
            theta_ppm,
            margin_ppm: report.margin_ppm,
            slack,
            peak_age: hint.timing.timing().frame().saturating_mul(frames),
            coverage_ppm: report.coverage_ppm,
            bounds: *policy.bounds.get(resource),
            target: report.target,
            published: report.published,
            floor: floor_cents(bound, raw),
            brake: report.brake,
        })
    }

    fn terms(&self) -> Vec<Term> {
        [self.measured(), self.decided()].concat()
    }

    /// From capacity to slack.
    fn measured(&self) -> Vec<Term> {
        let amount = |amount: u64| exact(self.resource, i128::from(amount));
        let Slack {
            raw,
            safe,
            peak,
            predicted_peak,
            warm_requests,
            bound,
            slack,
        } = self.slack;
        let safe_is = match self.resource {
            Resource::Cpu => "safe use: the smaller of theta × C and A",
            Resource::Memory => "safe use: theta × A",
        };
        let peak_is = match self.resource {
            Resource::Cpu => "highest peak in the history, for the pods that are there now",
            Resource::Memory => {
                "highest peak in the history, or the last one and the worst climb of half an hour"
            }
        };
        let highest = format!("{} ago", age(self.peak_age));
        let term = |symbol, value, meaning: &str| Term(symbol, value, meaning.to_owned());
        vec![
            term("C", amount(self.capacity), "physical capacity"),
            term("A", amount(raw), "raw allocatable, the kubelet's own"),
            term(
                "theta",
                percent(self.theta_ppm),
                "share that predicted use may reach",
            ),
            term("T", amount(safe), safe_is),
            term("max H", highest, "when the highest peak was"),
            term("P0", amount(peak), peak_is),
            term("m", percent(self.margin_ppm), "margin on the peak"),
            term(
                "P",
                amount(predicted_peak),
                "predicted peak: P0 × (1 + m), rounded up",
            ),
            term(
                "Rw",
                amount(warm_requests),
                "requests of the pods, each weighted by trust",
            ),
            term("R", amount(bound), "requests of all pods bound"),
            term("S", exact(self.resource, slack), "slack: T - P + Rw - A"),
        ]
    }

    /// From slack to what is published.
    fn decided(&self) -> Vec<Term> {
        let Bounds { min, max } = self.bounds;
        let level = format!("L{} {}", self.brake.level(), brake(self.brake));
        let term = |symbol, value, meaning: &str| Term(symbol, value, meaning.to_owned());
        let wanted = exact(self.resource, self.wanted());
        vec![
            term(
                "coverage",
                percent(self.coverage_ppm),
                "valid share of the history; scales S above zero",
            ),
            term("wanted", wanted, "A + S, scaled by coverage above zero"),
            term("bounds", format!("{min}..{max}"), self.clamp()),
            term(
                "target",
                self.target.to_string(),
                "what is wanted over A, within bounds",
            ),
            term("published", self.published.to_string(), self.step()),
            term(
                "floor",
                self.floor.to_string(),
                "R / A, rounded up: what is bound stays covered",
            ),
            term("brake", level, "the agent's brake"),
        ]
    }

    /// A + S'.
    fn wanted(&self) -> i128 {
        let slack = self.slack.slack;
        let scaled = if slack > 0 {
            slack * i128::from(self.coverage_ppm) / 1_000_000
        } else {
            slack
        };
        i128::from(self.slack.raw) + scaled
    }

    /// What the bounds do to what is wanted.
    fn clamp(&self) -> &'static str {
        let (wanted, raw) = (self.wanted() * 100, i128::from(self.slack.raw));
        if wanted > raw * i128::from(self.bounds.max.0) {
            "of the policy: the highest is less than what is wanted"
        } else if wanted < raw * i128::from(self.bounds.min.0) {
            "of the policy: the lowest is more than what is wanted"
        } else {
            "of the policy: what is wanted lies within"
        }
    }

    /// Where the publication stands on its way to the target.
    fn step(&self) -> &'static str {
        if self.published < self.target && self.brake != Brake::Off {
            "held below the target by the brake"
        } else if self.published < self.target {
            "rises by 0.05 a frame once three frames agree on 0.05 more; less is left alone"
        } else if self.published > self.target && self.published == self.floor {
            "held above the target by what is bound"
        } else {
            "down at once, up slowly; never below the floor"
        }
    }
}

impl fmt::Display for Derivation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let terms = self.terms();
        let width = terms
            .iter()
            .map(|Term(_, value, _)| value.chars().count())
            .max()
            .unwrap_or_default();
        for Term(symbol, value, meaning) in terms {
            writeln!(f, "  {symbol:<10}{value:>width$}  {meaning}")?;
        }
        Ok(())
    }
}
