//! Sums of the bandwidth that classes request, compared with their bounds.

use headroom_domain::{
    field::{BadValue, Error},
    quantity::Quantity,
};

use super::{
    super::{
        document::{Content, Document, Strategy},
        findings::{Findings, path},
        table::{Key, QOS, SYSTEM},
    },
    Bandwidth, InForce, MEMBERS, MemberKind, Part, REQUESTS, bandwidth, parts,
};

const TOTAL: &str = "totalNetworkBandwidth";

/// Checks that the classes request at most 100 %. Koordinator adds amounts to this sum as well.
pub(super) fn check_percentages(qos: &Document, by_kind: bool, findings: &mut Findings) {
    for_each_part(qos, by_kind, |part, effective| {
        for kind in REQUESTS {
            let sum = sum(effective, kind, |bandwidth| match bandwidth {
                Bandwidth::Percent(percent) => Some(percent.into()),
                Bandwidth::Amount(amount) => (!by_kind).then(|| amount.whole()),
            });
            if sum <= 100 {
                continue;
            }
            findings.refuse(|| {
                let place = match part.entry {
                    None => "ClusterStrategy".to_owned(),
                    Some(index) => format!("cfg.NodeStrategies[{index}]"),
                };
                format!("{place} total net bandwidth percentage already over 100")
            });
            findings.error(|| {
                let detail = format!(
                    "{} of all classes adds up to {sum} percent, the maximum is 100",
                    kind.name()
                );
                Error::invalid(&path(&QOS, &part.below("")), shown(sum), &detail)
            });
        }
    });
}

/// Checks that the requests and limits of the classes are at most the bandwidth of the node. An unknown bandwidth is
/// not compared. Koordinator treats an unknown bandwidth as 0, and adds percentages to amounts.
pub(in super::super) fn check_totals(
    qos: &Document,
    system: &Document,
    by_kind: bool,
    findings: &mut Findings,
) {
    for_each_part(qos, by_kind, |part, effective| {
        let total = if by_kind {
            known_total(qos, system, part)
        } else {
            koordinators_total(qos, system, part)
        };
        let Some(total) = total else { return };
        for kind in REQUESTS {
            let sum = sum(effective, kind, |bandwidth| match bandwidth {
                Bandwidth::Percent(percent) => (!by_kind).then_some(percent.into()),
                Bandwidth::Amount(amount) => Some(amount.whole()),
            });
            if sum <= total.whole() {
                continue;
            }
            findings.refuse(|| over_total(part));
            findings.error(|| {
                let detail = format!(
                    "{} of all classes adds up to more than {TOTAL}, which is {total}",
                    kind.name()
                );
                Error::invalid(&path(&QOS, &part.below("")), shown(sum), &detail)
            });
        }
        if by_kind {
            check_limits(part, effective, total, findings);
        }
    });
}

fn check_limits(part: &Part<'_>, effective: InForce<'_>, total: Quantity, findings: &mut Findings) {
    let limits = MEMBERS.iter().filter(|member| !REQUESTS.contains(&member.kind));
    for member in limits {
        let Some(Bandwidth::Amount(limit)) = effective.bandwidth(member.own) else {
            continue;
        };
        if limit <= total {
            continue;
        }
        findings.refuse(|| over_total(part));
        findings.error(|| {
            let detail = format!("must be at most {TOTAL}, which is {total}");
            Error::invalid(&path(&QOS, &part.below(member.own)), limit.to_string(), &detail)
        });
    }
}

/// Koordinator's message about sums that are too high.
fn over_total(part: &Part<'_>) -> String {
    match part.entry {
        None => "total net bandwidth over total network bandwidth in clusterStrategy".to_owned(),
        Some(index) => {
            format!(
                "total net bandwidth quantity already over total network bandwidth in cfg.NodeStrategies[{index}]"
            )
        }
    }
}

/// Calls `check` for each part with the strategies in force for its nodes: an entry is merged over the strategy for
/// all nodes, except under Koordinator's behaviour. An entry without requests and limits needs no check.
fn for_each_part(qos: &Document, is_merged: bool, mut check: impl FnMut(&Part<'_>, InForce<'_>)) {
    for part in parts(qos) {
        let has_own = MEMBERS
            .iter()
            .any(|member| bandwidth(part.strategy, member.own).is_some());
        if has_own || !is_merged {
            let cluster = qos.cluster.as_ref();
            let in_force = InForce {
                own: part.strategy,
                base: cluster.filter(|_| is_merged && part.entry.is_some()),
            };
            check(&part, in_force);
        }
    }
}

fn sum(in_force: InForce<'_>, kind: MemberKind, amount: impl Fn(Bandwidth) -> Option<i128>) -> i128 {
    let members = MEMBERS.iter().filter(|member| member.kind == kind);
    let bandwidths = members.filter_map(|member| in_force.bandwidth(member.own));
    bandwidths.filter_map(amount).fold(0, i128::saturating_add)
}

/// Returns the bandwidth of a part's nodes if it is known: from the entry with the same selector, or from all nodes.
fn known_total(qos: &Document, system: &Document, part: &Part<'_>) -> Option<Quantity> {
    let is_known = |total: &Quantity| !total.is_zero() && !total.is_negative();
    let of_entry = part
        .entry
        .and_then(|index| total(same_nodes(qos, system, index)?));
    let of_cluster = || total(system.cluster.as_ref()?);
    of_entry.filter(is_known).or_else(of_cluster).filter(is_known)
}

/// Returns the bandwidth that Koordinator compares with.
fn koordinators_total(qos: &Document, system: &Document, part: &Part<'_>) -> Option<Quantity> {
    let or_none = |strategy| total(strategy).unwrap_or(Quantity::ZERO);
    match (part.entry, &system.cluster) {
        (None, cluster) => cluster.as_ref().map(or_none),
        (Some(_), Some(cluster)) if system.entries.is_empty() => Some(or_none(cluster)),
        (Some(index), _) => Some(same_nodes(qos, system, index).map_or(Quantity::ZERO, or_none)),
    }
}

/// Returns the strategy of `system-config` for the entry with the same selector, if there is one.
fn same_nodes<'d>(qos: &Document, system: &'d Document, index: usize) -> Option<&'d Strategy> {
    let selector = &qos.entries.get(index)?.written_selector;
    let entry = system
        .entries
        .iter()
        .find(|entry| entry.written_selector == *selector)?;
    Some(&entry.strategy)
}

/// Warns about entries whose nodes lose their total: Koordinator's merge sets a missing total of an entry to 0.
pub(in super::super) fn warn_of_lost_totals(system: &Document, findings: &mut Findings) {
    let is_set = system
        .cluster
        .as_ref()
        .and_then(total)
        .is_some_and(|total| !total.is_zero());
    let entries = system.entries.iter().enumerate();
    let lost =
        entries.filter(|(_, entry)| is_set && !entry.strategy.is_empty() && total(&entry.strategy).is_none());
    for (index, _) in lost {
        findings.warn(|| {
            let Key { name, entries, .. } = SYSTEM;
            format!("{name}: {entries}[{index}] has no {TOTAL}, so Koordinator sets it to 0 for these nodes")
        });
    }
}

fn total(strategy: &Strategy) -> Option<Quantity> {
    let Content::Quantity(total) = strategy.get(TOTAL)? else {
        return None;
    };
    Some(*total)
}

/// Formats sums in the range of 64-bit integers as numbers, others as texts.
fn shown(sum: i128) -> BadValue {
    i64::try_from(sum).map_or_else(|_| BadValue::Text(sum.to_string()), BadValue::Integer)
}
