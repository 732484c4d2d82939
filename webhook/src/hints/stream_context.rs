//! Shared state of all agent streams and debug calls: stores, authenticator, open streams, nudger, profiles, shutdown.

use std::sync::Arc;

use headroom_domain::estimate::Profile;
use headroom_kit::supervise::Shutdown;

use super::{auth::Authenticator, streams::Streams};
use crate::{control::nudge::Nudger, store::cluster::Cluster};

/// What all streams share.
pub struct StreamContext {
    /// What this replica knows.
    pub cluster: Arc<Cluster>,
    /// Who is let in.
    pub authenticator: Arc<Authenticator>,
    /// Who is there.
    pub streams: Arc<Streams>,
    /// Who asks the API server to decide a node anew.
    pub nudger: Arc<Nudger>,
    /// Timing profiles whose hints are taken.
    pub profiles: Vec<Profile>,
    /// When it all ends.
    pub shutdown: Shutdown,
}
