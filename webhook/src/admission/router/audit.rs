//! Counts decisions, and writes an audit line for those that change or refuse something, within a rate for each endpoint
//! and outcome. Of all others, one in N gets a line, or none if the sample is 0.

use std::{
    num::NonZeroU32,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use headroom_kit::log::LineLimit;

use super::ReviewDecision;
use crate::admission::{
    error::{AdmissionError, ReviewOutcome},
    metrics,
    review::Request,
};

/// Length limit of texts that a client chose, in bytes; Kubernetes' names are shorter.
const LONGEST: usize = 512;
/// Interval of lines of one endpoint and outcome: any client that reaches the port can cause lines.
const LINE_EVERY: Duration = Duration::from_millis(50);
/// Lines of one endpoint and outcome after a quiet time.
const LINE_BURST: u32 = 1000;

/// Counts decisions and writes their lines.
#[derive(Debug)]
pub(super) struct Audit {
    /// One in this many unchanged decisions has a line; `None` for no lines.
    sample: Option<NonZeroU32>,
    unchanged: AtomicU32,
    /// Lines by endpoint, outcome, and if something changes.
    lines: LineLimit<(&'static str, &'static str, bool)>,
}

/// Decisions that a line stands for in addition to its own.
#[derive(Debug, Clone, Copy)]
struct Represented {
    /// It stands for this number of unchanged decisions.
    sample: Option<u32>,
    /// Lines of its kind that were left out before it.
    left_out: u64,
}

impl Audit {
    /// An audit that writes lines for one in `sample` decisions that change nothing, the first included; for none if it is 0.
    pub(super) fn new(sample: u32) -> Self {
        Self {
            sample: NonZeroU32::new(sample),
            unchanged: AtomicU32::new(0),
            lines: LineLimit::new(LINE_EVERY, LINE_BURST),
        }
    }

    /// Counts a decision, and writes its line if it changes something, does not allow, or stands for those that have none.
    pub(super) fn record(&self, endpoint: &'static str, decision: &ReviewDecision, duration: Duration) {
        let operation = operation(decision);
        let result = decision.outcome.label();
        metrics::REVIEWS.with([endpoint, operation, result]).increment(1);
        metrics::REVIEW_SECONDS.with([endpoint, result]).record(duration);
        // Any client could write lines, and the replica's own calls of its port would.
        if let [AdmissionError::Caller] = decision.errors.as_slice() {
            return;
        }
        let sample = if decision.changes || decision.outcome != ReviewOutcome::Allowed {
            None
        } else if let Some(sample) = self.sample
            && self
                .unchanged
                .fetch_add(1, Ordering::Relaxed)
                .is_multiple_of(sample.get())
        {
            Some(sample.get())
        } else {
            return;
        };
        if let Some(left_out) = self.lines.line((endpoint, result, decision.changes)) {
            write(endpoint, decision, duration, Represented { sample, left_out });
        }
    }
}

fn operation(decision: &ReviewDecision) -> &'static str {
    let request = decision.request.as_ref();
    request.map_or("none", |request| request.operation.name())
}

/// Writes the line of a decision. No part of an object is in it; texts that a client
/// chose are fields of their own, which every log format quotes.
fn write(endpoint: &'static str, decision: &ReviewDecision, duration: Duration, represented: Represented) {
    let Represented { sample, left_out } = represented;
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
        caller = request.map(|request| request.caller.name()),
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
        left_out = (left_out > 0).then_some(left_out),
        reasons = reasons.join("; "),
        duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX),
        "reviewed"
    );
}

/// The start of a text.
fn start(text: &str) -> &str {
    text.get(..text.floor_char_boundary(LONGEST)).unwrap_or_default()
}
