//! Members of `resource-amplification-config`: Koordinator's, then ours, whose values their own reader checks.

use super::{ANY, Field, Kind, Rule, SWITCH, Unit, WORD};

/// A ratio of ours. Its range is checked where it is read.
const RATIO: Field = Field {
    kind: Kind::Number,
    unit: Unit::Ratio,
    ..ANY
};

pub(super) const FIELDS: &[Field] = &[
    Field {
        member: "enable",
        go: "Enable",
        about: "Whether Koordinator's slo-controller writes ratios.",
        ..SWITCH
    },
    Field {
        member: "resourceAmplificationRatio{}",
        go: "ResourceAmplificationRatio",
        kind: Kind::Number,
        unit: Unit::Ratio,
        rules: &[Rule::Min(1)],
        advice: &[Rule::Max(5)],
        about: "The ratio of a resource that Koordinator's slo-controller writes.",
        ..ANY
    },
    Field {
        member: "mode",
        go: "Mode",
        words: &["off", "static", "guard", "auto"],
        default: &["static"],
        about: "How the ratio of a node is chosen.",
        ..WORD
    },
    Field {
        member: "floor",
        go: "Floor",
        words: &["requests", "none"],
        default: &["requests"],
        about: "What allocatable never falls below.",
        ..WORD
    },
    Field {
        member: "bounds.cpu.min",
        go: "Bounds.CPU.Min",
        default: &["1.00"],
        about: "The lowest ratio of CPU in `guard` and `auto`, from 0.50 to 1.00.",
        ..RATIO
    },
    Field {
        member: "bounds.cpu.max",
        go: "Bounds.CPU.Max",
        default: &["2.00"],
        about: "The highest ratio of CPU in `guard` and `auto`, from 1.00 to 10.00.",
        ..RATIO
    },
    Field {
        member: "bounds.memory.min",
        go: "Bounds.Memory.Min",
        default: &["1.00"],
        about: "The lowest ratio of memory in `guard` and `auto`, from 0.50 to 1.00.",
        ..RATIO
    },
    Field {
        member: "bounds.memory.max",
        go: "Bounds.Memory.Max",
        default: &["1.00"],
        about: "The highest ratio of memory in `guard` and `auto`, from 1.00 to 10.00.",
        ..RATIO
    },
    Field {
        member: "target.cpu",
        go: "Target.CPU",
        default: &["0.9"],
        about: "The share of CPU that predicted use may reach, from 0.1 to 1.",
        ..RATIO
    },
    Field {
        member: "target.memory",
        go: "Target.Memory",
        default: &["0.9"],
        about: "The share of memory that predicted use may reach, from 0.1 to 1.",
        ..RATIO
    },
    Field {
        member: "staticMax.cpu",
        go: "StaticMax.CPU",
        default: &["5.00"],
        about: "The highest ratio of CPU that an annotation may ask for, from 1.00 to 10.00.",
        ..RATIO
    },
    Field {
        member: "staticMax.memory",
        go: "StaticMax.Memory",
        default: &["5.00"],
        about: "The highest ratio of memory that an annotation may ask for, from 1.00 to 10.00.",
        ..RATIO
    },
];
