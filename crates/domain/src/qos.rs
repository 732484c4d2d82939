//! Koordinator's QoS classes and priority bands of a Pod, and the accepted pairs of both.
//!
//! A class or band is *raw* if a label or priority names it, and *with default* if it may be derived instead.

use std::{fmt, ops::RangeInclusive};

use crate::names;

/// Koordinator QoS class, as in the label [`names::QOS_CLASS`]. It differs from Kubernetes' QoS class of the same
/// pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Latency-sensitive exclusive: CPUs that no other pod may use.
    Lse,
    /// Latency-sensitive reserved: CPUs that only best-effort pods may share.
    Lsr,
    /// Latency-sensitive: CPUs shared with other pods.
    Ls,
    /// Best effort: leftover CPU and memory.
    Be,
    /// System processes of the node.
    System,
}

/// Priority band of a pod, as in the label [`names::PRIORITY_CLASS`] and in the PriorityClasses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Band {
    /// Production, priorities 9000 to 9999.
    Prod,
    /// Between production and batch, priorities 7000 to 7999.
    Mid,
    /// Batch work, priorities 5000 to 5999.
    Batch,
    /// Leftover capacity, priorities 3000 to 3999.
    Free,
}

/// Set of accepted pairs of class and band.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Matrix {
    /// Koordinator's rules: LSR only with prod, BE only with mid, batch or free; other classes with any band or none.
    Koordinator,
    /// LSE and LSR only with prod, LS with prod or mid, BE with mid, batch or free, SYSTEM with none.
    Strict,
}

impl Class {
    /// All classes, in the order of their declaration.
    pub const ALL: [Self; 5] = [Self::Lse, Self::Lsr, Self::Ls, Self::Be, Self::System];

    /// Value of the label, in capitals.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lse => "LSE",
            Self::Lsr => "LSR",
            Self::Ls => "LS",
            Self::Be => "BE",
            Self::System => "SYSTEM",
        }
    }

    /// Class that a label names; `None` without the label and for any other value, such as `be`.
    pub fn raw(label: Option<&str>) -> Option<Self> {
        Self::ALL.into_iter().find(|class| Some(class.name()) == label)
    }

    /// Raw class, or the default of Kubernetes' QoS class; `None` if that is not one of its three.
    pub fn with_default(raw: Option<Self>, kubernetes_class: &str) -> Option<Self> {
        raw.or(match kubernetes_class {
            "Guaranteed" => Some(Self::Lsr),
            "Burstable" => Some(Self::Ls),
            "BestEffort" => Some(Self::Be),
            _ => None,
        })
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Band {
    /// All bands, highest priorities first.
    pub const ALL: [Self; 4] = [Self::Prod, Self::Mid, Self::Batch, Self::Free];

    /// Value of the label, which is also the name of the PriorityClass.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Prod => names::KOORD_PROD,
            Self::Mid => names::KOORD_MID,
            Self::Batch => names::KOORD_BATCH,
            Self::Free => names::KOORD_FREE,
        }
    }

    /// Range of `spec.priority` in the band.
    pub const fn priorities(self) -> RangeInclusive<i32> {
        match self {
            Self::Prod => 9000..=9999,
            Self::Mid => 7000..=7999,
            Self::Batch => 5000..=5999,
            Self::Free => 3000..=3999,
        }
    }

    /// Band of a `spec.priority`; `None` between the bands and outside of them.
    pub fn at(priority: i32) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|band| band.priorities().contains(&priority))
    }

    /// Band in the label, or without the label that of `spec.priority`. `None` if the label has another value, even
    /// an empty one, for any priority.
    pub fn raw(label: Option<&str>, priority: Option<i32>) -> Option<Self> {
        match label {
            Some(label) => Self::ALL.into_iter().find(|band| band.name() == label),
            None => priority.and_then(Self::at),
        }
    }

    /// Raw band, or the default of the class: batch for BE, prod for the others.
    pub fn with_default(raw: Option<Self>, class: Option<Class>) -> Option<Self> {
        raw.or(class.map(|class| match class {
            Class::Lse | Class::Lsr | Class::Ls | Class::System => Self::Prod,
            Class::Be => Self::Batch,
        }))
    }
}

impl fmt::Display for Band {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Matrix {
    /// Returns true if a pod may combine this raw class with this raw band. A pod without a class may have any band.
    pub fn accepts(self, class: Option<Class>, band: Option<Band>) -> bool {
        match (self, class) {
            (_, None) | (Self::Koordinator, Some(Class::Lse | Class::Ls | Class::System)) => true,
            (_, Some(Class::Lsr)) | (Self::Strict, Some(Class::Lse)) => band == Some(Band::Prod),
            (Self::Strict, Some(Class::Ls)) => matches!(band, Some(Band::Prod | Band::Mid)),
            (_, Some(Class::Be)) => matches!(band, Some(Band::Mid | Band::Batch | Band::Free)),
            (Self::Strict, Some(Class::System)) => band.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BANDS: [Option<Band>; 5] = [
        Some(Band::Prod),
        Some(Band::Mid),
        Some(Band::Batch),
        Some(Band::Free),
        None,
    ];

    #[test]
    fn only_the_exact_word_is_a_class() {
        for class in Class::ALL {
            assert_eq!(Class::raw(Some(&class.to_string())), Some(class));
        }
        for other in [None, Some(""), Some("be"), Some("BE "), Some("Guaranteed")] {
            assert_eq!(Class::raw(other), None, "{other:?}");
        }
    }

    #[test]
    fn a_missing_class_defaults_by_kubernetes_qos() {
        for (raw, kubernetes, class) in [
            (None, "Guaranteed", Some(Class::Lsr)),
            (None, "Burstable", Some(Class::Ls)),
            (None, "BestEffort", Some(Class::Be)),
            (None, "besteffort", None),
            (None, "", None),
            (Some(Class::Be), "Guaranteed", Some(Class::Be)),
        ] {
            assert_eq!(Class::with_default(raw, kubernetes), class, "{kubernetes}");
        }
    }

    #[test]
    fn each_band_has_a_thousand_priorities_and_gaps_have_none() {
        for (priority, band) in [
            (9000, Some(Band::Prod)),
            (9999, Some(Band::Prod)),
            (7000, Some(Band::Mid)),
            (7999, Some(Band::Mid)),
            (5000, Some(Band::Batch)),
            (5999, Some(Band::Batch)),
            (3000, Some(Band::Free)),
            (3999, Some(Band::Free)),
            (0, None),
            (-5500, None),
            (2999, None),
            (4000, None),
            (6500, None),
            (8000, None),
            (8999, None),
            (10_000, None),
            (2_000_001_000, None),
            (i32::MIN, None),
        ] {
            assert_eq!(Band::raw(None, Some(priority)), band, "{priority}");
        }
        assert_eq!(Band::raw(None, None), None);
    }

    #[test]
    fn a_label_overrides_the_priority_even_if_it_names_no_band() {
        for band in Band::ALL {
            assert_eq!(Band::raw(Some(band.name()), Some(0)), Some(band));
        }
        for other in ["", "weird", "Koord-Prod"] {
            assert_eq!(Band::raw(Some(other), Some(9500)), None, "{other}");
        }
    }

    #[test]
    fn a_missing_band_defaults_by_class() {
        for (class, band) in [
            (Some(Class::System), Some(Band::Prod)),
            (Some(Class::Lse), Some(Band::Prod)),
            (Some(Class::Lsr), Some(Band::Prod)),
            (Some(Class::Ls), Some(Band::Prod)),
            (Some(Class::Be), Some(Band::Batch)),
            (None, None),
        ] {
            assert_eq!(Band::with_default(None, class), band, "{class:?}");
            assert_eq!(Band::with_default(Some(Band::Free), class), Some(Band::Free));
        }
    }

    #[test]
    fn each_matrix_accepts_its_pairs_and_no_others() {
        let every = [true; 5];
        for (class, koordinator, strict) in [
            (None, every, every),
            (Some(Class::System), every, [false, false, false, false, true]),
            (Some(Class::Lse), every, [true, false, false, false, false]),
            (Some(Class::Ls), every, [true, true, false, false, false]),
            (
                Some(Class::Lsr),
                [true, false, false, false, false],
                [true, false, false, false, false],
            ),
            (
                Some(Class::Be),
                [false, true, true, true, false],
                [false, true, true, true, false],
            ),
        ] {
            let accepted = |matrix: Matrix| BANDS.map(|band| matrix.accepts(class, band));
            assert_eq!(accepted(Matrix::Koordinator), koordinator, "{class:?}");
            assert_eq!(accepted(Matrix::Strict), strict, "{class:?}");
        }
    }
}
