//! Labels of a node that stand above `colocation-config`.

use headroom_domain::selector::Labels;

use super::super::table::{COLOCATION, Key};

/// Labels whose ratios Koordinator's controller writes over members, each as a percentage.
const LABELS: [(&str, &str); 4] = [
    (
        "node.koordinator.sh/cpu-reclaim-ratio",
        "cpuReclaimThresholdPercent",
    ),
    (
        "node.koordinator.sh/memory-reclaim-ratio",
        "memoryReclaimThresholdPercent",
    ),
    (
        "node.koordinator.sh/mid-static-cpu-reserved-ratio",
        "midStaticCPUReservedPercent",
    ),
    (
        "node.koordinator.sh/mid-static-memory-reserved-ratio",
        "midStaticMemoryReservedPercent",
    ),
];

/// The values that a node's labels give.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct NodeLabelValues(Vec<NodeLabelValue>);

/// The value of a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NodeLabelValue {
    /// The key of the label.
    pub(super) label: &'static str,
    /// The member that it replaces.
    pub(super) member: &'static str,
    /// In percent.
    pub(super) percent: i64,
}

impl NodeLabelValues {
    /// The values for a key. A label that is no number of 0 or more counts for nothing.
    pub(in super::super) fn read(key: &Key, labels: &Labels) -> Self {
        if key.name != COLOCATION.name {
            return Self::default();
        }
        let values = LABELS.into_iter().filter_map(|(label, member)| {
            let percent = percent(labels.get(label)?)?;
            Some(NodeLabelValue {
                label,
                member,
                percent,
            })
        });
        Self(values.collect())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &NodeLabelValue> {
        self.0.iter()
    }
}

/// A ratio as whole percent, cut off as Go cuts it off.
fn percent(ratio: &str) -> Option<i64> {
    let ratio: f64 = ratio.parse().ok()?;
    let is_ratio = ratio.is_finite() && (0.0..1e6).contains(&ratio);
    #[expect(clippy::cast_possible_truncation, reason = "cut off, and below 1e8")]
    is_ratio.then_some((ratio * 100.0) as i64)
}
