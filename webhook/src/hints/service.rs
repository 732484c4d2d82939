//! The gRPC hint service for agents: authenticates a stream and hands it over to its [`Session`].

use std::{sync::Arc, time::SystemTime};

use futures::{StreamExt as _, stream::Map};
use headroom_kit::{
    log::{LineLimit, chain},
    serve::Peer,
};
use headroom_proto::v1alpha1::{Directive, HintReport, hints_server};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use tracing::{info, warn};

use super::{
    StreamError,
    agent_authorities::AgentAuthorities,
    agent_version::AgentVersion,
    auth::Caller,
    metrics::STREAM_ENDS,
    refusal_lines,
    session::{Outgoing, Session},
    stream_context::StreamContext,
};

/// Directives that wait to be read by one agent.
const QUEUE: usize = 16;

/// Stream of directives to one agent.
type Directives = Map<ReceiverStream<Outgoing>, fn(Outgoing) -> Result<Directive, Status>>;

#[derive(Clone)]
pub struct HintService {
    shared: Arc<StreamContext>,
    refusals: Arc<LineLimit>,
}

impl HintService {
    pub fn new(shared: Arc<StreamContext>) -> Self {
        Self {
            shared,
            refusals: Arc::new(refusal_lines()),
        }
    }

    async fn open(&self, request: Request<Streaming<HintReport>>) -> Result<Directives, StreamError> {
        if self.shared.shutdown.draining().is_cancelled() {
            return Err(StreamError::ShuttingDown);
        }
        let peer = request.extensions().get::<Peer>();
        let caller = Box::new(Caller::from_request(request.metadata(), peer)?);
        let agent = self.shared.authenticator.agent(&caller).await?;
        if agent.expires.is_some_and(|end| end <= SystemTime::now()) {
            return Err(StreamError::Expired);
        }
        let version = AgentVersion::from_metadata(request.metadata());
        let authorities = AgentAuthorities::from_metadata(request.metadata());
        if let Some(left_out) = self.shared.streams.lines.line(agent.node.clone()) {
            info!(node = %agent.node, peer = %caller.peer.address, %version, ca = authorities.as_str(), left_out, "opened the stream of an agent");
        }
        let (directives_tx, directives) = mpsc::channel(QUEUE);
        let described = (version, authorities);
        let session = Session::new(Arc::clone(&self.shared), agent, described, directives_tx);
        // The connection can no longer be closed to make place for others.
        let hold = peer.and_then(Peer::pin);
        let reports = request.into_inner().boxed();
        tokio::spawn(async move {
            let _hold = hold;
            session.run(caller, reports).await;
        });
        Ok(ReceiverStream::new(directives).map(|directive| directive.map(|directive| *directive)))
    }
}

#[tonic::async_trait]
impl hints_server::Hints for HintService {
    type ReportStream = Directives;

    async fn report(
        &self,
        request: Request<Streaming<HintReport>>,
    ) -> Result<Response<Self::ReportStream>, Status> {
        let peer = request.extensions().get::<Peer>().map(|peer| peer.address);
        self.open(request).await.map(Response::new).map_err(|error| {
            STREAM_ENDS.with([error.label()]).increment(1);
            if let Some(left_out) = self.refusals.line(()) {
                warn!(?peer, error = %chain(&error), left_out, "refused an agent's stream");
            }
            error.into()
        })
    }
}
