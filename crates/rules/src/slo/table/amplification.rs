//! Members of `resource-amplification-config`: Koordinator's, then ours, whose values their own reader checks.

use super::{ANY, MemberRow, Rule, SWITCH, Unit, ValueKind, WORD};

/// A ratio of ours. Its range is checked where it is read.
const RATIO: MemberRow = MemberRow {
    kind: ValueKind::Number,
    unit: Unit::Ratio,
    ..ANY
};

pub(super) const FIELDS: &[MemberRow] = &[
    MemberRow {
        member: "enable",
        go: "Enable",
        about: "Whether Koordinator's slo-controller writes ratios.",
        ..SWITCH
    },
    MemberRow {
        member: "resourceAmplificationRatio{}",
        go: "ResourceAmplificationRatio",
        kind: ValueKind::Number,
        unit: Unit::Ratio,
        rules: &[Rule::Min(1)],
        advice: &[Rule::Max(5)],
        about: "The ratio of a resource that Koordinator's slo-controller writes.",
        ..ANY
    },
    MemberRow {
        member: "mode",
        go: "Mode",
        words: &["off", "static", "guard", "auto"],
        default: &["static"],
        about: "How the ratio of a node is chosen.",
        ..WORD
    },
    MemberRow {
        member: "floor",
        go: "Floor",
        words: &["requests", "none"],
        default: &["requests"],
        about: "What allocatable never falls below.",
        ..WORD
    },
    MemberRow {
        member: "bounds.cpu.min",
        go: "Bounds.CPU.Min",
        default: &["1.00"],
        about: "The lowest ratio of CPU in `guard` and `auto`, from 0.50 to 1.00.",
        ..RATIO
    },
    MemberRow {
        member: "bounds.cpu.max",
        go: "Bounds.CPU.Max",
        default: &["2.00"],
        about: "The highest ratio of CPU in `guard` and `auto`, from 1.00 to 10.00.",
        ..RATIO
    },
    MemberRow {
        member: "bounds.memory.min",
        go: "Bounds.Memory.Min",
        default: &["1.00"],
        about: "The lowest ratio of memory in `guard` and `auto`, from 0.50 to 1.00.",
        ..RATIO
    },
    MemberRow {
        member: "bounds.memory.max",
        go: "Bounds.Memory.Max",
        default: &["1.00"],
        about: "The highest ratio of memory in `guard` and `auto`, from 1.00 to 10.00.",
        ..RATIO
    },
    MemberRow {
        member: "target.cpu",
        go: "Target.CPU",
        default: &["0.9"],
        about: "The share of CPU that predicted use may reach, from 0.1 to 1.",
        ..RATIO
    },
    MemberRow {
        member: "target.memory",
        go: "Target.Memory",
        default: &["0.9"],
        about: "The share of memory that predicted use may reach, from 0.1 to 1.",
        ..RATIO
    },
    MemberRow {
        member: "staticMax.cpu",
        go: "StaticMax.CPU",
        default: &["5.00"],
        about: "The highest ratio of CPU that an annotation may ask for, from 1.00 to 10.00.",
        ..RATIO
    },
    MemberRow {
        member: "staticMax.memory",
        go: "StaticMax.Memory",
        default: &["5.00"],
        about: "The highest ratio of memory that an annotation may ask for, from 1.00 to 10.00.",
        ..RATIO
    },
];
