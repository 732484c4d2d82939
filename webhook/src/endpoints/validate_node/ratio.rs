//! The ratio annotation: readable, within bounds, and a word of caution where measurement says less.

use headroom_domain::{
    hint::{Found, Standing},
    names,
    ratio::{Ratio, parse_annotation},
    resource::{PerResource, Resource},
};

use crate::{
    draft::Draft,
    endpoint::{Access, Ctx, Step, Stop},
    endpoints::node,
    error::Denial,
    review::shortened,
};

pub(super) static STEP: Step = Step {
    name: "ratio",
    gate: super::GATE,
    about: "Refuses ratios that cannot be read or lie out of bounds; warns above the current hint.",
    reads: &[Access::watch("", "nodes")],
    run: check,
};

fn check(ctx: &Ctx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    // The empty value is Koordinator's way to switch a node off.
    let Some(text) = super::written(draft, names::RATIO).filter(|text| !text.is_empty()) else {
        return Ok(());
    };
    let deny = |reason: String| {
        Stop::Denied(Denial {
            field: node::annotation_field(names::RATIO),
            value: shortened(&text),
            reason,
        })
    };
    let ratios = parse_annotation(&text).map_err(|error| deny(error.to_string()))?;
    // While the policy is not known, nothing is too high: what is applied is held to it later.
    let highest = node::configured_policy(ctx, draft).map(|policy| policy.static_max);
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
    warn(ctx, draft, &ratios);
    Ok(())
}

fn warn(ctx: &Ctx<'_>, draft: &mut Draft<'_>, ratios: &PerResource<Option<Ratio>>) {
    let annotation = draft.old().and_then(|old| node::annotation(old, names::HINT));
    let hint = ctx.nodes.hint(
        &ctx.request.name,
        &node::uid(draft),
        annotation.as_deref(),
        ctx.now,
    );
    for resource in Resource::ALL {
        let Some(ratio) = *ratios.get(resource) else {
            continue;
        };
        if ratio < Ratio::ONE {
            draft.warn(format!(
                "{resource} ratio {ratio} is below 1.00 and has no effect"
            ));
        }
        if let Some(Found {
            note,
            standing: Standing::Fresh | Standing::Hold,
        }) = &hint
            && let measured = note.resources().get(resource).published()
            && ratio > Ratio::from_cents(measured)
        {
            draft.warn(format!(
                "{resource} ratio {ratio} is above the {measured} that measurement supports now"
            ));
        }
    }
}
