//! Switches for the differences from Koordinator's check of the ConfigMap.

use crate::switch::Switch;

/// Switch: QoS classes may be configured without kernel settings.
pub static QOS_WITHOUT_SYSTEM: Switch = Switch {
    name: "SloQosWithoutSystem",
    default: true,
    row: "M2",
    koordinator: "`resource-qos-config` is refused without `system-config`",
    about: "a missing `system-config` counts as empty",
    why: "most clusters configure QoS classes but no kernel settings",
};

/// Switch: a threshold is compared with the counterpart in force.
pub static PAIRS_USE_DEFAULTS: Switch = Switch {
    name: "SloPairsUseDefaults",
    default: true,
    row: "M3",
    koordinator: "a threshold without its lower or upper counterpart in the same object is refused",
    about: "the threshold is compared with the counterpart in force, from all nodes or by default, and not compared if there is none",
    why: "Koordinator's own example sets only one of them",
};

/// Switch: percentages and amounts of network bandwidth are summed separately.
pub static BANDWIDTH_BY_KIND: Switch = Switch {
    name: "SloBandwidthByKind",
    default: true,
    row: "M4",
    koordinator: "percentages and amounts of network bandwidth are added as plain numbers, and compared even with a total that is not set",
    about: "percentages are compared with 100, and amounts and limits with the total if there is one",
    why: "otherwise amounts above 100 bytes, or percentages together with `system-config`, could never be set",
};

/// Switch: a key is checked again when a key that it depends on changes.
pub static DEPENDENT_KEYS: Switch = Switch {
    name: "SloDependentKeys",
    default: true,
    row: "M5",
    koordinator: "the network bandwidth of classes is not compared again if only the total changes",
    about: "`resource-qos-config` is compared again when `system-config` changes",
    why: "a smaller total may be less than the requested bandwidth",
};

/// Switch: overlapping entries are always found.
pub static EXACT_OVERLAP: Switch = Switch {
    name: "SloExactOverlap",
    default: true,
    row: "M6",
    koordinator: "entries that select the same nodes are found by a few samples of labels, and often not at all",
    about: "such entries are found for all selectors",
    why: "otherwise only their order decides which one applies",
};

/// Switch: a word that Koordinator's controller requires must not be empty.
pub static NEEDS_WORDS: Switch = Switch {
    name: "SloNeedsWords",
    default: true,
    row: "M14",
    koordinator: "an empty `metricMemoryCollectPolicy` is accepted, and slo-controller then ignores the whole key",
    about: "an empty value is refused",
    why: "a stored version that is ignored looks as if it were in force",
};

/// Switch: all keys are checked.
pub static CHECKS_ALL_KEYS: Switch = Switch {
    name: "SloChecksAllKeys",
    default: true,
    row: "M7",
    koordinator: "`host-application-config`, `cpu-normalization-config` and `resource-amplification-config` are not checked",
    about: "these keys are checked like the others, and ratios must be in the range that their users accept",
    why: "a ratio below 1 disables amplification of its nodes, and invalid JSON has no effect, both without an error",
};
