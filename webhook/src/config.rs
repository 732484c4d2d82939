//! The configuration file and the policy that follows from it for each node. Unknown keys are errors.

use std::{fmt, path::Path};

use headroom_domain::{
    policy::{self, Floor, Mode, Policy},
    ratio::{Cents, Ratio},
    resource::{PerResource, Resource},
};
use headroom_kit::config::{self, ConfigError};
use serde::Deserialize;

use crate::node::Node;

/// The policies in force.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policies {
    configured: Policy,
}

impl Policies {
    /// Reads the configuration file; without one, defaults are in force.
    ///
    /// # Errors
    /// The file cannot be read, or something in it is unknown or out of range.
    pub fn load(file: Option<&Path>) -> Result<Self, ConfigError> {
        let written: Option<File> = file.map(config::load).transpose()?;
        let configured = written
            .map(|File { amplification }| amplification.into())
            .unwrap_or_default();
        Ok(Self { configured })
    }

    /// The configured policy for a node.
    pub fn policy_for(&self, _node: &str) -> Policy {
        self.configured
    }

    /// The policy in force for a node: the configured one with the mode that the Node asks for.
    pub fn in_force(&self, node: &Node) -> Policy {
        let policy = self.policy_for(&node.name);
        Policy {
            mode: node.mode.unwrap_or(policy.mode),
            ..policy
        }
    }
}

impl From<Policy> for Policies {
    /// One policy for all nodes.
    fn from(configured: Policy) -> Self {
        Self { configured }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    amplification: Amplification,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
struct Amplification {
    mode: Option<ModeWord>,
    floor: Option<FloorWord>,
    bounds: Pair<Bounds>,
    target: Pair<Target>,
    static_max: Pair<StaticMax>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ModeWord {
    Off,
    Static,
    Guard,
    Auto,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FloorWord {
    Requests,
    None,
}

/// A value for each resource, as far as given.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pair<T> {
    #[serde(default = "none")]
    cpu: Option<T>,
    #[serde(default = "none")]
    memory: Option<T>,
}

/// Bounds of a ratio; what is not given is 1.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "WrittenBounds")]
struct Bounds(policy::Bounds);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenBounds {
    min: Option<Hundredths>,
    max: Option<Hundredths>,
}

/// A ratio with at most two decimals.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "Decimal")]
struct Hundredths(Cents);

/// The highest ratio that an annotation may ask for.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "Hundredths")]
struct StaticMax(Cents);

/// The share that predicted use may reach, in ppm.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "Decimal")]
struct Target(u32);

/// A number such as 1.25, as it was written.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(transparent)]
struct Decimal(f64);

const fn none<T>() -> Option<T> {
    None
}

impl<T> Default for Pair<T> {
    fn default() -> Self {
        Self {
            cpu: None,
            memory: None,
        }
    }
}

impl<T> Pair<T> {
    /// Puts what is given into `target`.
    fn put<U>(self, target: &mut PerResource<U>, value: impl Fn(T) -> U) {
        let Self { cpu, memory } = self;
        for (resource, given) in [(Resource::Cpu, cpu), (Resource::Memory, memory)] {
            if let Some(given) = given {
                *target.get_mut(resource) = value(given);
            }
        }
    }
}

impl From<Amplification> for Policy {
    /// The defaults with what is given in their place.
    fn from(written: Amplification) -> Self {
        let Amplification {
            mode,
            floor,
            bounds,
            target,
            static_max,
        } = written;
        let mut policy = Self::default();
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
        bounds.put(&mut policy.bounds, |Bounds(bounds)| bounds);
        target.put(&mut policy.target_ppm, |Target(ppm)| ppm);
        static_max.put(&mut policy.static_max, |StaticMax(cents)| cents);
        policy
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

impl TryFrom<WrittenBounds> for Bounds {
    type Error = String;

    fn try_from(written: WrittenBounds) -> Result<Self, String> {
        let WrittenBounds { min, max } = written;
        let cents = |given: Option<Hundredths>| given.map_or(Cents::ONE, |Hundredths(cents)| cents);
        policy::Bounds::new(cents(min), cents(max))
            .map(Self)
            .map_err(|error| error.to_string())
    }
}

impl TryFrom<Decimal> for Hundredths {
    type Error = String;

    fn try_from(written: Decimal) -> Result<Self, String> {
        written.in_units(2).map(|cents| Self(Cents(cents)))
    }
}

impl TryFrom<Hundredths> for StaticMax {
    type Error = String;

    fn try_from(Hundredths(cents): Hundredths) -> Result<Self, String> {
        policy::Bounds::new(Cents::ONE, cents).map_err(|error| error.to_string())?;
        Ok(Self(cents))
    }
}

impl TryFrom<Decimal> for Target {
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

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn read(text: &str) -> Result<Policy, ConfigError> {
        config::parse::<File>(text, Path::new("h.yaml")).map(|file| file.amplification.into())
    }

    #[test]
    fn every_key_is_read() {
        let policy = read(
            "amplification:\n  mode: auto\n  floor: none\n  bounds:\n    cpu: {min: 0.5, max: 1.85}\n    \
             memory: {max: 1.29}\n  target: {cpu: 0.85, memory: 1}\n  staticMax: {cpu: 3, memory: 1.1}\n",
        )
        .unwrap();
        let expected = Policy {
            mode: Mode::Auto,
            bounds: PerResource {
                cpu: policy::Bounds {
                    min: Cents(50),
                    max: Cents(185),
                },
                memory: policy::Bounds {
                    min: Cents(100),
                    max: Cents(129),
                },
            },
            static_max: PerResource {
                cpu: Cents(300),
                memory: Cents(110),
            },
            floor: Floor::None,
            target_ppm: PerResource {
                cpu: 850_000,
                memory: 1_000_000,
            },
        };
        assert_eq!(policy, expected);
    }

    #[rstest]
    #[case("{}")]
    #[case("amplification: {}")]
    #[case("amplification: {bounds: {}, target: {}, staticMax: {}}")]
    fn what_is_not_given_has_its_default(#[case] text: &str) {
        assert_eq!(read(text).unwrap(), Policy::default());
        assert_eq!(Policies::load(None).unwrap(), Policies::default());
    }

    #[rstest]
    #[case("amplification: {mood: auto}", "amplification.mood: unknown field")]
    #[case("amplifications: {}", "amplifications: unknown field")]
    #[case("amplification: {mode: Auto}", "amplification.mode: unknown variant")]
    #[case("amplification: {floor: zero}", "amplification.floor: unknown variant")]
    #[case(
        "amplification: {bounds: {gpu: {max: 2}}}",
        "amplification.bounds.gpu: unknown field"
    )]
    #[case(
        "amplification: {bounds: {cpu: {most: 2}}}",
        "amplification.bounds.cpu.most: unknown field"
    )]
    #[case(
        "amplification: {bounds: {cpu: {max: 11}}}",
        "amplification.bounds.cpu: max 11.00 is outside"
    )]
    #[case(
        "amplification: {bounds: {cpu: {max: 0.9}}}",
        "amplification.bounds.cpu: max 0.90 is outside"
    )]
    #[case(
        "amplification: {bounds: {cpu: {min: 1.2, max: 2}}}",
        "amplification.bounds.cpu: min 1.20 is outside"
    )]
    #[case(
        "amplification: {bounds: {cpu: {max: 1.255}}}",
        "amplification.bounds.cpu.max: 1.255 has more than 2 decimals"
    )]
    #[case(
        "amplification: {bounds: {cpu: {max: -2}}}",
        "amplification.bounds.cpu.max: -2 is out of range"
    )]
    #[case(
        "amplification: {bounds: {cpu: {max: .inf}}}",
        "amplification.bounds.cpu.max: inf is out of range"
    )]
    #[case(
        "amplification: {bounds: {cpu: {max: two}}}",
        "amplification.bounds.cpu.max: "
    )]
    #[case(
        "amplification: {target: {cpu: 0}}",
        "amplification.target.cpu: 0 is outside 0.1..1"
    )]
    #[case(
        "amplification: {target: {memory: 1.01}}",
        "amplification.target.memory: 1.01 is outside 0.1..1"
    )]
    #[case(
        "amplification: {staticMax: {cpu: 0.5}}",
        "amplification.staticMax.cpu: max 0.50 is outside"
    )]
    fn what_cannot_be_meant_is_refused_with_its_path(#[case] text: &str, #[case] reason: &str) {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(&format!(": {reason}")), "{error}");
    }

    #[test]
    fn every_ratio_of_two_decimals_is_read_exactly() {
        for cents in 100..=1000 {
            let text = format!("amplification: {{bounds: {{cpu: {{max: {}}}}}}}", Cents(cents));
            assert_eq!(read(&text).unwrap().bounds.cpu.max, Cents(cents));
        }
    }
}
