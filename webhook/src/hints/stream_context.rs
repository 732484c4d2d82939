//! Shared state of all agent streams and debug calls: stores, authenticator, open streams, nudger, profiles, check of
//! Koordinator's ConfigMap, the last reviews of pods, quotas, shutdown.

use std::sync::Arc;

use headroom_domain::{estimate::Profile, installation::ConfigMapName};
use headroom_kit::supervise::Shutdown;
use headroom_rules::{slo, switch::Switches};

use super::{auth::Authenticator, streams::Streams};
use crate::{
    control::nudge::Nudger,
    store::{cluster::Cluster, pod_decisions::PodDecisions, quota_view::QuotaView},
};

/// State that all streams share.
pub struct StreamContext {
    /// The stores of this replica.
    pub cluster: Arc<Cluster>,
    /// Checks credentials.
    pub authenticator: Arc<Authenticator>,
    /// Open streams.
    pub streams: Arc<Streams>,
    /// Writes nudges.
    pub nudger: Arc<Nudger>,
    /// Timing profiles whose hints are taken.
    pub profiles: Vec<Profile>,
    /// How Koordinator's ConfigMap is checked.
    pub slo_check: SloCheck,
    /// The name of this replica.
    pub replica: String,
    /// The last reviews of pods.
    pub decisions: Arc<PodDecisions>,
    /// The quotas and their pods.
    pub quotas: QuotaView,
    /// The end of the process.
    pub shutdown: Shutdown,
}

/// How Koordinator's ConfigMap is checked.
pub struct SloCheck {
    /// The ConfigMap.
    pub config_map: ConfigMapName,
    /// What is asked of its versions.
    pub settings: slo::Settings,
    /// Reads the switches in force.
    pub switches: Arc<dyn Fn() -> Switches + Send + Sync>,
}
