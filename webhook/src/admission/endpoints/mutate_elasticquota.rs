//! Endpoint `/mutate-scheduling-sigs-k8s-io-v1alpha1-elasticquota`: gives new ElasticQuotas a parent, the tree of their
//! parent, and a weight. It writes labels and annotations alone.

use std::time::Duration;

use headroom_domain::names;
use headroom_kit::gate::Gate;
use headroom_rules::{
    quota::defaults::{self, DefaultsError},
    switch::Switches,
};

use super::quota_fields::{LONGEST_WAIT, QuotaCtx, QuotaEndpoint, QuotaStep, parts, quotas};
use crate::{
    admission::{
        draft::Draft,
        endpoint::{
            Awaited, BrokenStep, ConfigurationObject, Declaration, Denials, Entry, FailurePolicy, Kind,
            Namespaces, Objects, Pass, Reinvocation, RequestLimits, SideEffects, Stop, UnknownSource, When,
            Work,
        },
        error::StepError,
        refusal::{Denial, DenialStyle},
        review::{Operation, Request},
    },
    store::{lookup::QuotaLookup, sources},
};

static GATE: Gate = Gate::beta("ElasticMutatingWebhook", "Completes new ElasticQuotas.");

static STEP: QuotaStep = QuotaStep {
    name: "defaults",
    when: When::Always,
    about: "Gives a new ElasticQuota a parent, the tree of its parent, and a weight with the resources of max.",
    reads: &[&sources::QUOTAS],
    unknown: UnknownSource::FailsTheCall,
    run: complete,
};

pub(super) static ENDPOINT: QuotaEndpoint = QuotaEndpoint {
    declaration: Declaration {
        path: "/mutate-scheduling-sigs-k8s-io-v1alpha1-elasticquota",
        about: "Completes new ElasticQuotas.",
        kind: Kind::Mutating(Reinvocation::Never),
        configuration: ConfigurationObject::Quotas,
        gate: Some(&GATE),
        modifiers: &[],
        entries: &[Entry {
            name: "melasticquota.koordinator.sh",
            when: When::Always,
            rules: &[quotas(&[Operation::Create])],
            namespaces: Namespaces::ExceptOurs,
            objects: Objects::All,
            conditions: &[],
            side_effects: SideEffects::None,
            failure_policy: FailurePolicy::Fail,
            timeout: Duration::from_secs(5),
        }],
        broken_step: BrokenStep::FailsTheCall,
        denial_style: DenialStyle::KOORDINATOR,
        denials: Denials::First,
        passes: &[Pass::Finalizers],
        work: Work::Inline,
        limits: RequestLimits::DEFAULT,
    },
    // Parents and their parts come in one file.
    awaits: Some(Awaited {
        is_missing: is_parent_unknown,
        longest: LONGEST_WAIT,
    }),
    steps: &[&STEP],
};

fn is_parent_unknown(
    request: &Request,
    draft: &Draft<'_>,
    store: &(dyn QuotaLookup + 'static),
    _switches: &Switches,
) -> bool {
    let Ok(parts) = parts(request, draft) else {
        return false;
    };
    let mut is_unknown = defaults::needs_parent(&parts) && parts.parent() != parts.name;
    store.visit_tree(&mut |tree| is_unknown &= tree.by_name(parts.parent()).is_none());
    is_unknown
}

fn complete(ctx: &QuotaCtx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    let parts = parts(ctx.request, draft)?;
    let mut defaults = Ok(defaults::QuotaDefaults::default());
    ctx.store
        .visit_tree(&mut |tree| defaults = defaults::defaults(&parts, tree));
    let defaults = defaults.map_err(denial)?;
    for (part, key, value) in [
        ("labels", names::QUOTA_PARENT, defaults.parent),
        ("labels", names::QUOTA_TREE_ID, defaults.tree_id),
        ("annotations", names::QUOTA_SHARED_WEIGHT, defaults.shared_weight),
    ] {
        if let Some(value) = value {
            draft
                .set(&["metadata", part, key], value)
                .map_err(StepError::from)?;
        }
    }
    Ok(())
}

/// The text is Koordinator's; the details name field and value.
fn denial(error: DefaultsError) -> Denial {
    use headroom_domain::field::{Error, Path};
    let text = error.to_string();
    let (part, key, value) = match error {
        DefaultsError::NoParent { parent, .. } => ("labels", names::QUOTA_PARENT, parent),
        DefaultsError::Weight { text, .. } => ("annotations", names::QUOTA_SHARED_WEIGHT, text),
    };
    let path = Path::new("metadata").child(part).key(key);
    let value: String = value.chars().take(64).collect();
    let fields = [Error::invalid(&path, value, &text)].into_iter().collect();
    Denial::Worded { text, fields }
}
