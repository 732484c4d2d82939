//! Routes requests of the admission port to endpoints, with shared limits, deadline, span, metrics and audit line.

mod answer;
mod audit;
mod buffer;
mod evaluator;
mod intake;
mod pass;
mod permits;
mod pod_review;
mod serial_queue;
mod wait;

use std::{error::Error, fmt, sync::Arc, time::Instant};

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode,
    header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE},
    request::Parts,
};
use http_body_util::Full;
use hyper::body::Body;
use jiff::Timestamp;
use tokio::{sync::oneshot, time::timeout_at};
use tracing::{Instrument as _, Span};

pub use self::answer::{HttpAnswer, ReviewDecision};
use self::{
    audit::Audit,
    evaluator::{Attempt, Evaluator, ReviewCall},
    intake::{Intake, Received},
    permits::{LanePermit, Lanes},
    serial_queue::SerialQueue,
    wait::{Wait, WaitLimit},
};
use crate::{
    admission::{
        callers::CallerCheck,
        endpoint::{AnyEndpoint, Deadline, LONGEST_REVIEW, Stores},
        error::AdmissionError,
        features::Features,
        metrics,
        review::shortened,
    },
    store::caller::ReviewCaller,
};

/// Limits on requests to a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub body_bytes: usize,
    /// Reviews of one endpoint that are answered or wait for it with their bodies received; one more is turned away.
    pub concurrent: usize,
    /// Memory for all bodies up to 1 MiB together, in KiB; longer ones have room for one of the longest besides. Reviews
    /// of node endpoints have that much, and reviews of all others as much again.
    pub buffered_kib: u32,
}

/// Parts of a router.
pub struct Options {
    pub endpoints: Vec<&'static dyn AnyEndpoint>,
    /// The gates and other switches in force; they may change while it serves.
    pub features: Arc<ArcSwap<Features>>,
    pub stores: Stores,
    pub limits: Limits,
    /// One in this many unchanged answers has a log line; 0 for none.
    pub log_sample: u32,
    /// Recognizes API servers.
    pub callers: CallerCheck,
}

/// Answers admission requests, with bodies from anywhere. Clones share everything.
#[derive(Clone)]
pub struct Router {
    shared: Arc<RouterContext>,
}

struct RouterContext {
    endpoints: Vec<&'static dyn AnyEndpoint>,
    limits: Limits,
    evaluator: Evaluator,
    intake: Intake,
    lanes: Lanes,
    audit: Audit,
    callers: CallerCheck,
}

/// Path of the health probe.
const HEALTHZ: &str = "/healthz";

/// Counts a request as in flight while it lives.
struct InFlight(::metrics::Gauge);

impl Default for Limits {
    /// 16 MiB hold 200 heartbeats of usual size.
    fn default() -> Self {
        Self {
            body_bytes: LONGEST_REVIEW,
            concurrent: 256,
            buffered_kib: 16 << 10,
        }
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router")
            .field("limits", &self.shared.limits)
            .finish_non_exhaustive()
    }
}

impl Router {
    /// A router over these endpoints.
    pub fn new(options: Options) -> Self {
        Self::with_time_of_day(options, Timestamp::now)
    }

    /// A router over these endpoints that asks this function for the time of day.
    pub fn with_time_of_day(options: Options, time_of_day: fn() -> Timestamp) -> Self {
        let Options {
            endpoints,
            features,
            stores,
            limits,
            log_sample,
            callers,
        } = options;
        Self {
            shared: Arc::new(RouterContext {
                intake: Intake::new(&limits),
                lanes: Lanes::new(&endpoints, &limits),
                audit: Audit::new(log_sample),
                callers,
                evaluator: Evaluator::new(features, stores, time_of_day),
                endpoints,
                limits,
            }),
        }
    }

    /// The endpoint at `path`.
    ///
    /// # Errors
    /// If there is none.
    pub fn endpoint(&self, path: &str) -> Result<&'static dyn AnyEndpoint, AdmissionError> {
        self.shared.endpoint(path)
    }

    /// Answers any request; errors are answers too.
    pub async fn respond<B>(&self, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: Body + Send,
        B::Data: Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        self.shared.serve(request).await
    }

    /// Answers a review of any caller that is already in memory: decodes it, runs the steps, encodes the verdict. Waits
    /// for nothing.
    pub fn answer(&self, endpoint: &dyn AnyEndpoint, body: &[u8], deadline: Deadline) -> HttpAnswer {
        self.answer_to(ReviewCaller::Unverified, endpoint, body, deadline)
    }

    /// Answers like [`Router::answer`] to that caller.
    pub fn answer_to(
        &self,
        caller: ReviewCaller,
        endpoint: &dyn AnyEndpoint,
        body: &[u8],
        deadline: Deadline,
    ) -> HttpAnswer {
        let call = ReviewCall {
            endpoint,
            caller,
            deadline,
        };
        self.shared.evaluator.answer(call, body)
    }
}

impl RouterContext {
    async fn serve<B>(self: &Arc<Self>, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: Body + Send,
        B::Data: Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        if is_health_probe(&request) {
            return Response::new(Full::from("ok"));
        }
        let started = Instant::now();
        let _in_flight = InFlight::new();
        let (parts, body) = request.into_parts();
        let (label, answer) = match self.endpoint(parts.uri.path()) {
            Err(error) => ("none", HttpAnswer::from(error)),
            Ok(endpoint) => {
                // Its lines name the endpoint themselves.
                let span = tracing::debug_span!("review", endpoint = endpoint.label());
                (
                    endpoint.label(),
                    self.reply(endpoint, &parts, body, started).instrument(span).await,
                )
            }
        };
        let HttpAnswer {
            status,
            body,
            decision,
            pending,
        } = answer;
        // An answer whose client has left does not reach this line.
        pending.keep();
        self.audit.record(label, &decision, started.elapsed());
        let mut response = Response::new(Full::new(body));
        *response.status_mut() = status;
        let content_type = if status == StatusCode::OK {
            "application/json"
        } else {
            "text/plain; charset=utf-8"
        };
        response
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        if status == StatusCode::METHOD_NOT_ALLOWED {
            response
                .headers_mut()
                .insert(ALLOW, HeaderValue::from_static("POST"));
        }
        response
    }

    fn endpoint(&self, path: &str) -> Result<&'static dyn AnyEndpoint, AdmissionError> {
        let mut endpoints = self.endpoints.iter().copied();
        endpoints
            .find(|endpoint| endpoint.declaration().path == path)
            .ok_or_else(|| AdmissionError::UnknownPath {
                path: shortened(path),
            })
    }

    async fn reply<B>(
        self: &Arc<Self>,
        endpoint: &'static dyn AnyEndpoint,
        parts: &Parts,
        body: B,
        started: Instant,
    ) -> HttpAnswer
    where
        B: Body + Send,
        B::Data: Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let caller = match self.callers.check(parts.extensions.get()) {
            Ok(caller) => caller,
            Err(error) => return error.into(),
        };
        let deadline = Deadline::for_request(endpoint.declaration().timeout(), parts.uri.query(), started);
        let call = ReviewCall {
            endpoint,
            caller,
            deadline,
        };
        let received = match self.receive(endpoint, parts, body, deadline).await {
            Ok(received) => Arc::new(received),
            Err(error) => return error.into(),
        };
        // A later object may be the one that the request names.
        let give_up = (started + endpoint.longest_wait()).min(deadline.at());
        let mut wait = Wait::new(self.evaluator.arrivals(), give_up);
        let mut wait_limit = WaitLimit::NotReached;
        loop {
            let permit = self
                .lanes
                .acquire(endpoint, received.bytes().len(), deadline)
                .await;
            let permit = match permit {
                Ok(permit) => permit,
                Err(error) => return error.into(),
            };
            let attempt = if let Some(queue) = permit.offload_queue.clone() {
                self.attempt_offloaded(call, &queue, Arc::clone(&received), permit, wait_limit)
                    .await
            } else {
                // Free again after this attempt: no review waits for one that waits for an object.
                let _permit = permit;
                self.evaluator.attempt(call, received.bytes(), wait_limit)
            };
            match attempt {
                Attempt::Answered(answer) => return *answer,
                Attempt::Missing => {
                    let waited = received.unless_needed(wait.for_arrivals()).await;
                    wait_limit = waited.unwrap_or(WaitLimit::Reached);
                }
            }
        }
    }

    /// Receives the body of a request that has the form of a review.
    async fn receive<B>(
        &self,
        endpoint: &dyn AnyEndpoint,
        parts: &Parts,
        body: B,
        deadline: Deadline,
    ) -> Result<Received, AdmissionError>
    where
        B: Body + Send,
        B::Data: Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        if parts.method != Method::POST {
            return Err(AdmissionError::Method {
                method: parts.method.clone(),
            });
        }
        check_content_type(&parts.headers)?;
        let announced = parts
            .headers
            .get(CONTENT_LENGTH)
            .and_then(|length| length.to_str().ok()?.parse().ok());
        let declaration = endpoint.declaration();
        let (family, longest) = (declaration.family(), declaration.limits.body_bytes);
        self.intake
            .receive(family, body, announced, longest, deadline)
            .await
    }

    /// Answers on the offload thread. Body and permits stay until it is done; a request whose client has left before
    /// its turn is not started.
    async fn attempt_offloaded(
        self: &Arc<Self>,
        call: ReviewCall<'static>,
        queue: &Arc<SerialQueue>,
        received: Arc<Received>,
        permit: LanePermit,
        wait_limit: WaitLimit,
    ) -> Attempt {
        let (shared, span) = (Arc::clone(self), Span::current());
        let (answer_tx, answered) = oneshot::channel();
        queue.push(Box::new(move || {
            let _permit = permit;
            if answer_tx.is_closed() {
                return;
            }
            let attempt = span.in_scope(|| shared.evaluator.attempt(call, received.bytes(), wait_limit));
            let _is_awaited = answer_tx.send(attempt).is_ok();
        }));
        let error = match timeout_at(call.deadline.at().into(), answered).await {
            Ok(Ok(attempt)) => return attempt,
            Ok(Err(_panic)) => AdmissionError::Panicked { step: "answer" },
            Err(_elapsed) => call.deadline.error(),
        };
        Attempt::Answered(Box::new(error.into()))
    }
}

impl InFlight {
    fn new() -> Self {
        let gauge = metrics::IN_FLIGHT.with([]);
        gauge.increment(1.0);
        Self(gauge)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

/// Only JSON is read, with or without parameters; compressed bodies would not be JSON.
/// True for a health probe, which koord-manager answers on its port as well. The answer contains no data.
fn is_health_probe<B>(request: &Request<B>) -> bool {
    [Method::GET, Method::HEAD].contains(request.method()) && request.uri().path() == HEALTHZ
}

fn check_content_type(headers: &HeaderMap) -> Result<(), AdmissionError> {
    let found = headers
        .get(CONTENT_TYPE)
        .map_or(b"".as_slice(), HeaderValue::as_bytes);
    let essence = found
        .split(|&byte| byte == b';')
        .next()
        .unwrap_or_default()
        .trim_ascii();
    if essence.eq_ignore_ascii_case(b"application/json") {
        return Ok(());
    }
    Err(AdmissionError::ContentType {
        found: shortened(&String::from_utf8_lossy(found)),
    })
}

#[cfg(test)]
mod tests;
