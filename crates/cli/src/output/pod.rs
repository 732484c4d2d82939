//! What was decided about a pod, for people and for machines.

use std::fmt;

use headroom_proto::v1alpha1::{PodDecision, ProfileVerdict};
use headroom_rules::explain::VerdictKind;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::slo::lines::{printable, wrapped};
use crate::pod::decided::{AskedReplica, DecidedPod, DecisionOrigin, KeptReviews, ReplicaDecision};

/// Most decisions that people are shown; JSON has all.
const MOST_SHOWN: usize = 10;
/// Widest name of a profile behind which others are lined up, in characters.
const WIDEST: usize = 40;

/// The answer to a question about a pod.
pub(crate) struct PodPage<'a>(pub(crate) &'a DecidedPod);

impl fmt::Display for PodPage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DecidedPod {
            pod,
            origin,
            decisions,
            left_out,
        } = self.0;
        writeln!(f, "pod {}", printable(&pod.to_string()))?;
        match origin {
            DecisionOrigin::Replicas(replicas) => {
                for replica in replicas {
                    writeln!(f, "{}", printable(&asked(replica)))?;
                }
            }
            DecisionOrigin::Files { missing, warnings } => {
                writeln!(
                    f,
                    "offline: what /mutate-pod makes of it when it is created, gates at their defaults"
                )?;
                for object in missing {
                    writeln!(
                        f,
                        "missing: {}; give it in a file with --profiles",
                        printable(object)
                    )?;
                }
                for warning in warnings {
                    f.write_str(&wrapped(0, &format!("warning: {warning}")))?;
                }
            }
        }
        for decision in decisions.iter().take(MOST_SHOWN) {
            writeln!(f)?;
            show(f, decision)?;
        }
        let older = decisions.len().saturating_sub(MOST_SHOWN);
        let older = older.saturating_add(usize::try_from(*left_out).unwrap_or(usize::MAX));
        if older > 0 {
            writeln!(
                f,
                "\n{older} older reviews are not shown; -o json has those that were sent"
            )?;
        }
        Ok(())
    }
}

/// What a replica keeps.
fn asked(AskedReplica { addr, kept }: &AskedReplica) -> String {
    match kept {
        Err(reason) => format!("replica at {addr} did not answer: {reason}"),
        Ok(KeptReviews {
            replica,
            count,
            oldest_ms,
        }) => match oldest_ms {
            None => format!("replica {replica} keeps no review of any pod"),
            Some(oldest) => format!(
                "replica {replica} keeps {count} reviews of pods since {}",
                time(*oldest)
            ),
        },
    }
}

/// A time in UTC.
fn time(ms: u64) -> String {
    let time = i64::try_from(ms)
        .ok()
        .and_then(|ms| Timestamp::from_millisecond(ms).ok());
    time.map_or_else(|| format!("{ms} ms after 1970"), |time| format!("{time:.3}"))
}

fn show(f: &mut fmt::Formatter<'_>, of: &ReplicaDecision) -> fmt::Result {
    let ReplicaDecision { replica, decision } = of;
    let PodDecision {
        at_ms,
        endpoint,
        operation,
        name,
        generate_name,
        sub_resource,
        review,
        dry_run,
        outcome,
        reasons,
        left_out,
        ..
    } = decision;
    if !replica.is_empty() {
        write!(f, "{} ", time(*at_ms))?;
    }
    let slash = if sub_resource.is_empty() { "" } else { "/" };
    let dry_run = if *dry_run { ", dry run" } else { "" };
    let head = format!("{endpoint} {operation}{slash}{sub_resource}: {outcome}{dry_run}");
    write!(f, "{}", printable(&head))?;
    if !replica.is_empty() {
        write!(
            f,
            " (replica {}, review {})",
            printable(replica),
            printable(review)
        )?;
    }
    writeln!(f)?;
    if name.is_empty() && !replica.is_empty() {
        let text = format!("no name yet: this pod, or another whose name begins with {generate_name:?}");
        f.write_str(&wrapped(2, &text))?;
    }
    for reason in reasons {
        f.write_str(&wrapped(2, reason))?;
    }
    profiles(f, decision)?;
    writes(f, decision)?;
    if *left_out > 0 {
        writeln!(f, "  {left_out} more profiles and fields had no room")?;
    }
    Ok(())
}

fn profiles(f: &mut fmt::Formatter<'_>, decision: &PodDecision) -> fmt::Result {
    if decision.endpoint != "mutate-pod" {
        return Ok(());
    }
    if decision.operation != "CREATE" {
        return writeln!(f, "  profiles are for new pods alone");
    }
    let profiles = &decision.profiles;
    let is_applied = |profile: &&ProfileVerdict| profile.result == VerdictKind::Applied.name();
    match profiles.iter().filter(is_applied).count() {
        0 if profiles.is_empty() => return writeln!(f, "  there is no colocation profile"),
        0 => writeln!(f, "  no profile was applied")?,
        1 => writeln!(f, "  1 profile was applied")?,
        count => writeln!(f, "  {count} profiles were applied")?,
    }
    let names = profiles
        .iter()
        .map(|profile| printable(&profile.name).chars().count());
    let width = names.max().unwrap_or_default().min(WIDEST);
    for ProfileVerdict { name, result, reason } in profiles {
        let colon = if reason.is_empty() { "" } else { ": " };
        let words = verdict_words(result);
        writeln!(
            f,
            "    {:<width$}  {words}{colon}{}",
            printable(name),
            printable(reason)
        )?;
    }
    Ok(())
}

fn verdict_words(result: &str) -> String {
    let mut kinds = VerdictKind::ALL.into_iter();
    match kinds.find(|kind| kind.name() == result) {
        Some(VerdictKind::Applied) => "applied".to_owned(),
        Some(VerdictKind::OtherLabels | VerdictKind::OtherNamespace) => "not for this pod".to_owned(),
        Some(VerdictKind::Chance) => "left out by chance".to_owned(),
        Some(VerdictKind::Failed) => "not applied".to_owned(),
        // A newer webhook may have others.
        None => printable(result),
    }
}

fn writes(f: &mut fmt::Formatter<'_>, decision: &PodDecision) -> fmt::Result {
    if decision.writes.is_empty() {
        return if decision.endpoint == "mutate-pod" {
            writeln!(f, "  no field was written")
        } else {
            Ok(())
        };
    }
    let mut writer = None;
    for write in &decision.writes {
        if writer != Some(&write.writer) {
            writeln!(f, "  written by {}", printable(&write.writer))?;
            writer = Some(&write.writer);
        }
        match &write.value {
            Some(value) => writeln!(f, "    {} = {}", printable(&write.path), printable(value))?,
            None => writeln!(f, "    {} removed", printable(&write.path))?,
        }
    }
    Ok(())
}

/// The same for machines.
pub(crate) fn pod_json(decided: &DecidedPod) -> Value {
    let DecidedPod {
        pod,
        origin,
        decisions,
        left_out,
    } = decided;
    let (replicas, missing, warnings) = match origin {
        DecisionOrigin::Replicas(replicas) => (
            Some(replicas.iter().map(replica_json).collect::<Value>()),
            None,
            None,
        ),
        DecisionOrigin::Files { missing, warnings } => (None, Some(missing), Some(warnings)),
    };
    json!({
        "pod": pod.to_string(),
        "replicas": replicas,
        "missing": missing,
        "warnings": warnings,
        "decisions": decisions.iter().map(decision_json).collect::<Value>(),
        "left_out": left_out,
    })
}

fn replica_json(AskedReplica { addr, kept }: &AskedReplica) -> Value {
    match kept {
        Err(error) => json!({"address": addr, "error": error}),
        Ok(KeptReviews {
            replica,
            count,
            oldest_ms,
        }) => json!({"address": addr, "replica": replica, "kept": count, "oldest_ms": oldest_ms}),
    }
}

fn decision_json(of: &ReplicaDecision) -> Value {
    let ReplicaDecision { replica, decision } = of;
    let PodDecision {
        at_ms,
        endpoint,
        operation,
        namespace,
        name,
        generate_name,
        uid,
        sub_resource,
        review,
        dry_run,
        outcome,
        reasons,
        profiles,
        writes,
        left_out,
    } = decision;
    let profiles = profiles
        .iter()
        .map(|profile| json!({"name": profile.name, "result": profile.result, "reason": profile.reason}));
    let writes = writes
        .iter()
        .map(|write| json!({"path": write.path, "value": write.value, "by": write.writer}));
    json!({
        "replica": replica,
        "at_ms": at_ms,
        "endpoint": endpoint,
        "operation": operation,
        "namespace": namespace,
        "name": name,
        "generate_name": generate_name,
        "uid": uid,
        "sub_resource": sub_resource,
        "review": review,
        "dry_run": dry_run,
        "outcome": outcome,
        "reasons": reasons,
        "profiles": profiles.collect::<Value>(),
        "writes": writes.collect::<Value>(),
        "left_out": left_out,
    })
}
