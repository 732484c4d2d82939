//! Where the check of the ConfigMap differs from Koordinator's.

use crate::switch::Switch;

/// Whether classes of service may be configured without the settings of the kernel.
pub static QOS_WITHOUT_SYSTEM: Switch = Switch {
    name: "SloQosWithoutSystem",
    default: true,
    row: "M2",
    koordinator: "`resource-qos-config` is refused without `system-config`",
    about: "a missing `system-config` is an empty one",
    why: "most clusters set classes of service and no settings of the kernel",
};

/// Whether a threshold is compared with what is in force for the other of its pair.
pub static PAIRS_USE_DEFAULTS: Switch = Switch {
    name: "SloPairsUseDefaults",
    default: true,
    row: "M3",
    koordinator: "a threshold without its lower or upper counterpart in the same object is refused",
    about: "it is compared with the counterpart that is in force, from the cluster or by default, and not at all if there is none",
    why: "Koordinator's own example has only one of them",
};

/// Whether shares and amounts of network bandwidth are added up apart.
pub static BANDWIDTH_BY_KIND: Switch = Switch {
    name: "SloBandwidthByKind",
    default: true,
    row: "M4",
    koordinator: "percentages and amounts of network bandwidth are added up as the same numbers, also against a total that is not set",
    about: "percentages are compared with 100, amounts with the total if there is one, and limits as well",
    why: "amounts above 100 bytes could never be set, nor percentages beside `system-config`",
};

/// Whether a key is checked again when another one changes that it depends on.
pub static DEPENDENT_KEYS: Switch = Switch {
    name: "SloDependentKeys",
    default: true,
    row: "M5",
    koordinator: "network bandwidth of classes is not compared with a total that changes alone",
    about: "`resource-qos-config` is compared again when `system-config` changes",
    why: "a smaller total may be less than what is promised",
};

/// Whether overlapping entries are found in all cases.
pub static EXACT_OVERLAP: Switch = Switch {
    name: "SloExactOverlap",
    default: true,
    row: "M6",
    koordinator: "entries that select the same nodes are found by a few samples of labels, and often not at all",
    about: "they are found whatever their selectors",
    why: "which of them counts would be decided by their order alone",
};

/// Whether a word that Koordinator's controller needs may be empty.
pub static NEEDS_WORDS: Switch = Switch {
    name: "SloNeedsWords",
    default: true,
    row: "M14",
    koordinator: "an empty `metricMemoryCollectPolicy` is stored, and its controller then ignores the whole key",
    about: "it is refused",
    why: "a version that is stored and not followed looks as if it were in force",
};

/// Whether all keys are checked.
pub static CHECKS_ALL_KEYS: Switch = Switch {
    name: "SloChecksAllKeys",
    default: true,
    row: "M7",
    koordinator: "`host-application-config`, `cpu-normalization-config` and `resource-amplification-config` are not checked",
    about: "they are checked as the others, and ratios must be what their users take",
    why: "a ratio below 1 removes the amplification of its nodes, and what is not JSON changes nothing, both without a word",
};
