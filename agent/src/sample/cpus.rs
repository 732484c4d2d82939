//! `CpuSet` is a set of CPU numbers, and `Cpus` has the sets that a poll counts over. These are the CPUs that are
//! online, those that are not isolated, and those that pods share.

use std::fmt;

use crate::sample::field::{FieldError, number};

/// Numbers of CPUs, ascending and each once: [`CpuSet::contains`], which is asked for each CPU at every poll, searches by halves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuSet(Vec<u32>);

/// CPUs withheld from pods, or from most of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Isolated CPUs: the scheduler uses them only for tasks that name them.
    pub isolated: CpuSet,
    /// CPUs that pods may run on; `None` if there is no cpuset.
    pub kubepods: Option<CpuSet>,
    /// CPUs that one pod each has for itself alone.
    pub exclusive: CpuSet,
}

/// The CPUs that a poll counts over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpus {
    /// Online CPUs, which are compared with the Node object.
    pub online: CpuSet,
    /// CPUs of this set that are not isolated: capacity, use and demand refer to these. Exclusive CPUs of pods are
    /// included, since the requests of such pods are added to demand.
    pub counted: CpuSet,
    /// Of those, the ones that pods share: brakes are for them.
    pub shared: CpuSet,
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for cpu in self.iter() {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == cpu => *last = cpu,
                _ => ranges.push((cpu, cpu)),
            }
        }
        for (number, (first, last)) in ranges.into_iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
        }
        Ok(())
    }
}

impl Kept {
    /// Remaining online CPUs. A set that would leave none is ignored.
    pub fn within(&self, online: CpuSet) -> Cpus {
        let some_of = |left: CpuSet, all: &CpuSet| if left.is_empty() { all.clone() } else { left };
        let counted = some_of(online.without(&self.isolated), &online);
        let of_pods = self.kubepods.as_ref().map(|pods| counted.within(pods));
        let of_pods = some_of(of_pods.unwrap_or_default(), &counted);
        let shared = some_of(of_pods.without(&self.exclusive), &of_pods);
        Cpus {
            online,
            counted,
            shared,
        }
    }
}

impl CpuSet {
    /// Parses the kernel's list format, such as `0-3,8`.
    ///
    /// # Errors
    /// If an entry is no number or range, or the list is empty.
    pub fn parse(text: &str) -> Result<Self, FieldError> {
        let mut cpus = Vec::new();
        for entry in text.trim().split(',') {
            let (first, last) = entry.split_once('-').unwrap_or((entry, entry));
            let (first, last) = (
                number::<u32>(first, "cpu list")?,
                number::<u32>(last, "cpu list")?,
            );
            // Linux has at most 8192 CPUs; more is not a list of them.
            if first > last || last >= 8192 {
                return Err(FieldError {
                    field: "cpu list".to_owned(),
                    found: entry.to_owned(),
                });
            }
            cpus.extend(first..=last);
        }
        cpus.sort_unstable();
        cpus.dedup();
        Ok(Self(cpus))
    }

    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// Is this CPU one of them?
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.binary_search(&cpu).is_ok()
    }

    /// Number of CPUs.
    pub fn count(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The CPUs that are in both.
    pub fn within(&self, other: &Self) -> Self {
        Self(self.iter().filter(|cpu| other.contains(*cpu)).collect())
    }

    /// The CPUs that are not in the other.
    pub fn without(&self, other: &Self) -> Self {
        Self(self.iter().filter(|cpu| !other.contains(*cpu)).collect())
    }

    /// The CPUs that are in either.
    pub fn with(&self, other: &Self) -> Self {
        let mut cpus: Vec<_> = self.iter().chain(other.iter()).collect();
        cpus.sort_unstable();
        cpus.dedup();
        Self(cpus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> CpuSet {
        CpuSet::parse(text).unwrap()
    }

    #[test]
    fn cpu_lists_are_ranges_and_single_numbers() {
        let cpus = |text| CpuSet::parse(text).map(|set| set.iter().collect::<Vec<_>>());
        assert_eq!(cpus("0-1\n"), Ok(vec![0, 1]));
        assert_eq!(cpus("0,2-4,8\n"), Ok(vec![0, 2, 3, 4, 8]));
        assert_eq!(CpuSet::parse("0-3").unwrap().count(), 4);
        for bad in ["", "a", "3-1", "0-99999999", "1,,2"] {
            assert!(cpus(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sets_are_put_together_and_taken_apart() {
        let (low, high) = (set("0-3"), set("2-5"));
        assert_eq!(low.within(&high), set("2-3"));
        assert_eq!(low.without(&high), set("0-1"));
        assert_eq!(low.with(&high), set("0-5"));
        assert_eq!(set("0,2-4,8").to_string(), "0,2-4,8");
        assert!(low.without(&low).is_empty() && CpuSet::default().is_empty());
    }

    #[test]
    fn pods_share_what_is_neither_isolated_nor_kept_by_one_of_them() {
        let kept = Kept {
            isolated: set("12-15"),
            kubepods: Some(set("2-15")),
            exclusive: set("4-5"),
        };
        let Cpus {
            online,
            counted,
            shared,
        } = kept.within(set("0-15"));
        assert_eq!((online, counted), (set("0-15"), set("0-11")));
        assert_eq!(shared, set("2-3,6-11"));
        let nothing_kept = Kept::default().within(set("0-3"));
        assert_eq!(nothing_kept.shared, set("0-3"));
    }

    #[test]
    fn a_set_that_leaves_no_cpu_is_not_believed() {
        let shared = |isolated: &str, kubepods: &str, exclusive: &str| {
            let parse = |text: &str| CpuSet::parse(text).unwrap_or_default();
            let kept = Kept {
                isolated: parse(isolated),
                kubepods: Some(parse(kubepods)),
                exclusive: parse(exclusive),
            };
            kept.within(set("0-3")).shared
        };
        assert_eq!(shared("0-3", "0-1", ""), set("0-1"));
        assert_eq!(
            shared("2-3", "2-3", ""),
            set("0-1"),
            "pods would have isolated ones only"
        );
        assert_eq!(shared("2-3", "", "0-1"), set("0-1"), "nobody would have any");
        assert_eq!(shared("", "8-9", ""), set("0-3"), "they are not there");
    }
}
