//! Members of `cpu-burst-config`.

use super::{ANY, MemberRow, PERCENTAGE, Rule, Unit, ValueKind, WORD};

pub(super) const FIELDS: &[MemberRow] = &[
    MemberRow {
        member: "policy",
        go: "CPUBurstConfig.Policy",
        words: &["none", "cpuBurstOnly", "cfsQuotaBurstOnly", "auto"],
        default: &["none"],
        since: Some("0.3"),
        about: "Way in which containers may exceed their CPU limits.",
        ..WORD
    },
    MemberRow {
        member: "cpuBurstPercent",
        go: "CPUBurstConfig.CPUBurstPercent",
        rules: &[Rule::Min(1), Rule::Max(10_000)],
        default: &["1000"],
        since: Some("0.3"),
        about: "CPU time that a container may accumulate, as a share of its limit.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "cfsQuotaBurstPercent",
        go: "CPUBurstConfig.CFSQuotaBurstPercent",
        rules: &[Rule::Min(100)],
        default: &["300"],
        since: Some("0.3"),
        about: "Maximum quota of a throttled container, as a share of its limit.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "cfsQuotaBurstPeriodSeconds",
        go: "CPUBurstConfig.CFSQuotaBurstPeriodSeconds",
        kind: ValueKind::Int64,
        unit: Unit::Seconds,
        rules: &[Rule::Min(-1)],
        default: &["-1"],
        since: Some("0.3"),
        about: "Maximum time for which a quota stays raised; -1 means no limit.",
        ..ANY
    },
    MemberRow {
        member: "sharePoolThresholdPercent",
        go: "SharePoolThresholdPercent",
        default: &["50"],
        since: Some("0.3"),
        about: "Utilization of shared CPUs at which raised quotas are lowered.",
        ..PERCENTAGE
    },
];
