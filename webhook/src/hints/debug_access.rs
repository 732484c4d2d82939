//! [`DebugAccess`]: authorizes users of a debug service, and logs refused ones.

use std::sync::Arc;

use headroom_kit::{
    log::{LineLimit, chain},
    serve::{Hold, Peer},
};
use tonic::{Request, Status};
use tracing::info;

use super::{StreamError, auth::Caller, refusal_lines};
use crate::hints::stream_context::StreamContext;

#[derive(Clone)]
pub(super) struct DebugAccess {
    shared: Arc<StreamContext>,
    refusals: Arc<LineLimit>,
}

impl DebugAccess {
    /// For a service with this state.
    pub(super) fn new(shared: Arc<StreamContext>) -> Self {
        Self {
            shared,
            refusals: Arc::new(refusal_lines()),
        }
    }

    /// Authorizes the caller, and pins the caller's connection.
    pub(super) async fn admit<T: Sync>(
        &self,
        request: &Request<T>,
    ) -> Result<(Caller, Option<Hold>), Status> {
        let admitted = self.check(request).await;
        admitted.map_err(|error| {
            if let Some(left_out) = self.refusals.line(()) {
                info!(error = %chain(&error), left_out, "refused a debug call");
            }
            error.into()
        })
    }

    async fn check<T: Sync>(&self, request: &Request<T>) -> Result<(Caller, Option<Hold>), StreamError> {
        if self.shared.shutdown.draining().is_cancelled() {
            return Err(StreamError::ShuttingDown);
        }
        let peer = request.extensions().get::<Peer>();
        let caller = Caller::from_request(request.metadata(), peer)?;
        self.shared.authenticator.may_debug(&caller).await?;
        Ok((caller, peer.and_then(Peer::pin)))
    }
}
