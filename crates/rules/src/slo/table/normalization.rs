//! Members of `cpu-normalization-config`.

use super::{ANY, MemberRow, Rule, SWITCH, Unit, ValueKind};

/// A ratio that Koordinator's controller takes.
const RATIO: MemberRow = MemberRow {
    kind: ValueKind::Number,
    unit: Unit::Ratio,
    rules: &[Rule::Min(1), Rule::Max(5)],
    ..ANY
};

pub(super) const FIELDS: &[MemberRow] = &[
    MemberRow {
        member: "enable",
        go: "Enable",
        since: Some("1.4"),
        about: "Whether CPUs are normalized.",
        ..SWITCH
    },
    MemberRow {
        member: "defaultRatio",
        go: "DefaultRatio",
        since: Some("1.6"),
        about: "The ratio of CPUs whose model has none.",
        ..RATIO
    },
    MemberRow {
        member: "ratioModel{}.baseRatio",
        go: "RatioModel.BaseRatio",
        since: Some("1.4"),
        about: "The ratio of a model without hyper-threading and turbo.",
        ..RATIO
    },
    MemberRow {
        member: "ratioModel{}.hyperThreadEnabledRatio",
        go: "RatioModel.HyperThreadEnabledRatio",
        since: Some("1.4"),
        about: "The ratio of a model with hyper-threading alone.",
        ..RATIO
    },
    MemberRow {
        member: "ratioModel{}.turboEnabledRatio",
        go: "RatioModel.TurboEnabledRatio",
        since: Some("1.4"),
        about: "The ratio of a model with turbo alone.",
        ..RATIO
    },
    MemberRow {
        member: "ratioModel{}.hyperThreadTurboEnabledRatio",
        go: "RatioModel.HyperThreadTurboEnabledRatio",
        since: Some("1.4"),
        about: "The ratio of a model with hyper-threading and turbo.",
        ..RATIO
    },
];
