//! The admin port: probes, metrics and pages of the process, over plain HTTP/1.1.

mod page;
mod readiness;

use std::{collections::BTreeMap, future::ready, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{
    Method, Request, Response, StatusCode,
    header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue},
};
use http_body_util::Full;
use serde::Serialize;
use tokio::{
    select,
    time::{MissedTickBehavior, interval},
};
use tracing::error;

use self::page::Page;
pub use self::readiness::{PartReadiness, Readiness};
use crate::{
    metric::{Exporter, process::BUILD_INFO},
    serve::{Limits, Listener, Peer},
    supervise::Shutdown,
};

/// Liveness probe: 200 whenever the process answers.
pub const LIVEZ: &str = "/livez";
/// Readiness probe: 200 if every required part is ready and the process is not draining, else 503.
pub const READYZ: &str = "/readyz";
/// Legacy alias of the liveness probe [`LIVEZ`].
pub const HEALTHZ: &str = "/healthz";
/// Endpoint of metrics in the Prometheus text format.
pub const METRICS: &str = "/metrics";

/// Limits of an admin port, sized for probes, one or two scrapers and a debugging user. One address cannot use up all
/// connections. A new connection, such as a probe, is refused only if every open connection is younger than the 50 ms
/// of `settle`.
pub const LIMITS: Limits = Limits {
    connections: 64,
    unproven: 64,
    per_source: Some(16),
    settle: Duration::from_millis(50),
    handshake: Duration::from_secs(3),
    header: Duration::from_secs(5),
    idle: Duration::from_secs(120),
    age: None,
    write: Duration::from_secs(5),
    drain: Duration::from_secs(1),
};

/// Content type of the Prometheus text format, version 0.0.4.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Interval at which recorded observations are folded into buckets.
const UPKEEP: Duration = Duration::from_secs(5);

/// The admin port of a process: probes, metrics and pages.
#[derive(Clone)]
pub struct Admin {
    exporter: Exporter,
    readiness: Readiness,
    metrics: Arc<Page>,
    pages: BTreeMap<&'static str, Arc<Page>>,
}

impl Admin {
    /// Serves probes and metrics of a program; `component` is its label in `headroom_build_info`.
    pub fn new(component: &'static str, exporter: Exporter, readiness: Readiness) -> Self {
        BUILD_INFO.with([component, env!("CARGO_PKG_VERSION")]).set(1.0);
        let rendered = exporter.clone();
        let metrics = Page::new(METRICS_TYPE, move || Ok(rendered.render().into_bytes()));
        Self {
            exporter,
            readiness,
            metrics: Arc::new(metrics),
            pages: BTreeMap::new(),
        }
    }

    /// Runs `refresh` before metrics are rendered, at a steady rate of at most ten times a second: for gauges that
    /// are computed at scrape time. It must not block.
    pub fn before_metrics(mut self, refresh: impl Fn() + Send + Sync + 'static) -> Self {
        let rendered = self.exporter.clone();
        self.metrics = Arc::new(Page::new(METRICS_TYPE, move || {
            refresh();
            Ok(rendered.render().into_bytes())
        }));
        self
    }

    /// Adds a JSON page for clients in the same network namespace (the same machine or pod, which includes `kubectl
    /// port-forward`); other clients get 403. The closure must not block. The page is rendered per request, at a
    /// steady rate of at most ten times a second; requests beyond it get the last rendering.
    pub fn local_json<T: Serialize>(
        mut self,
        path: &'static str,
        page: impl Fn() -> T + Send + Sync + 'static,
    ) -> Self {
        let page = Page::new("application/json", move || serde_json::to_vec_pretty(&page()));
        self.pages.insert(path, Arc::new(page));
        self
    }

    /// Serves until the process stops. While the process drains, `/readyz` fails whatever the handles report.
    pub async fn serve(self, listener: Listener, shutdown: Shutdown) {
        let exporter = self.exporter.clone();
        let upkeep = async {
            let mut ticks = interval(UPKEEP);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                exporter.upkeep();
            }
        };
        let draining = shutdown.draining().clone();
        let serving = listener.serve_http(None, shutdown, move |request| {
            ready(self.answer(&request, draining.is_cancelled()))
        });
        select! {
            () = serving => (),
            () = upkeep => (),
        }
    }

    fn answer<B>(&self, request: &Request<B>, is_draining: bool) -> Response<Full<Bytes>> {
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
            response
                .headers_mut()
                .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        let query = request.uri().query().unwrap_or_default();
        let is_verbose = query
            .split('&')
            .any(|pair| pair.split('=').next() == Some("verbose"));
        match request.uri().path() {
            path @ (LIVEZ | HEALTHZ) => probe(path, &[("ping", Ok(()))], &[], is_verbose),
            READYZ => {
                let mut checks = self.readiness.checks();
                let shutdown = if is_draining {
                    Err("shutting down".to_owned())
                } else {
                    Ok(())
                };
                checks.push(("shutdown", shutdown));
                probe(READYZ, &checks, &self.readiness.notes(), is_verbose)
            }
            METRICS => show(METRICS, &self.metrics),
            path => self.page(path, is_local(request)),
        }
    }

    fn page(&self, path: &str, is_local: bool) -> Response<Full<Bytes>> {
        let Some(page) = self.pages.get(path) else {
            let own = self.pages.keys().copied();
            let known: Vec<_> = [LIVEZ, READYZ, HEALTHZ, METRICS].into_iter().chain(own).collect();
            return text(
                StatusCode::NOT_FOUND,
                format!("not found; this port serves {}\n", known.join(", ")),
            );
        };
        if is_local {
            show(path, page)
        } else {
            let how = "use kubectl port-forward to the pod";
            text(
                StatusCode::FORBIDDEN,
                format!("{path} is served only to clients inside the pod; {how}\n"),
            )
        }
    }
}

/// Returns true if the client is in the same network namespace; false if its address is unknown.
fn is_local<B>(request: &Request<B>) -> bool {
    let peer = request.extensions().get::<Peer>();
    peer.is_some_and(|peer| peer.address.ip().to_canonical().is_loopback())
}

fn show(path: &str, page: &Page) -> Response<Full<Bytes>> {
    match page.show() {
        Ok(bytes) => response(StatusCode::OK, page.content_type(), bytes),
        Err(error) => {
            error!(path, %error, "cannot render page");
            text(
                StatusCode::INTERNAL_SERVER_ERROR,
                "cannot render this page; see the log\n",
            )
        }
    }
}

/// Name of a part, and the reason if it is not ready.
type PartState = (&'static str, Result<(), String>);

/// Formats a probe response like the Kubernetes API server does. `notes` are listed but do not affect the verdict.
fn probe(path: &str, checks: &[PartState], notes: &[PartState], is_verbose: bool) -> Response<Full<Bytes>> {
    let is_good = checks.iter().all(|(_, state)| state.is_ok());
    if is_good && !is_verbose {
        return text(StatusCode::OK, "ok");
    }
    let mut lines: Vec<_> = checks
        .iter()
        .map(|(name, state)| match state {
            Ok(()) => format!("[+]{name} ok\n"),
            Err(reason) => format!("[-]{name} failed: {reason}\n"),
        })
        .collect();
    lines.extend(notes.iter().map(|(name, state)| match state {
        Ok(()) => format!("[+]{name} ok\n"),
        Err(reason) => format!("[-]{name} failed (not required for readiness): {reason}\n"),
    }));
    let (status, verdict) = if is_good {
        (StatusCode::OK, "passed")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "failed")
    };
    lines.push(format!("{} check {verdict}\n", path.trim_start_matches('/')));
    text(status, lines.concat())
}

fn text(status: StatusCode, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    response(status, "text/plain; charset=utf-8", text)
}

fn response(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
        .headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
