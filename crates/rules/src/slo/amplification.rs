//! An administrator's amplification settings, with the same keys in the configuration file and in the ConfigMap.
//! Every setting is optional.

mod document;

use std::fmt;

use headroom_domain::{
    policy::{AnnotationEffect, Bounds, Floor, Mode, Policy},
    ratio::{Cents, Ratio},
    resource::{PerResource, Resource},
};
use serde::Deserialize;

pub use self::document::{PolicyDocument, PolicyEntry, PolicyRefusal, read};

/// Partial policy: given settings override those of the policy below.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct Amplification {
    mode: Option<ModeWord>,
    floor: Option<FloorWord>,
    annotations: Option<EffectWord>,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum EffectWord {
    Nothing,
    Lower,
    Mode,
    All,
}

/// Optional value for each resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pair<T> {
    #[serde(default = "none")]
    cpu: Option<T>,
    #[serde(default = "none")]
    memory: Option<T>,
}

/// Bounds of a ratio with separate ranges: in any combination of layers, the lower bound cannot exceed the upper one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenBounds {
    min: Option<Min>,
    max: Option<Max>,
}

/// Lower bound of a ratio, from 0.50 to 1.00.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Decimal")]
struct Min(Cents);

/// Upper bound of a ratio, or the highest ratio that an annotation may request, from 1.00 to 10.00.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Decimal")]
struct Max(Cents);

/// Share that the predicted use may reach, in ppm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Decimal")]
struct TargetShare(u32);

/// Decimal number such as 1.25, as written.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(transparent)]
struct Decimal(f64);

const fn none<T>() -> Option<T> {
    None
}

impl Amplification {
    /// Returns true if it sets the mode.
    pub const fn has_mode(&self) -> bool {
        self.mode.is_some()
    }

    /// Returns `policy` with the given settings replaced.
    pub fn over(&self, mut policy: Policy) -> Policy {
        let Self {
            mode,
            floor,
            annotations,
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
        policy.annotations = annotations.map_or(policy.annotations, |word| match word {
            EffectWord::Nothing => AnnotationEffect::Nothing,
            EffectWord::Lower => AnnotationEffect::Lower,
            EffectWord::Mode => AnnotationEffect::Mode,
            EffectWord::All => AnnotationEffect::All,
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

/// Writes the given values into `target`.
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
    /// Returns the number in units of 10^-`decimals` if it is a whole number of units. The shortest text that parses
    /// to the same float is the text that was written, so no digit is lost.
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
