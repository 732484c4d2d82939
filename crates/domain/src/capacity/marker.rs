//! The annotations that record values: the marker (the last written values and their raw values) and the raw lists.
//!
//! The marker's top-level `"cpu":"…"` and `"memory":"…"` come first for a reader without a JSON parser: the floor
//! policy finds them by regular expression, so nothing nested may have a quantity under these keys.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::{Given, ResourceDecision, Write, amount, cents_of, quantity};
use crate::{
    annotation::Annotation,
    quantity::Quantity,
    ratio::{Cents, Ratio},
    resource::{PerResource, Resource},
};

/// Where a written value came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct WriteOrigin {
    #[serde(skip_serializing_if = "Option::is_none")]
    capacity: Option<String>,
    /// What ratio and raw came to, where pods hold more than that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    product: Option<String>,
    raw: String,
}

/// What we wrote last on a Node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marker {
    /// Ready heartbeat of the write in which it was renewed.
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
    /// True if it is of the Node of that UID.
    pub(super) fn is_of(&self, uid: &str) -> bool {
        self.uid == uid
    }

    /// The marker for what was decided; `None` if nothing was.
    pub(super) fn for_write(
        write: &Write<'_>,
        given: &Given<'_>,
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

    /// What we wrote, in milli-cores or bytes.
    pub(super) fn value(&self, resource: Resource) -> Option<u64> {
        amount(resource, &self.quantity(resource)?)
    }

    /// What we wrote.
    pub(super) fn quantity(&self, resource: Resource) -> Option<Quantity> {
        let text = match resource {
            Resource::Cpu => self.cpu.as_deref(),
            Resource::Memory => self.memory.as_deref(),
        };
        text?.parse().ok()
    }

    /// The raw value it came from.
    pub(super) fn raw(&self, resource: Resource) -> Option<u64> {
        amount(resource, &self.raw_quantity(resource)?)
    }

    /// The raw value it came from, in its own family.
    pub(super) fn raw_quantity(&self, resource: Resource) -> Option<Quantity> {
        self.from.get(resource.name())?.raw.parse().ok()
    }

    /// What ratio and raw came to, before the floor: of what we wrote, the part that pods do not hold by themselves.
    fn product(&self, resource: Resource) -> Option<u64> {
        let value = self.value(resource)?;
        let Some(text) = &self.from.get(resource.name())?.product else {
            return Some(value);
        };
        Some(amount(resource, &text.parse().ok()?)?.min(value))
    }

    /// The ratio that was applied last, before the floor, in cents.
    pub(super) fn ratio(&self, resource: Resource) -> Option<Cents> {
        cents_of(self.product(resource)?, self.raw(resource)?)
    }

    /// What we wrote, on another raw value.
    pub(super) fn rescaled(&self, resource: Resource, raw: u64) -> Option<u64> {
        Some(rescaled(raw, self.value(resource)?, self.raw(resource)?))
    }

    /// What we wrote, on another raw value; of what is stored instead, where somebody has lowered that since.
    pub(super) fn kept(&self, resource: Resource, raw: u64, stored: Option<u64>) -> Option<u64> {
        self.in_force(resource, self.value(resource)?, raw, stored)
    }

    /// As above, of what we would have written if pods held nothing: what they held of one raw value says nothing of another.
    pub(super) fn kept_product(&self, resource: Resource, raw: u64, stored: Option<u64>) -> Option<u64> {
        self.in_force(resource, self.product(resource)?, raw, stored)
    }

    /// `written`, made of the recorded raw value, on today's `raw`; of what is stored instead, where that is less.
    fn in_force(&self, resource: Resource, written: u64, raw: u64, stored: Option<u64>) -> Option<u64> {
        let value = rescaled(raw, written, self.raw(resource)?);
        let Some(stored) = stored.filter(|stored| *stored < written) else {
            return Some(value);
        };
        // What is stored can be raw itself, the one of before or today's, or the same share of either.
        let share = rescaled(raw, stored, self.raw(resource)?);
        Some(value.min(share.min(stored.max(raw)).max(stored.min(raw))))
    }

    /// The capacity at that time.
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

/// What was decided before the floor; where nothing was, what is in force of that, and raw at the least.
fn product_of(
    resource: Resource,
    outcome: &ResourceDecision,
    write: &Write<'_>,
    given: &Given<'_>,
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

/// Scales `raw` by `value` / `before`, rounded to whole cents where that is exact, so that a replica that knows the policy
/// comes to the same result. Fractions are cut off; `raw` where the result is not a number.
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

/// The capacity that `raw` goes with. Only a kubelet's sync tells raw and capacity together: in any other write the
/// recorded capacity stays with the recorded raw value, or a change of both at once would go unseen.
fn capacity_of(resource: Resource, raw: u64, write: &Write<'_>, given: &Given<'_>) -> Option<String> {
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

/// Raw values as an annotation lists them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawNote {
    /// The values.
    pub(super) values: PerResource<Option<Quantity>>,
    /// Ready heartbeat of the request they came in, if the note says.
    pub(super) at: Option<String>,
}

impl RawNote {
    /// The values of an annotation; none where it cannot be read (D3, D6).
    pub(super) fn values(annotation: &Annotation<Self>) -> PerResource<Option<Quantity>> {
        annotation.value().map(|note| note.values).unwrap_or_default()
    }
    /// The raw annotation for these values: compact, sorted; `None` if there is none.
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

    /// Koordinator's raw annotation, or the floor policy's note; a value that cannot be read is missing (D3, D6).
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
