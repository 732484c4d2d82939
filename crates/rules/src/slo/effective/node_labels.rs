//! Labels of a node that override the ConfigMap.

use headroom_domain::selector::Labels;

use super::super::{
    document::Content,
    table::{COLOCATION, Key, NORMALIZATION},
};

/// The labels: each with the key of the ConfigMap and the member that it overrides. A label for a percentage contains
/// a ratio; the other one contains a boolean.
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

/// Values from a node's labels.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct NodeLabelValues(Vec<NodeLabelValue>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NodeLabelValue {
    pub(super) label: &'static str,
    pub(super) member: &'static str,
    value: LabelContent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LabelContent {
    Percent(i64),
    Bool(bool),
}

impl NodeLabelValues {
    /// Reads the values for a key. Unreadable labels are ignored.
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
    /// The value in the form of the member.
    pub(super) fn content(self) -> Content {
        match self.value {
            LabelContent::Percent(percent) => Content::Int(percent),
            LabelContent::Bool(value) => Content::Bool(value),
        }
    }
}

/// Converts a ratio to whole percent, truncated like in Go.
fn percent(ratio: &str) -> Option<i64> {
    let ratio: f64 = ratio.parse().ok()?;
    let is_ratio = ratio.is_finite() && (0.0..1e6).contains(&ratio);
    #[expect(clippy::cast_possible_truncation, reason = "cut off, and below 1e8")]
    is_ratio.then_some((ratio * 100.0) as i64)
}

/// Parses a boolean like Go.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}
