//! Members of `cpu-burst-config`.

use super::{ANY, Field, Kind, PERCENTAGE, Rule, Unit, WORD};

pub(super) const FIELDS: &[Field] = &[
    Field {
        member: "policy",
        go: "CPUBurstConfig.Policy",
        words: &["none", "cpuBurstOnly", "cfsQuotaBurstOnly", "auto"],
        default: &["none"],
        about: "How containers may exceed their CPU limits.",
        ..WORD
    },
    Field {
        member: "cpuBurstPercent",
        go: "CPUBurstConfig.CPUBurstPercent",
        rules: &[Rule::Min(1), Rule::Max(10_000)],
        default: &["1000"],
        about: "The CPU time that a container may save up, as a share of its limit.",
        ..PERCENTAGE
    },
    Field {
        member: "cfsQuotaBurstPercent",
        go: "CPUBurstConfig.CFSQuotaBurstPercent",
        rules: &[Rule::Min(100)],
        default: &["300"],
        about: "How far the quota of a throttled container is raised, as a share of its limit.",
        ..PERCENTAGE
    },
    Field {
        member: "cfsQuotaBurstPeriodSeconds",
        go: "CPUBurstConfig.CFSQuotaBurstPeriodSeconds",
        kind: Kind::Int64,
        unit: Unit::Seconds,
        rules: &[Rule::Min(-1)],
        default: &["-1"],
        about: "How long a quota may stay raised; -1 is for ever.",
        ..ANY
    },
    Field {
        member: "sharePoolThresholdPercent",
        go: "SharePoolThresholdPercent",
        default: &["50"],
        about: "The load of shared CPUs from which on raised quotas are lowered.",
        ..PERCENTAGE
    },
];
