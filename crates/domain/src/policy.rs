//! The administrator's policy for a node: mode, bounds, floor and target.

use std::{fmt, str::FromStr};

use crate::{
    ratio::Cents,
    resource::{PerResource, Resource},
};

/// How a node's ratio is chosen. See docs/capacity.md#modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// Raw values, our annotations removed.
    Off,
    /// The ratio annotation, as Koordinator applies it.
    #[default]
    Static,
    /// The smaller of the ratio annotation and the hint.
    Guard,
    /// The hint.
    Auto,
}

impl Mode {
    /// All modes, from least to most automatic.
    pub const ALL: [Self; 4] = [Self::Off, Self::Static, Self::Guard, Self::Auto];

    /// The word in configuration and annotations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Static => "static",
            Self::Guard => "guard",
            Self::Auto => "auto",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text is none of the four modes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a mode (off, static, guard or auto)")]
pub struct ModeError {
    /// The text, shortened.
    text: String,
}

impl FromStr for Mode {
    type Err = ModeError;

    fn from_str(text: &str) -> Result<Self, ModeError> {
        Self::ALL
            .into_iter()
            .find(|mode| mode.name() == text)
            .ok_or_else(|| ModeError {
                text: text.chars().take(40).collect(),
            })
    }
}

/// Bounds of a ratio, in cents, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The lowest ratio; below 100 only where an administrator chose protect mode.
    pub min: Cents,
    /// The highest ratio.
    pub max: Cents,
}

/// The bounds contradict each other or leave what is supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BoundsError {
    /// Below 0.50 or above 1.00.
    #[error("min {0} is outside 0.50..1.00")]
    Min(Cents),
    /// Below 1.00 or above 10.00.
    #[error("max {0} is outside 1.00..10.00")]
    Max(Cents),
}

impl Bounds {
    /// Exactly raw: the resource is not amplified.
    pub const OFF: Self = Self {
        min: Cents::ONE,
        max: Cents::ONE,
    };

    /// Bounds from `min` to `max`.
    ///
    /// # Errors
    /// If `min` is outside 0.50..1.00 or `max` outside 1.00..10.00.
    pub fn new(min: Cents, max: Cents) -> Result<Self, BoundsError> {
        if !(50..=100).contains(&min.0) {
            return Err(BoundsError::Min(min));
        }
        if !(100..=1000).contains(&max.0) {
            return Err(BoundsError::Max(max));
        }
        Ok(Self { min, max })
    }

    /// `cents` moved into the bounds.
    pub fn clamp(self, cents: Cents) -> Cents {
        cents.clamp(self.min, self.max)
    }
}

/// What allocatable may never fall below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Floor {
    /// The sum of the requests bound to the node.
    #[default]
    Requests,
    /// Nothing.
    None,
}

impl Floor {
    /// The word in configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::None => "none",
        }
    }
}

/// The policy in force for one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// How the ratio is chosen.
    pub mode: Mode,
    /// Bounds in `guard` and `auto`.
    pub bounds: PerResource<Bounds>,
    /// The ratio above which an annotation is not applied in `static`.
    pub static_max: PerResource<Cents>,
    /// What allocatable may never fall below.
    pub floor: Floor,
    /// The share of capacity (CPU) or raw allocatable (memory) that predicted use may reach, in ppm.
    pub target_ppm: PerResource<u32>,
}

/// The policy in force for one node, and who says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InForce {
    /// The policy.
    pub policy: Policy,
    /// What decides its mode.
    pub mode_from: Source,
    /// The entry of the ConfigMap that selects the node: its name, or its place as in `nodeConfigs[1]`.
    pub entry: Option<String>,
}

/// Where a part of a policy comes from, each over the ones before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// Nobody said anything.
    Default,
    /// The webhook's configuration file.
    File,
    /// The ConfigMap, for all nodes.
    ConfigMap,
    /// An entry of the ConfigMap that selects the node.
    Entry,
    /// The annotation on the Node.
    Annotation,
    /// The feature gate of amplification, which is off.
    Gate,
}

impl InForce {
    /// The same with the mode that the Node asks for, if it asks for one.
    pub fn with_mode(mut self, asked: Option<Mode>) -> Self {
        if let Some(mode) = asked {
            self.policy.mode = mode;
            self.mode_from = Source::Annotation;
        }
        self
    }
}

impl Source {
    /// All sources, the lowest first.
    pub const ALL: [Self; 6] = [
        Self::Default,
        Self::File,
        Self::ConfigMap,
        Self::Entry,
        Self::Annotation,
        Self::Gate,
    ];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File => "file",
            Self::ConfigMap => "configmap",
            Self::Entry => "entry",
            Self::Annotation => "annotation",
            Self::Gate => "gate",
        }
    }
}

impl Default for Policy {
    /// `static`, with bounds that leave memory as it is.
    fn default() -> Self {
        Self {
            mode: Mode::Static,
            bounds: PerResource {
                cpu: Bounds {
                    min: Cents::ONE,
                    max: Cents(200),
                },
                memory: Bounds::OFF,
            },
            static_max: PerResource {
                cpu: Cents(500),
                memory: Cents(500),
            },
            floor: Floor::Requests,
            target_ppm: PerResource::from_fn(|_: Resource| 900_000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_read_by_their_exact_names() {
        for mode in Mode::ALL {
            assert_eq!(mode.name().parse(), Ok(mode));
            assert_eq!(mode.to_string(), mode.name());
        }
        assert!("Auto".parse::<Mode>().is_err() && "".parse::<Mode>().is_err());
    }

    #[test]
    fn the_mode_that_a_node_asks_for_counts_and_is_said_to_be_its_own() {
        let in_force = InForce {
            policy: Policy::default(),
            mode_from: Source::File,
            entry: None,
        };
        assert_eq!(in_force.clone().with_mode(None), in_force);
        let asked = in_force.with_mode(Some(Mode::Guard));
        assert_eq!(
            (asked.policy.mode, asked.mode_from),
            (Mode::Guard, Source::Annotation)
        );
    }

    #[test]
    fn sources_and_floors_have_the_words_of_the_configuration() {
        assert_eq!(
            [Floor::Requests, Floor::None].map(Floor::name),
            ["requests", "none"]
        );
        let words = ["default", "file", "configmap", "entry", "annotation", "gate"];
        assert_eq!(Source::ALL.map(Source::name), words);
    }

    #[test]
    fn bounds_outside_the_supported_range_are_refused() {
        assert_eq!(
            Bounds::new(Cents(49), Cents(200)),
            Err(BoundsError::Min(Cents(49)))
        );
        assert_eq!(
            Bounds::new(Cents(101), Cents(200)),
            Err(BoundsError::Min(Cents(101)))
        );
        assert_eq!(
            Bounds::new(Cents(100), Cents(99)),
            Err(BoundsError::Max(Cents(99)))
        );
        assert_eq!(
            Bounds::new(Cents(100), Cents(125)).unwrap().clamp(Cents(300)),
            Cents(125)
        );
    }
}
