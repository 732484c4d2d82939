//! Endpoint `/validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota`: refuses ElasticQuotas that contradict
//! themselves or their tree, and removals of those that others need. One answer contains all faults.
//!
//! An admitted quota counts for the next request, before the watch delivers it: see `store::quota`.

mod names_step;
mod removal;
mod shape;
mod tree;

use std::time::Duration;

use headroom_kit::gate::Gate;
use headroom_rules::quota::switches;

use super::quota_fields::{FEWER_KEYS, GUARANTEE, LONGEST_WAIT, QuotaEndpoint, QuotaStep, quotas};
use crate::admission::{
    endpoint::{
        Awaited, BrokenStep, Condition, ConfigurationObject, Declaration, Denials, Entry, FailurePolicy,
        Kind, Namespaces, Objects, Pass, RequestLimits, SideEffects, When, Work,
    },
    refusal::DenialStyle,
    review::Operation,
};

pub(super) static GATE: Gate = Gate::beta(
    "ElasticValidatingWebhook",
    "Checks ElasticQuotas and ElasticQuotaProfiles.",
);

static STEPS: &[&QuotaStep] = &[&names_step::STEP, &shape::STEP, &tree::STEP, &removal::STEP];

/// A scheduler writes the status and other annotations of each quota each second: those writes are not sent.
const CHANGES: Condition = Condition {
    name: "changes",
    expression: "request.operation != 'UPDATE' || object.?spec != oldObject.?spec \
        || object.metadata.?labels != oldObject.metadata.?labels \
        || ['namespaces', 'shared-weight', 'max-strict-check-resource-keys', 'admission', \
        'guaranteed'].exists(name, \
        object.metadata.?annotations[?'quota.scheduling.koordinator.sh/' + name] \
        != oldObject.metadata.?annotations[?'quota.scheduling.koordinator.sh/' + name])",
};

pub(super) static ENDPOINT: QuotaEndpoint = QuotaEndpoint {
    declaration: Declaration {
        path: "/validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota",
        about: "Checks ElasticQuotas, each alone and in its tree.",
        kind: Kind::Validating,
        configuration: ConfigurationObject::Quotas,
        gate: Some(&GATE),
        modifiers: &[&FEWER_KEYS, &GUARANTEE],
        entries: &[Entry {
            name: "velasticquota.koordinator.sh",
            when: When::Always,
            rules: &[quotas(&[Operation::Create, Operation::Update, Operation::Delete])],
            namespaces: Namespaces::ExceptOurs,
            objects: Objects::All,
            conditions: &[CHANGES],
            // An admission counts for a while; a dry run leaves nothing.
            side_effects: SideEffects::NoneOnDryRun,
            failure_policy: FailurePolicy::Fail,
            timeout: Duration::from_secs(5),
        }],
        broken_step: BrokenStep::FailsTheCall,
        denial_style: DenialStyle::KOORDINATOR,
        denials: Denials::AllIf(&switches::ALL_VIOLATIONS),
        passes: &[Pass::Finalizers],
        // One at a time: the names of a request are checked before its place is taken.
        work: Work::Offloaded,
        limits: RequestLimits::DEFAULT,
    },
    // Parents and their parts come, and go, in one file.
    awaits: Some(Awaited {
        is_missing: tree::is_awaiting,
        longest: LONGEST_WAIT,
    }),
    steps: STEPS,
};
