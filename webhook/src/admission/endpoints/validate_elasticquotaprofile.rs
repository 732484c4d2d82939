//! Endpoint `/validate-quota-koordinator-sh-v1alpha1-elasticquotaprofile`: refuses ElasticQuotaProfiles whose labels
//! Kubernetes would refuse on the ElasticQuota that Koordinator's controller makes of them.
//!
//! A label that is already stored is not checked again: the controller updates stored profiles.

use std::{collections::BTreeMap, time::Duration};

use headroom_domain::{
    field::{Error, Errors, Path},
    selector::{LabelSelector, key_faults, value_faults},
};

use super::{
    quota_fields::{QuotaCtx, QuotaEndpoint, QuotaStep},
    validate_elasticquota,
};
use crate::{
    admission::{
        draft::{Draft, Fields},
        endpoint::{
            BrokenStep, ConfigurationObject, Declaration, Denials, Entry, FailurePolicy, Kind, Namespaces,
            Objects, Pass, RequestLimits, Rule, SideEffects, Stop, UnknownSource, When, Work,
        },
        refusal::{Denial, DenialStyle},
        review::{Operation, shortened},
    },
    store::quota::tree_nodes::{GROUP, PLURAL, VERSION},
};

static STEP: QuotaStep = QuotaStep {
    name: "labels",
    when: When::Always,
    about: "Refuses keys and values in quotaLabels that Kubernetes accepts in no label; warns of a node selector that \
     selects no nodes because it cannot be read.",
    reads: &[],
    unknown: UnknownSource::IsHandled,
    run: check,
};

pub(super) static ENDPOINT: QuotaEndpoint = QuotaEndpoint {
    declaration: Declaration {
        path: "/validate-quota-koordinator-sh-v1alpha1-elasticquotaprofile",
        about: "Checks the labels that ElasticQuotaProfiles give to their ElasticQuotas.",
        kind: Kind::Validating,
        configuration: ConfigurationObject::Quotas,
        gate: Some(&validate_elasticquota::GATE),
        modifiers: &[],
        entries: &[Entry {
            name: "velasticquotaprofile.koordinator.sh",
            when: When::Always,
            rules: &[Rule {
                operations: &[Operation::Create, Operation::Update],
                group: GROUP,
                version: VERSION,
                resource: PLURAL,
                sub_resource: "",
            }],
            namespaces: Namespaces::ExceptOurs,
            objects: Objects::All,
            conditions: &[],
            side_effects: SideEffects::None,
            failure_policy: FailurePolicy::Fail,
            timeout: Duration::from_secs(5),
        }],
        broken_step: BrokenStep::FailsTheCall,
        denial_style: DenialStyle::FORBIDDEN,
        denials: Denials::First,
        passes: &[Pass::Finalizers],
        work: Work::Inline,
        limits: RequestLimits::DEFAULT,
    },
    awaits: None,
    steps: &[&STEP],
};

/// Number of faults after which no more labels are checked: each is explained at length.
const MOST_FAULTS: usize = 8;
/// Maximum number of requirements of a node selector that is checked. Real ones have a few.
const MOST_REQUIREMENTS: usize = 256;

fn check(_ctx: &QuotaCtx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    let field = Path::new("spec").child("quotaLabels");
    let labels = read(draft, "quotaLabels").map_err(|reason| {
        let fields = [Error::invalid(&field, "", &shortened(&reason))]
            .into_iter()
            .collect();
        Stop::Denied(Denial::Fields(fields))
    })?;
    let stored: BTreeMap<String, String> = draft
        .old()
        .and_then(|old| read(old, "quotaLabels").ok())
        .unwrap_or_default();
    let mut errors = Errors::default();
    let changed = labels
        .iter()
        .filter(|(key, value)| stored.get(*key) != Some(*value));
    for (key, value) in changed {
        if errors.len() >= MOST_FAULTS {
            break;
        }
        let at = field.key(&shortened(key));
        if let Some(faults) = key_faults(key).filter(|_| !stored.contains_key(key)) {
            errors.push(Error::invalid(&at, shortened(key), &faults));
        }
        if let Some(faults) = value_faults(value) {
            errors.push(Error::invalid(&at, shortened(value), &faults));
        }
    }
    if !errors.is_empty() {
        return Err(Stop::Denied(Denial::Fields(errors)));
    }
    warn_of_selector(draft);
    Ok(())
}

/// A member of the specification that maps texts; empty if it is absent.
fn read(object: &impl Fields, name: &str) -> Result<BTreeMap<String, String>, String> {
    let labels = object.read(&["spec", name]).map_err(|error| error.to_string())?;
    Ok(labels.unwrap_or_default())
}

/// Warns of a node selector that Kubernetes cannot read. The store ignores such a profile.
fn warn_of_selector(draft: &mut Draft<'_>) {
    let error = match draft.read::<LabelSelector>(&["spec", "nodeSelector"]) {
        Ok(None) => None,
        Ok(Some(selector)) => {
            let requirements = selector.match_labels.len() + selector.match_expressions.len();
            let checked = (requirements <= MOST_REQUIREMENTS).then_some(selector);
            checked.and_then(|selector| selector.to_selector().err().map(|error| error.to_string()))
        }
        Err(error) => Some(error.to_string()),
    };
    if let Some(error) = error {
        draft.warn(format!(
            "spec.nodeSelector: {}: the profile selects no nodes",
            shortened(&error)
        ));
    }
}
