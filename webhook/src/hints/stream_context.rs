//! Shared state of all agent streams and debug calls: stores, authenticator, open streams, nudger, profiles, check of
//! Koordinator's ConfigMap, state of the installation, the last reviews of pods, quotas, shutdown.

use std::{sync::Arc, time::SystemTime};

use headroom_domain::{estimate::Profile, installation::ConfigMapName};
use headroom_kit::{supervise::Shutdown, tls::CertStore};
use headroom_rules::{slo, switch::Switches};

use super::{auth::Authenticator, streams::Streams};
use crate::{
    control::{nudge::Nudger, registration::LastFaults},
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
    /// What is known of the installation.
    pub install: InstallState,
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

/// What is known of the installation besides the floor.
pub struct InstallState {
    /// What is wrong with the entries in webhook configurations.
    pub registered: LastFaults,
    /// Reads how many seconds the serving certificate is still good for; negative after its end.
    pub certificate_left_s: Arc<dyn Fn() -> i64 + Send + Sync>,
}

impl InstallState {
    /// What is found wrong from now on, and the certificate in use.
    pub fn new(registered: LastFaults, certificates: Arc<CertStore>) -> Self {
        Self {
            registered,
            certificate_left_s: Arc::new(move || certificates.left_s(SystemTime::now())),
        }
    }
}

impl Default for InstallState {
    /// Nothing has been compared, and the certificate does not end.
    fn default() -> Self {
        Self {
            registered: LastFaults::default(),
            certificate_left_s: Arc::new(|| i64::MAX),
        }
    }
}
