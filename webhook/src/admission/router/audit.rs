//! Counts decisions, and writes an audit line for those that change or refuse something. Of all others, one in N gets
//! a line, or none if the sample is 0.

use std::{
    num::NonZeroU32,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use super::ReviewDecision;
use crate::admission::{error::ReviewOutcome, metrics, review::Request};

/// Length limit of texts that a client chose, in bytes; Kubernetes' names are shorter.
const LONGEST: usize = 512;

/// Counts decisions and writes their lines.
#[derive(Debug)]
pub(super) struct Audit {
    /// One in this many unchanged decisions has a line; `None` for no lines.
    sample: Option<NonZeroU32>,
    unchanged: AtomicU32,
}

impl Audit {
    /// An audit that writes lines for one in `sample` decisions that change nothing, the first included; for none if it is 0.
    pub(super) const fn new(sample: u32) -> Self {
        Self {
            sample: NonZeroU32::new(sample),
            unchanged: AtomicU32::new(0),
        }
    }

    /// Counts a decision, and writes its line if it changes something, does not allow, or stands for those that have none.
    pub(super) fn record(&self, endpoint: &'static str, decision: &ReviewDecision, duration: Duration) {
        let operation = operation(decision);
        let result = decision.outcome.label();
        metrics::REVIEWS.with([endpoint, operation, result]).increment(1);
        metrics::REVIEW_SECONDS.with([endpoint, result]).record(duration);
        if decision.changes || decision.outcome != ReviewOutcome::Allowed {
            write(endpoint, decision, duration, None);
        } else if let Some(sample) = self.sample
            && self
                .unchanged
                .fetch_add(1, Ordering::Relaxed)
                .is_multiple_of(sample.get())
        {
            write(endpoint, decision, duration, Some(sample.get()));
        }
    }
}

fn operation(decision: &ReviewDecision) -> &'static str {
    let request = decision.request.as_ref();
    request.map_or("none", |request| request.operation.name())
}

/// Writes the line of a decision, which stands for `sample` of them. No part of an object is in it; texts that a client
/// chose are fields of their own, which every log format quotes.
fn write(endpoint: &'static str, decision: &ReviewDecision, duration: Duration, sample: Option<u32>) {
    let ReviewDecision {
        request,
        outcome,
        operations,
        changes,
        acted,
        errors,
    } = decision;
    let request = request.as_ref();
    let reasons: Vec<String> = errors.iter().map(|error| error.reason().to_string()).collect();
    let text = |text: fn(&Request) -> &str| request.map(|request| start(text(request)));
    tracing::info!(
        target: "headroom::audit",
        endpoint,
        operation = operation(decision),
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
        changes,
        sample,
        reasons = reasons.join("; "),
        duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX),
        "reviewed"
    );
}

/// The start of a text.
fn start(text: &str) -> &str {
    text.get(..text.floor_char_boundary(LONGEST)).unwrap_or_default()
}
