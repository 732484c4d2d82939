//! Amplification settings of an administrator, with the same keys in the configuration file and in the ConfigMap. Each
//! setting is optional.

mod document;

use std::fmt;

use headroom_domain::{
    policy::{Bounds, Floor, Mode, Policy},
    ratio::{Cents, Ratio},
    resource::{PerResource, Resource},
};
use serde::Deserialize;

pub use self::document::{PolicyDocument, PolicyEntry, PolicyRefusal, read};

/// A part of a policy: what is given counts, the rest comes from what it is laid over.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct Amplification {
    mode: Option<ModeWord>,
    floor: Option<FloorWord>,
    bounds: Option<Pair<WrittenBounds>>,
    target: Option<Pair<TargetShare>>,
    static_max: Option<Pair<Max>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ModeWord {
    Off,
    Static,
    Guard,
    Auto,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FloorWord {
    Requests,
    None,
}

/// A value for each resource, as far as given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pair<T> {
    #[serde(default = "none")]
    cpu: Option<T>,
    #[serde(default = "none")]
    memory: Option<T>,
}

/// Bounds of a ratio, each on its own: whatever is laid over whatever, the two cannot contradict each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenBounds {
    min: Option<Min>,
    max: Option<Max>,
}

/// A lower bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Decimal")]
struct Min(Cents);

/// An upper bound, or the highest ratio that an annotation may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Decimal")]
struct Max(Cents);

/// The share that predicted use may reach, in ppm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Decimal")]
struct TargetShare(u32);

/// A number such as 1.25, as it was written.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(transparent)]
struct Decimal(f64);

const fn none<T>() -> Option<T> {
    None
}

impl Amplification {
    /// True if it says how the ratio is chosen.
    pub const fn has_mode(&self) -> bool {
        self.mode.is_some()
    }

    /// `policy` with what is given in its place.
    pub fn over(&self, mut policy: Policy) -> Policy {
        let Self {
            mode,
            floor,
            bounds,
            target,
            static_max,
        } = *self;
        policy.mode = mode.map_or(policy.mode, |word| match word {
            ModeWord::Off => Mode::Off,
            ModeWord::Static => Mode::Static,
            ModeWord::Guard => Mode::Guard,
            ModeWord::Auto => Mode::Auto,
        });
        policy.floor = floor.map_or(policy.floor, |word| match word {
            FloorWord::Requests => Floor::Requests,
            FloorWord::None => Floor::None,
        });
        put(
            bounds,
            &mut policy.bounds,
            |WrittenBounds { min, max }, bounds| {
                bounds.min = min.map_or(bounds.min, |Min(cents)| cents);
                bounds.max = max.map_or(bounds.max, |Max(cents)| cents);
            },
        );
        put(target, &mut policy.target_ppm, |TargetShare(ppm), target| {
            *target = ppm;
        });
        put(static_max, &mut policy.static_max, |Max(cents), max| {
            *max = cents;
        });
        policy
    }
}

/// Puts what is given into `target`.
fn put<T, U>(given: Option<Pair<T>>, target: &mut PerResource<U>, set: impl Fn(T, &mut U)) {
    let Some(Pair { cpu, memory }) = given else {
        return;
    };
    for (resource, given) in [(Resource::Cpu, cpu), (Resource::Memory, memory)] {
        if let Some(given) = given {
            set(given, target.get_mut(resource));
        }
    }
}

impl Decimal {
    /// The number in units of 10^-`decimals`, if it is one exactly. The shortest text that reads back as the float is
    /// what was written, so nothing is lost on the way.
    fn in_units(self, decimals: u32) -> Result<u32, String> {
        let out_of_range = || format!("{self} is out of range");
        let ratio = Ratio::parse(&self.to_string()).ok_or_else(out_of_range)?;
        let units = ratio
            .apply(10_u64.pow(decimals))
            .and_then(|units| u32::try_from(units).ok());
        let units = units.ok_or_else(out_of_range)?;
        if Ratio::parse(&format!("{units}e-{decimals}")) == Some(ratio) {
            Ok(units)
        } else {
            Err(format!("{self} has more than {decimals} decimals"))
        }
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TryFrom<Decimal> for Min {
    type Error = String;

    fn try_from(written: Decimal) -> Result<Self, String> {
        let cents = Cents(written.in_units(2)?);
        Bounds::new(cents, Cents::ONE).map_err(|error| error.to_string())?;
        Ok(Self(cents))
    }
}

impl TryFrom<Decimal> for Max {
    type Error = String;

    fn try_from(written: Decimal) -> Result<Self, String> {
        let cents = Cents(written.in_units(2)?);
        Bounds::new(Cents::ONE, cents).map_err(|error| error.to_string())?;
        Ok(Self(cents))
    }
}

impl TryFrom<Decimal> for TargetShare {
    type Error = String;

    fn try_from(written: Decimal) -> Result<Self, String> {
        let ppm = written.in_units(6)?;
        if (100_000..=1_000_000).contains(&ppm) {
            Ok(Self(ppm))
        } else {
            Err(format!("{written} is outside 0.1..1"))
        }
    }
}
