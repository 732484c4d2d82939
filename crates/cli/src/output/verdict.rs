//! [`NodeVerdict`]: two sentences about one resource of a node: its allocatable, and the reason for it or the next
//! change.

use std::{fmt, time::Duration};

use headroom_domain::{
    capacity::Why,
    estimate::{Reason, STEP},
    hint::{Brake, Freshness, NodeHint, ResourceHint},
    policy::Mode,
    ratio::Cents,
    resource::Resource,
};

use crate::{
    check::NextWrite,
    escape::one_line,
    human_numbers::{age, spoken},
    view::{Hint, NodeView, brake_name, cents},
};

/// Summary of one resource of a node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeVerdict<'n> {
    pub(crate) node: &'n NodeView,
    pub(crate) resource: Resource,
    pub(crate) next_write: NextWrite,
}

impl fmt::Display for NodeVerdict<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.offer(), self.outlook())
    }
}

impl NodeVerdict<'_> {
    /// Sentence about the current allocatable.
    fn offer(&self) -> String {
        let Self { node, resource, .. } = *self;
        let name = one_line(&node.name);
        let of = |amounts: Option<headroom_domain::resource::PerResource<u64>>| {
            amounts.map(|amounts| spoken(resource, i128::from(*amounts.get(resource))))
        };
        match (of(node.allocatable), of(node.raw), node.ratio(resource)) {
            (Some(stored), Some(raw), Some(ratio)) => {
                format!("{name} offers {stored} of {raw} {resource} ({ratio}).")
            }
            (Some(stored), _, _) => {
                format!("{name} offers {stored} {resource}; raw allocatable is not known yet.")
            }
            (None, _, _) => format!("{name} offers no {resource} yet: its kubelet has not reported any."),
        }
    }

    /// Sentence about the next change, or the reason why there is none.
    fn outlook(&self) -> String {
        let Self { node, resource, .. } = *self;
        let part = node.hint.as_ref().map(|hint| hint.report.resources.get(resource));
        if let Some(part) = part.filter(|part| part.brake != Brake::Off) {
            return braked(part);
        }
        let mut reasons = node.why(resource).into_iter().filter_map(Why::from_code);
        if let Some(why) = reasons.find(|why| is_hindrance(*why)) {
            return hindered(node, resource, why);
        }
        if let Some(pending) = self.pending() {
            return pending;
        }
        if let Some(floor) = part.and_then(|part| self.floor(part.target)) {
            return floor;
        }
        match (node.mode(), &node.hint, part) {
            (None, ..) => "The policy is not known yet, so allocatable stays as it is.".to_owned(),
            (Some(Mode::Off), ..) => "Mode is off, so allocatable is raw.".to_owned(),
            (Some(Mode::Static), ..) => self.annotated().to_owned(),
            (Some(Mode::Guard | Mode::Auto), Some(hint), Some(part)) => self.reported(hint, part),
            (Some(Mode::Guard | Mode::Auto), None, _) | (Some(Mode::Guard | Mode::Auto), _, None) => {
                "No agent report yet: check that the agent's pod runs on this node.".to_owned()
            }
        }
    }

    /// Reason why a ratio does not fall to its target.
    fn floor(&self, target: Cents) -> Option<String> {
        let Self { node, resource, .. } = *self;
        node.ratio(resource).filter(|now| *now > target)?;
        let mut reasons = node.why(resource).into_iter().filter_map(Why::from_code);
        let floor =
            reasons.find(|why| matches!(why, Why::FloorAdmitted | Why::FloorFit | Why::FloorPlaces))?;
        Some(format!("The target is {target}, but {}.", floor.about()))
    }

    /// Sentence about the ratio annotation in mode `static`.
    fn annotated(&self) -> &'static str {
        let has = |why: Why| self.node.why(self.resource).contains(&why.code());
        if has(Why::Unmanaged) {
            "Mode is static without a ratio annotation, so allocatable is not changed."
        } else if has(Why::ClampedMax) {
            "Mode is static: the ratio annotation exceeds the policy's maximum."
        } else {
            "Mode is static: the ratio is that of the node's annotation."
        }
    }

    /// Sentence about a result of the rules that is not stored yet.
    fn pending(&self) -> Option<String> {
        let Self { node, resource, .. } = *self;
        let result = node.result(resource)?;
        let (stored, raw) = (*node.allocatable?.get(resource), *node.raw?.get(resource));
        let ratio = cents(result, raw).filter(|_| result != stored)?;
        let amount = spoken(resource, i128::from(result));
        let next_write = self.next_write.about();
        Some(format!("The rules set {amount} ({ratio}); {next_write}."))
    }

    /// Sentence about the report, if nothing else holds the ratio.
    fn reported(&self, hint: &Hint, part: &ResourceHint) -> String {
        let Self { node, resource, .. } = *self;
        let now = node.ratio(resource).unwrap_or(Cents::ONE);
        let has = |reason: Reason| part.reasons.iter().any(|code| code == reason.code());
        if hint.freshness == Freshness::Fresh && part.target > now {
            return rising(&hint.report, part, now);
        }
        if has(Reason::ClampedMax) {
            let max = node
                .policy
                .as_ref()
                .map(|in_force| in_force.policy.bounds.get(resource).max);
            let max = max.map_or_else(String::new, |max| format!(" of {max}"));
            return format!("Measured use allows more than the policy's maximum{max}.");
        }
        if has(Reason::MarginLatched) {
            return sentence(Reason::MarginLatched.about());
        }
        if part.target > Cents::ONE {
            return "This is the ratio that measured use allows.".to_owned();
        }
        let why = part.reasons.first().map_or("", String::as_str);
        Reason::from_code(why).map_or_else(
            || "Measured use allows no higher ratio.".to_owned(),
            |reason| sentence(reason.about()),
        )
    }
}

/// Sentence about a rising ratio.
fn rising(report: &NodeHint, part: &ResourceHint, now: Cents) -> String {
    let timing = report.timing.timing();
    let target = part.target;
    if target.0.saturating_sub(now.0) < timing.dead_band {
        return format!("The target of {target} is too close for a change.");
    }
    format!(
        "It rises to {target}, by {} every {}.",
        Cents(STEP),
        every(timing.frame())
    )
}

fn every(frame: Duration) -> String {
    match frame.as_secs() {
        seconds @ 60.. => format!("{} min", seconds / 60),
        _ => age(frame),
    }
}

/// Sentence about a brake and its reason.
fn braked(part: &ResourceHint) -> String {
    let of_brake = part.reasons.iter().filter_map(|code| Reason::from_code(code));
    let why = of_brake
        .filter(|reason| reason.stage() == headroom_domain::estimate::Stage::Brake)
        .map(Reason::about)
        .next();
    let what = match part.brake {
        Brake::Off => "is inactive",
        Brake::Hold => "stops it from rising",
        Brake::Shed => "halves the free amount step by step",
        Brake::Stop => "ends amplification",
    };
    let why = why.map_or_else(String::new, |why| format!(": {why}"));
    format!("Brake {} {what}{why}.", brake_name(part.brake))
}

/// Sentence about a rule that limits the ratio, with the ratio it could have.
fn hindered(node: &NodeView, resource: Resource, why: Why) -> String {
    let target = node
        .hint
        .as_ref()
        .map(|hint| hint.report.resources.get(resource).target);
    let could = target.filter(|target| Some(*target) > node.ratio(resource));
    could.map_or_else(
        || sentence(why.about()),
        |could| format!("The target is {could}, but {}.", why.about()),
    )
}

/// Turns a text into a sentence.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{first}{}.", letters.as_str())
}

/// True if the rule keeps the ratio below the request of agent, mode and annotation.
const fn is_hindrance(why: Why) -> bool {
    match why {
        Why::Absent
        | Why::BadAnnotation
        | Why::AnnotationIgnored
        | Why::HintHeld
        | Why::MarkerHeld
        | Why::HintStopped
        | Why::NoHint
        | Why::OlderPods
        | Why::OtherCapacity
        | Why::NoFloor
        | Why::QuarantinedCapacity
        | Why::QuarantinedPressure
        | Why::QuarantinedUse
        | Why::QuarantinedBoot
        | Why::Blind
        | Why::FloorUnknown
        | Why::FloorCapped
        | Why::Overflow
        | Why::AboveCapacity
        | Why::PolicyUnknown => true,
        Why::Unmanaged
        | Why::Restored
        | Why::Annotation
        | Why::Hint
        | Why::Slewed
        | Why::ProcfsOnly
        | Why::ClampedMax
        | Why::ClampedMin
        | Why::Braked
        | Why::ExclusiveCpus
        | Why::FloorAdmitted
        | Why::FloorFit
        | Why::FloorPlaces
        | Why::ForeignWriter => false,
    }
}
