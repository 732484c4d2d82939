//! `ServerView` keeps the node view and the policy that hint servers sent. It chooses which of their views
//! `EstimatorInputs` follows.

use std::time::Duration;

use headroom_domain::{policy::Bounds, resource::PerResource};
use headroom_proto::NodeView;
use tracing::{info, warn};

use crate::{publish::Directive, sample::clock::Clocks};

/// Time after which a view that no server has confirmed no longer outranks an older one: its server may have been
/// removed, and versions restart after an etcd restore. A hint for an older view only lowers, on servers with a newer
/// view.
const OUTRANKS_FOR: Duration = Duration::from_secs(600);

/// View from the hint servers' directives.
#[derive(Debug, Default)]
pub(super) struct ServerView {
    pub(super) pods: Option<NodeView>,
    pub(super) policy: Option<(PerResource<Bounds>, PerResource<u32>)>,
    /// Time at which a server last sent the view in use, or a newer one.
    confirmed: Clocks,
}

impl ServerView {
    /// Applies a directive; returns false for a view older than the one in use. Replicas are independent, and the
    /// view of the one that has seen most is used, for ten minutes after its last confirmation.
    pub(super) fn apply(&mut self, directive: Directive, at: Clocks) -> bool {
        match directive {
            Directive::Pods(pods) => return self.apply_view(pods, at),
            Directive::Policy { bounds, target_ppm } => self.policy = Some((bounds, target_ppm)),
            // Not a part of the view: see `KnownByServers`.
            Directive::Workloads { .. } => return false,
        }
        true
    }

    fn apply_view(&mut self, pods: NodeView, at: Clocks) -> bool {
        let known = self.pods.as_ref().filter(|known| known.node_uid == pods.node_uid);
        match known.map(|known| known.view.generation) {
            None => info!(
                node_uid = pods.node_uid,
                "received the first directive for the node"
            ),
            Some(known) if pods.view.generation < known => {
                let silent_ns = at.boottime_ns.saturating_sub(self.confirmed.boottime_ns);
                if u128::from(silent_ns) < OUTRANKS_FOR.as_nanos() {
                    return false;
                }
                warn!(
                    generation = pods.view.generation,
                    before = known,
                    "using an older view of the node: no server has confirmed the newer one for \
                     {OUTRANKS_FOR:?}"
                );
            }
            Some(_) => {}
        }
        self.pods = Some(pods);
        self.confirmed = at;
        true
    }
}
