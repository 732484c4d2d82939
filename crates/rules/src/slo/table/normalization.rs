//! Members of `cpu-normalization-config`.

use super::{ANY, Field, Kind, Rule, SWITCH, Unit};

/// A ratio that Koordinator's controller takes.
const RATIO: Field = Field {
    kind: Kind::Number,
    unit: Unit::Ratio,
    rules: &[Rule::Min(1), Rule::Max(5)],
    ..ANY
};

pub(super) const FIELDS: &[Field] = &[
    Field {
        member: "enable",
        go: "Enable",
        about: "Whether CPUs are normalized.",
        ..SWITCH
    },
    Field {
        member: "defaultRatio",
        go: "DefaultRatio",
        about: "The ratio of CPUs whose model has none.",
        ..RATIO
    },
    Field {
        member: "ratioModel{}.baseRatio",
        go: "RatioModel.BaseRatio",
        about: "The ratio of a model without hyper-threading and turbo.",
        ..RATIO
    },
    Field {
        member: "ratioModel{}.hyperThreadEnabledRatio",
        go: "RatioModel.HyperThreadEnabledRatio",
        about: "The ratio of a model with hyper-threading alone.",
        ..RATIO
    },
    Field {
        member: "ratioModel{}.turboEnabledRatio",
        go: "RatioModel.TurboEnabledRatio",
        about: "The ratio of a model with turbo alone.",
        ..RATIO
    },
    Field {
        member: "ratioModel{}.hyperThreadTurboEnabledRatio",
        go: "RatioModel.HyperThreadTurboEnabledRatio",
        about: "The ratio of a model with hyper-threading and turbo.",
        ..RATIO
    },
];
