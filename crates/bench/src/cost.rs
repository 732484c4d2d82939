//! Measures the cost of a review: CPU time in memory, alternating with a bare parse of the same bytes, and CPU time
//! of the server over TLS.

use std::hint::black_box;

use anyhow::{Result, ensure};
use headroom_testbed::thread::cpu_time;
use headroom_webhook::admission::{error::ReviewOutcome, router::Router};
use serde::{Serialize, de::IgnoredAny};
use tokio::runtime::Runtime;

use crate::{
    review_router::answer,
    served::{Process, Served, load},
    statistics::{ascending, percentile},
};

/// Reviews before the timed ones, to fill caches.
const WARM_UP: usize = 100;

/// The figures of one review that is sent repeatedly.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ReviewCost {
    pub(crate) review_bytes: usize,
    pub(crate) operations: usize,
    pub(crate) answer_bytes: usize,
    /// Reviews behind `review_*` and `parse_*`.
    pub(crate) samples: usize,
    /// CPU time to decode, decide and patch.
    pub(crate) review_us_p50: f64,
    pub(crate) review_us_p99: f64,
    /// CPU time to parse the same bytes and discard them.
    pub(crate) parse_us_p50: f64,
    pub(crate) review_parse_ratio: f64,
    /// CPU time of the server per review, including TLS, HTTP and the kernel's part.
    pub(crate) tls_cpu_us_per_review: f64,
    pub(crate) tls_cpu_parse_ratio: f64,
    pub(crate) tls_samples: usize,
    /// Time from the first byte sent to the last byte received.
    pub(crate) tls_p50_ms: f64,
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
    /// Measures an allowed review: `samples` times in memory, then over TLS.
    ///
    /// # Errors
    /// If the review is not allowed, or the server cannot be started.
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
    let answer = || answer(router, endpoint, black_box(body));
    let first = answer();
    let decision = &first.decision;
    ensure!(
        decision.outcome == ReviewOutcome::Allowed && decision.errors.is_empty(),
        "the review was not allowed: {decision:?}"
    );
    let (mut review, mut parse) = (Vec::new(), Vec::new());
    for turn in 0..WARM_UP.min(samples) + samples {
        let review_us = cpu_us(answer);
        let parse_us = cpu_us(|| serde_json::from_slice::<IgnoredAny>(black_box(body)));
        if turn >= WARM_UP.min(samples) {
            review.push(review_us);
            parse.push(parse_us);
        }
    }
    Ok(MemoryCost {
        review: ascending(review),
        parse: ascending(parse),
        operations: decision.operations,
        answer_bytes: first.body.len(),
    })
}

/// CPU time of this thread during `work`, in microseconds.
pub(crate) fn cpu_us<T>(work: impl FnOnce() -> T) -> f64 {
    let start = cpu_time();
    black_box(work());
    cpu_time().saturating_sub(start).as_secs_f64() * 1e6
}
