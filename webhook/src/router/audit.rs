//! What remains of a request: counters and one line.

use std::time::Duration;

use super::Decision;
use crate::{metrics, review::Request};

/// The longest of the texts that a client chose, in bytes; what Kubernetes allows as names is shorter.
const LONGEST: usize = 512;

/// Counts a decision and writes its line. No part of an object is in it; texts that a client chose are fields of
/// their own, which every log format quotes.
pub(super) fn record(endpoint: &'static str, decision: &Decision, duration: Duration) {
    let Decision {
        request,
        outcome,
        operations,
        acted,
        errors,
    } = decision;
    let operation = request
        .as_ref()
        .map_or("none", |request| request.operation.name());
    metrics::REVIEWS
        .with([endpoint, operation, outcome.label()])
        .increment(1);
    metrics::REVIEW_SECONDS
        .with([endpoint, outcome.label()])
        .record(duration);
    let request = request.as_ref();
    let reasons: Vec<String> = errors.iter().map(|error| error.reason().to_string()).collect();
    let text = |text: fn(&Request) -> &str| request.map(|request| start(text(request)));
    tracing::info!(
        target: "headroom::audit",
        endpoint,
        operation,
        uid = text(|request| &request.uid),
        user = text(|request| &request.user.name),
        resource = text(|request| &request.resource),
        sub_resource = text(|request| &request.sub_resource),
        namespace = text(|request| &request.namespace),
        name = text(|request| &request.name),
        dry_run = request.map(|request| request.is_dry_run),
        outcome = outcome.label(),
        steps = acted.join(","),
        operations,
        reasons = reasons.join("; "),
        duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX),
        "reviewed"
    );
}

/// The start of a text.
fn start(text: &str) -> &str {
    text.get(..text.floor_char_boundary(LONGEST)).unwrap_or_default()
}
