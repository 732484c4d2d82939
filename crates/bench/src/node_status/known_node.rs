//! Stores that contain the node under review.

use std::{borrow::Cow, sync::Arc, time::Duration};

use anyhow::Result;
use headroom_domain::{
    capacity::PodDemand,
    hint::{EffectiveHint, Freshness, HintQuery, Note},
    names,
    policy::{Mode, Policy},
    resource::PerResource,
};
use headroom_rules::slo::strategies::Strategies;
use headroom_webhook::{
    admission::endpoint::Stores,
    store::{
        lookup::NodeLookup,
        node::{Labels, Node},
    },
};

use super::review::{self, Kind};

/// A node with pods: in mode `auto` with a fresh hint, or without any reason for amplification.
struct OneNode {
    hint: Option<EffectiveHint>,
    stored: Arc<Node>,
}

impl NodeLookup for OneNode {
    fn policy<'l>(&self, _labels: &dyn Fn() -> Cow<'l, Labels>) -> Option<Policy> {
        let mode = if self.hint.is_some() {
            Mode::Auto
        } else {
            Mode::Static
        };
        Some(Policy {
            mode,
            ..Policy::default()
        })
    }

    fn hint(&self, _asked: &HintQuery<'_>) -> Option<EffectiveHint> {
        self.hint.clone()
    }

    fn stored(&self, _node: &str) -> Option<Arc<Node>> {
        Some(Arc::clone(&self.stored))
    }

    fn is_contested(&self, _node: &str) -> Option<bool> {
        Some(false)
    }

    fn pod_demand(
        &self,
        _node: &str,
        _stored: PerResource<Option<u64>>,
        _is_told: bool,
    ) -> Option<PerResource<PodDemand>> {
        let demand = |admitted| PodDemand {
            admitted,
            fit: admitted,
            ..PodDemand::default()
        };
        Some(PerResource {
            cpu: demand(9_300),
            memory: demand(21 << 30),
        })
    }

    fn strategies(&self) -> Arc<Strategies> {
        Arc::default()
    }

    fn heartbeat_interval(&self) -> Duration {
        Duration::from_secs(300)
    }

    fn denies_above_hint(&self) -> bool {
        false
    }

    fn webhook_user(&self) -> &'static str {
        names::WEBHOOK_USER
    }
}

pub(crate) fn stores(kind: Kind) -> Result<Stores> {
    let note: Note = review::HINT.parse()?;
    let hint = (kind != Kind::Plain).then(|| EffectiveHint::new(note, Freshness::Fresh));
    Ok(Stores::of_nodes(Arc::new(OneNode {
        hint,
        stored: Arc::new(review::stored(kind)),
    })))
}
