//! Serves HTTP/1.1, HTTP/2 and gRPC on the connections of a listener.

use std::{convert::Infallible, error::Error, future::Future, pin::pin, sync::Arc, time::Duration};

use ::http::{
    Request, Response,
    header::{CONNECTION, HeaderValue},
};
use hyper::{
    body::{Body, Incoming},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
};
use rustls::ServerConfig;
use tokio::{select, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::{
    Connection, Limits, Listener, Peer,
    answering::Answering,
    places::ConnectionPlace,
    request_body::RequestBody,
    slow_clients::{Paced, Phase},
    stalls::{self, Stalls, WatchedBody},
};
use crate::{metric::process::REFUSED, supervise::Shutdown};

/// Read buffer of an HTTP/1 connection in bytes, which is also the largest request head. All places together need as
/// much memory as their number times this.
const READ_BUFFER: usize = 16 * 1024;
/// Flow-control window of an HTTP/2 connection, in bytes: the least that the protocol allows. It bounds the data that a
/// client can make us hold.
const WINDOW: u32 = 65_535;
/// Maximum number of bytes of a response that one HTTP/2 stream buffers.
const SEND_BUFFER: usize = 64 * 1024;
/// Interval of HTTP/2 pings to clients.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// Timeout of the answer to an HTTP/2 ping.
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Protocols of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    /// HTTP/1.1, or HTTP/2 if the TLS handshake selects it.
    Http,
    /// HTTP/2 only.
    Grpc(GrpcLimits),
}

/// Limits on the calls of a gRPC connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrpcLimits {
    /// Maximum number of concurrent streams.
    pub streams: u32,
    /// Maximum size of the head of a call in bytes, counted as HTTP/2 does.
    pub head: u32,
    /// Flow-control window of each stream, in bytes: data of a call that nothing has read yet.
    pub window: u32,
}

impl GrpcLimits {
    /// Limits of HTTP/2 connections that serve HTTP.
    pub const DEFAULT: Self = Self {
        streams: 100,
        head: 16 << 10,
        window: WINDOW,
    };
}

impl Listener {
    /// Serves requests until the process stops, and finishes the requests in flight then.
    ///
    /// A connection uses HTTP/2 if the TLS settings offer `h2` and the client selects it, else HTTP/1.1. Every
    /// request has [`super::Peer`] among its extensions. While the process drains, responses ask clients to
    /// reconnect. `answer` must bound the time for reading a body.
    pub async fn serve_http<F, T, B>(self, tls: Option<Arc<ServerConfig>>, shutdown: Shutdown, answer: F)
    where
        F: Fn(Request<RequestBody>) -> T + Clone + Send + Sync + 'static,
        T: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static,
    {
        self.serve(Protocol::Http, tls, shutdown, answer).await;
    }

    /// Serves gRPC calls, over HTTP/2 only, until the process stops. Without TLS, as in benches, connections are
    /// unencrypted.
    ///
    /// A connection counts as proven while a [`super::Hold`] of it exists; all others are limited by
    /// [`Limits::unproven`]. Shutdown waits for streams to end: services must end theirs when [`Shutdown::draining`] is
    /// cancelled. Until then a connection may open new ones.
    pub async fn serve_grpc<F, T, B>(
        self,
        limits: GrpcLimits,
        tls: impl Into<Option<Arc<ServerConfig>>>,
        shutdown: Shutdown,
        answer: F,
    ) where
        F: Fn(Request<RequestBody>) -> T + Clone + Send + Sync + 'static,
        T: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static,
    {
        self.serve(Protocol::Grpc(limits), tls.into(), shutdown, answer)
            .await;
    }

    async fn serve<F, T, B>(
        self,
        protocol: Protocol,
        tls: Option<Arc<ServerConfig>>,
        shutdown: Shutdown,
        answer: F,
    ) where
        F: Fn(Request<RequestBody>) -> T + Clone + Send + Sync + 'static,
        T: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static,
    {
        let (name, limits) = (self.name, self.limits);
        let stopping = shutdown.stopping().clone();
        self.accept(tls, stopping, move |connection| {
            let served = Served {
                connection,
                name,
                protocol,
                limits,
                shutdown: shutdown.clone(),
            };
            served.run(answer.clone())
        })
        .await;
    }
}

/// One connection that is served.
struct Served {
    connection: Connection,
    name: &'static str,
    protocol: Protocol,
    limits: Limits,
    shutdown: Shutdown,
}

/// State that the requests of one connection share.
struct Exchanges {
    peer: Peer,
    /// `None` if requests do not make the connection busy.
    handle: Option<ConnectionPlace>,
    phase: Arc<Phase>,
    /// `None` for HTTP/1.
    stalls: Option<Arc<Stalls>>,
    /// Time from which on responses ask the client to reconnect.
    expires: Option<Instant>,
    draining: CancellationToken,
}

impl Served {
    /// Serves the connection to its end.
    async fn run<F, T, B>(self, answer: F)
    where
        F: Fn(Request<RequestBody>) -> T + Clone + Send + 'static,
        T: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static,
    {
        let Self {
            connection,
            name,
            protocol,
            limits,
            shutdown,
        } = self;
        let is_http2 = protocol != Protocol::Http || connection.is_http2();
        let (address, handle) = (connection.peer().address, connection.handle());
        let (peer, stalls) = (connection.peer().clone(), is_http2.then(Arc::<Stalls>::default));
        let (paced, phase) = Paced::new(connection, limits);
        let exchanges = Arc::new(Exchanges {
            peer,
            // A gRPC connection is used by its streams: it is held once a client has proven its identity.
            handle: (protocol == Protocol::Http).then_some(handle),
            phase,
            stalls: stalls.clone(),
            expires: limits
                .age
                .map(|age| Instant::now() + age + spread(age, address.port())),
            draining: shutdown.draining().clone(),
        });
        let service = service_fn(move |request| {
            let exchanges = Arc::clone(&exchanges);
            let (request, answering) = exchanges.begin(request);
            let answer = answer(request);
            async move { Ok::<_, Infallible>(exchanges.end(answer.await, answering.as_ref())) }
        });
        let builder = builder(protocol, is_http2, limits.idle);
        let mut serving = pin!(builder.serve_connection(TokioIo::new(paced), service));
        // HTTP/2 can announce that no new requests are accepted. HTTP/1 does so in responses only, and idle connections
        // are closed when the drain time is over. Services of gRPC end their streams themselves.
        let closing = if is_http2 && protocol == Protocol::Http {
            shutdown.draining()
        } else {
            shutdown.stopping()
        };
        let until_closing = async {
            select! {
                result = serving.as_mut() => result,
                () = closing.cancelled() => {
                    serving.as_mut().graceful_shutdown();
                    serving.await
                }
            }
        };
        select! {
            result = until_closing => if let Err(error) = result {
                debug!(peer = %address, error = %crate::log::chain(&*error), "connection ended early");
            },
            () = stalls::exceed(stalls, limits.write) => {
                REFUSED.with([name, "unread"]).increment(1);
                debug!(peer = %address, limit = ?limits.write, "connection closed: the client accepts no data");
            }
        }
    }
}

impl Exchanges {
    fn begin(&self, request: Request<Incoming>) -> (Request<RequestBody>, Option<Answering>) {
        self.phase.begin_answer();
        let answering = self.handle.as_ref().map(ConnectionPlace::begin_request);
        let mut request = request.map(|body| RequestBody::new(body, answering.clone()));
        request.extensions_mut().insert(self.peer.clone());
        (request, answering)
    }

    fn end<B>(&self, mut response: Response<B>, answering: Option<&Answering>) -> Response<WatchedBody<B>> {
        if let Some(answering) = answering {
            answering.end();
        }
        // Requests overlap on HTTP/2: pings detect dead clients there.
        if self.stalls.is_none() {
            self.phase.end_answer();
            let is_old = self.expires.is_some_and(|expires| expires <= Instant::now());
            if is_old || self.draining.is_cancelled() {
                response
                    .headers_mut()
                    .insert(CONNECTION, HeaderValue::from_static("close"));
            }
        }
        response.map(|body| WatchedBody::new(body, self.stalls.clone()))
    }
}

/// Part of a quarter of `age` that differs between connections: those of one client, opened at one time, do not end at one time.
fn spread(age: Duration, port: u16) -> Duration {
    age / 4 * u32::from(port % 256) / 256
}

fn builder(protocol: Protocol, is_http2: bool, idle: Duration) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    // Starts at the end of the last response and bounds idleness. `Paced` bounds the head itself.
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(idle)
        .max_buf_size(READ_BUFFER);
    let GrpcLimits {
        streams,
        head,
        window,
    } = match protocol {
        Protocol::Http => GrpcLimits::DEFAULT,
        Protocol::Grpc(limits) => limits,
    };
    builder
        .http2()
        .timer(TokioTimer::new())
        .initial_connection_window_size(WINDOW)
        .initial_stream_window_size(window)
        .max_send_buf_size(SEND_BUFFER)
        .max_concurrent_streams(streams)
        .max_header_list_size(head)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    if is_http2 {
        builder.http2_only()
    } else {
        builder.http1_only()
    }
}
