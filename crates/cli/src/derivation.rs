//! How a node's ratio comes about: the terms of measured slack, from capacity to allocatable.

use std::fmt;

use headroom_domain::{
    estimate::{Inputs, Slack, floor_cents, slack},
    hint::Brake,
    policy::Policy,
    ratio::Cents,
    resource::Resource,
};

use crate::{
    amount::{exact, percent},
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
    /// Valid share of the history, in ppm.
    pub coverage_ppm: u32,
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
struct Term(&'static str, String, &'static str);

impl Derivation {
    /// The terms for one resource; `None` until the agent has reported with a view of its node and the webhook
    /// knows raw allocatable and what is bound.
    pub fn of(node: &Node, resource: Resource) -> Option<Self> {
        let report = node.hint.as_ref()?.report.resources.get(resource);
        let (raw, bound) = (*node.raw?.get(resource), *node.bound?.get(resource));
        let policy = node
            .policy
            .as_ref()
            .map_or_else(Policy::default, |in_force| in_force.policy);
        let theta_ppm = *policy.target_ppm.get(resource);
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
            coverage_ppm: report.coverage_ppm,
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
        vec![
            Term("C", amount(self.capacity), "physical capacity"),
            Term("A", amount(raw), "raw allocatable, the kubelet's own"),
            Term(
                "theta",
                percent(self.theta_ppm),
                "share that predicted use may reach",
            ),
            Term("T", amount(safe), safe_is),
            Term(
                "P0",
                amount(peak),
                "highest peak in the history, for the pods that are there now",
            ),
            Term("m", percent(self.margin_ppm), "margin on the peak"),
            Term(
                "P",
                amount(predicted_peak),
                "predicted peak: P0 × (1 + m), rounded up",
            ),
            Term(
                "Rw",
                amount(warm_requests),
                "requests of the pods, each weighted by trust",
            ),
            Term("R", amount(bound), "requests of all pods bound"),
            Term("S", exact(self.resource, slack), "slack: T - P + Rw - A"),
        ]
    }

    /// From slack to what is published.
    fn decided(&self) -> Vec<Term> {
        let level = format!("L{} {}", self.brake.level(), brake(self.brake));
        vec![
            Term(
                "coverage",
                percent(self.coverage_ppm),
                "valid share of the history; scales S above zero",
            ),
            Term(
                "target",
                self.target.to_string(),
                "(A + S × coverage) / A, within bounds",
            ),
            Term(
                "published",
                self.published.to_string(),
                "down at once, up slowly, lowered by brakes; never below the floor",
            ),
            Term(
                "floor",
                self.floor.to_string(),
                "R / A, rounded up: what is bound stays covered",
            ),
            Term("brake", level, "the agent's brake"),
        ]
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
