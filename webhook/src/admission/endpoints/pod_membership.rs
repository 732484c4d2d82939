//! Quota rules that the endpoints of pods share: gates that assign a Pod to a quota, and the fields that are read for
//! it.

use headroom_domain::selector::Labels;
use headroom_kit::gate::Gate;
use headroom_rules::pod_quota::Membership;

use super::pod_types::PodCtx;
use crate::admission::{draft::Fields, error::StepError};

/// Pods without a label belong to no quota.
pub(super) static NO_DEFAULT: Gate = Gate::negative(
    "DisableDefaultQuota",
    "Assigns no quota to pods whose label names none, even if their namespace has a quota.",
);

/// Labels of a Pod, and the flag that they alone decide its quota.
pub(super) struct PodLabels {
    labels: Labels,
    has_default: bool,
}

impl PodLabels {
    pub(super) fn read(ctx: &PodCtx<'_>, pod: &impl Fields) -> Result<Self, StepError> {
        let labels = pod
            .read(&["metadata", "labels"])
            .map_err(|source| StepError::Read {
                field: "metadata.labels".to_owned(),
                source,
            })?;
        Ok(Self {
            labels: labels.unwrap_or_default(),
            has_default: !ctx.gates.enabled(&NO_DEFAULT),
        })
    }

    /// False if the Pod belongs to no quota, whatever quotas there are.
    pub(super) fn may_have_quota(&self) -> bool {
        self.has_default || self.membership("").label().is_some()
    }

    /// True if both name the same quota in their label, or none.
    pub(super) fn names_quota_of(&self, other: &Self) -> bool {
        self.membership("").label() == other.membership("").label()
    }

    /// Fields that assign the Pod to a quota.
    pub(super) fn membership<'p>(&'p self, namespace: &'p str) -> Membership<'p> {
        let Self { labels, has_default } = self;
        Membership {
            labels,
            namespace,
            has_default: *has_default,
        }
    }
}
