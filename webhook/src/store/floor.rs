//! State of the floor policy in the API server, as this replica last read it.
//!
//! Without the floor an outage of the webhook lets nodes fall to raw, and a kubelet that restarts then fails pods that
//! fit only into the amplified allocatable. `guard` and `auto` then raise nodes only with `--accept-no-floor`. Without
//! that flag hints only hold and lower: amplified nodes lose nothing at once, brakes still act, and nothing grows that
//! an outage would take away.

use std::sync::Arc;

use headroom_domain::{installation::Installation, names};
use tokio::sync::watch;
use tracing::{error, info, warn};

use crate::store::{
    changes::{Changes, Urgency},
    metrics::POLICY_IN_FORCE,
};

/// The administrator's decision about running without the floor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingFloor {
    /// Nothing: hints hold and lower.
    BlocksRaises,
    /// It is known and accepted: hints raise too.
    Accepted,
}

/// State of a policy in the API server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PolicyState {
    /// The API server has not answered yet.
    #[default]
    Unknown,
    /// The policy and its binding are there as this version generates them.
    InForce,
    /// The policy or its binding is not there.
    Missing,
    /// The policy or its binding is not as this version generates it: the fields that differ.
    Differs(String),
    /// The API server does not know such policies.
    Unsupported,
}

/// The state of each policy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PolicyStates {
    pub floor: PolicyState,
    /// The policy that reverts foreign annotations.
    pub annotations: PolicyState,
}

/// The floor as this replica knows it.
#[derive(Debug)]
pub struct Floor {
    installation: Installation,
    without: MissingFloor,
    changes: Arc<Changes>,
    found: watch::Sender<PolicyStates>,
}

impl PolicyState {
    /// Fault of the policy of that name, for users; `None` if there is none.
    pub fn trouble(&self, policy: &str) -> Option<String> {
        match self {
            Self::InForce => None,
            Self::Unknown => Some(format!(
                "the API server has not answered yet about policy {policy}"
            )),
            Self::Missing => Some(format!("policy {policy} or its binding is not installed")),
            Self::Differs(fields) => Some(format!("policy {policy} is not that of this version: {fields}")),
            Self::Unsupported => Some(
                "the API server does not serve MutatingAdmissionPolicy of \
                 admissionregistration.k8s.io/v1 (Kubernetes 1.36)"
                    .to_owned(),
            ),
        }
    }
}

impl Floor {
    /// State before the first check. Changes are announced to the followers of nodes.
    pub fn new(installation: Installation, without: MissingFloor, changes: Arc<Changes>) -> Self {
        Self {
            installation,
            without,
            changes,
            found: watch::Sender::default(),
        }
    }

    /// True if hints may raise nodes.
    pub fn may_raise(&self) -> bool {
        self.without == MissingFloor::Accepted || self.found.borrow().floor == PolicyState::InForce
    }

    /// Fault of the floor and its consequence, for users; `None` if there is none.
    pub fn trouble(&self) -> Option<String> {
        let policy = self.installation.named(names::FLOOR_POLICY);
        let trouble = self.found.borrow().floor.trouble(&policy)?;
        let follows = match self.without {
            MissingFloor::BlocksRaises => {
                "guard and auto raise nothing until it is in force or --accept-no-floor is given"
            }
            MissingFloor::Accepted => "accepted by --accept-no-floor",
        };
        Some(format!("no floor: {trouble}; {follows}"))
    }

    /// The installation whose policies these are.
    pub const fn installation(&self) -> &Installation {
        &self.installation
    }

    /// True if the administrator does without the floor.
    pub fn is_accepted(&self) -> bool {
        self.without == MissingFloor::Accepted
    }

    /// Fault of the policy that protects annotations, for users; `None` if there is none.
    pub fn annotations_trouble(&self) -> Option<String> {
        let policy = self.installation.named(names::ANNOTATIONS_POLICY);
        self.found.borrow().annotations.trouble(&policy)
    }

    /// Records the policies that the API server has now.
    pub fn record(&self, found: PolicyStates) {
        // The metric contains a policy's base name; an installation's suffix is in the labels of its targets.
        for (policy, state) in [
            (names::FLOOR_POLICY, &found.floor),
            (names::ANNOTATIONS_POLICY, &found.annotations),
        ] {
            let is_in_force = *state == PolicyState::InForce;
            POLICY_IN_FORCE
                .with([policy])
                .set(if is_in_force { 1.0 } else { 0.0 });
        }
        let before = self.found.borrow().clone();
        let (is_other_floor, is_other_revert) = (
            before.floor != found.floor,
            before.annotations != found.annotations,
        );
        drop(self.found.send_replace(found));
        if is_other_revert {
            self.report_annotations();
        }
        if is_other_floor {
            self.report_floor();
            self.changes.ring_all(Urgency::Usual);
        }
    }

    fn report_floor(&self) {
        match (self.trouble(), self.without) {
            (None, _) => {
                let policy = self.installation.named(names::FLOOR_POLICY);
                info!(policy, "the floor is in force");
            }
            (Some(trouble), MissingFloor::BlocksRaises) => error!(
                "{trouble}; while no webhook answers, nodes fall to raw, and kubelets that restart fail running pods"
            ),
            (Some(trouble), MissingFloor::Accepted) => warn!("{trouble}"),
        }
    }

    fn report_annotations(&self) {
        let policy = self.installation.named(names::ANNOTATIONS_POLICY);
        match self.annotations_trouble() {
            None => info!(policy, "writes of kubelets to protected annotations are reverted"),
            Some(trouble) => {
                error!("{trouble}; while no webhook answers, kubelets can write protected annotations");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floor(without: MissingFloor) -> (Floor, watch::Receiver<crate::store::changes::Ticks>) {
        let changes = Arc::new(Changes::default());
        let followed = changes.follow("n1");
        (Floor::new(Installation::default(), without, changes), followed)
    }

    fn found(floor: PolicyState) -> PolicyStates {
        PolicyStates {
            floor,
            annotations: PolicyState::InForce,
        }
    }

    fn differing() -> PolicyState {
        PolicyState::Differs(
            "MutatingAdmissionPolicy.spec.failurePolicy is \"Fail\", must be \"Ignore\"".to_owned(),
        )
    }

    #[test]
    fn nothing_rises_unless_the_floor_is_in_force_or_its_absence_accepted() {
        let (refused, _) = floor(MissingFloor::BlocksRaises);
        let (accepted, _) = floor(MissingFloor::Accepted);
        assert!(!refused.may_raise() && accepted.may_raise());
        for state in [
            PolicyState::Unsupported,
            PolicyState::InForce,
            PolicyState::Missing,
            PolicyState::InForce,
            differing(),
            PolicyState::Unknown,
        ] {
            for floor in [&refused, &accepted] {
                floor.record(found(state.clone()));
            }
            assert_eq!(refused.may_raise(), state == PolicyState::InForce, "{state:?}");
            assert!(accepted.may_raise());
            assert_eq!(refused.trouble().is_none(), state == PolicyState::InForce);
        }
        assert!(refused.trouble().unwrap().contains("--accept-no-floor is given"));
        assert!(
            accepted
                .trouble()
                .unwrap()
                .ends_with("accepted by --accept-no-floor")
        );
    }

    #[test]
    fn a_floor_that_is_not_ours_is_told_by_its_fields() {
        let (floor, _) = floor(MissingFloor::BlocksRaises);
        floor.record(found(differing()));
        assert_eq!(
            floor.trouble().unwrap(),
            "no floor: policy headroom-floor is not that of this version: \
             MutatingAdmissionPolicy.spec.failurePolicy is \"Fail\", must be \"Ignore\"; \
             guard and auto raise nothing until it is in force or --accept-no-floor is given"
        );
    }

    #[test]
    fn those_who_follow_nodes_are_told_of_changes_of_the_floor_only() {
        let (floor, mut followed) = floor(MissingFloor::BlocksRaises);
        let no_revert = PolicyStates {
            annotations: PolicyState::Missing,
            ..found(PolicyState::InForce)
        };
        for (found, is_told) in [
            (found(PolicyState::Missing), true),
            (found(PolicyState::Missing), false),
            (found(PolicyState::InForce), true),
            (found(PolicyState::InForce), false),
            (no_revert, false),
            (found(differing()), true),
            (found(differing()), false),
        ] {
            floor.record(found);
            assert_eq!(followed.has_changed().unwrap(), is_told);
            followed.mark_unchanged();
        }
    }
}
