//! Shared state of all agent streams and debug calls: stores, authenticator, open streams, nudger, profiles, check of
//! Koordinator's ConfigMap, state of the installation, the last reviews of pods, quotas, shutdown.

use std::{sync::Arc, time::SystemTime};

use headroom_domain::{estimate::Profile, installation::ConfigMapName};
use headroom_kit::{supervise::Shutdown, tls::CertStore};
use headroom_rules::{slo, switch::Switches};

use super::{auth::Authenticator, streams::Streams};
use crate::{
    control::{
        certificates::CertificateState, nudge::Nudger, own_rights::MissingRights,
        reachability::ReachabilityState, registration::LastFaults,
    },
    store::{
        cluster::Cluster, pod_decisions::PodDecisions, quota_view::QuotaView, workload_table::WorkloadTable,
    },
};

/// State that all streams share.
pub struct StreamContext {
    /// The stores of this replica.
    pub cluster: Arc<Cluster>,
    pub authenticator: Arc<Authenticator>,
    pub streams: Arc<Streams>,
    pub nudger: Arc<Nudger>,
    /// Timing profiles whose hints are taken.
    pub profiles: Vec<Profile>,
    /// Check of Koordinator's ConfigMap.
    pub slo_check: SloCheck,
    /// State of the installation.
    pub install: InstallState,
    /// The name of this replica.
    pub replica: String,
    /// The last reviews of pods.
    pub decisions: Arc<PodDecisions>,
    /// Profiles of workloads.
    pub workloads: Arc<WorkloadTable>,
    /// The quotas and their pods.
    pub quotas: QuotaView,
    /// The end of the process.
    pub shutdown: Shutdown,
}

/// Settings of the check of Koordinator's ConfigMap.
pub struct SloCheck {
    pub config_map: ConfigMapName,
    /// Requirements for its versions.
    pub settings: slo::Settings,
    /// Reads the switches in force.
    pub switches: Arc<dyn Fn() -> Switches + Send + Sync>,
}

/// State of the installation besides the floor.
pub struct InstallState {
    /// Faults of the entries in webhook configurations.
    pub registered: LastFaults,
    /// The serving certificate; `None` where none ends, as in tests.
    pub serving: Option<Arc<CertStore>>,
    /// The Secret with certificates, and its CAs.
    pub certificates: Arc<CertificateState>,
    /// Result of the probes through the API server.
    pub reachability: Arc<ReachabilityState>,
    /// Rights that this replica's account lacks.
    pub missing_rights: MissingRights,
    /// Reads which callers of the admission port are answered.
    pub callers: Arc<dyn Fn() -> &'static str + Send + Sync>,
}

impl InstallState {
    /// Seconds until the serving certificate expires; negative afterwards.
    pub fn certificate_left_s(&self) -> i64 {
        let serving = self.serving.as_ref();
        serving.map_or(i64::MAX, |serving| serving.left_s(SystemTime::now()))
    }
}

impl Default for InstallState {
    /// Nothing has been compared, and the certificate does not end.
    fn default() -> Self {
        Self {
            registered: LastFaults::default(),
            serving: None,
            certificates: Arc::default(),
            reachability: Arc::default(),
            missing_rights: Arc::default(),
            callers: Arc::new(|| "any"),
        }
    }
}
