//! `bench node-status`: what an 80 kB nodes/status review costs, in memory and at the TLS socket.

mod load;
pub(crate) mod review;
mod withheld;

use std::{
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use headroom_domain::{
    capacity::Held,
    hint::{Asked, Found, Note, Standing},
    policy::{Mode, Policy},
    resource::PerResource,
};
use headroom_kit::gate::GateSet;
use headroom_testbed::{pathological, thread::cpu_time};
use headroom_webhook::{
    endpoint::{Deadline, Nodes},
    endpoints::{self, ENDPOINTS},
    node::{Labels, Node},
    policies::strategies::Strategies,
    router::{Limits, Options, Router},
};
use serde::{Serialize, de::IgnoredAny};

use self::withheld::CROWD;
use super::{
    criterion::Criterion,
    percentile,
    row::{Outcome, Row, no_flags},
};

/// The bench.
pub static ROW: Row = Row {
    name: "node-status",
    about: "The webhook on an 80 kB nodes/status review: CPU per review, requests per second at the TLS socket, and the same beside bodies that are withheld or made to be dear.",
    flags: no_flags,
    run: |_| {
        let report = run()?;
        Outcome::new(&report, report.criteria())
    },
};

/// Path of the endpoint under test.
const PATH: &str = "/mutate-node-status";
/// Reviews timed one by one in memory.
const SAMPLES: usize = 5_000;
/// Reviews before them, to fill caches.
const WARM_UP: usize = 500;

/// The figures. `review_*` and `parse_*` are CPU time of one thread, `tls_*` time on the wall.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Length of the review.
    pub review_bytes: usize,
    /// Length of the object in it; oldObject is as long.
    pub object_bytes: usize,
    /// Reviews behind `review_*` and `parse_*`.
    pub samples: usize,
    /// Decode, decide and patch.
    pub review_us_p50: f64,
    /// Decode, decide and patch.
    pub review_us_p99: f64,
    /// Parsing the same bytes into nothing, in turns with the reviews.
    pub parse_us_p50: f64,
    /// Parsing the same bytes into nothing.
    pub parse_us_p99: f64,
    /// `review_us_p50` / `parse_us_p50`.
    pub review_parse_ratio: f64,
    /// Connections kept alive.
    pub tls_connections: usize,
    /// Requests behind `tls_*`.
    pub tls_samples: usize,
    /// Requests per second over all connections; client and server share the machine.
    pub tls_rps: f64,
    /// Time from the first byte out to the last byte in.
    pub tls_p50_ms: f64,
    /// Time from the first byte out to the last byte in.
    pub tls_p99_ms: f64,
    /// Good reviews a second for the figures below, each timed from the moment at which it was due.
    pub steady_per_second: u32,
    /// Reviews behind each of them.
    pub steady_samples: usize,
    /// With nobody else.
    pub steady_p50_ms: f64,
    /// With nobody else.
    pub steady_p99_ms: f64,
    /// Connections that withhold their bodies meanwhile.
    pub withheld_connections: usize,
    /// Connections that send the first byte of theirs.
    pub trickled_connections: usize,
    /// Beside them.
    pub withheld_p50_ms: f64,
    /// Beside them.
    pub withheld_p99_ms: f64,
    /// Good reviews that got no verdict.
    pub withheld_refused: usize,
    /// CPU time of the dearest of the bodies of 3 MB and of 7 MiB that are made to be dear.
    pub dearest_cpu_ms: f64,
}

/// A node in `auto` with a fresh hint and pods on it.
struct OneNode {
    hint: Found,
}

impl Nodes for OneNode {
    fn policy(&self, _labels: &dyn Fn() -> Labels) -> Option<Policy> {
        Some(Policy {
            mode: Mode::Auto,
            ..Policy::default()
        })
    }

    fn hint(&self, _asked: &Asked<'_>) -> Option<Found> {
        Some(self.hint.clone())
    }

    fn stored(&self, _node: &str) -> Option<Arc<Node>> {
        None
    }

    fn is_contested(&self, _node: &str) -> Option<bool> {
        Some(false)
    }

    fn held(
        &self,
        _node: &str,
        _stored: PerResource<Option<u64>>,
        _is_told: bool,
    ) -> Option<PerResource<Held>> {
        let held = |admitted| Held {
            admitted,
            fit: admitted,
        };
        Some(PerResource {
            cpu: held(9_300),
            memory: held(21 << 30),
        })
    }

    fn strategies(&self) -> Arc<Strategies> {
        Arc::default()
    }
}

/// Measures.
///
/// # Errors
/// If the review is not answered with a patch, or the load cannot be put on.
pub fn run() -> Result<Report> {
    let reviews = review::kubelet_syncs(8);
    let first = reviews.first().context("there are reviews")?;
    let router = router()?;
    let (review_us, parse_us) = in_memory(&router, &reviews)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let dearest_cpu_ms = dearest_ms(&router)?;
    let load = runtime.block_on(load::run(router.clone(), PATH, first.body.clone().into()))?;
    let beside = runtime.block_on(withheld::run(router, PATH, first.body.clone().into(), CROWD))?;
    ensure!(
        beside.crowded_ms.len() >= 100,
        "only {} samples",
        beside.crowded_ms.len()
    );
    let (review_us_p50, parse_us_p50) = (percentile(&review_us, 50), percentile(&parse_us, 50));
    Ok(Report {
        review_bytes: first.body.len(),
        object_bytes: first.object_bytes,
        samples: review_us.len(),
        review_us_p50,
        review_us_p99: percentile(&review_us, 99),
        parse_us_p50,
        parse_us_p99: percentile(&parse_us, 99),
        review_parse_ratio: review_us_p50 / parse_us_p50,
        tls_connections: load::CONNECTIONS,
        tls_samples: load.latencies_ms.len(),
        tls_rps: load.per_second,
        tls_p50_ms: percentile(&load.latencies_ms, 50),
        tls_p99_ms: percentile(&load.latencies_ms, 99),
        steady_per_second: withheld::PER_SECOND,
        steady_samples: beside.crowded_ms.len(),
        steady_p50_ms: percentile(&beside.alone_ms, 50),
        steady_p99_ms: percentile(&beside.alone_ms, 99),
        withheld_connections: CROWD.withheld,
        trickled_connections: CROWD.trickled,
        withheld_p50_ms: percentile(&beside.crowded_ms, 50),
        withheld_p99_ms: percentile(&beside.crowded_ms, 99),
        withheld_refused: beside.refused,
        dearest_cpu_ms,
    })
}

impl Report {
    /// Who withholds a body may at most double the time of others, and no body may be dear.
    fn criteria(&self) -> Vec<Criterion> {
        let at_most = |figure: &str, measured, most| Criterion {
            figure: figure.to_owned(),
            measured,
            range: f64::NEG_INFINITY..=most,
        };
        vec![
            at_most(
                "withheld_p99_ms",
                self.withheld_p99_ms,
                (2.0 * self.steady_p99_ms).max(5.0),
            ),
            #[expect(clippy::cast_precision_loss, reason = "a few hundred at most")]
            at_most("withheld_refused", self.withheld_refused as f64, 0.0),
            at_most("dearest_cpu_ms", self.dearest_cpu_ms, 50.0),
        ]
    }
}

/// CPU time of the dearest body, in milliseconds.
fn dearest_ms(router: &Router) -> Result<f64> {
    let endpoint = router.endpoint(PATH)?;
    let mut dearest: f64 = 0.0;
    for shape in pathological::shapes("status", "system:node:n1") {
        for bytes in [3_000_000, 7 << 20] {
            let body = shape.body(bytes);
            let deadline = Deadline::after(Instant::now(), Duration::from_secs(60));
            let ms = cpu_us(|| router.answer(endpoint, black_box(body.as_bytes()), deadline)) / 1e3;
            dearest = dearest.max(ms);
        }
    }
    Ok(dearest)
}

fn router() -> Result<Router> {
    let note: Note = review::HINT.parse()?;
    Ok(Router::new(Options {
        endpoints: ENDPOINTS,
        gates: GateSet::parse(endpoints::gates(), "")?,
        nodes: Arc::new(OneNode {
            hint: Found::new(note, Standing::Fresh),
        }),
        limits: Limits::default(),
        heartbeat_interval: Duration::from_secs(300),
        denies_above_hint: false,
        log_sample: 0,
    }))
}

/// CPU time of each review and of parsing its bytes, in microseconds, ascending.
fn in_memory(router: &Router, reviews: &[review::Sync]) -> Result<(Vec<f64>, Vec<f64>)> {
    let endpoint = router.endpoint(PATH)?;
    let answer = |body: &[u8]| {
        let deadline = Deadline::after(Instant::now(), Duration::from_secs(1));
        router.answer(endpoint, black_box(body), deadline)
    };
    for sync in reviews {
        let decision = answer(&sync.body).decision;
        ensure!(
            decision.operations > 0 && decision.errors.is_empty(),
            "not patched: {decision:?}"
        );
    }
    let (mut review_us, mut parse_us) = (Vec::new(), Vec::new());
    for (turn, sync) in reviews.iter().cycle().take(WARM_UP + SAMPLES).enumerate() {
        let reviewed = cpu_us(|| answer(&sync.body));
        let parsed = cpu_us(|| serde_json::from_slice::<IgnoredAny>(black_box(&sync.body)));
        if turn >= WARM_UP {
            review_us.push(reviewed);
            parse_us.push(parsed);
        }
    }
    review_us.sort_by(f64::total_cmp);
    parse_us.sort_by(f64::total_cmp);
    Ok((review_us, parse_us))
}

/// CPU time that this thread takes for `work`, in microseconds.
fn cpu_us<T>(work: impl FnOnce() -> T) -> f64 {
    let start = cpu_time();
    black_box(work());
    cpu_time().saturating_sub(start).as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use super::{withheld::Crowd, *};

    #[test]
    fn a_review_has_the_size_of_a_kubelet_with_fifty_images() {
        for sync in review::kubelet_syncs(3) {
            assert!(
                (39_000..=41_000).contains(&sync.object_bytes),
                "{}",
                sync.object_bytes
            );
            assert!(
                (78_000..=83_000).contains(&sync.body.len()),
                "{}",
                sync.body.len()
            );
        }
    }

    #[test]
    fn reviews_are_asked_at_a_steady_pace_alone_and_beside_a_crowd() {
        let router = router().unwrap();
        let body = review::kubelet_syncs(1)[0].body.clone();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        let crowd = Crowd {
            withheld: 32,
            trickled: 8,
            waves: 1,
        };
        let found = runtime
            .block_on(withheld::run(router, PATH, body.into(), crowd))
            .unwrap();
        let asked = found.alone_ms.len() + found.crowded_ms.len() + found.refused;
        assert!((100..=120).contains(&asked), "{asked} reviews");
    }

    #[test]
    fn the_review_under_test_is_patched() {
        let reviews = review::kubelet_syncs(1);
        let router = router().unwrap();
        let deadline = Deadline::after(Instant::now(), Duration::from_secs(60));
        let decision = router
            .answer(router.endpoint(PATH).unwrap(), &reviews[0].body, deadline)
            .decision;
        assert!(
            decision.operations > 0 && decision.errors.is_empty(),
            "{decision:?}"
        );
    }
}
