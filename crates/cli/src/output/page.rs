//! Parts of a node's page: inputs of the rules, current state, and the signals measured last.

use std::{fmt, time::Duration};

use headroom_domain::{
    hint::{Beginning, NodeHint, Past, Signal},
    policy::{AnnotationEffect, Bounds, Floor, InForce, Policy, Source},
    resource::Resource,
};

use super::nodes::hint_age;
use crate::{
    escape::one_line,
    human_numbers::{age, counted, percent, short, with_unit},
    view::{Hint, NodeView, OpenPlace, sees},
};

/// Writes the inputs of the rules: node, policy, newest report.
pub(crate) fn inputs(f: &mut fmt::Formatter<'_>, node: &NodeView) -> fmt::Result {
    let NodeView {
        name,
        uid,
        policy,
        policy_refused,
        hint,
        pods,
        places,
        ..
    } = node;
    writeln!(
        f,
        "node {name}, uid {uid}, {} bound",
        counted(u64::from(*pods), "pod")
    )?;
    match policy {
        None => writeln!(f, "policy not known yet: allocatable stays as it is")?,
        Some(in_force) => rules(f, in_force)?,
    }
    if let Some(reason) = policy_refused {
        writeln!(f, "ConfigMap refused: {}", one_line(reason))?;
    }
    match hint {
        None => writeln!(f, "no agent report yet")?,
        Some(hint) => head(f, hint)?,
    }
    open_places(f, places)
}

/// Writes the capacity that pods left for their successors; nothing if there is none.
fn open_places(f: &mut fmt::Formatter<'_>, places: &[OpenPlace]) -> fmt::Result {
    if places.is_empty() {
        return Ok(());
    }
    writeln!(f, "open places, kept for successors of pods that left:")?;
    for place in places {
        let OpenPlace {
            owner,
            kind,
            amounts,
            closes_in,
        } = place;
        let owner = if owner.is_empty() {
            "controller not known"
        } else {
            owner
        };
        let [cpu, memory] = Resource::ALL.map(|resource| short(resource, i128::from(*amounts.get(resource))));
        writeln!(
            f,
            "  {} ({}): cpu {cpu}, memory {memory}, closes in {}",
            one_line(owner),
            one_line(kind),
            age(*closes_in)
        )?;
    }
    Ok(())
}

/// Writes the policy in force.
fn rules(f: &mut fmt::Formatter<'_>, in_force: &InForce) -> fmt::Result {
    let InForce {
        policy:
            Policy {
                mode,
                bounds,
                static_max,
                floor,
                annotations,
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
    write!(f, "mode {mode} by {by}, floor {}", floor_words(*floor))?;
    if *annotations != AnnotationEffect::All {
        write!(f, ", annotations may set: {}", annotations.name())?;
    }
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

/// Words for the floor of a policy.
const fn floor_words(floor: Floor) -> &'static str {
    match floor {
        Floor::Requests => "at pod requests",
        Floor::None => "none",
    }
}

/// Current state: ratio, allocatable, free amount and use.
pub(crate) fn outcome(node: &NodeView, resource: Resource) -> String {
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
        "ratio {}, allocatable {} -> {}, bound {}, free {}, used {}, peak {}",
        node.ratio(resource)
            .map_or_else(|| "unknown".to_owned(), |ratio| ratio.to_string()),
        of(node.raw),
        of(node.allocatable),
        of(node.bound),
        node.free(resource)
            .map_or_else(|| "unknown".to_owned(), |free| short(resource, free)),
        amount(node.used(resource)),
        amount(node.peak(resource)),
    )
}

fn head(f: &mut fmt::Formatter<'_>, hint: &Hint) -> fmt::Result {
    let NodeHint {
        boot_id,
        seq,
        is_primary,
        pods_generation,
        sight: _,
        timing: _,
        is_draining,
        past,
        ..
    } = &hint.report;
    writeln!(
        f,
        "report {seq} of boot {boot_id}, age {}, pods of generation {pods_generation}",
        hint_age(hint).text
    )?;
    let primary = if *is_primary {
        "this replica nudges the node"
    } else {
        "another replica nudges the node"
    };
    let draining = if *is_draining {
        ", the agent is shutting down"
    } else {
        ""
    };
    writeln!(f, "agent: {}, {primary}{draining}", sees(hint))?;
    past.map_or(Ok(()), |past| writeln!(f, "{}", history(past)))
}

/// Start of the agent's history, with the reason why it began then.
fn history(past: Past) -> String {
    let Past { age_s, beginning } = past;
    let why = beginning.map_or("unknown reason, from a newer agent", Beginning::about);
    format!(
        "history counts since {} ago: {why}",
        age(Duration::from_secs(age_s))
    )
}

/// Writes the signals measured last, in the order of the agent's table.
pub(crate) fn signals(f: &mut fmt::Formatter<'_>, signals: &[Signal]) -> fmt::Result {
    writeln!(f, "\nsignals")?;
    for Signal { name, unit, value } in signals {
        writeln!(f, "  {name:<20}{:>14}", with_unit(*value, unit))?;
    }
    Ok(())
}
