//! `NodeVerdict`: two sentences about one resource of a node: what the node offers, and what it could offer or what keeps it from
//! that.

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

/// What a person should know first about one resource of a node.
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
    /// What the node offers now.
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
                format!("{name} offers {stored} {resource}; its raw value is not known yet.")
            }
            (None, _, _) => format!("{name} offers no {resource} yet: its kubelet has not told any."),
        }
    }

    /// What comes next, or what keeps it from coming.
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
            (None, ..) => "The policy is not known yet: what was decided last stays.".to_owned(),
            (Some(Mode::Off), ..) => "Mode off: nothing is amplified.".to_owned(),
            (Some(Mode::Static), ..) => self.annotated().to_owned(),
            (Some(Mode::Guard | Mode::Auto), Some(hint), Some(part)) => self.reported(hint, part),
            (Some(Mode::Guard | Mode::Auto), None, _) | (Some(Mode::Guard | Mode::Auto), _, None) => {
                "No agent has reported yet: see whether its pod runs on this node.".to_owned()
            }
        }
    }

    /// What keeps a ratio from falling to its target.
    fn floor(&self, target: Cents) -> Option<String> {
        let Self { node, resource, .. } = *self;
        let now = node.ratio(resource).filter(|now| *now > target)?;
        let mut reasons = node.why(resource).into_iter().filter_map(Why::from_code);
        let floor = reasons.find(|why| matches!(why, Why::FloorAdmitted | Why::FloorFit))?;
        Some(format!(
            "It would offer {target} in place of {now}, but {}.",
            floor.about()
        ))
    }

    /// What the ratio annotation makes of a node of mode `static`.
    fn annotated(&self) -> &'static str {
        let has = |why: Why| self.node.why(self.resource).contains(&why.code());
        if has(Why::Unmanaged) {
            "Mode static, and no ratio annotation: it is left alone."
        } else if has(Why::ClampedMax) {
            "Mode static: the ratio annotation asks for more than the policy allows."
        } else {
            "Mode static: the node's ratio annotation says so."
        }
    }

    /// What the rules have decided and nobody has written yet.
    fn pending(&self) -> Option<String> {
        let Self { node, resource, .. } = *self;
        let result = node.result(resource)?;
        let (stored, raw) = (*node.allocatable?.get(resource), *node.raw?.get(resource));
        let ratio = cents(result, raw).filter(|_| result != stored)?;
        let amount = spoken(resource, i128::from(result));
        let next_write = self.next_write.about();
        Some(format!("It is to offer {amount} ({ratio}): {next_write}."))
    }

    /// What the agent's report says of a ratio that nothing holds.
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
            let max = max.map_or_else(String::new, |max| format!(" than {max}"));
            return format!("Measured use would allow more, the policy no more{max}.");
        }
        if has(Reason::MarginLatched) {
            return sentence(Reason::MarginLatched.about());
        }
        if part.target > Cents::ONE {
            return "That is what measured use allows.".to_owned();
        }
        let why = part.reasons.first().map_or("", String::as_str);
        Reason::from_code(why).map_or_else(
            || "Measured use allows no more.".to_owned(),
            |reason| sentence(reason.about()),
        )
    }
}

/// A ratio on its way up.
fn rising(report: &NodeHint, part: &ResourceHint, now: Cents) -> String {
    let timing = report.timing.timing();
    let target = part.target;
    if target.0.saturating_sub(now.0) < timing.dead_band {
        return format!("It could offer {target}, which is too near to change anything.");
    }
    format!(
        "It could offer {target}; rises by {} every {}.",
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

/// A brake, and why.
fn braked(part: &ResourceHint) -> String {
    let of_brake = part.reasons.iter().filter_map(|code| Reason::from_code(code));
    let why = of_brake
        .filter(|reason| reason.stage() == headroom_domain::estimate::Stage::Brake)
        .map(Reason::about)
        .next();
    let what = match part.brake {
        Brake::Off => "does nothing",
        Brake::Hold => "keeps it from rising",
        Brake::Shed => "halves what is free step by step",
        Brake::Stop => "ends amplification",
    };
    let why = why.map_or_else(String::new, |why| format!(": {why}"));
    format!("Brake {} {what}{why}.", brake_name(part.brake))
}

/// What keeps a ratio down, and what it could be without.
fn hindered(node: &NodeView, resource: Resource, why: Why) -> String {
    let target = node
        .hint
        .as_ref()
        .map(|hint| hint.report.resources.get(resource).target);
    let could = target.filter(|target| Some(*target) > node.ratio(resource));
    could.map_or_else(
        || sentence(why.about()),
        |could| format!("It could offer {could}, but {}.", why.about()),
    )
}

/// The text as a sentence of its own.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{first}{}.", letters.as_str())
}

/// True for what keeps a ratio from being what agent, mode and annotation ask for.
const fn is_hindrance(why: Why) -> bool {
    match why {
        Why::Absent
        | Why::BadAnnotation
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
        | Why::ForeignWriter => false,
    }
}
