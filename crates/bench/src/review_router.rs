//! Builds the webhook's admission router for benches, and the reviews that it answers in memory.

use std::time::{Duration, Instant};

use anyhow::Result;
use headroom_kit::gate::GateSet;
use headroom_webhook::{
    admission::{
        callers::CallerCheck,
        endpoint::{AnyEndpoint, Deadline, Family, Stores},
        endpoints,
        features::Features,
        router::{HttpAnswer, Limits, Options, Router},
    },
    args::LOG_SAMPLE,
    store::sources,
};
use serde_json::{Value, json};
use tokio::sync::watch;

/// Longer than any review takes in memory.
const DEADLINE: Duration = Duration::from_secs(60);

/// A router for the endpoints of `families` with default limits.
///
/// # Errors
/// If a gate in `gates` is unknown.
pub(crate) fn router(families: &[Family], gates: &str, stores: Stores) -> Result<Router> {
    router_with(families, gates, stores, &[])
}

/// Extends [`router`] with more endpoints.
pub(crate) fn router_with(
    families: &[Family],
    gates: &str,
    stores: Stores,
    additional: &[&'static dyn AnyEndpoint],
) -> Result<Router> {
    let endpoints = endpoints::served(families).into_iter();
    Ok(Router::new(Options {
        endpoints: endpoints.chain(additional.iter().copied()).collect(),
        features: Features::with_gates(GateSet::parse(endpoints::gates(), gates)?).shared(),
        stores,
        limits: Limits::default(),
        log_sample: LOG_SAMPLE,
        callers: CallerCheck::default(),
    }))
}

/// Empty stores whose sources all count as listed, so that no endpoint refuses for lack of data.
pub(crate) fn listed_stores() -> Stores {
    let stores = Stores::default();
    for source in sources::ALL {
        stores.known.record(source, watch::channel(true).1);
    }
    stores
}

/// Answers one review on this thread, without HTTP and TLS.
pub(crate) fn answer(router: &Router, endpoint: &dyn AnyEndpoint, body: &[u8]) -> HttpAnswer {
    router.answer(endpoint, body, Deadline::after(Instant::now(), DEADLINE))
}

/// The body of an AdmissionReview with this request.
pub(crate) fn admission_review(request: &Value) -> Vec<u8> {
    json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request})
        .to_string()
        .into_bytes()
}
