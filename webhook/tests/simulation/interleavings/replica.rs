//! Simulated webhook replica of the interleavings: its real stores and router, and its due nudges and sweeps.

use std::{
    borrow::Cow,
    sync::Arc,
    time::{Duration, Instant},
};

use headroom_domain::{
    hint::{HintQuery, NodeHint, Origin, ReportVerdict},
    names,
    policy::Policy,
};
use headroom_kit::gate::GateSet;
use headroom_webhook::{
    admission::{
        callers::CallerCheck,
        endpoint::{Deadline, Family, Stores},
        endpoints::{gates, served},
        features::Features,
        router::{Limits, Options, Router},
    },
    control::{
        nudge::{self, Nudge},
        sweep::remedy,
    },
    store::{
        clock::Clock,
        cluster::Cluster,
        informer::Store as _,
        lookup::NodeLookup,
        node::Labels,
        pods::{PodListing, Pods},
    },
};
use json_patch::Patch;
use serde_json::{Value, json};

use crate::{patch_of, settings};

const PATH: &str = "/mutate-node-status";

pub(super) struct ModelReplica {
    cluster: Arc<Cluster>,
    router: Router,
    /// False while the API server gets no answer from it.
    pub(super) is_up: bool,
}

impl ModelReplica {
    /// Replica without any watch event.
    pub(super) fn blind() -> Self {
        let file = serde_json::from_value(json!({})).expect("a configuration");
        let cluster = Arc::new(Cluster::new(settings(file), Arc::new(Clock::uninterrupted())));
        let router = Router::new(Options {
            endpoints: served(&[Family::Nodes]),
            features: Features::with_gates(GateSet::parse(gates(), "").expect("gates")).shared(),
            stores: Stores::of_nodes(Arc::clone(&cluster) as _),
            limits: Limits::default(),
            log_sample: 0,
            callers: CallerCheck::default(),
        });
        Self {
            cluster,
            router,
            is_up: true,
        }
    }

    /// Observes the policy, the Node and its pods.
    pub(super) fn observe_all(&self, policy: &Value, node: &Value, pods: Vec<Value>) {
        self.follow(policy);
        let mut listing = PodListing::default();
        for pod in pods {
            Pods::list(&mut listing, serde_json::from_value(pod).expect("a Pod"));
        }
        self.cluster.pods.replace(listing);
        let mut listing = headroom_webhook::store::nodes::NodeListing::default();
        let object = serde_json::from_value(node.clone()).expect("a Node");
        headroom_webhook::store::nodes::Nodes::list(&mut listing, object);
        self.cluster.nodes.replace(listing);
    }

    pub(super) fn follow(&self, policy: &Value) {
        let config_map = json!({
            "metadata": {"name": names::SLO_CONFIG},
            "data": {names::AMPLIFICATION_CONFIG: policy.to_string()},
        });
        let config_map = serde_json::from_value(config_map).expect("a ConfigMap");
        self.cluster.policies.replace(Some(config_map));
    }

    /// Observes the Node, if its watch works.
    pub(super) fn observe(&self, node: &Value) {
        if self.cluster.nodes.has_synced() {
            self.cluster
                .nodes
                .apply(serde_json::from_value(node.clone()).expect("a Node"));
        }
    }

    /// Observes a pod, if its watch works.
    pub(super) fn observe_pod(&self, pod: &Value, is_gone: bool) {
        if !self.knows_pods() {
            return;
        }
        let pod = serde_json::from_value(pod.clone()).expect("a Pod");
        if is_gone {
            self.cluster.pods.delete(pod);
        } else {
            self.cluster.pods.apply(pod);
        }
    }

    /// True once it has observed all pods.
    pub(super) fn knows_pods(&self) -> bool {
        self.cluster.pods.has_synced()
    }

    /// True if its state of the Node with that UID comes from the agent, and not only from the Node, which has the
    /// report with that number. A report counts for its own Node; a replica that has not observed that Node is
    /// queried too.
    pub(super) fn hears_agent(&self, node: &str, uid: &str, seq: u64) -> bool {
        let known = self.cluster.nodes.get(node);
        let hint = known.and_then(|known| self.cluster.hint(&HintQuery { uid, ..known.asked() }));
        hint.is_some_and(|hint| matches!(hint.origin, Origin::Stream | Origin::Nudge) && hint.note.seq >= seq)
    }

    pub(super) fn report(&self, hint: NodeHint) {
        let node = hint.node.clone();
        if self.cluster.hints.offer(hint, self.cluster.now()) == ReportVerdict::Accepted {
            self.cluster.check_report(&node);
        }
    }

    /// The agent's stream to it ends.
    pub(super) fn leave(&self, node: &str) {
        self.cluster.hints.leave(node);
    }

    /// The policy in force for a node without labels, if it is known.
    pub(super) fn policy(&self) -> Option<Policy> {
        NodeLookup::policy(&*self.cluster, &|| Cow::Owned(Labels::new()))
    }

    /// The patch that it answers a review with.
    pub(super) fn review(&self, review: &Value) -> Patch {
        let endpoint = self.router.endpoint(PATH).expect("the endpoint");
        let deadline = Deadline::after(Instant::now(), Duration::from_secs(60));
        let answer = self
            .router
            .answer(endpoint, review.to_string().as_bytes(), deadline);
        let body: Value = serde_json::from_slice(&answer.body).expect("a verdict");
        assert_eq!(body["response"]["allowed"], true, "{body:#}");
        patch_of(&body["response"])
    }

    /// The nudge that is due now.
    pub(super) fn nudge(&self, node: &str) -> Option<Nudge> {
        let node = self.cluster.nodes.get(node)?;
        nudge::due(&self.cluster, &node).nudge
    }

    /// The resource version that a sweep would touch now, if anything is amiss.
    pub(super) fn sweep(&self, node: &str) -> Option<u64> {
        if !self.cluster.has_synced() {
            return None;
        }
        let node = self.cluster.nodes.get(node)?;
        remedy::find(&self.cluster, &node)?;
        Some(node.version)
    }
}
