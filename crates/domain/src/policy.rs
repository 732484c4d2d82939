//! The administrator's policy for a node: mode, bounds, floor and target.

use std::{fmt, str::FromStr};

use crate::{
    ratio::Cents,
    resource::{PerResource, Resource},
};

/// Source of a node's ratio. See docs/capacity.md#modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// Raw values; Headroom's annotations are removed.
    Off,
    /// The ratio annotation decides, as in Koordinator.
    #[default]
    Static,
    /// The smaller of the ratio annotation and the hint decides.
    Guard,
    /// The hint decides, within the bounds.
    Auto,
}

impl Mode {
    /// All modes, from least to most automatic.
    pub const ALL: [Self; 4] = [Self::Off, Self::Static, Self::Guard, Self::Auto];

    /// Word in configuration and annotations, such as `guard`.
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

/// The text is not one of the four modes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a mode (off, static, guard or auto)")]
pub struct ModeError {
    /// First 40 characters of the text.
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

/// Bounds of a ratio, in cents, both inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Lowest ratio, 50 to 100; below 100 only where an administrator reserves capacity.
    pub min: Cents,
    /// Highest ratio, 100 to 1000.
    pub max: Cents,
}

/// A bound is outside the supported range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BoundsError {
    /// The minimum is below 0.50 or above 1.00.
    #[error("min {0} is outside 0.50..1.00")]
    Min(Cents),
    /// The maximum is below 1.00 or above 10.00.
    #[error("max {0} is outside 1.00..10.00")]
    Max(Cents),
}

impl Bounds {
    /// Both bounds at 1.00: the resource is not amplified.
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

    /// `cents` limited to the bounds.
    pub fn clamp(self, cents: Cents) -> Cents {
        cents.clamp(self.min, self.max)
    }
}

/// Lower limit of a node's allocatable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Floor {
    /// Requests of the pods that are bound to the node.
    #[default]
    Requests,
    /// No lower limit: pods can lose capacity.
    None,
}

impl Floor {
    /// Word in configuration, `requests` or `none`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::None => "none",
        }
    }
}

/// Permitted effect of annotations that users write on Nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum AnnotationEffect {
    /// Mode and ratio annotation have no effect.
    Nothing,
    /// The mode annotation counts where it cannot amplify more than the configured mode; the ratio annotation has no
    /// effect.
    Lower,
    /// The mode annotation sets any mode; the ratio annotation has no effect.
    Mode,
    /// The mode annotation sets any mode, and the ratio annotation applies in `static` and `guard`.
    #[default]
    All,
}

impl AnnotationEffect {
    /// All values, from least to most.
    pub const ALL: [Self; 4] = [Self::Nothing, Self::Lower, Self::Mode, Self::All];

    /// Word in configuration and on the wire, such as `lower`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Lower => "lower",
            Self::Mode => "mode",
            Self::All => "all",
        }
    }

    /// Returns true if the ratio annotation applies.
    pub const fn has_ratio(self) -> bool {
        matches!(self, Self::All)
    }

    /// Returns true if the mode annotation may replace the configured mode. Without the ratio annotation only `auto`
    /// amplifies.
    pub fn permits(self, asked: Mode, configured: Mode) -> bool {
        match self {
            Self::Nothing => false,
            Self::Lower => asked != Mode::Auto || configured == Mode::Auto,
            Self::Mode | Self::All => true,
        }
    }
}

/// The policy in force for one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Source of the ratio; default `static`.
    pub mode: Mode,
    /// Bounds in `guard` and `auto`. Default: CPU 1.00 to 2.00, memory 1.00.
    pub bounds: PerResource<Bounds>,
    /// Highest ratio of the annotation that `static` applies; default 5.00.
    pub static_max: PerResource<Cents>,
    /// Lower limit of allocatable; default `requests`.
    pub floor: Floor,
    /// Permitted effect of annotations on the Node; default `all`.
    pub annotations: AnnotationEffect,
    /// Share of capacity (CPU) or raw allocatable (memory) that predicted use may reach, in ppm; default 900,000.
    pub target_ppm: PerResource<u32>,
}

/// Policy in force for one node, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InForce {
    /// All values of the policy.
    pub policy: Policy,
    /// Source that decides the mode.
    pub mode_from: Source,
    /// Entry of the ConfigMap that selects the node: its name, or its position such as `nodeConfigs[1]`.
    pub entry: Option<String>,
}

/// Source of a part of a policy; each overrides the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// Built-in default; no source sets the part.
    Default,
    /// The configuration file of the webhook.
    File,
    /// The ConfigMap, for all nodes.
    ConfigMap,
    /// An entry of the ConfigMap that selects the node.
    Entry,
    /// The mode annotation on the Node.
    Annotation,
    /// The feature gate of amplification, which is off.
    Gate,
}

impl InForce {
    /// Applies the mode that the Node's annotation requests, if any and as far as the policy permits.
    pub fn with_mode(mut self, asked: Option<Mode>) -> Self {
        if let Some(mode) = asked
            && let Some(policy) = self.policy.with_mode(mode)
        {
            self.policy = policy;
            self.mode_from = Source::Annotation;
        }
        self
    }
}

impl Source {
    /// All sources, from lowest to highest precedence.
    pub const ALL: [Self; 6] = [
        Self::Default,
        Self::File,
        Self::ConfigMap,
        Self::Entry,
        Self::Annotation,
        Self::Gate,
    ];

    /// Word on the wire and in tables, such as `configmap`.
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

impl Policy {
    /// Policy with the mode of a Node's annotation; `None` if annotations may not set it.
    pub fn with_mode(self, asked: Mode) -> Option<Self> {
        let is_permitted = self.annotations.permits(asked, self.mode);
        is_permitted.then_some(Self { mode: asked, ..self })
    }
}

impl Default for Policy {
    /// Mode `static`; the bounds do not amplify memory.
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
            annotations: AnnotationEffect::All,
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
    fn the_nodes_mode_annotation_overrides_mode_and_source() {
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
    fn annotations_amplify_only_as_far_as_the_policy_permits() {
        use AnnotationEffect::{All, Lower, Mode as AnyMode, Nothing};
        let modes = |annotations, configured| {
            let policy = Policy {
                annotations,
                mode: configured,
                ..Policy::default()
            };
            Mode::ALL.map(|asked| policy.with_mode(asked).is_some())
        };
        for configured in Mode::ALL {
            assert_eq!(modes(Nothing, configured), [false; 4]);
            let raises = configured == Mode::Auto;
            assert_eq!(modes(Lower, configured), [true, true, true, raises]);
            assert_eq!(
                [AnyMode, All].map(|effect| modes(effect, configured)),
                [[true; 4]; 2]
            );
        }
        assert_eq!(
            AnnotationEffect::ALL.map(AnnotationEffect::has_ratio),
            [false, false, false, true]
        );
        let words = ["nothing", "lower", "mode", "all"];
        assert_eq!(AnnotationEffect::ALL.map(AnnotationEffect::name), words);
    }

    #[test]
    fn sources_and_floors_have_configuration_names() {
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
