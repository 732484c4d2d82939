//! What remains of a request: counters and one line.

use std::time::Duration;

use super::Decision;
use crate::metrics;

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
    tracing::info!(
        target: "headroom::audit",
        endpoint,
        operation,
        uid = request.map(|request| request.uid.as_str()),
        user = request.map(|request| request.user.name.as_str()),
        resource = request.map(|request| request.resource.as_str()),
        sub_resource = request.map(|request| request.sub_resource.as_str()),
        namespace = request.map(|request| request.namespace.as_str()),
        name = request.map(|request| request.name.as_str()),
        dry_run = request.map(|request| request.is_dry_run),
        outcome = outcome.label(),
        steps = acted.join(","),
        operations,
        reasons = reasons.join("; "),
        duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX),
        "reviewed"
    );
}
