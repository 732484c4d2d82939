//! Evaluation of quotas and their pods under given features, for debug queries.

use headroom_kit::gate::Gate;

use super::{
    pod_membership::NO_DEFAULT,
    quota_fields, validate_pod,
    validate_pod::{
        parent::parents_by,
        quota::{COUNTING, counting_by, transformation_by},
    },
};
use crate::{
    admission::{endpoint::AnyEndpoint, features::Features},
    store::{
        quota_pods::counting::QuotaCounting,
        quota_view::{Evaluation, QuotaBehaviour},
    },
};

/// Rules about counted pods.
pub fn quota_counting(features: &Features) -> QuotaCounting {
    counting_by(&features.gates)
}

/// Gates that are read at the start only.
pub fn quota_start_gates() -> impl Iterator<Item = &'static Gate> {
    COUNTING.iter()
}

/// Settings that the steps use.
pub fn quota_behaviour(features: &Features) -> QuotaBehaviour {
    let Features {
        gates,
        switches,
        shadow,
    } = features;
    let endpoint: &dyn AnyEndpoint = &validate_pod::ENDPOINT;
    let step = &validate_pod::quota::STEP;
    let is_on = endpoint.is_enabled(gates) && step.when.is_on(gates);
    QuotaBehaviour {
        evaluation: match is_on {
            false => Evaluation::Off,
            true if shadow.has(step.name) => Evaluation::Warns,
            true => Evaluation::Refuses,
        },
        has_default: !gates.enabled(&NO_DEFAULT),
        transformation: transformation_by(gates),
        parents: parents_by(gates),
        rules: quota_fields::rules_by(gates, switches),
        switches: switches.clone(),
    }
}
