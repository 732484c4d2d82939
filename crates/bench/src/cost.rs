//! What a review costs: CPU time in memory, of a bare parse of the same bytes in turns with it, and of the server at the TLS
//! socket.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use headroom_testbed::thread::cpu_time;
use headroom_webhook::admission::{endpoint::Deadline, error::ReviewOutcome, router::Router};
use serde::{Serialize, de::IgnoredAny};
use tokio::runtime::Runtime;

use crate::{
    percentile,
    served::{Process, Served, load},
};

/// Reviews before those that are timed, to fill caches.
const WARM_UP: usize = 100;

/// The figures of one review that is asked for again and again.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ReviewCost {
    /// Length of the review.
    pub(crate) review_bytes: usize,
    /// Operations of the patch.
    pub(crate) operations: usize,
    /// Length of the answer.
    pub(crate) answer_bytes: usize,
    /// Reviews behind `review_*` and `parse_*`.
    pub(crate) samples: usize,
    /// CPU time to decode, decide and patch.
    pub(crate) review_us_p50: f64,
    /// CPU time to decode, decide and patch.
    pub(crate) review_us_p99: f64,
    /// CPU time to parse the same bytes into nothing.
    pub(crate) parse_us_p50: f64,
    /// `review_us_p50` / `parse_us_p50`.
    pub(crate) review_parse_ratio: f64,
    /// CPU time of the server for a review, with its part of TLS, of HTTP and of the kernel's work.
    pub(crate) tls_cpu_us_per_review: f64,
    /// `tls_cpu_us_per_review` / `parse_us_p50`.
    pub(crate) tls_cpu_parse_ratio: f64,
    /// Requests behind `tls_*`.
    pub(crate) tls_samples: usize,
    /// Time from the first byte out to the last byte in.
    pub(crate) tls_p50_ms: f64,
    /// Time from the first byte out to the last byte in.
    pub(crate) tls_p99_ms: f64,
}

/// CPU time of each review and of parsing its bytes, in microseconds, ascending.
struct MemoryCost {
    review: Vec<f64>,
    parse: Vec<f64>,
    operations: usize,
    answer_bytes: usize,
}

impl ReviewCost {
    /// Measures a review that is to be allowed: `samples` times in memory, then at the socket of that server.
    pub(crate) fn measure(
        runtime: &Runtime,
        served: &Served,
        path: &'static str,
        body: &[u8],
        samples: usize,
    ) -> Result<Self> {
        let MemoryCost {
            review,
            parse,
            operations,
            answer_bytes,
        } = in_memory(&(served.router)()?, path, body, samples)?;
        let server = Process::start(served)?;
        let load = runtime.block_on(load::run(&server, path, &body.to_vec().into()))?;
        let (review_us_p50, parse_us_p50) = (percentile(&review, 50), percentile(&parse, 50));
        Ok(Self {
            review_bytes: body.len(),
            operations,
            answer_bytes,
            samples: review.len(),
            review_us_p50,
            review_us_p99: percentile(&review, 99),
            parse_us_p50,
            review_parse_ratio: review_us_p50 / parse_us_p50,
            tls_cpu_us_per_review: load.cpu_us,
            tls_cpu_parse_ratio: load.cpu_us / parse_us_p50,
            tls_samples: load.latencies_ms.len(),
            tls_p50_ms: percentile(&load.latencies_ms, 50),
            tls_p99_ms: percentile(&load.latencies_ms, 99),
        })
    }
}

fn in_memory(router: &Router, path: &'static str, body: &[u8], samples: usize) -> Result<MemoryCost> {
    let endpoint = router.endpoint(path)?;
    let answer = || {
        let deadline = Deadline::after(Instant::now(), Duration::from_secs(60));
        router.answer(endpoint, black_box(body), deadline)
    };
    let first = answer();
    let decision = &first.decision;
    ensure!(
        decision.outcome == ReviewOutcome::Allowed && decision.errors.is_empty(),
        "not allowed: {decision:?}"
    );
    let mut times = MemoryCost {
        review: Vec::new(),
        parse: Vec::new(),
        operations: decision.operations,
        answer_bytes: first.body.len(),
    };
    for turn in 0..WARM_UP.min(samples) + samples {
        let reviewed = cpu_us(answer);
        let parsed = cpu_us(|| serde_json::from_slice::<IgnoredAny>(black_box(body)));
        if turn >= WARM_UP.min(samples) {
            times.review.push(reviewed);
            times.parse.push(parsed);
        }
    }
    for list in [&mut times.review, &mut times.parse] {
        list.sort_by(f64::total_cmp);
    }
    Ok(times)
}

/// CPU time that this thread takes for `work`, in microseconds.
pub(crate) fn cpu_us<T>(work: impl FnOnce() -> T) -> f64 {
    let start = cpu_time();
    black_box(work());
    cpu_time().saturating_sub(start).as_secs_f64() * 1e6
}
