//! Everything about one node on one page.

use std::fmt;

use headroom_domain::{
    hint::{NodeHint, Signals},
    policy::{Bounds, InForce, Policy, Source},
    resource::Resource,
};

use super::{reasons, table::hint_age};
use crate::{
    amount::{percent, short},
    derivation::{Derivation, SYMBOL},
    view::{Hint, Node, source},
};

/// The page of one node: its state, the derivation of each ratio, the signals behind it.
#[derive(Debug)]
pub struct Page<'a>(pub &'a Node);

impl fmt::Display for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(node) = self;
        inputs(f, node)?;
        let hint = node.hint.as_ref();
        for resource in Resource::ALL {
            writeln!(f, "\n{resource}: {}", outcome(node, resource))?;
            match Derivation::of(node, resource) {
                Some(derivation) => write!(f, "{derivation}")?,
                None => writeln!(f, "  nothing has been derived yet")?,
            }
            let report = hint.map(|hint| hint.report.resources.get(resource));
            let agent = report.map_or_else(|| reasons::<String>(&[]), |report| reasons(&report.reasons));
            writeln!(f, "  {:<SYMBOL$}{agent}", "agent")?;
            writeln!(f, "  {:<SYMBOL$}{}", "webhook", reasons(&node.why(resource)))?;
        }
        match hint {
            None => Ok(()),
            Some(hint) => signals(f, &hint.report.signals),
        }
    }
}

/// What is known of a node before any rule applies: the node, its policy, its newest report.
pub(super) fn inputs(f: &mut fmt::Formatter<'_>, node: &Node) -> fmt::Result {
    let Node {
        name,
        uid,
        policy,
        policy_refused,
        floor_trouble,
        hint,
        pods,
        ..
    } = node;
    writeln!(f, "node {name}, uid {uid}, {pods} pods bound")?;
    match policy {
        None => writeln!(f, "policy not known: what was decided last stays")?,
        Some(in_force) => rules(f, in_force)?,
    }
    if let Some(reason) = policy_refused {
        writeln!(f, "ConfigMap refused: {reason}")?;
    }
    if let Some(trouble) = floor_trouble {
        writeln!(f, "{trouble}")?;
    }
    match hint {
        None => writeln!(f, "no agent has reported"),
        Some(hint) => head(f, hint),
    }
}

/// The policy in force.
fn rules(f: &mut fmt::Formatter<'_>, in_force: &InForce) -> fmt::Result {
    let InForce {
        policy:
            Policy {
                mode,
                bounds,
                static_max,
                floor,
                target_ppm,
            },
        mode_from,
        entry,
    } = in_force;
    let entry = entry
        .as_ref()
        .map(|entry| format!("the ConfigMap's entry {entry:?}"));
    let by = match mode_from {
        Source::Default => "default",
        Source::File => "the configuration file",
        Source::ConfigMap => "the ConfigMap",
        Source::Entry => entry.as_deref().unwrap_or("the ConfigMap"),
        Source::Annotation => "the node's annotation",
        Source::Gate => "the feature gate",
    };
    write!(f, "mode {mode} by {by}, floor {}", floor.name())?;
    match entry {
        Some(entry) if *mode_from != Source::Entry => writeln!(f, ", under {entry}")?,
        Some(_) | None => writeln!(f)?,
    }
    for resource in Resource::ALL {
        let Bounds { min, max } = bounds.get(resource);
        writeln!(
            f,
            "  {:<8}bounds {min}..{max}, target {}, annotation up to {}",
            resource.name(),
            percent(*target_ppm.get(resource)),
            static_max.get(resource),
        )?;
    }
    Ok(())
}

/// What is in force: ratio, allocatable and what is left of it.
fn outcome(node: &Node, resource: Resource) -> String {
    let amount = |amounts: Option<u64>| {
        amounts.map_or_else(
            || "unknown".to_owned(),
            |amount| short(resource, i128::from(amount)),
        )
    };
    let of = |amounts: Option<headroom_domain::resource::PerResource<u64>>| {
        amount(amounts.map(|of| *of.get(resource)))
    };
    format!(
        "ratio {}, allocatable {} -> {}, bound {}, free {}",
        node.ratio(resource)
            .map_or_else(|| "unknown".to_owned(), |ratio| ratio.to_string()),
        of(node.raw),
        of(node.allocatable),
        of(node.bound),
        node.free(resource)
            .map_or_else(|| "unknown".to_owned(), |free| short(resource, free)),
    )
}

fn head(f: &mut fmt::Formatter<'_>, hint: &Hint) -> fmt::Result {
    let NodeHint {
        boot_id,
        seq,
        is_primary,
        pods_generation,
        sight,
        timing,
        is_draining,
        ..
    } = &hint.report;
    writeln!(
        f,
        "report {seq} of boot {boot_id}, {} old, {timing} timing, pods of generation {pods_generation}",
        hint_age(hint)
    )?;
    let primary = if *is_primary {
        "this replica nudges"
    } else {
        "another replica nudges"
    };
    let draining = if *is_draining { ", the agent is ending" } else { "" };
    writeln!(f, "agent sees {sight} ({}), {primary}{draining}", source(*sight))
}

/// What was measured in the last brake period.
pub(super) fn signals(f: &mut fmt::Formatter<'_>, signals: &Signals) -> fmt::Result {
    let Signals {
        sigma8_ppm,
        runq_p50_us,
        runq_p99_us,
        burst_ppm,
        steal_ppm,
        direct_reclaim_ms,
        psi_mem_some_ppm,
        psi_mem_full_ppm,
        oom_kills,
        prog_runs,
        psi_cpu_some_ppm,
        mem_spare_bytes,
        refault_mb_per_s,
        swap_out_mb_per_s,
        limit_hits,
    } = *signals;
    let spare = mem_spare_bytes.map_or_else(
        || "unknown".to_owned(),
        |spare| short(Resource::Memory, i128::from(spare)),
    );
    let lines = [
        ("windows without an idle CPU", percent(sigma8_ppm)),
        ("run-queue latency p50", format!("{runq_p50_us}us")),
        ("run-queue latency p99", format!("{runq_p99_us}us")),
        ("134 ms peak over 1 s mean", percent(burst_ppm)),
        ("CPU pressure, some", percent(psi_cpu_some_ppm)),
        ("stolen by the hypervisor", percent(steal_ppm)),
        ("memory above eviction threshold", spare),
        ("direct reclaim", format!("{direct_reclaim_ms}ms")),
        ("memory pressure, some", percent(psi_mem_some_ppm)),
        ("memory pressure, full", percent(psi_mem_full_ppm)),
        ("pages back after reclaim", format!("{refault_mb_per_s}MB/s")),
        ("swapped out", format!("{swap_out_mb_per_s}MB/s")),
        ("hits of the pods' memory limit", limit_hits.to_string()),
        ("OOM kills", oom_kills.to_string()),
        ("runs of the sched_switch program", prog_runs.to_string()),
    ];
    writeln!(f, "\nsignals")?;
    for (name, value) in lines {
        writeln!(f, "  {name:<34}{value:>14}")?;
    }
    Ok(())
}
