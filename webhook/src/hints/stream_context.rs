//! Shared state of all agent streams and debug calls: stores, authenticator, open streams, nudger, profiles, shutdown.

use std::sync::Arc;

use headroom_domain::estimate::Profile;
use headroom_kit::supervise::Shutdown;

use super::{auth::Authenticator, streams::Streams};
use crate::{control::nudge::Nudger, store::cluster::Cluster};

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
    /// The end of the process.
    pub shutdown: Shutdown,
}
