//! [`CommonParts`]: parts of the process that most others read.

use std::sync::Arc;

use arc_swap::ArcSwap;
use headroom_kit::{admin::Readiness, tls::CertStore};
use kube::Client;

use crate::{
    admission::{callers::CallerCheck, features::Features},
    store::cluster::Cluster,
};

/// Parts of the process that most others read.
pub(super) struct CommonParts<'a> {
    pub(super) client: &'a Client,
    /// Node stores.
    pub(super) cluster: &'a Arc<Cluster>,
    /// The serving certificate.
    pub(super) store: &'a Arc<CertStore>,
    /// Gates and switches in force.
    pub(super) features: &'a Arc<ArcSwap<Features>>,
    pub(super) readiness: &'a Readiness,
    /// Recognizes API servers.
    pub(super) callers: &'a CallerCheck,
}
