//! Decides the allocatable of a node, with reasons, for every write of `nodes/status`. The webhook calls it.
//!
//! `decide` is the one function that sets allocatable. It is a pure function of the write, the hint, the demand of the
//! node's pods and the policy. Deciding again on its own result changes nothing. While the policy is unknown, `keep`
//! stands in for it. Rules and their numbers are those of docs/capacity.md, deviations from Koordinator (D1 to D19)
//! those of docs/compatibility.md.

mod annotations;
mod baseline;
mod explain;
pub mod floor;
mod marker;
mod pod_floor;
mod ratio;
mod reasons;
mod record;
mod result;
mod rule;
mod unknown_policy;
mod would_be;
mod write_annotations;

pub use self::{
    annotations::Annotations,
    explain::{Applied, Term},
    marker::{Marker, RawNote},
    pod_floor::PodDemand,
    reasons::Why,
    rule::Rule,
    unknown_policy::keep,
    would_be::would_be,
};
use self::{ratio::Chosen, write_annotations::Given};
use crate::{
    annotation::Annotation,
    hint::EffectiveHint,
    policy::{Floor, Policy},
    quantity::{Format, Quantity},
    ratio::{Cents, Ratio},
    resource::{PerResource, Resource},
};

/// The parts of a Node object that the rules read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeState {
    /// `status.allocatable`; `None` where the resource is missing or unreadable.
    pub allocatable: PerResource<Option<Quantity>>,
    /// `status.capacity`.
    pub capacity: PerResource<Option<Quantity>>,
    /// `lastHeartbeatTime` of the Ready condition, as written.
    pub ready_heartbeat: Option<String>,
    /// The annotations.
    pub annotations: Annotations,
}

/// Who writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// The kubelet of this very node.
    Kubelet,
    /// Anyone else.
    Other,
}

/// One write of `nodes/status`.
#[derive(Debug, Clone, Copy)]
pub struct Write<'a> {
    /// UID of the Node.
    pub uid: &'a str,
    /// Who writes.
    pub writer: Writer,
    /// The stored object.
    pub old: &'a NodeState,
    /// The object as it would be stored.
    pub new: &'a NodeState,
}

impl NodeState {
    /// Allocatable in milli-cores and bytes; `None` where it is missing, unreadable, negative or too large.
    pub fn amounts(&self) -> PerResource<Option<u64>> {
        PerResource::from_fn(|resource| self.amount(resource))
    }

    /// Allocatable in milli-cores or bytes; `None` if missing, unreadable, negative or too large.
    fn amount(&self, resource: Resource) -> Option<u64> {
        amount(resource, self.allocatable.get(resource).as_ref()?)
    }
}

impl Write<'_> {
    /// True for a status sync of the node's own kubelet: the Ready heartbeat moved.
    fn is_sync(&self) -> bool {
        self.writer == Writer::Kubelet && self.old.ready_heartbeat != self.new.ready_heartbeat
    }
}

/// The inputs of a decision besides the write.
#[derive(Debug, Clone, Copy)]
pub struct Basis<'a> {
    /// The policy in force for the node.
    pub policy: &'a Policy,
    /// The hint that counts, if any.
    pub hint: Option<&'a EffectiveHint>,
    /// What the node's pods hold; `None` while that is not known.
    pub pod_demand: Option<PerResource<PodDemand>>,
}

/// The decision for one resource. CPU counts in milli-cores, memory in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResourceDecision {
    /// The kubelet's own value, as far as it can be told.
    pub raw: Option<u64>,
    /// The allocatable to store.
    pub result: Option<u64>,
    /// The ratio, rounded down to cents.
    pub ratio: Option<Cents>,
    /// The ratio that was chosen, before the floor; `None` while nothing says what to apply.
    pub applied: Option<Ratio>,
    /// What the hint came to, within bounds and before the floor; `None` where no hint was asked.
    pub hinted: Option<Cents>,
    /// Of raw, what pods hold for themselves alone; it is not amplified.
    pub exclusive: u64,
    /// What ratio and raw come to, before the floor.
    pub product: Option<u64>,
    /// What the node's pods hold, where that was asked and is known.
    pub pod_demand: Option<PodDemand>,
    /// What no pod can hold the result above; `None` where the policy has no floor.
    pub cap: Option<u64>,
    /// Reasons, in the order in which they applied.
    pub why: Vec<Why>,
}

impl ResourceDecision {
    /// The decision to change nothing.
    fn left_alone(why: Why) -> Self {
        Self {
            why: vec![why],
            ..Self::default()
        }
    }
}

/// The changes to make in the object that is being written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decision {
    /// New values of `status.allocatable`; `None` where the value already has that amount.
    pub allocatable: PerResource<Option<Quantity>>,
    /// Annotations to set, or to remove where the value is `None`.
    pub annotations: Vec<(&'static str, Option<String>)>,
    /// Per resource, what was decided and why.
    pub outcomes: PerResource<ResourceDecision>,
}

/// The amount of a quantity in the resource's unit: milli-cores or bytes; `None` if negative or too large.
pub fn amount(resource: Resource, quantity: &Quantity) -> Option<u64> {
    match resource {
        Resource::Cpu => quantity.milli(),
        Resource::Memory => quantity.units(),
    }
}

/// The quantity of an amount, printed in `family` where the resource has more than one.
fn quantity(resource: Resource, amount: u64, family: Format) -> Quantity {
    match resource {
        Resource::Cpu => Quantity::from_milli(amount),
        Resource::Memory => Quantity::from_units(amount, family),
    }
}

/// The recorded raw values of the Node of that UID, in milli-cores and bytes: decisions use the same ones. For readers other
/// than admission.
pub fn recorded_raw(state: &NodeState, uid: &str) -> PerResource<Option<u64>> {
    let Annotations { raw, .. } = &state.annotations;
    let marker = state.annotations.marker_of(uid);
    let raw = raw.as_ref().map(RawNote::values).unwrap_or_default();
    PerResource::from_fn(|resource| baseline::saved(resource, marker, &raw, state))
}

/// The values that we wrote last on the Node of that UID, in milli-cores and bytes; for readers other than admission.
pub fn written_last(annotations: &Annotations, uid: &str) -> PerResource<Option<u64>> {
    let marker = annotations.marker_of(uid);
    PerResource::from_fn(|resource| marker?.value(resource))
}

/// The ratios that we wrote last on the Node of that UID, in cents, if its hint cannot be read; `None` unless one of them is
/// above 1.00.
pub fn written_ratios(annotations: &Annotations, uid: &str) -> Option<PerResource<Cents>> {
    // Without any hint, as after a change of the mode, nothing was measured that could be held.
    if annotations.hint.as_ref()?.value().is_some() {
        return None;
    }
    let marker = annotations.marker_of(uid)?;
    let ratios = PerResource::from_fn(|resource| marker.ratio(resource).unwrap_or(Cents::ONE));
    let is_amplified = |resource| *ratios.get(resource) > Cents::ONE;
    Resource::ALL.into_iter().any(is_amplified).then_some(ratios)
}

/// True if `new` already carries what an earlier call of ours wrote in this same request (reinvocation): its
/// marker is not the stored one and names this request's Ready heartbeat.
pub fn is_reinvoked(old: &NodeState, new: &NodeState) -> bool {
    let (old_marker, marker) = (&old.annotations.marker, &new.annotations.marker);
    let says = marker.as_ref().and_then(Annotation::value);
    old_marker != marker && says.is_some_and(|marker| marker.at == new.ready_heartbeat)
}

/// Decides the values that a write of `nodes/status` stores.
pub fn decide(write: &Write<'_>, basis: &Basis<'_>) -> Decision {
    let given = Given::read(write, Some(basis.policy.mode));
    let outcomes = PerResource::from_fn(|resource| outcome(resource, write, basis, &given));
    if is_left_alone(&outcomes) {
        // What others left of a decision goes, and the values that stand are nobody's but the kubelet's.
        let is_littered = !given.is_managed && write_annotations::has_traces(&write.new.annotations);
        let is_forgotten = is_littered && given.marker.is_none();
        return Decision {
            annotations: if is_forgotten {
                record::annotations(write, basis, &given, &outcomes)
            } else {
                Vec::new()
            },
            outcomes,
            ..Decision::default()
        };
    }
    Decision {
        allocatable: allocatable(write, &given, &outcomes),
        annotations: record::annotations(write, basis, &given, &outcomes),
        outcomes,
    }
}

/// True if nothing was decided: the node is not ours, or the write has no allocatable, and what is recorded stays (G8).
fn is_left_alone(outcomes: &PerResource<ResourceDecision>) -> bool {
    Resource::ALL
        .into_iter()
        .all(|resource| outcomes.get(resource).raw.is_none())
}

/// New values where the write does not have the amounts that were decided.
fn allocatable(
    write: &Write<'_>,
    given: &Given<'_>,
    outcomes: &PerResource<ResourceDecision>,
) -> PerResource<Option<Quantity>> {
    PerResource::from_fn(|resource| {
        let ResourceDecision { raw, result, .. } = *outcomes.get(resource);
        let result = quantity(resource, result?, given.family(resource, raw?, write)?);
        (Some(result) != *write.new.allocatable.get(resource)).then_some(result)
    })
}

fn outcome(resource: Resource, write: &Write<'_>, basis: &Basis<'_>, given: &Given<'_>) -> ResourceDecision {
    if !given.is_managed && given.marker.is_none() {
        return ResourceDecision::left_alone(Why::Unmanaged);
    }
    let Some(now) = write.new.amount(resource) else {
        return ResourceDecision::left_alone(Why::Absent);
    };
    let (raw, odd) = match baseline::baseline(resource, now, write, given) {
        Ok(told) => told,
        Err(why) => return ResourceDecision::left_alone(why),
    };
    let chosen = if given.is_managed {
        ratio::chosen(resource, basis, given)
    } else {
        Chosen::restored()
    };
    let Chosen {
        mut ratio,
        hinted,
        why,
    } = chosen;
    let mut why: Vec<Why> = odd.into_iter().chain(why).collect();
    let exclusive = result::exclusive(resource, raw, basis);
    let mut wanted = match ratio {
        // Nothing says what to apply: the value stays as it was sent, raw is recorded. What the floor put in the place of a
        // kubelet's value was not sent, and a value above capacity is not taken.
        None if why.contains(&Why::AboveCapacity) || baseline::is_handed_over(resource, write, given) => raw,
        None => now,
        Some(ratio) => result::amplified(raw, exclusive, ratio, &mut why),
    };
    // Before the floor: the origin of a hint limits what it asks for, and not what pods hold.
    let stored = write.old.amount(resource);
    let origin = basis.hint.filter(|_| hinted.is_some()).map(|found| found.origin);
    let most = origin.and_then(|origin| result::most(resource, origin, (raw, stored), given));
    if let Some(most) = most.filter(|most| wanted > *most) {
        wanted = most;
        ratio = cents_of(wanted, raw).map(Ratio::from_cents);
    }
    let cap = (basis.policy.floor != Floor::None).then(|| pod_floor::cap(resource, raw, basis, given));
    let amounts = (raw, wanted, cap.unwrap_or(wanted));
    let result = pod_floor::held_up(resource, amounts, stored, basis, &mut why);
    ResourceDecision {
        raw: Some(raw),
        result: Some(result),
        ratio: cents_of(result, raw),
        applied: ratio,
        hinted,
        exclusive,
        product: ratio.map(|_| wanted),
        pod_demand: basis.pod_demand.map(|held| *held.get(resource)),
        cap,
        why,
    }
}

/// `result` / `raw` in cents, rounded down.
fn cents_of(result: u64, raw: u64) -> Option<Cents> {
    let cents = (u128::from(result) * 100).checked_div(u128::from(raw))?;
    // floor(raw × c / 100) can fall just short of c cents; the ratio that was applied is the one that gives the result.
    let above = cents + 1;
    let is_exact = u128::from(raw) * above / 100 == u128::from(result);
    u32::try_from(if is_exact { above } else { cents })
        .ok()
        .map(Cents)
}

#[cfg(test)]
mod tests;
