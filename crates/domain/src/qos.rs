//! Koordinator's QoS classes and priority bands of a Pod, and which pairs of them may be combined.
//!
//! A class or band is *raw* where label or priority name it, and *with default* where something else stands in for it.

use std::{fmt, ops::RangeInclusive};

use crate::names;

/// A Koordinator QoS class, as the label [`names::QOS_CLASS`] has it. It is not Kubernetes' own class of the same pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// CPUs of its own that nobody else may use.
    Lse,
    /// CPUs of its own that best-effort pods may use.
    Lsr,
    /// Shared CPUs, sensitive to waits.
    Ls,
    /// Best effort, on what the others leave.
    Be,
    /// Part of the node itself.
    System,
}

/// A band of pod priorities, as the label [`names::PRIORITY_CLASS`] and the PriorityClasses have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Band {
    /// Production.
    Prod,
    /// Between production and batch.
    Mid,
    /// Batch work.
    Batch,
    /// What runs on leftovers.
    Free,
}

/// Which pairs of class and band are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Matrix {
    /// Koordinator's own: LSR only with prod, BE with anything but prod; the other classes go with every band and none.
    Koordinator,
    /// LSE and LSR only with prod, LS with prod or mid, BE with mid, batch or free, SYSTEM with none.
    Strict,
}

impl Class {
    /// All classes.
    pub const ALL: [Self; 5] = [Self::Lse, Self::Lsr, Self::Ls, Self::Be, Self::System];

    /// The label's value.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lse => "LSE",
            Self::Lsr => "LSR",
            Self::Ls => "LS",
            Self::Be => "BE",
            Self::System => "SYSTEM",
        }
    }

    /// The class that a label names; `None` without the label and for any other value, `be` among them.
    pub fn raw(label: Option<&str>) -> Option<Self> {
        Self::ALL.into_iter().find(|class| Some(class.name()) == label)
    }

    /// The raw class, or else the one that Kubernetes' class of the pod stands for; `None` if that is none of its three.
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
    /// All bands, the highest priorities first.
    pub const ALL: [Self; 4] = [Self::Prod, Self::Mid, Self::Batch, Self::Free];

    /// The label's value, which is also the name of the PriorityClass.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Prod => names::KOORD_PROD,
            Self::Mid => names::KOORD_MID,
            Self::Batch => names::KOORD_BATCH,
            Self::Free => names::KOORD_FREE,
        }
    }

    /// The values of `spec.priority` in the band.
    pub const fn priorities(self) -> RangeInclusive<i32> {
        match self {
            Self::Prod => 9000..=9999,
            Self::Mid => 7000..=7999,
            Self::Batch => 5000..=5999,
            Self::Free => 3000..=3999,
        }
    }

    /// The band of a value of `spec.priority`; `None` between the bands and outside of them.
    pub fn at(priority: i32) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|band| band.priorities().contains(&priority))
    }

    /// The band that the label names, or without the label the one of `spec.priority`. A label with any other value, be
    /// it empty, is `None` whatever the priority.
    pub fn raw(label: Option<&str>, priority: Option<i32>) -> Option<Self> {
        match label {
            Some(label) => Self::ALL.into_iter().find(|band| band.name() == label),
            None => priority.and_then(Self::at),
        }
    }

    /// The raw band, or else the one that goes with the class: batch with BE, prod with the others.
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
    /// True if a pod may have this raw class together with this raw band. A pod without a class may have any.
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
    fn kubernetes_class_stands_in_for_a_class_that_is_not_named() {
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
    fn a_band_has_a_thousand_priorities_and_nothing_lies_between() {
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
    fn a_label_decides_the_band_even_if_it_names_none() {
        for band in Band::ALL {
            assert_eq!(Band::raw(Some(band.name()), Some(0)), Some(band));
        }
        for other in ["", "weird", "Koord-Prod"] {
            assert_eq!(Band::raw(Some(other), Some(9500)), None, "{other}");
        }
    }

    #[test]
    fn a_class_stands_in_for_a_band_that_is_not_named() {
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
