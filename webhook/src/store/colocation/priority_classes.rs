//! What is kept of PriorityClasses: what a class gives to its pods.

use headroom_rules::profile;
use k8s_openapi::api::scheduling::v1::PriorityClass;

use crate::store::by_name::{ByName, Keep};

/// All priority classes.
pub type PriorityClasses = ByName<PriorityClass>;

impl Keep for PriorityClass {
    type Kept = profile::PriorityClass;

    fn keep(&self) -> Option<profile::PriorityClass> {
        Some(profile::PriorityClass {
            // The API server sets a value where nobody wrote one.
            value: self.value.unwrap_or_default(),
            preemption_policy: self.preemption_policy.clone(),
        })
    }
}
