//! Whether the API server keeps the floor: asked over and over, because a policy can be deleted and an API server
//! upgraded while we run.
//!
//! Without the floor an outage of the webhook lets nodes fall to raw, and a kubelet that restarts then fails pods that
//! fit only what was amplified. Whoever wants `guard` and `auto` to go on raising nodes all the same says so. Until
//! then hints only hold and lower: what is amplified loses nothing at once, brakes still act, and nothing grows that an
//! outage would take away.

mod look;

use std::{sync::Arc, time::Duration};

use headroom_domain::names;
use kube::Client;
use tokio::{
    select,
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

pub use self::look::{ACCESS, Found};
use crate::{
    changes::{Changes, Urgency},
    node::metrics::POLICY_IN_FORCE,
};

/// How often the API server is asked.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How long it may take to answer.
const LOOK_LIMIT: Duration = Duration::from_secs(5);

/// What somebody said about running without the floor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Without {
    /// Nothing: hints hold and lower.
    IsRefused,
    /// It is known and accepted: hints raise too.
    IsAccepted,
}

/// What is known of the floor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// The API server has not answered yet.
    #[default]
    Unknown,
    /// The policy and its binding are there.
    InForce,
    /// The policy or its binding is not there.
    Missing,
    /// The API server does not know such policies.
    Unsupported,
}

/// The floor as this replica knows it.
#[derive(Debug)]
pub struct Floor {
    without: Without,
    changes: Arc<Changes>,
    state: watch::Sender<State>,
}

impl State {
    /// What is wrong, for people; `None` if nothing is.
    pub const fn trouble(self) -> Option<&'static str> {
        match self {
            Self::InForce => None,
            Self::Unknown => Some("the API server has not said yet whether it keeps the floor"),
            Self::Missing => Some("policy headroom-floor or its binding is not installed"),
            Self::Unsupported => Some(
                "the API server does not know MutatingAdmissionPolicy of admissionregistration.k8s.io/v1 (Kubernetes 1.36)",
            ),
        }
    }
}

impl Floor {
    /// Nothing is known yet. Changes are told to those who follow nodes.
    pub fn new(without: Without, changes: Arc<Changes>) -> Self {
        Self {
            without,
            changes,
            state: watch::Sender::default(),
        }
    }

    /// True if hints may raise nodes.
    pub fn may_raise(&self) -> bool {
        self.without == Without::IsAccepted || *self.state.borrow() == State::InForce
    }

    /// What is wrong with the floor and what follows, for people; `None` if nothing is.
    pub fn trouble(&self) -> Option<String> {
        let trouble = self.state.borrow().trouble()?;
        let follows = match self.without {
            Without::IsRefused => {
                "guard and auto raise nothing until it is in force or --accept-no-floor is given"
            }
            Without::IsAccepted => "accepted by --accept-no-floor",
        };
        Some(format!("no floor: {trouble}; {follows}"))
    }

    /// Takes what the API server says now.
    pub fn take(&self, found: Found) {
        for (policy, is_in_force) in [
            (names::FLOOR_POLICY, found.state == State::InForce),
            (names::ANNOTATIONS_POLICY, found.has_annotations_policy),
        ] {
            POLICY_IN_FORCE
                .with([policy])
                .set(if is_in_force { 1.0 } else { 0.0 });
        }
        let has_changed = self.state.send_if_modified(|state| {
            let has_changed = *state != found.state;
            *state = found.state;
            has_changed
        });
        if !has_changed {
            return;
        }
        match (self.trouble(), self.without) {
            (None, _) => info!(policy = names::FLOOR_POLICY, "the floor is in force"),
            (Some(trouble), Without::IsRefused) => error!(
                "{trouble}; while no webhook answers, nodes fall to raw, and kubelets that restart fail running pods"
            ),
            (Some(trouble), Without::IsAccepted) => warn!("{trouble}"),
        }
        self.changes.ring_all(Urgency::Usual);
    }
}

/// Asks until told to stop. What was known stays while the API server does not answer.
pub async fn follow(client: Client, floor: Arc<Floor>, stop: CancellationToken) {
    loop {
        let looked = select! {
            () = stop.cancelled() => return,
            looked = timeout(LOOK_LIMIT, look::look(&client)) => looked,
        };
        match looked {
            Ok(Ok(found)) => floor.take(found),
            Ok(Err(error)) => warn!(%error, "cannot tell whether the floor is in force; asking again"),
            Err(_elapsed) => {
                warn!(limit = ?LOOK_LIMIT, "the API server takes too long to tell whether the floor is in force");
            }
        }
        select! {
            () = stop.cancelled() => return,
            () = sleep(LOOK_EVERY) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floor(without: Without) -> (Floor, watch::Receiver<crate::changes::Ticks>) {
        let changes = Arc::new(Changes::default());
        let followed = changes.follow("n1");
        (Floor::new(without, changes), followed)
    }

    fn found(state: State) -> Found {
        Found {
            state,
            has_annotations_policy: true,
        }
    }

    #[test]
    fn nothing_rises_unless_the_floor_is_in_force_or_its_absence_accepted() {
        let (refused, _) = floor(Without::IsRefused);
        let (accepted, _) = floor(Without::IsAccepted);
        assert!(!refused.may_raise() && accepted.may_raise());
        for state in [State::Unsupported, State::InForce, State::Missing, State::Unknown] {
            for floor in [&refused, &accepted] {
                floor.take(found(state));
            }
            assert_eq!(refused.may_raise(), state == State::InForce);
            assert!(accepted.may_raise());
            assert_eq!(refused.trouble().is_none(), state == State::InForce);
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
    fn those_who_follow_nodes_are_told_of_changes_only() {
        let (floor, mut followed) = floor(Without::IsRefused);
        for (state, is_told) in [
            (State::Missing, true),
            (State::Missing, false),
            (State::InForce, true),
            (State::InForce, false),
        ] {
            floor.take(found(state));
            assert_eq!(followed.has_changed().unwrap(), is_told);
            followed.mark_unchanged();
        }
    }
}
