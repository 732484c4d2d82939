//! The agent's debug service on a unix socket: `kubectl headroom agent` queries it on the node, without a cluster.

mod socket;
mod wire;

use std::{io, time::Duration};

use futures::{
    Stream, StreamExt as _,
    stream::{self, BoxStream},
};
use headroom_proto::v1alpha1::{
    AgentStatus, GetHistogramsRequest, GetHistogramsResponse, GetStatusRequest, ListPodsRequest,
    ListPodsResponse,
    agent_debug_server::{AgentDebug, AgentDebugServer},
};
use tokio::{
    net::{UnixListener, UnixStream},
    sync::{mpsc, oneshot},
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status as Refusal, transport::Server};
use tracing::warn;

pub use self::socket::{Socket, SocketError, SocketFile};
use crate::{
    local::status::{PodStatus, StatusRequests},
    metrics::{BLOCK_USE, RUNQ_WAIT, WINDOW_USE},
};

/// Least time between two answers of a watch.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// Pause after a connection could not be accepted, as when there are no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Request for the pods, with the channel for the answer. The deciding task has them, and no copy is kept.
pub type PodsAsked = oneshot::Sender<Vec<PodStatus>>;

#[derive(Clone, Debug)]
pub struct Debug {
    /// Source of the status.
    pub requests: StatusRequests,
    /// Channel for requests for pods.
    pub pods: mpsc::Sender<PodsAsked>,
    pub stopping: CancellationToken,
}

impl Debug {
    /// Serves until the agent ends, and removes the socket then.
    ///
    /// # Errors
    /// The socket cannot be used.
    pub async fn serve(self, socket: Socket) -> Result<(), io::Error> {
        let Socket {
            listener,
            file: _removed_at_the_end,
        } = socket;
        let incoming = accepted(UnixListener::from_std(listener)?);
        let stop = self.stopping.clone().cancelled_owned();
        Server::builder()
            .add_service(AgentDebugServer::new(self))
            .serve_with_incoming_shutdown(incoming, stop)
            .await
            .map_err(io::Error::other)
    }
}

#[tonic::async_trait]
impl AgentDebug for Debug {
    type WatchStatusStream = BoxStream<'static, Result<AgentStatus, Refusal>>;

    async fn get_status(&self, _asked: Request<GetStatusRequest>) -> Result<Response<AgentStatus>, Refusal> {
        Ok(Response::new(self.requests.clone().now().into()))
    }

    async fn watch_status(
        &self,
        _asked: Request<GetStatusRequest>,
    ) -> Result<Response<Self::WatchStatusStream>, Refusal> {
        let stop = self.stopping.clone().cancelled_owned();
        let answers = statuses(self.requests.clone()).map(Ok).take_until(stop);
        Ok(Response::new(answers.boxed()))
    }

    async fn list_pods(
        &self,
        _asked: Request<ListPodsRequest>,
    ) -> Result<Response<ListPodsResponse>, Refusal> {
        let ending = || Refusal::unavailable("the agent is shutting down");
        let (answer_tx, answer) = oneshot::channel();
        self.pods.send(answer_tx).await.map_err(|_ended| ending())?;
        let pods = answer.await.map_err(|_ended| ending())?;
        Ok(Response::new(ListPodsResponse {
            pods: pods.into_iter().map(wire::pod).collect(),
        }))
    }

    async fn get_histograms(
        &self,
        _asked: Request<GetHistogramsRequest>,
    ) -> Result<Response<GetHistogramsResponse>, Refusal> {
        let histograms = [&RUNQ_WAIT, &WINDOW_USE, &BLOCK_USE];
        Ok(Response::new(GetHistogramsResponse {
            histograms: histograms.into_iter().map(wire::histogram).collect(),
        }))
    }
}

/// The status now, and again when it has changed, at most every [`WATCH_EVERY`].
fn statuses(requests: StatusRequests) -> impl Stream<Item = AgentStatus> + Send {
    stream::unfold((requests, None), |(mut requests, next)| async move {
        if let Some(next) = next {
            sleep_until(next).await;
            if !requests.changed().await {
                return None;
            }
        }
        let status = requests.now().into();
        Some((status, (requests, Some(Instant::now() + WATCH_EVERY))))
    })
}

/// Connections, until the listener is dropped.
fn accepted(listener: UnixListener) -> impl Stream<Item = io::Result<UnixStream>> + Send {
    stream::unfold(listener, |listener| async move {
        loop {
            match listener.accept().await {
                Ok((connection, _nameless)) => return Some((Ok(connection), listener)),
                Err(error) => {
                    warn!(%error, "could not accept a connection to the debug socket; retrying");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    };

    use tokio::sync::watch;

    use super::*;
    use crate::local::status::Status;

    #[tokio::test(start_paused = true)]
    async fn a_watch_tells_the_newest_at_most_once_a_second() {
        let seq = Arc::new(AtomicU64::new(0));
        let (changes_tx, changes) = watch::channel(());
        let (_streams_tx, streams) = watch::channel(Vec::new());
        let (made, shown) = (Arc::new(AtomicU64::new(0)), Arc::clone(&seq));
        let counted = Arc::clone(&made);
        let status = move || {
            counted.fetch_add(1, Relaxed);
            Status {
                seq: shown.load(Relaxed),
                ..Status::default()
            }
        };
        let answers = statuses(StatusRequests::new(status, changes, streams));
        tokio::pin!(answers);
        assert_eq!(answers.next().await.unwrap().seq, 0);
        let began = Instant::now();
        for number in 1..=4 {
            seq.store(number, Relaxed);
            changes_tx.send_replace(());
        }
        assert_eq!(answers.next().await.unwrap().seq, 4);
        assert_eq!(began.elapsed(), WATCH_EVERY);
        assert_eq!(made.load(Relaxed), 2, "made for who asks, not as it changes");
        drop(changes_tx);
        assert!(answers.next().await.is_none());
    }
}
