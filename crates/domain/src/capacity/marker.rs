//! Annotations that record values: the marker (last written values and their raw values) and the raw lists.
//!
//! The marker's top-level `"cpu":"…"` and `"memory":"…"` come first for a reader without a JSON parser: the floor
//! policy finds them by regular expression, so no nested member may have a quantity under these keys.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::{ParsedWrite, PlaceSums, ResourceDecision, Write, amount, cents_of, quantity};
use crate::{
    annotation::Annotation,
    quantity::Quantity,
    ratio::{Cents, Ratio},
    resource::{PerResource, Resource},
};

/// Inputs of a written value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct WriteOrigin {
    #[serde(skip_serializing_if = "Option::is_none")]
    capacity: Option<String>,
    /// Open places, in milli-cores or bytes, if they raised the written value.
    #[serde(default, skip_serializing_if = "PlaceSums::is_empty")]
    places: PlaceSums,
    /// Amplified value before the floor, if pods raised the written value above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    product: Option<String>,
    raw: String,
}

/// Last values written by the webhook on a Node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marker {
    /// Ready heartbeat of the write that renewed the marker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<String>,
    from: BTreeMap<String, WriteOrigin>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<String>,
    uid: String,
}

impl Marker {
    /// Returns true if the marker is of the Node with that UID.
    pub(super) fn is_of(&self, uid: &str) -> bool {
        self.uid == uid
    }

    /// Marker for a decision; `None` if nothing was decided.
    pub(super) fn for_write(
        write: &Write<'_>,
        given: &ParsedWrite<'_>,
        outcomes: &PerResource<ResourceDecision>,
    ) -> Option<Self> {
        let mut from = BTreeMap::new();
        let values = outcomes.map(|resource, outcome| {
            let ResourceDecision { raw, result, .. } = *outcome;
            let raw = raw?;
            let family = given.family(resource, raw, write)?;
            let product =
                product_of(resource, outcome, write, given).filter(|product| Some(*product) < result);
            let origin = WriteOrigin {
                capacity: capacity_of(resource, raw, write, given),
                places: places_of(resource, outcome, given),
                product: product.map(|product| quantity(resource, product, family).to_string()),
                raw: quantity(resource, raw, family).to_string(),
            };
            from.insert(resource.name().to_owned(), origin);
            Some(quantity(resource, result?, family).to_string())
        });
        let PerResource { cpu, memory } = values;
        (!from.is_empty()).then(|| Self {
            at: write.new.ready_heartbeat.clone(),
            cpu,
            from,
            memory,
            uid: write.uid.to_owned(),
        })
    }

    /// Written value, in milli-cores or bytes.
    pub(super) fn value(&self, resource: Resource) -> Option<u64> {
        amount(resource, &self.quantity(resource)?)
    }

    /// Written value as a quantity, in its own format family.
    pub(super) fn quantity(&self, resource: Resource) -> Option<Quantity> {
        let text = match resource {
            Resource::Cpu => self.cpu.as_deref(),
            Resource::Memory => self.memory.as_deref(),
        };
        text?.parse().ok()
    }

    /// Raw value behind the written value, in milli-cores or bytes.
    pub(super) fn raw(&self, resource: Resource) -> Option<u64> {
        amount(resource, &self.raw_quantity(resource)?)
    }

    /// Raw value behind the written value, in its own format family.
    pub(super) fn raw_quantity(&self, resource: Resource) -> Option<Quantity> {
        self.from.get(resource.name())?.raw.parse().ok()
    }

    /// Returns true if pods raised the written value above the amplified one.
    pub(super) fn is_from_pods(&self, resource: Resource) -> bool {
        let origin = self.from.get(resource.name());
        origin.is_some_and(|origin| origin.product.is_some())
    }

    /// Amplified value before the floor: the part of the written value that does not come from the demand of pods.
    fn product(&self, resource: Resource) -> Option<u64> {
        let value = self.value(resource)?;
        let Some(text) = &self.from.get(resource.name())?.product else {
            return Some(value);
        };
        Some(amount(resource, &text.parse().ok()?)?.min(value))
    }

    /// Last applied ratio, before the floor, in cents.
    pub(super) fn ratio(&self, resource: Resource) -> Option<Cents> {
        cents_of(self.product(resource)?, self.raw(resource)?)
    }

    /// Open places that raised the written value.
    pub(super) fn places(&self, resource: Resource) -> PlaceSums {
        let origin = self.from.get(resource.name());
        origin.map_or_else(PlaceSums::default, |origin| origin.places)
    }

    /// Written value scaled to another raw value.
    pub(super) fn rescaled(&self, resource: Resource, raw: u64) -> Option<u64> {
        Some(rescaled(raw, self.value(resource)?, self.raw(resource)?))
    }

    /// Written value scaled to another raw value; limited to the scaled stored value if another client has lowered
    /// that since.
    pub(super) fn kept(&self, resource: Resource, raw: u64, stored: Option<u64>) -> Option<u64> {
        self.in_force(resource, self.value(resource)?, raw, stored)
    }

    /// Like [`Self::kept`] without the demand of pods, because the demand at one raw value does not carry over to
    /// another.
    pub(super) fn kept_product(&self, resource: Resource, raw: u64, stored: Option<u64>) -> Option<u64> {
        self.in_force(resource, self.product(resource)?, raw, stored)
    }

    /// `written`, made of the recorded raw value, scaled to today's `raw`; limited by the stored value if that is
    /// smaller.
    fn in_force(&self, resource: Resource, written: u64, raw: u64, stored: Option<u64>) -> Option<u64> {
        let value = rescaled(raw, written, self.raw(resource)?);
        let Some(stored) = stored.filter(|stored| *stored < written) else {
            return Some(value);
        };
        // The stored value can be raw itself, the earlier or today's, or the same share of either.
        let share = rescaled(raw, stored, self.raw(resource)?);
        Some(value.min(share.min(stored.max(raw)).max(stored.min(raw))))
    }

    /// Capacity at the time of the write, in milli-cores or bytes.
    pub(super) fn capacity(&self, resource: Resource) -> Option<u64> {
        amount(
            resource,
            &self
                .from
                .get(resource.name())?
                .capacity
                .as_deref()?
                .parse()
                .ok()?,
        )
    }
}

/// Open places that raise the result. While the demand of pods is unknown those on record stay: a replica that just
/// started would otherwise remove them before it reads them.
fn places_of(resource: Resource, outcome: &ResourceDecision, given: &ParsedWrite<'_>) -> PlaceSums {
    match (outcome.pod_demand, given.stored) {
        (None, Some(stored)) => stored.places(resource),
        (None, None) | (Some(_), _) => outcome.counting_places(),
    }
}

/// Amplified value before the floor; without a decision the part of it that is still in force, at least raw.
fn product_of(
    resource: Resource,
    outcome: &ResourceDecision,
    write: &Write<'_>,
    given: &ParsedWrite<'_>,
) -> Option<u64> {
    outcome.product.or_else(|| {
        let raw = outcome.raw?;
        Some(super::result::in_force(
            resource,
            raw,
            write.old.amount(resource),
            given,
        ))
    })
}

/// Scales `raw` by `value` / `before`. Rounds to whole cents if that is exact, so that a replica that knows the
/// policy gets the same result. Fractions are truncated; returns `raw` if the result is undefined or too large.
fn rescaled(raw: u64, value: u64, before: u64) -> u64 {
    if raw == before {
        return value;
    }
    let in_cents = || {
        let ratio = Ratio::from_cents(cents_of(value, before)?);
        (ratio.apply(before) == Some(value)).then(|| ratio.apply(raw))?
    };
    let in_proportion = || {
        let product = u128::from(raw) * u128::from(value);
        u64::try_from(product.checked_div(u128::from(before))?).ok()
    };
    in_cents().or_else(in_proportion).unwrap_or(raw)
}

/// Capacity that belongs to `raw`. Only a kubelet's sync contains both: in any other write the recorded capacity
/// stays with the recorded raw value, otherwise a simultaneous change of both would be missed.
fn capacity_of(resource: Resource, raw: u64, write: &Write<'_>, given: &ParsedWrite<'_>) -> Option<String> {
    let recorded = given
        .marker
        .as_ref()
        .filter(|marker| !write.is_sync() && marker.raw(resource) == Some(raw))
        .and_then(|marker| marker.from.get(resource.name())?.capacity.clone());
    let written = || write.new.capacity.get(resource).as_ref().map(Quantity::to_string);
    recorded.or_else(written)
}

impl FromStr for Marker {
    type Err = serde_json::Error;

    fn from_str(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_unserializable| fmt::Error)?)
    }
}

/// Raw values in an annotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawNote {
    /// Quantity per resource; `None` if missing or unreadable.
    pub(super) values: PerResource<Option<Quantity>>,
    /// Ready heartbeat of the request with these values, if the note has one.
    pub(super) at: Option<String>,
}

impl RawNote {
    /// Values in an annotation; none if it is unreadable (D3, D6).
    pub(super) fn values(annotation: &Annotation<Self>) -> PerResource<Option<Quantity>> {
        annotation.value().map(|note| note.values).unwrap_or_default()
    }
    /// Text of the raw annotation: compact, sorted; `None` without any value.
    pub(super) fn text(values: &PerResource<Option<Quantity>>) -> Option<String> {
        let members: Vec<String> = Resource::ALL
            .into_iter()
            .filter_map(|resource| {
                values
                    .get(resource)
                    .map(|value| format!("\"{resource}\":\"{value}\""))
            })
            .collect();
        (!members.is_empty()).then(|| format!("{{{}}}", members.join(",")))
    }
}

impl FromStr for RawNote {
    type Err = serde_json::Error;

    /// Parses Koordinator's raw annotation or the floor policy's note; an unreadable value counts as missing (D3,
    /// D6).
    fn from_str(text: &str) -> Result<Self, serde_json::Error> {
        let members: BTreeMap<String, serde_json::Value> = serde_json::from_str(text)?;
        let values = PerResource::from_fn(|resource| match members.get(resource.name())? {
            serde_json::Value::String(text) => text.trim().parse().ok(),
            serde_json::Value::Number(number) => number.to_string().parse().ok(),
            serde_json::Value::Null
            | serde_json::Value::Bool(_)
            | serde_json::Value::Array(_)
            | serde_json::Value::Object(_) => None,
        });
        let at = members.get("at").and_then(|at| at.as_str()).map(str::to_owned);
        Ok(Self { values, at })
    }
}
