//! Serves HTTP/1.1 and HTTP/2 on the connections of a listener.

use std::{error::Error, future::Future, pin::pin, sync::Arc, time::Duration};

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
use tokio::select;
use tracing::debug;

use super::{Connection, Limits, Listener, slow_clients::Paced};
use crate::supervise::Shutdown;

/// Read buffer of an HTTP/1 connection in bytes, which is also the largest request head.
const READ_BUFFER: usize = 64 * 1024;
/// Maximum number of concurrent streams of one HTTP/2 connection.
const STREAMS: u32 = 100;
/// Interval of HTTP/2 pings to clients.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// Timeout of the answer to an HTTP/2 ping.
const PING_TIMEOUT: Duration = Duration::from_secs(10);

impl Listener {
    /// Serves requests until the process stops, and finishes the requests in flight then.
    ///
    /// A connection uses HTTP/2 if the TLS settings offer `h2` and the client selects it, else HTTP/1.1. Every
    /// request has [`super::Peer`] among its extensions. While the process drains, responses ask clients to
    /// reconnect. `answer` must bound the time for reading a body.
    pub async fn serve_http<F, T, B>(self, tls: Option<Arc<ServerConfig>>, shutdown: Shutdown, answer: F)
    where
        F: Fn(Request<Incoming>) -> T + Clone + Send + Sync + 'static,
        T: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
    {
        let limits = self.limits;
        let stopping = shutdown.stopping().clone();
        self.accept(tls, stopping, move |connection| {
            serve(connection, limits, shutdown.clone(), answer.clone())
        })
        .await;
    }
}

/// Serves one connection to its end.
async fn serve<F, T, B>(connection: Connection, limits: Limits, shutdown: Shutdown, answer: F)
where
    F: Fn(Request<Incoming>) -> T + Clone + Send + 'static,
    T: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    let (peer, is_http2) = (connection.peer().clone(), connection.is_http2());
    let address = peer.address;
    let handle = connection.handle();
    let (paced, phase) = Paced::new(connection, limits);
    let draining = shutdown.draining().clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        phase.begin_answer();
        let answering = handle.answer();
        request.extensions_mut().insert(peer.clone());
        let (answer, phase, draining) = (answer(request), Arc::clone(&phase), draining.clone());
        async move {
            let mut response = answer.await;
            drop(answering);
            if !is_http2 {
                // Requests overlap on HTTP/2: pings detect dead clients there.
                phase.end_answer();
                if draining.is_cancelled() {
                    response
                        .headers_mut()
                        .insert(CONNECTION, HeaderValue::from_static("close"));
                }
            }
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let builder = builder(is_http2, limits.idle);
    let mut serving = pin!(builder.serve_connection(TokioIo::new(paced), service));
    // HTTP/2 can announce that no new requests are accepted. HTTP/1 does so in responses only, and idle connections
    // are closed when the drain time is over.
    let closing = if is_http2 {
        shutdown.draining()
    } else {
        shutdown.stopping()
    };
    let result = select! {
        result = serving.as_mut() => result,
        () = closing.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = result {
        debug!(peer = %address, error = %crate::log::chain(&*error), "connection ended early");
    }
}

fn builder(is_http2: bool, idle: Duration) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    // Starts at the end of the last response and bounds idleness. `Paced` bounds the head itself.
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(idle)
        .max_buf_size(READ_BUFFER);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    if is_http2 {
        builder.http2_only()
    } else {
        builder.http1_only()
    }
}
