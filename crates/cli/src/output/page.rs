//! `Page`: renders all data about one node as one page of text.

use std::{fmt, time::Duration};

use headroom_domain::{
    hint::{Beginning, NodeHint, Past, Signal},
    policy::{Bounds, InForce, Policy, Source},
    resource::Resource,
};

use super::{escape::one_line, nodes::hint_age, reasons};
use crate::{
    derivation::{Derivation, SYMBOL},
    human_numbers::{age, percent, short, with_unit},
    view::{Hint, NodeView, source},
};

/// The page of one node: its state, the derivation of each ratio, the signals behind it.
#[derive(Debug)]
pub struct Page<'a>(pub &'a NodeView);

impl fmt::Display for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(node) = self;
        inputs(f, node)?;
        let hint = node.hint.as_ref();
        for resource in Resource::ALL {
            writeln!(f, "\n{resource}: {}", outcome(node, resource))?;
            match Derivation::derive(node, resource) {
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
pub(crate) fn inputs(f: &mut fmt::Formatter<'_>, node: &NodeView) -> fmt::Result {
    let NodeView {
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
        writeln!(f, "ConfigMap refused: {}", one_line(reason))?;
    }
    if let Some(trouble) = floor_trouble {
        writeln!(f, "{}", one_line(trouble))?;
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
fn outcome(node: &NodeView, resource: Resource) -> String {
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
        past,
        ..
    } = &hint.report;
    writeln!(
        f,
        "report {seq} of boot {boot_id}, {} old, {timing} timing, pods of generation {pods_generation}",
        hint_age(hint).text
    )?;
    let primary = if *is_primary {
        "this replica nudges"
    } else {
        "another replica nudges"
    };
    let draining = if *is_draining { ", the agent is ending" } else { "" };
    writeln!(f, "agent sees {sight} ({}), {primary}{draining}", source(*sight))?;
    past.map_or(Ok(()), |past| writeln!(f, "{}", history(past)))
}

/// Since when the agent's history counts, and why it began then.
fn history(past: Past) -> String {
    let Past { age_s, beginning } = past;
    let why = beginning.map_or("for a reason that only a newer version knows", Beginning::about);
    format!(
        "history counts since {} ago: {why}",
        age(Duration::from_secs(age_s))
    )
}

/// What was measured last, in the order of the agent's table.
pub(crate) fn signals(f: &mut fmt::Formatter<'_>, signals: &[Signal]) -> fmt::Result {
    writeln!(f, "\nsignals")?;
    for Signal { name, unit, value } in signals {
        writeln!(f, "  {name:<20}{:>14}", with_unit(*value, unit))?;
    }
    Ok(())
}
