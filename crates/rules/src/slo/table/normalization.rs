//! Members of `cpu-normalization-config`.

use super::{ANY, MemberRow, Rule, SWITCH, Unit, ValueKind};

/// Template for ratios in the range that Koordinator's controller accepts.
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
        about: "Enables CPU normalization.",
        ..SWITCH
    },
    MemberRow {
        member: "defaultRatio",
        go: "DefaultRatio",
        since: Some("1.6"),
        about: "Ratio of CPU models without a ratio of their own.",
        ..RATIO
    },
    MemberRow {
        member: "ratioModel{}.baseRatio",
        go: "RatioModel.BaseRatio",
        since: Some("1.4"),
        about: "Ratio of a model without hyper-threading and turbo.",
        ..RATIO
    },
    MemberRow {
        member: "ratioModel{}.hyperThreadEnabledRatio",
        go: "RatioModel.HyperThreadEnabledRatio",
        since: Some("1.4"),
        about: "Ratio of a model with hyper-threading only.",
        ..RATIO
    },
    MemberRow {
        member: "ratioModel{}.turboEnabledRatio",
        go: "RatioModel.TurboEnabledRatio",
        since: Some("1.4"),
        about: "Ratio of a model with turbo only.",
        ..RATIO
    },
    MemberRow {
        member: "ratioModel{}.hyperThreadTurboEnabledRatio",
        go: "RatioModel.HyperThreadTurboEnabledRatio",
        since: Some("1.4"),
        about: "Ratio of a model with hyper-threading and turbo.",
        ..RATIO
    },
];
