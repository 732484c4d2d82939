//! Decides the allocatable of a node, with reasons, for every write of `nodes/status`. The webhook calls it.
//!
//! [`decide`] is the only function that sets allocatable. It is a pure function of the write, the hint, the demand of
//! the node's pods and the policy. A second decision on its own result changes nothing. While the policy is unknown,
//! [`keep`] replaces it. The rules and their numbers are those of docs/capacity.md, deviations from Koordinator (D1
//! to D19) those of docs/compatibility.md.

mod annotations;
mod baseline;
mod explain;
pub mod floor;
mod marker;
mod place_limits;
pub mod places;
mod pod_floor;
mod probe_answer;
mod projection;
mod ratio;
mod reasons;
mod record;
mod result;
mod rule;
mod unknown_policy;
mod write_annotations;

pub use self::{
    annotations::Annotations,
    explain::{Applied, Term},
    marker::{Marker, RawNote},
    place_limits::{PlaceLimits, PlaceSums},
    pod_floor::PodDemand,
    probe_answer::{ProbeAnswer, ProbeAnswerError, QUESTION},
    projection::projected_allocatable,
    reasons::Why,
    rule::Rule,
    unknown_policy::keep,
};
use self::{ratio::Chosen, write_annotations::ParsedWrite};
use crate::{
    annotation::Annotation,
    hint::EffectiveHint,
    policy::{Floor, Policy},
    quantity::{Format, Quantity},
    ratio::{Cents, Ratio},
    resource::{PerResource, Resource},
};

/// Parts of a Node object that the rules read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeState {
    /// Value of `status.allocatable`; `None` if the resource is missing or unreadable.
    pub allocatable: PerResource<Option<Quantity>>,
    /// Value of `status.capacity`; `None` if the resource is missing or unreadable.
    pub capacity: PerResource<Option<Quantity>>,
    /// `lastHeartbeatTime` of the Ready condition, as written.
    pub ready_heartbeat: Option<String>,
    /// Annotations that the rules read.
    pub annotations: Annotations,
}

/// Author of a write of `nodes/status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// The kubelet of this very node.
    Kubelet,
    /// Any other client, including other nodes' kubelets.
    Other,
}

/// One write of `nodes/status` under review.
#[derive(Debug, Clone, Copy)]
pub struct Write<'a> {
    /// UID of the Node object.
    pub uid: &'a str,
    /// Author of the write, from its username.
    pub writer: Writer,
    /// The stored object, before the write.
    pub old: &'a NodeState,
    /// Object as it would be stored without this decision.
    pub new: &'a NodeState,
}

impl NodeState {
    /// Allocatable in milli-cores and bytes; `None` if missing, unreadable, negative or too large.
    pub fn amounts(&self) -> PerResource<Option<u64>> {
        PerResource::from_fn(|resource| self.amount(resource))
    }

    /// Allocatable in milli-cores or bytes; `None` if missing, unreadable, negative or too large.
    fn amount(&self, resource: Resource) -> Option<u64> {
        amount(resource, self.allocatable.get(resource).as_ref()?)
    }
}

impl Write<'_> {
    /// Returns true for a status sync of the node's own kubelet: the Ready heartbeat has changed.
    fn is_sync(&self) -> bool {
        self.writer == Writer::Kubelet && self.old.ready_heartbeat != self.new.ready_heartbeat
    }
}

/// Inputs of a decision in addition to the write.
#[derive(Debug, Clone, Copy)]
pub struct Basis<'a> {
    /// Policy in force for the node.
    pub policy: &'a Policy,
    /// Hint in force; `None` if there is none.
    pub hint: Option<&'a EffectiveHint>,
    /// Demand of the node's pods; `None` while it is not known.
    pub pod_demand: Option<PerResource<PodDemand>>,
}

/// Decision for one resource. CPU counts in milli-cores, memory in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResourceDecision {
    /// The kubelet's own value; `None` if it cannot be determined.
    pub raw: Option<u64>,
    /// Allocatable to store; `None` if the value stays unchanged.
    pub result: Option<u64>,
    /// `result` / `raw`, rounded down to cents.
    pub ratio: Option<Cents>,
    /// Chosen ratio, before the floor; `None` while no input determines one.
    pub applied: Option<Ratio>,
    /// Ratio of the hint, within bounds and before the floor; `None` if no hint was used.
    pub hinted: Option<Cents>,
    /// Exclusive CPUs of pods within raw; they are not amplified.
    pub exclusive: u64,
    /// Amplified value, before the floor.
    pub product: Option<u64>,
    /// Demand of the node's pods; `None` if it was not used or is not known.
    pub pod_demand: Option<PodDemand>,
    /// Open places within their limits; their total is K.
    pub places: PlaceSums,
    /// Largest value to which pods can raise the result; `None` if the policy has no floor.
    pub cap: Option<u64>,
    /// Reasons, in the order of the rules.
    pub why: Vec<Why>,
}

impl ResourceDecision {
    /// Decision that leaves the value unchanged.
    fn left_alone(why: Why) -> Self {
        Self {
            why: vec![why],
            ..Self::default()
        }
    }

    /// Open places that raise the result; none if it would be the same without them.
    pub fn counting_places(&self) -> PlaceSums {
        if self.why.contains(&Why::FloorPlaces) {
            self.places
        } else {
            PlaceSums::default()
        }
    }
}

/// Changes to the object that is being written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decision {
    /// New values of `status.allocatable`; `None` if the write already has that amount.
    pub allocatable: PerResource<Option<Quantity>>,
    /// Annotations to set, or to remove if the value is `None`.
    pub annotations: Vec<(&'static str, Option<String>)>,
    /// Decision and reasons per resource.
    pub outcomes: PerResource<ResourceDecision>,
}

/// Amount of a quantity in milli-cores or bytes; `None` if negative or too large.
pub fn amount(resource: Resource, quantity: &Quantity) -> Option<u64> {
    match resource {
        Resource::Cpu => quantity.milli(),
        Resource::Memory => quantity.units(),
    }
}

/// Quantity of an amount; memory prints in `family`.
fn quantity(resource: Resource, amount: u64, family: Format) -> Quantity {
    match resource {
        Resource::Cpu => Quantity::from_milli(amount),
        Resource::Memory => Quantity::from_units(amount, family),
    }
}

/// Recorded raw values of the Node with that UID, in milli-cores and bytes: those that decisions use. For code
/// outside admission.
pub fn recorded_raw(state: &NodeState, uid: &str) -> PerResource<Option<u64>> {
    let Annotations { raw, .. } = &state.annotations;
    let marker = state.annotations.marker_of(uid);
    let raw = raw.as_ref().map(RawNote::values).unwrap_or_default();
    PerResource::from_fn(|resource| baseline::saved(resource, marker, &raw, state))
}

/// Last values written by the webhook on the Node with that UID, in milli-cores and bytes. For code outside
/// admission.
pub fn last_written(annotations: &Annotations, uid: &str) -> PerResource<Option<u64>> {
    let marker = annotations.marker_of(uid);
    PerResource::from_fn(|resource| marker?.value(resource))
}

/// Last ratios written by the webhook on the Node with that UID, in cents, if its hint annotation is unreadable;
/// `None` unless one of them is above 1.00.
pub fn written_ratios(annotations: &Annotations, uid: &str) -> Option<PerResource<Cents>> {
    // Without a hint annotation, for example after a change of the mode, there is no measurement that could be held.
    if annotations.hint.as_ref()?.value().is_some() {
        return None;
    }
    let marker = annotations.marker_of(uid)?;
    let ratios = PerResource::from_fn(|resource| marker.ratio(resource).unwrap_or(Cents::ONE));
    let is_amplified = |resource| *ratios.get(resource) > Cents::ONE;
    Resource::ALL.into_iter().any(is_amplified).then_some(ratios)
}

/// Places on record on the Node with that UID, for a replica that did not see the departures. For code outside
/// admission.
pub fn recorded_places(annotations: &Annotations, uid: &str) -> PerResource<PlaceSums> {
    let marker = annotations.marker_of(uid);
    PerResource::from_fn(|resource| marker.map_or_else(PlaceSums::default, |marker| marker.places(resource)))
}

/// Returns true if `new` already contains the result of an earlier call for this same request (reinvocation): its
/// marker differs from the stored one and has this request's Ready heartbeat.
pub fn is_reinvoked(old: &NodeState, new: &NodeState) -> bool {
    let (old_marker, marker) = (&old.annotations.marker, &new.annotations.marker);
    let written = marker.as_ref().and_then(Annotation::value);
    old_marker != marker && written.is_some_and(|marker| marker.at == new.ready_heartbeat)
}

/// Decides the values that a write of `nodes/status` stores.
pub fn decide(write: &Write<'_>, basis: &Basis<'_>) -> Decision {
    let given = ParsedWrite::read(write, Some(basis.policy));
    let outcomes = PerResource::from_fn(|resource| outcome(resource, write, basis, &given));
    if is_left_alone(&outcomes) {
        // Remains of another controller's decision are removed; the values themselves are the kubelet's.
        let has_remains = !given.is_managed && write_annotations::has_traces(&write.new.annotations);
        let is_cleaned = has_remains && given.marker.is_none();
        return Decision {
            annotations: if is_cleaned {
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

/// Returns true if nothing was decided: the node is not managed, or the write has no allocatable and the records stay
/// (G8).
fn is_left_alone(outcomes: &PerResource<ResourceDecision>) -> bool {
    Resource::ALL
        .into_iter()
        .all(|resource| outcomes.get(resource).raw.is_none())
}

/// New values for resources whose amount in the write differs from the decision.
fn allocatable(
    write: &Write<'_>,
    given: &ParsedWrite<'_>,
    outcomes: &PerResource<ResourceDecision>,
) -> PerResource<Option<Quantity>> {
    PerResource::from_fn(|resource| {
        let ResourceDecision { raw, result, .. } = *outcomes.get(resource);
        let result = quantity(resource, result?, given.family(resource, raw?, write)?);
        (Some(result) != *write.new.allocatable.get(resource)).then_some(result)
    })
}

fn outcome(
    resource: Resource,
    write: &Write<'_>,
    basis: &Basis<'_>,
    given: &ParsedWrite<'_>,
) -> ResourceDecision {
    if !given.is_managed && given.marker.is_none() {
        return ResourceDecision::left_alone(Why::Unmanaged);
    }
    let Some(now) = write.new.amount(resource) else {
        return ResourceDecision::left_alone(Why::Absent);
    };
    let (raw, odd) = match baseline::baseline(resource, now, write, given) {
        Ok(baseline) => baseline,
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
        // Without a ratio the value stays as sent, and raw is recorded. Exceptions: a value that the floor policy
        // substituted was not sent by the kubelet, and a value above capacity is not accepted.
        None if why.contains(&Why::AboveCapacity) || baseline::is_substituted(resource, write, given) => raw,
        None => now,
        Some(ratio) => result::amplified(raw, exclusive, ratio, &mut why),
    };
    // Before the floor: the origin of a hint limits the hint's ratio, not the demand of pods.
    let stored = write.old.amount(resource);
    let found = basis.hint.filter(|_| hinted.is_some());
    let most = found.and_then(|found| result::most(resource, found.origin, (raw, stored), given));
    if let Some(most) = most.filter(|most| wanted > *most) {
        wanted = most;
        ratio = cents_of(wanted, raw).map(Ratio::from_cents);
    }
    let cap = (basis.policy.floor != Floor::None).then(|| pod_floor::cap(resource, raw, basis, given));
    let places = pod_floor::places(resource, raw, write, basis);
    let amounts = (raw, wanted, cap.unwrap_or(wanted), places.total());
    let result = pod_floor::with_floor(resource, amounts, stored, basis, &mut why);
    ResourceDecision {
        raw: Some(raw),
        result: Some(result),
        ratio: cents_of(result, raw),
        applied: ratio,
        hinted,
        exclusive,
        product: ratio.map(|_| wanted),
        pod_demand: basis.pod_demand.map(|held| *held.get(resource)),
        places,
        cap,
        why,
    }
}

/// `result` / `raw` in cents, rounded down.
fn cents_of(result: u64, raw: u64) -> Option<Cents> {
    let cents = (u128::from(result) * 100).checked_div(u128::from(raw))?;
    // floor(raw × c / 100) can be just below c cents; the applied ratio is the one that gives the result.
    let above = cents + 1;
    let is_exact = u128::from(raw) * above / 100 == u128::from(result);
    u32::try_from(if is_exact { above } else { cents })
        .ok()
        .map(Cents)
}

#[cfg(test)]
mod tests;
