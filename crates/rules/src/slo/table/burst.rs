//! Members of `cpu-burst-config`.

use super::{ANY, MemberRow, PERCENTAGE, Rule, Unit, ValueKind, WORD};

pub(super) const FIELDS: &[MemberRow] = &[
    MemberRow {
        member: "policy",
        go: "CPUBurstConfig.Policy",
        words: &["none", "cpuBurstOnly", "cfsQuotaBurstOnly", "auto"],
        default: &["none"],
        since: Some("0.3"),
        about: "How containers may exceed their CPU limits.",
        ..WORD
    },
    MemberRow {
        member: "cpuBurstPercent",
        go: "CPUBurstConfig.CPUBurstPercent",
        rules: &[Rule::Min(1), Rule::Max(10_000)],
        default: &["1000"],
        since: Some("0.3"),
        about: "The CPU time that a container may save up, as a share of its limit.",
        ..PERCENTAGE
    },
    MemberRow {
        member: "cfsQuotaBurstPercent",
        go: "CPUBurstConfig.CFSQuotaBurstPercent",
        rules: &[Rule::Min(100)],
        default: &["300"],
        since: Some("0.3"),
        about: "How far the quota of a throttled container is raised, as a share of its limit.",
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
        about: "How long a quota may stay raised; -1 is for ever.",
        ..ANY
    },
    MemberRow {
        member: "sharePoolThresholdPercent",
        go: "SharePoolThresholdPercent",
        default: &["50"],
        since: Some("0.3"),
        about: "The load of shared CPUs from which on raised quotas are lowered.",
        ..PERCENTAGE
    },
];
