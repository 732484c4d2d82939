//! A proxy from a kubelet or the webhook to the API server. It delays watch events of Nodes, and forwards, records or
//! refuses writes of `nodes/status`.

use std::{
    convert::Infallible,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::stream;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use kube::{Client, client::Body};
use serde_json::Value;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep_until},
};

/// `Retry-After` of a busy API server.
pub const RETRY_AFTER: Duration = Duration::from_secs(1);

type Answer = Response<UnsyncBoxBody<Bytes, kube::Error>>;

/// A forwarded or refused write of `nodes/status` with its answer.
#[derive(Debug, Clone)]
pub struct Sent {
    pub patch: Value,
    /// The API server's status; `None` while there is none, and forever if the client gave up.
    pub status: Option<StatusCode>,
}

/// The proxy; ended on drop.
#[derive(Debug)]
pub struct DelayedProxy {
    address: SocketAddr,
    way: Arc<Way>,
    _accept: JoinSet<()>,
}

struct Way {
    client: Client,
    lag_ms: AtomicU64,
    refuses: AtomicBool,
    sent: Mutex<Vec<Sent>>,
}

impl std::fmt::Debug for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Way").finish_non_exhaustive()
    }
}

impl Sent {
    /// True if the patch does not contain allocatable.
    pub fn is_without_allocatable(&self) -> bool {
        self.patch["status"]["allocatable"].is_null()
    }
}

impl DelayedProxy {
    /// Starts the proxy; it forwards requests with this client's credential.
    pub async fn open(client: Client) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("bind");
        let address = listener.local_addr().expect("an address");
        let way = Arc::new(Way {
            client,
            lag_ms: AtomicU64::new(0),
            refuses: AtomicBool::new(false),
            sent: Mutex::default(),
        });
        let mut accept = JoinSet::new();
        accept.spawn(serve(listener, Arc::clone(&way)));
        Self {
            address,
            way,
            _accept: accept,
        }
    }

    /// The URL to give to the client.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Delays watch events of Nodes by `lag` from now on.
    pub fn lag(&self, lag: Duration) {
        let lag = u64::try_from(lag.as_millis()).expect("not that long");
        self.way.lag_ms.store(lag, Ordering::Relaxed);
    }

    /// Sets whether writes of `nodes/status` are refused, as by a busy API server.
    pub fn refuse(&self, refuses: bool) {
        self.way.refuses.store(refuses, Ordering::Relaxed);
    }

    /// Writes of `nodes/status` so far.
    pub fn sent(&self) -> Vec<Sent> {
        self.way.sent().clone()
    }
}

impl Way {
    fn sent(&self) -> std::sync::MutexGuard<'_, Vec<Sent>> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a write without an answer and returns its index.
    fn note(&self, patch: &[u8]) -> usize {
        let patch = serde_json::from_slice(patch).expect("a PATCH is JSON");
        let mut sent = self.sent();
        sent.push(Sent { patch, status: None });
        sent.len() - 1
    }

    fn lag(&self) -> Duration {
        Duration::from_millis(self.lag_ms.load(Ordering::Relaxed))
    }

    async fn pass(self: Arc<Self>, request: Request<Incoming>) -> Answer {
        let is_late = is_watch_of_nodes(&request);
        let is_status = request.method() == Method::PATCH && request.uri().path().ends_with("/status");
        let (mut head, body) = request.into_parts();
        // Hop-by-hop headers are not forwarded.
        for name in [header::HOST, header::CONNECTION, header::TRANSFER_ENCODING] {
            head.headers.remove(name);
        }
        let Ok(body) = body.collect().await else {
            return empty(StatusCode::BAD_REQUEST);
        };
        let body = body.to_bytes();
        let noted = is_status.then(|| self.note(&body));
        let answer = if is_status && self.refuses.load(Ordering::Relaxed) {
            busy()
        } else {
            let request = Request::from_parts(head, Body::from(body));
            self.client.send(request).await.map_or_else(
                |_| empty(StatusCode::BAD_GATEWAY),
                |answer| answer.map(BodyExt::boxed_unsync),
            )
        };
        if let Some(turn) = noted
            && let Some(sent) = self.sent().get_mut(turn)
        {
            sent.status = Some(answer.status());
        }
        if is_late { self.late(answer) } else { answer }
    }

    /// Delays each part of an answer, and its end, by the lag.
    fn late(self: Arc<Self>, answer: Answer) -> Answer {
        let (frames_tx, frames_rx) = mpsc::unbounded_channel();
        let (head, mut body) = answer.into_parts();
        tokio::spawn(async move {
            loop {
                let frame = body.frame().await;
                let is_end = frame.is_none();
                if frames_tx.send((Instant::now() + self.lag(), frame)).is_err() || is_end {
                    return;
                }
            }
        });
        let frames = stream::unfold(frames_rx, async |mut frames_rx| {
            let (due, frame): (Instant, Option<Result<Frame<Bytes>, kube::Error>>) = frames_rx.recv().await?;
            sleep_until(due).await;
            Some((frame?, frames_rx))
        });
        Response::from_parts(head, StreamBody::new(frames).boxed_unsync())
    }
}

async fn serve(listener: TcpListener, way: Arc<Way>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.expect("accept");
        connections.spawn(connection(stream, Arc::clone(&way)));
    }
}

async fn connection(stream: TcpStream, way: Arc<Way>) {
    let service = service_fn(move |request| {
        let way = Arc::clone(&way);
        async move { Ok::<_, Infallible>(way.pass(request).await) }
    });
    // A client may close a watch at any time.
    http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await
        .ok();
}

fn is_watch_of_nodes(request: &Request<Incoming>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    request.uri().path() == "/api/v1/nodes"
        && query
            .split('&')
            .any(|part| ["watch=true", "watch=1"].contains(&part))
}

/// The answer of an overloaded API server.
fn busy() -> Answer {
    let mut answer = empty(StatusCode::TOO_MANY_REQUESTS);
    let pause = RETRY_AFTER.as_secs().into();
    answer.headers_mut().insert(header::RETRY_AFTER, pause);
    answer
}

fn empty(status: StatusCode) -> Answer {
    let body = http_body_util::Empty::new().map_err(|never: Infallible| match never {});
    let mut answer = Response::new(body.boxed_unsync());
    *answer.status_mut() = status;
    answer
}
