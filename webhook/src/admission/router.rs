//! Routes requests of the admission port to endpoints, with shared limits, deadline, span, metrics and audit line.

mod answer;
mod audit;
mod buffer;
mod intake;
mod permits;

use std::{
    error::Error,
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use headroom_kit::gate::GateSet;
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode,
    header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE},
    request::Parts,
};
use http_body_util::Full;
use hyper::body::Body;
use json_patch::Patch;
use tokio::task::spawn_blocking;
use tracing::{Instrument as _, Span};

pub use self::answer::{HttpAnswer, ReviewDecision};
use self::{
    answer::StepResults,
    audit::Audit,
    intake::{Intake, Received},
    permits::{LanePermit, Lanes},
};
use crate::admission::{
    draft::{Draft, Notes},
    endpoint::{Ctx, Deadline, Endpoint, Kind, NodeLookup},
    error::AdmissionError,
    metrics, patch,
    review::{self, Review, ReviewVerdict, shortened},
};

/// What requests may ask of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Longest body, in bytes.
    pub body_bytes: usize,
    /// Reviews of one endpoint that are answered or wait for it with their bodies received; one more is turned away.
    pub concurrent: usize,
    /// Memory for all bodies up to 1 MiB together, in KiB; longer ones have room for two of the longest besides.
    pub buffered_kib: u32,
}

/// What a router is made of.
pub struct Options {
    /// The endpoints to serve.
    pub endpoints: &'static [&'static Endpoint],
    /// The gates in force.
    pub gates: GateSet,
    /// What steps know about nodes.
    pub nodes: Arc<dyn NodeLookup>,
    /// What requests may ask.
    pub limits: Limits,
    /// How far the stored heartbeat of an amplified node may stay behind; zero for not at all.
    pub heartbeat_interval: Duration,
    /// True if a ratio above the current hint is refused where it is written, and not only warned of.
    pub denies_above_hint: bool,
    /// Of the answers that change nothing, one in so many has a line in the log; 0 for none.
    pub log_sample: u32,
}

/// Answers admission requests, with bodies from anywhere. Clones share everything.
#[derive(Clone)]
pub struct Router {
    shared: Arc<RouterContext>,
}

struct RouterContext {
    options: Options,
    intake: Intake,
    lanes: Lanes,
    audit: Audit,
}

/// Counts a request as in flight while it lives.
struct InFlight(::metrics::Gauge);

impl Default for Limits {
    /// 7 MiB hold object and oldObject at the largest size that the API server takes from a client, 3 MiB, with room
    /// for what it adds to them; 32 MiB hold 400 heartbeats of usual size.
    fn default() -> Self {
        Self {
            body_bytes: 7 << 20,
            concurrent: 256,
            buffered_kib: 32 << 10,
        }
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router")
            .field("limits", &self.shared.options.limits)
            .finish_non_exhaustive()
    }
}

impl Router {
    /// A router over these endpoints.
    pub fn new(options: Options) -> Self {
        let intake = Intake::new(&options.limits);
        let lanes = Lanes::new(options.endpoints, &options.limits);
        let audit = Audit::new(options.log_sample);
        Self {
            shared: Arc::new(RouterContext {
                options,
                intake,
                lanes,
                audit,
            }),
        }
    }

    /// The endpoint at `path`.
    ///
    /// # Errors
    /// If there is none.
    pub fn endpoint(&self, path: &str) -> Result<&'static Endpoint, AdmissionError> {
        self.shared.endpoint(path)
    }

    /// Answers a request, whatever it is; errors are answers too.
    pub async fn respond<B>(&self, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: Body + Send,
        B::Data: Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        self.shared.serve(request).await
    }

    /// Answers a review that is already in memory: decodes it, runs the steps, encodes the verdict.
    pub fn answer(&self, endpoint: &Endpoint, body: &[u8], deadline: Deadline) -> HttpAnswer {
        self.shared.answer(endpoint, body, deadline)
    }
}

impl RouterContext {
    async fn serve<B>(self: &Arc<Self>, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: Body + Send,
        B::Data: Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
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
        } = answer;
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

    fn endpoint(&self, path: &str) -> Result<&'static Endpoint, AdmissionError> {
        let mut endpoints = self.options.endpoints.iter().copied();
        endpoints
            .find(|endpoint| endpoint.path == path)
            .ok_or_else(|| AdmissionError::UnknownPath {
                path: shortened(path),
            })
    }

    async fn reply<B>(
        self: &Arc<Self>,
        endpoint: &'static Endpoint,
        parts: &Parts,
        body: B,
        started: Instant,
    ) -> HttpAnswer
    where
        B: Body + Send,
        B::Data: Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let deadline = Deadline::for_request(endpoint, parts.uri.query(), started);
        match self.admit(endpoint, parts, body, deadline).await {
            Ok((received, turn)) if turn.is_large => {
                self.answer_apart(endpoint, received, turn, deadline).await
            }
            Ok((received, _turn)) => self.answer(endpoint, received.bytes(), deadline),
            Err(error) => error.into(),
        }
    }

    /// Receives the body of a request that looks like a review, and waits for its turn.
    async fn admit<B>(
        &self,
        endpoint: &'static Endpoint,
        parts: &Parts,
        body: B,
        deadline: Deadline,
    ) -> Result<(Received, LanePermit), AdmissionError>
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
        let received = self.intake.receive(body, announced, deadline).await?;
        let turn = self
            .lanes
            .turn(endpoint, received.bytes().len(), deadline)
            .await?;
        Ok((received, turn))
    }

    /// Answers where it keeps nobody waiting. Body and permits stay until it is done, also when nobody waits any more.
    async fn answer_apart(
        self: &Arc<Self>,
        endpoint: &'static Endpoint,
        received: Received,
        turn: LanePermit,
        deadline: Deadline,
    ) -> HttpAnswer {
        let (shared, span) = (Arc::clone(self), Span::current());
        let answered = spawn_blocking(move || {
            let _turn = turn;
            span.in_scope(|| shared.answer(endpoint, received.bytes(), deadline))
        });
        let answered = answered.await;
        answered.unwrap_or_else(|_panic| AdmissionError::Panicked { step: "answer" }.into())
    }

    fn answer(&self, endpoint: &Endpoint, body: &[u8], deadline: Deadline) -> HttpAnswer {
        let review = match review::decode(body) {
            Ok(review) => review,
            Err(error) => return error.into(),
        };
        let Review {
            version,
            request,
            object,
            old_object,
        } = review;
        // On DELETE the stored object is the only one; on CONNECT there may be none.
        let (object, old) = if object.is_some() {
            (object, old_object)
        } else {
            (old_object, None)
        };
        let draft = object
            .filter(|_| endpoint.serves(&request))
            .map(|object| Draft::new(object, old));
        let verdict = draft.map_or_else(
            || Ok(StepResults::default()),
            |draft| self.judge(endpoint, &request, draft, deadline),
        );
        let encoded = match &verdict {
            Ok(StepResults { patch, notes, .. }) => {
                review::encode(version, &request.uid, &ReviewVerdict::Allowed(patch), notes)
            }
            Err(AdmissionError::Denied(denial)) => review::encode(
                version,
                &request.uid,
                &ReviewVerdict::Denied(denial),
                &Notes::default(),
            ),
            Err(_) => Ok(Vec::new()),
        };
        match (verdict, encoded) {
            (Ok(results), Ok(body)) => HttpAnswer::allowed(request, results, body),
            (Err(error), Ok(body)) => HttpAnswer::refused(error, Some(request), body),
            (_, Err(error)) => HttpAnswer::refused(error, Some(request), Vec::new()),
        }
    }

    fn judge(
        &self,
        endpoint: &Endpoint,
        request: &review::Request,
        mut draft: Draft<'_>,
        deadline: Deadline,
    ) -> Result<StepResults, AdmissionError> {
        let Options {
            endpoints: _,
            gates,
            nodes,
            limits: _,
            heartbeat_interval,
            denies_above_hint,
            log_sample: _,
        } = &self.options;
        let ctx = Ctx {
            request,
            nodes: nodes.as_ref(),
            gates,
            heartbeat_interval: *heartbeat_interval,
            denies_above_hint: *denies_above_hint,
        };
        let admitted = endpoint.admit(&ctx, &mut draft, deadline)?;
        let is_renewal = draft.is_renewal();
        let (patch, notes) = match endpoint.kind {
            Kind::Mutating(_) => patch::into_operations(draft),
            Kind::Validating => (Patch(Vec::new()), draft.notes().clone()),
        };
        Ok(StepResults {
            patch,
            notes,
            admitted,
            is_renewal,
        })
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
