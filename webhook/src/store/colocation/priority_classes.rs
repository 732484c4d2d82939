//! Kept part of PriorityClasses: the values that a class gives to its pods.

use headroom_rules::profile;
use k8s_openapi::api::scheduling::v1::PriorityClass;

use crate::store::by_name::{ByName, Keep};

pub type PriorityClasses = ByName<PriorityClass>;

impl Keep for PriorityClass {
    type Kept = profile::PriorityClass;

    fn keep(&self) -> Option<profile::PriorityClass> {
        Some(profile::PriorityClass {
            // The API server sets a default for a missing value.
            value: self.value.unwrap_or_default(),
            preemption_policy: self.preemption_policy.clone(),
        })
    }
}
