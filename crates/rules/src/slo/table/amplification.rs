//! Members of `resource-amplification-config`: Koordinator's, then Headroom's.

use super::{ANY, MemberRow, Rule, SWITCH, Unit, ValueKind, WORD};

const RATIO: MemberRow = MemberRow {
    kind: ValueKind::Number,
    unit: Unit::Ratio,
    ..ANY
};
/// Template for lower bounds of a ratio.
const MIN: MemberRow = MemberRow {
    rules: &[Rule::Hundredths(50, 100)],
    ..RATIO
};
/// Template for upper bounds of a ratio.
const MAX: MemberRow = MemberRow {
    rules: &[Rule::Hundredths(100, 1000)],
    ..RATIO
};
/// Template for the share of a resource that the predicted use may reach.
const TARGET: MemberRow = MemberRow {
    rules: &[Rule::Hundredths(10, 100)],
    ..RATIO
};

pub(super) const FIELDS: &[MemberRow] = &[
    MemberRow {
        member: "enable",
        go: "Enable",
        since: Some("1.6"),
        about: "Enables writing of ratios by Koordinator's slo-controller.",
        ..SWITCH
    },
    MemberRow {
        member: "resourceAmplificationRatio{}",
        go: "ResourceAmplificationRatio",
        kind: ValueKind::Number,
        unit: Unit::Ratio,
        rules: &[Rule::Min(1)],
        advice: &[Rule::Max(5)],
        since: Some("1.6"),
        about: "Ratio of a resource that Koordinator's slo-controller writes.",
        ..ANY
    },
    MemberRow {
        member: "mode",
        go: "Mode",
        words: &["off", "static", "guard", "auto"],
        default: &["static"],
        about: "Mode that determines the ratio of a node.",
        ..WORD
    },
    MemberRow {
        member: "floor",
        go: "Floor",
        words: &["requests", "none"],
        default: &["requests"],
        about: "Lower limit of allocatable.",
        ..WORD
    },
    MemberRow {
        member: "annotations",
        go: "Annotations",
        words: &["nothing", "lower", "mode", "all"],
        default: &["all"],
        about: "Permitted effect of mode and ratio annotations on Nodes.",
        ..WORD
    },
    MemberRow {
        member: "bounds.cpu.min",
        go: "Bounds.CPU.Min",
        default: &["1.00"],
        about: "Lowest ratio of CPU in `guard` and `auto`.",
        ..MIN
    },
    MemberRow {
        member: "bounds.cpu.max",
        go: "Bounds.CPU.Max",
        default: &["2.00"],
        about: "Highest ratio of CPU in `guard` and `auto`.",
        ..MAX
    },
    MemberRow {
        member: "bounds.memory.min",
        go: "Bounds.Memory.Min",
        default: &["1.00"],
        about: "Lowest ratio of memory in `guard` and `auto`.",
        ..MIN
    },
    MemberRow {
        member: "bounds.memory.max",
        go: "Bounds.Memory.Max",
        default: &["1.00"],
        about: "Highest ratio of memory in `guard` and `auto`.",
        ..MAX
    },
    MemberRow {
        member: "target.cpu",
        go: "Target.CPU",
        default: &["0.9"],
        about: "Share of CPU that the predicted use may reach.",
        ..TARGET
    },
    MemberRow {
        member: "target.memory",
        go: "Target.Memory",
        default: &["0.9"],
        about: "Share of memory that the predicted use may reach.",
        ..TARGET
    },
    MemberRow {
        member: "staticMax.cpu",
        go: "StaticMax.CPU",
        default: &["5.00"],
        about: "Highest ratio of CPU that an annotation may request.",
        ..MAX
    },
    MemberRow {
        member: "staticMax.memory",
        go: "StaticMax.Memory",
        default: &["5.00"],
        about: "Highest ratio of memory that an annotation may request.",
        ..MAX
    },
];
