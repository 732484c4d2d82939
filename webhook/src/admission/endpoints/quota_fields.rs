//! Fields of a request that the endpoints of ElasticQuotas read, and the form of their refusals.

use std::{collections::BTreeMap, time::Duration};

use headroom_kit::gate::{Gate, GateSet};
use headroom_rules::{
    quota::{
        QuotaChange, QuotaParts, QuotaRules, Violations,
        object::{QuotaSpec, QuotaStatus},
        switches as quota_switches,
    },
    switch::Switches,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    admission::{
        draft::{Draft, Fields},
        endpoint::{Ctx, Endpoint, Rule, Step, Stop},
        error::StepError,
        refusal::Denial,
        review::{Operation, Request, shortened},
    },
    store::{
        lookup::QuotaLookup,
        quota::object::{GROUP, PLURAL, VERSION},
    },
};

pub(super) type QuotaEndpoint = Endpoint<dyn QuotaLookup>;
pub(super) type QuotaStep = Step<dyn QuotaLookup>;
/// Inputs of a step of quotas.
pub(super) type QuotaCtx<'a> = Ctx<'a, dyn QuotaLookup>;

/// Maximum time that a quota waits for the parent that it names, or a removal for the removal of its children: they
/// are often in one file, and other replicas may have admitted them. The API server allows either of the two calls
/// for a quota five seconds.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Maximum bytes of all annotations of an object together. Kubernetes stores no more (`TotalAnnotationSizeLimitB` of
/// `k8s.io/apimachinery/pkg/api/validation`), and checks that after admission.
const MOST_ANNOTATIONS: usize = 256 << 10;
/// The most bytes of a label's value. Kubernetes stores no more (`LabelValueMaxLength` of
/// `k8s.io/apimachinery/pkg/util/validation`).
const LONGEST_LABEL: usize = 63;

/// A part of a quota may name fewer resources than its parent.
pub(super) static FEWER_KEYS: Gate = Gate::alpha(
    "ElasticQuotaEnableUpdateResourceKey",
    "Lets an ElasticQuota name fewer resources in max than its parent, instead of the same ones.",
);

pub(super) static GUARANTEE: Gate = Gate::alpha(
    "ElasticQuotaGuaranteeUsage",
    "Refuses an ElasticQuota whose min exceeds the guarantee of its ancestors.",
);

pub(super) const fn quotas(operations: &'static [Operation]) -> Rule {
    Rule {
        operations,
        group: GROUP,
        version: VERSION,
        resource: PLURAL,
        sub_resource: "",
    }
}

pub(super) fn rules(ctx: &QuotaCtx<'_>) -> QuotaRules {
    rules_by(ctx.gates, ctx.switches)
}

/// The rules in force with these gates and switches.
pub(super) fn rules_by(gates: &GateSet, switches: &Switches) -> QuotaRules {
    let is_on = |switch| switches.is_on(switch);
    QuotaRules {
        allows_fewer_keys: gates.enabled(&FEWER_KEYS),
        checks_guarantee: gates.enabled(&GUARANTEE),
        ratchets: is_on(&quota_switches::RATCHETS),
        checks_annotations: is_on(&quota_switches::CHECKS_ANNOTATIONS),
        bounds_depth: is_on(&quota_switches::BOUNDED_DEPTH),
    }
}

/// Quota of the request, with the stored one.
pub(super) fn change(request: &Request, draft: &Draft<'_>) -> Result<QuotaChange, Stop> {
    let old = draft.old().map(|old| stored_parts(request, old)).transpose()?;
    Ok(QuotaChange::new(parts(request, draft)?, old))
}

/// Fields of a written quota that the rules read.
pub(super) fn parts(request: &Request, object: &impl Fields) -> Result<QuotaParts, Stop> {
    let spec = QuotaSpec {
        min: amounts(object, &["spec", "min"])?,
        max: amounts(object, &["spec", "max"])?,
    };
    parts_with(request, object, spec)
}

/// Fields of a stored quota that the rules read. Amounts that cannot be read count as absent: the quota can still be
/// repaired and removed.
pub(super) fn stored_parts(request: &Request, object: &impl Fields) -> Result<QuotaParts, Stop> {
    let amounts = |name| object.read(&["spec", name]).ok().flatten();
    let spec = QuotaSpec {
        min: amounts("min"),
        max: amounts("max"),
    };
    parts_with(request, object, spec)
}

fn parts_with(request: &Request, object: &impl Fields, spec: QuotaSpec) -> Result<QuotaParts, Stop> {
    let metadata = |name| read(object, &["metadata", name]);
    let name: Option<String> = read(object, &["metadata", "name"])?;
    let mark: Option<Value> = read(object, &["metadata", "deletionTimestamp"])?;
    let (labels, annotations) = (metadata("labels")?, metadata("annotations")?);
    let (labels, annotations) = (labels.unwrap_or_default(), annotations.unwrap_or_default());
    check_lengths(&labels, &annotations)?;
    Ok(QuotaParts {
        namespace: request.namespace.clone(),
        name: name.unwrap_or_else(|| request.name.clone()),
        labels,
        annotations,
        spec,
        // The scheduler writes it, and the author of a quota cannot repair it.
        status: QuotaStatus {
            used: object.read(&["status", "used"]).ok().flatten(),
        },
        is_going: mark.is_some(),
    })
}

/// Refuses texts that Kubernetes does not store, before they are parsed or quoted: texts in annotations cost many
/// times their length.
fn check_lengths(
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) -> Result<(), Stop> {
    let denial = |field: String, value: &str, reason: String| {
        let value = shortened(value);
        Err(Stop::Denied(Denial::Value { field, value, reason }))
    };
    if let Some((key, value)) = labels.iter().find(|(_, value)| value.len() > LONGEST_LABEL) {
        let field = format!("metadata.labels[{}]", shortened(key));
        return denial(
            field,
            value,
            format!("must be no more than {LONGEST_LABEL} bytes"),
        );
    }
    let length = |(key, value): (&String, &String)| key.len() + value.len();
    if annotations.iter().map(length).sum::<usize>() > MOST_ANNOTATIONS {
        let longest = annotations.iter().max_by_key(|pair| length(*pair));
        let (key, value) = longest.map_or_else(Default::default, |(key, value)| (shortened(key), &**value));
        let field = format!("metadata.annotations[{key}]");
        return denial(
            field,
            value,
            format!("all annotations together may not be more than {MOST_ANNOTATIONS} bytes"),
        );
    }
    Ok(())
}

fn read<T: DeserializeOwned>(object: &impl Fields, path: &[&str]) -> Result<Option<T>, StepError> {
    object.read(path).map_err(|source| StepError::Read {
        field: path.join("."),
        source,
    })
}

/// A list of amounts. The kind's schema lets some through that are none.
fn amounts<T: DeserializeOwned>(object: &impl Fields, path: &[&str]) -> Result<Option<T>, Stop> {
    object.read(path).map_err(|error| {
        let value: Option<Value> = object.read(path).ok().flatten();
        Stop::Denied(Denial::Value {
            field: path.join("."),
            value: shortened(&value.unwrap_or_default().to_string()),
            reason: error.to_string(),
        })
    })
}

/// Refuses with these violations.
pub(super) fn refuse(ctx: &QuotaCtx<'_>, found: Violations) -> Result<(), Stop> {
    let all = ctx.switches.is_on(&quota_switches::ALL_VIOLATIONS);
    match found.into_text(all) {
        None => Ok(()),
        Some(text) => Err(Stop::Denied(Denial::Worded {
            text: text.text,
            fields: text.errors,
        })),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn map(key: &str, length: usize) -> BTreeMap<String, String> {
        BTreeMap::from([(key.to_owned(), "v".repeat(length))])
    }

    #[rstest]
    #[case::as_kubernetes_stores_them(63, MOST_ANNOTATIONS - 1, None)]
    #[case::label(64, 0, Some("metadata.labels[k]"))]
    #[case::annotations_with_their_keys(63, MOST_ANNOTATIONS, Some("metadata.annotations[k]"))]
    fn no_more_is_read_than_kubernetes_stores(
        #[case] label: usize,
        #[case] annotation: usize,
        #[case] refused: Option<&str>,
    ) {
        let found = check_lengths(&map("k", label), &map("k", annotation));
        match (found, refused) {
            (Ok(()), None) => {}
            (Err(Stop::Denied(Denial::Value { field, value, .. })), Some(refused)) => {
                assert_eq!((field.as_str(), value.len() <= 80), (refused, true));
            }
            (found, refused) => panic!("{found:?} instead of {refused:?}"),
        }
    }
}
