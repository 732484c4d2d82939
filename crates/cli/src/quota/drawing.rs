//! Draws quotas as a tree: each quota below its parent, and quotas without a known parent at the end.

use std::collections::{BTreeMap, BTreeSet};

use headroom_domain::names;
use headroom_proto::v1alpha1::QuotaStatus;

use super::QuotaRef;

/// Limit of indented levels; deeper levels have the indentation of the last one.
const INDENTED: usize = 64;

/// A quota and its place in the tree.
#[derive(Debug, Clone, PartialEq)]
pub struct DrawnQuota<'q> {
    /// Lines of the tree before the name.
    pub lines: String,
    pub quota: &'q QuotaStatus,
    /// Problem of its place; empty for none.
    pub note: String,
}

struct Drawing<'q> {
    parts: BTreeMap<&'q str, Vec<&'q QuotaStatus>>,
    seen: BTreeSet<(&'q str, &'q str)>,
    drawn: Vec<DrawnQuota<'q>>,
}

/// A quota that is not drawn yet.
struct Next<'q> {
    quota: &'q QuotaStatus,
    lines: String,
    /// False for the first level of a drawing.
    has_parent: bool,
    /// True if no sibling follows.
    is_last: bool,
    level: usize,
}

/// Draws all quotas, or one with its descendants.
pub fn draw<'q>(quotas: &'q [QuotaStatus], root: Option<&QuotaRef>) -> Vec<DrawnQuota<'q>> {
    let mut sorted: Vec<&QuotaStatus> = quotas.iter().collect();
    sorted.sort_by_key(|quota| key(quota));
    let mut parts: BTreeMap<&str, Vec<&QuotaStatus>> = BTreeMap::new();
    for quota in &sorted {
        parts.entry(&quota.parent).or_default().push(quota);
    }
    let known: BTreeSet<&str> = sorted.iter().map(|quota| quota.name.as_str()).collect();
    let mut drawing = Drawing {
        parts,
        seen: BTreeSet::new(),
        drawn: Vec::new(),
    };
    if let Some(root) = root {
        let is_root = |quota: &&&QuotaStatus| {
            quota.name == root.name && (root.namespace.is_empty() || quota.namespace == root.namespace)
        };
        for quota in sorted.iter().filter(is_root) {
            drawing.add(quota, String::new());
        }
        return drawing.drawn;
    }
    let is_first = |quota: &QuotaStatus| {
        quota.parent.is_empty() || (quota.parent == names::ROOT_QUOTA && !known.contains(names::ROOT_QUOTA))
    };
    for quota in sorted.iter().filter(|quota| is_first(quota)) {
        drawing.add(quota, String::new());
    }
    for quota in sorted
        .iter()
        .filter(|quota| !known.contains(quota.parent.as_str()))
    {
        drawing.add(quota, format!("parent {} does not exist", quota.parent));
    }
    // The remaining quotas are in a cycle.
    for quota in sorted {
        drawing.add(quota, "is its own ancestor".to_owned());
    }
    drawing.drawn
}

fn key(quota: &QuotaStatus) -> (&str, &str) {
    (&quota.name, &quota.namespace)
}

impl<'q> Drawing<'q> {
    /// Draws a quota with its descendants, unless it is already drawn.
    fn add(&mut self, quota: &'q QuotaStatus, note: String) {
        let mut note = Some(note);
        let mut next = vec![Next {
            quota,
            lines: String::new(),
            has_parent: false,
            is_last: true,
            level: 0,
        }];
        while let Some(Next {
            quota,
            lines,
            has_parent,
            is_last,
            level,
        }) = next.pop()
        {
            if !self.seen.insert(key(quota)) {
                continue;
            }
            let (own, below) = match (has_parent, is_last) {
                (false, _) => ("", ""),
                (true, false) => ("├─ ", "│  "),
                (true, true) => ("└─ ", "   "),
            };
            self.drawn.push(DrawnQuota {
                lines: format!("{lines}{own}"),
                quota,
                note: note.take().unwrap_or_default(),
            });
            let lines = if level < INDENTED {
                format!("{lines}{below}")
            } else {
                lines
            };
            let parts = self.parts.get(quota.name.as_str());
            let parts = parts.map(Vec::as_slice).unwrap_or_default();
            for (place, part) in parts.iter().enumerate().rev() {
                next.push(Next {
                    quota: part,
                    lines: lines.clone(),
                    has_parent: true,
                    is_last: place + 1 == parts.len(),
                    level: level + 1,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quotas(pairs: &[(&str, &str)]) -> Vec<QuotaStatus> {
        let quota = |(name, parent): &(&str, &str)| QuotaStatus {
            namespace: "q".to_owned(),
            name: (*name).to_owned(),
            parent: (*parent).to_owned(),
            ..QuotaStatus::default()
        };
        pairs.iter().map(quota).collect()
    }

    fn drawn(pairs: &[(&str, &str)], root: Option<&str>) -> Vec<String> {
        let quotas = quotas(pairs);
        let root = root.map(|root| root.parse().unwrap());
        let drawn = draw(&quotas, root.as_ref());
        let line = |drawn: DrawnQuota<'_>| format!("{}{} {}", drawn.lines, drawn.quota.name, drawn.note);
        drawn
            .into_iter()
            .map(line)
            .map(|line| line.trim_end().to_owned())
            .collect()
    }

    #[test]
    fn quotas_are_below_their_parents_and_orphans_at_the_end() {
        let pairs = [
            ("web", "dept"),
            ("dept", names::ROOT_QUOTA),
            ("lab", "dept"),
            ("deep", "lab"),
            ("alone", names::ROOT_QUOTA),
            ("lost", "gone"),
            ("one", "two"),
            ("two", "one"),
        ];
        let expected = [
            "alone",
            "dept",
            "├─ lab",
            "│  └─ deep",
            "└─ web",
            "lost parent gone does not exist",
            "one is its own ancestor",
            "└─ two",
        ];
        assert_eq!(drawn(&pairs, None), expected);
        assert_eq!(drawn(&pairs, Some("lab")), ["lab", "└─ deep"]);
        assert_eq!(drawn(&pairs, Some("other/lab")), Vec::<String>::new());
    }

    #[test]
    fn the_stored_root_quota_is_drawn_first() {
        let pairs = [("a", names::ROOT_QUOTA), (names::ROOT_QUOTA, "")];
        assert_eq!(drawn(&pairs, None), [names::ROOT_QUOTA, "└─ a"]);
    }

    #[test]
    fn twenty_thousand_levels_are_drawn() {
        let names: Vec<String> = (0..20_000).map(|level| format!("q{level:05}")).collect();
        let pairs: Vec<(&str, &str)> = names
            .iter()
            .enumerate()
            .map(|(level, name)| {
                (
                    name.as_str(),
                    level.checked_sub(1).map_or("", |above| names[above].as_str()),
                )
            })
            .collect();
        let drawn = drawn(&pairs, None);
        assert_eq!(drawn.len(), 20_000);
        assert!(drawn.iter().all(|line| line.chars().count() <= 3 * INDENTED + 10));
    }
}
