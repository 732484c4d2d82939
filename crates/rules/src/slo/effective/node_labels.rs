//! Labels of a node that stand above the ConfigMap.

use headroom_domain::selector::Labels;

use super::super::{
    document::Content,
    table::{COLOCATION, Key, NORMALIZATION},
};

/// The labels: each with the key of the ConfigMap and the member that it replaces. Those of a member that counts percent
/// have a ratio, the other has a boolean.
static LABELS: [(&Key, &str, &str); 5] = [
    (
        &COLOCATION,
        "node.koordinator.sh/cpu-reclaim-ratio",
        "cpuReclaimThresholdPercent",
    ),
    (
        &COLOCATION,
        "node.koordinator.sh/memory-reclaim-ratio",
        "memoryReclaimThresholdPercent",
    ),
    (
        &COLOCATION,
        "node.koordinator.sh/mid-static-cpu-reserved-ratio",
        "midStaticCPUReservedPercent",
    ),
    (
        &COLOCATION,
        "node.koordinator.sh/mid-static-memory-reserved-ratio",
        "midStaticMemoryReservedPercent",
    ),
    (
        &NORMALIZATION,
        "node.koordinator.sh/cpu-normalization-enabled",
        "enable",
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
    value: LabelContent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LabelContent {
    Percent(i64),
    Bool(bool),
}

impl NodeLabelValues {
    /// The values for a key. A label that cannot be read counts for nothing.
    pub(in super::super) fn read(key: &Key, labels: &Labels) -> Self {
        let of_key = LABELS.iter().filter(|(of, ..)| of.name == key.name);
        let values = of_key.filter_map(|&(of, label, member)| {
            let text = labels.get(label)?;
            let value = if of.name == NORMALIZATION.name {
                LabelContent::Bool(boolean(text)?)
            } else {
                LabelContent::Percent(percent(text)?)
            };
            Some(NodeLabelValue { label, member, value })
        });
        Self(values.collect())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &NodeLabelValue> {
        self.0.iter()
    }
}

impl NodeLabelValue {
    /// The value as the member has it.
    pub(super) fn content(self) -> Content {
        match self.value {
            LabelContent::Percent(percent) => Content::Int(percent),
            LabelContent::Bool(value) => Content::Bool(value),
        }
    }
}

/// A ratio as whole percent, cut off as Go cuts it off.
fn percent(ratio: &str) -> Option<i64> {
    let ratio: f64 = ratio.parse().ok()?;
    let is_ratio = ratio.is_finite() && (0.0..1e6).contains(&ratio);
    #[expect(clippy::cast_possible_truncation, reason = "cut off, and below 1e8")]
    is_ratio.then_some((ratio * 100.0) as i64)
}

/// A boolean as Go reads it.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}
