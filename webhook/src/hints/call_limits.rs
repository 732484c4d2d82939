//! Bounds each gRPC call of a client that has proven nothing yet: the head that is kept, and the time for its message.
//! Calls of the health and reflection services need no credential and are bounded as a whole.

use std::{
    error::Error,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use futures::FutureExt as _;
use headroom_domain::names;
use headroom_kit::serve::RequestBody;
use http::{
    HeaderMap, HeaderName, HeaderValue, Request, Response,
    header::{AUTHORIZATION, CONTENT_TYPE, TE, USER_AGENT},
};
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Sleep, sleep, timeout};
use tonic::{Status, body, service::Routes};
use tower::Service as _;

use super::auth::LONGEST_TOKEN;

/// Time limit of a call without a credential, and of the message of any call except an agent's stream of reports.
const CALL_LIMIT: Duration = Duration::from_secs(5);
/// Services that answer clients without a credential.
const PUBLIC: [&str; 2] = ["/grpc.health.", "/grpc.reflection."];
/// The call whose messages arrive while it lasts.
const STREAM_OF_REPORTS: &str = "/headroom.v1alpha1.Hints/Report";
/// Headers that services read. A call keeps its head until it is answered.
const READ: [HeaderName; 7] = [
    HeaderName::from_static(names::AUTHORITIES_METADATA),
    AUTHORIZATION,
    CONTENT_TYPE,
    TE,
    HeaderName::from_static("grpc-encoding"),
    HeaderName::from_static("grpc-accept-encoding"),
    USER_AGENT,
];
/// Maximum length of a header that is kept: a token after the name of its scheme.
const LONGEST_HEADER: usize = LONGEST_TOKEN + 16;

/// Body that ends at a time, whatever it lacks.
struct TimedBody<B> {
    body: B,
    end: Pin<Box<Sleep>>,
    at_end: fn() -> Result<Frame<Bytes>, Status>,
}

/// Answers one call.
pub(super) async fn answer(mut routes: Routes, request: Request<RequestBody>) -> Response<body::Body> {
    let path = request.uri().path();
    let (is_public, is_stream) = (
        PUBLIC.iter().any(|service| path.starts_with(service)),
        path == STREAM_OF_REPORTS,
    );
    let (mut parts, incoming) = request.into_parts();
    parts.headers = read_headers(&parts.headers);
    let incoming = if is_stream {
        body::Body::new(incoming)
    } else {
        body::Body::new(TimedBody::new(incoming, || Err(late())))
    };
    let answered = routes.call(Request::from_parts(parts, incoming));
    let answered = answered.map(|Ok(response)| response);
    if !is_public {
        return answered.await;
    }
    match timeout(CALL_LIMIT, answered).await {
        Ok(response) => response.map(|body| {
            body::Body::new(TimedBody::new(body, || {
                let mut trailers = HeaderMap::new();
                late().add_header(&mut trailers)?;
                Ok(Frame::trailers(trailers))
            }))
        }),
        Err(_elapsed) => late().into_http(),
    }
}

fn late() -> Status {
    Status::deadline_exceeded(format!("the call took longer than {CALL_LIMIT:?}"))
}

/// The headers that services read, in memory of their own.
fn read_headers(headers: &HeaderMap) -> HeaderMap {
    let mut read = HeaderMap::with_capacity(READ.len());
    for name in READ {
        let value = headers.get(&name).filter(|value| value.len() <= LONGEST_HEADER);
        if let Some(value) = value.and_then(|value| HeaderValue::from_bytes(value.as_bytes()).ok()) {
            read.insert(name, value);
        }
    }
    read
}

impl<B> TimedBody<B> {
    fn new(body: B, at_end: fn() -> Result<Frame<Bytes>, Status>) -> Self {
        Self {
            body,
            end: Box::pin(sleep(CALL_LIMIT)),
            at_end,
        }
    }
}

impl<B> Body for TimedBody<B>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            return Poll::Ready(frame.map(|frame| frame.map_err(|error| Status::from_error(error.into()))));
        }
        ready!(self.end.as_mut().poll(cx));
        Poll::Ready(Some((self.at_end)()))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
