//! Step `ratio`: refuses a ratio annotation that is unreadable or out of bounds. Above the measured ratio it warns, or
//! refuses with `--deny-above-hint`.

use headroom_domain::{
    annotation::Annotation,
    capacity::Annotations,
    hint::{EffectiveHint, Freshness, HintQuery},
    names,
    ratio::{Ratio, parse_annotation},
    resource::{PerResource, Resource},
};

use crate::{
    admission::{
        draft::Draft,
        endpoint::{Stop, UnknownSource, When},
        endpoints::node_fields::{self, NodeCtx, NodeStep},
        refusal::Denial,
        review::shortened,
    },
    store::sources,
};

pub(super) static STEP: NodeStep = NodeStep {
    name: "ratio",
    when: When::On(&super::GATE),
    about: "Refuses ratios that are unreadable or out of bounds; a ratio above the current hint gets a \
     warning, or a refusal with --deny-above-hint.",
    reads: &[&sources::NODES],
    unknown: UnknownSource::IsHandled,
    run: check,
};

fn check(ctx: &NodeCtx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    // The empty value is Koordinator's way to switch a node off.
    let Some(text) = super::written(draft, names::RATIO).filter(|text| !text.is_empty()) else {
        return Ok(());
    };
    let deny = |reason: String| {
        Stop::Denied(Denial::Value {
            field: node_fields::annotation_field(names::RATIO),
            value: shortened(&text),
            reason,
        })
    };
    let ratios = parse_annotation(&text).map_err(|error| deny(error.to_string()))?;
    // While the policy is unknown, no ratio is too high: the limit applies later.
    let policy = node_fields::configured_policy(ctx, draft);
    if let Some(policy) = policy.filter(|policy| !policy.annotations.has_ratio()) {
        let field = node_fields::annotation_field(names::RATIO);
        draft.warn(format!("{field}: {}", node_fields::ignored(policy)));
    }
    let highest = policy.map(|policy| policy.static_max);
    for resource in Resource::ALL {
        let ratio = ratios.get(resource).unwrap_or(Ratio::ONE);
        if let Some(highest) = highest.map(|highest| *highest.get(resource))
            && ratio > Ratio::from_cents(highest)
        {
            return Err(deny(format!(
                "{resource}: {ratio} is above the highest allowed ratio {highest}"
            )));
        }
    }
    for above in above_hint(ctx, draft, &ratios) {
        if ctx.store.denies_above_hint() {
            return Err(deny(above));
        }
        draft.warn(above);
    }
    for resource in Resource::ALL {
        if let Some(ratio) = *ratios.get(resource)
            && ratio < Ratio::ONE
        {
            draft.warn(format!(
                "{resource} ratio {ratio} is below 1.00 and has no effect"
            ));
        }
    }
    Ok(())
}

/// Faults of ratios above the measured ones. An expired hint supports no ratio and contradicts none.
fn above_hint(ctx: &NodeCtx<'_>, draft: &Draft<'_>, ratios: &PerResource<Option<Ratio>>) -> Vec<String> {
    let stored = draft
        .old()
        .and_then(|old| node_fields::annotation(old, names::HINT));
    let stored = stored.map(|text| Annotation::parse(text.into_owned()));
    let hint = ctx.store.hint(&HintQuery {
        node: &ctx.request.name,
        uid: &node_fields::uid(draft),
        version: draft.old().map(node_fields::version).unwrap_or_default(),
        stored: stored.as_ref(),
        // An earlier written value is no measurement.
        written: None,
        nudged: None,
        machine: node_fields::machine(draft, &node_fields::state(draft, &Annotations::default())),
    });
    let Some(EffectiveHint {
        note,
        freshness: Freshness::Fresh | Freshness::Hold,
        ..
    }) = hint
    else {
        return Vec::new();
    };
    let above = |resource: Resource| {
        let ratio = (*ratios.get(resource))?;
        let measured = note.resources().get(resource).published();
        (ratio > Ratio::from_cents(measured)).then(|| {
            format!("{resource} ratio {ratio} is above the {measured} that measurements support now")
        })
    };
    Resource::ALL.into_iter().filter_map(above).collect()
}
