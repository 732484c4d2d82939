//! `bench node-status`: the cost of an 80 kB review of nodes/status, in memory and over TLS.

mod known_node;
pub(crate) mod review;
mod withheld;

use std::hint::black_box;

use anyhow::{Context as _, Result, ensure};
use headroom_webhook::admission::{
    draft::Tree,
    endpoint::{Family, Stores},
    router::Router,
};
use serde::{Serialize, de::IgnoredAny};
use tokio::runtime::Runtime;

use self::{known_node::stores, review::Kind, withheld::SLOW};
use super::{
    cost::cpu_us,
    criterion::Criterion,
    declaration::{BenchResult, Report, Row, no_flags},
    review_router::{self, answer},
    served::{Process, Served, load},
    statistics::{ascending, percentile},
};

pub static ROW: Row = Row {
    name: "node-status",
    about: "Measures an 80 kB review of nodes/status that is unchanged, amplified or quieted: CPU time per review in memory and over TLS, and latency while other connections withhold their bodies.",
    flags: no_flags,
    run: |_| BenchResult::new(&run()?),
};

pub(crate) static PLAIN: Served = Served {
    name: "nodes-plain",
    router: || router(Kind::Plain),
};
pub(crate) static AMPLIFIED: Served = Served {
    name: "nodes-amplified",
    router: || router(Kind::Amplified),
};
pub(crate) static QUIETED: Served = Served {
    name: "nodes-quieted",
    router: || router(Kind::Quieted),
};

pub(crate) const PATH: &str = "/mutate-node-status";
/// Reviews that are timed one by one in memory.
const SAMPLES: usize = 5_000;
/// Reviews before the timed ones, to fill caches.
const WARM_UP: usize = 500;

/// `review_*`, `parse_*` and `scan_*` are CPU time of one thread, `tls_cpu_*` of all threads of the server.
#[derive(Debug, Clone, Serialize)]
pub struct NodeStatusReport {
    /// A node that is not amplified.
    pub plain: KindFigures,
    /// An amplified node, with a write that is stored.
    pub amplified: KindFigures,
    /// An amplified node, with a write that is quieted.
    pub quieted: KindFigures,
    pub review_bytes: usize,
    /// Length of the object; oldObject is as long.
    pub object_bytes: usize,
    /// CPU time to parse an amplified node's review and discard it, alternating with the reviews.
    pub parse_us_p50: f64,
    pub parse_us_p99: f64,
    /// CPU time to locate the members that every review reads, in the same bytes.
    pub scan_us_p50: f64,
    pub tls_connections: usize,
    /// Rate of the reviews behind the figures below; each is timed from its due time.
    pub steady_per_second: u32,
    pub steady_samples: usize,
    pub steady_p50_ms: f64,
    pub steady_p99_ms: f64,
    /// Connections that meanwhile send no body.
    pub withheld_connections: usize,
    /// Connections that meanwhile send the first byte of a body.
    pub trickled_connections: usize,
    pub withheld_p50_ms: f64,
    pub withheld_p99_ms: f64,
    pub withheld_refused: usize,
}

/// Figures of one kind of review.
#[derive(Debug, Clone, Serialize)]
pub struct KindFigures {
    pub samples: usize,
    pub review_us_p50: f64,
    pub review_us_p99: f64,
    /// `review_us_p50` divided by `parse_us_p50` of the same bytes.
    pub review_parse_ratio: f64,
    /// CPU time of the server per review, including TLS, HTTP and the kernel's part.
    pub tls_cpu_us_per_review: f64,
    /// `tls_cpu_us_per_review` divided by `parse_us_p50` of the same bytes.
    pub tls_cpu_parse_ratio: f64,
    pub tls_samples: usize,
    /// Requests per second over all connections; clients and server share the machine.
    pub tls_rps: f64,
    /// Time from the first byte sent to the last byte received.
    pub tls_p50_ms: f64,
    pub tls_p99_ms: f64,
}

/// # Errors
/// If a review is not decided as its kind requires, or the load cannot be started.
pub fn run() -> Result<NodeStatusReport> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let of = |kind| kind_figures(kind, &runtime);
    let (plain, _) = of(Kind::Plain)?;
    let (quieted, _) = of(Kind::Quieted)?;
    let (amplified, in_memory) = of(Kind::Amplified)?;
    let reviews = review::kubelet_syncs(Kind::Amplified, 1);
    let first = reviews.first().context("no review was built")?;
    let router = router(Kind::Amplified)?;
    let latencies = runtime.block_on(withheld::run(router, PATH, first.body.clone().into(), SLOW))?;
    ensure!(
        latencies.crowded_ms.len() >= 100,
        "only {} reviews were answered",
        latencies.crowded_ms.len()
    );
    Ok(NodeStatusReport {
        plain,
        amplified,
        quieted,
        review_bytes: first.body.len(),
        object_bytes: first.object_bytes,
        parse_us_p50: percentile(&in_memory.parse, 50),
        parse_us_p99: percentile(&in_memory.parse, 99),
        scan_us_p50: percentile(&in_memory.scan, 50),
        tls_connections: load::CONNECTIONS,
        steady_per_second: withheld::PER_SECOND,
        steady_samples: latencies.crowded_ms.len(),
        steady_p50_ms: percentile(&latencies.alone_ms, 50),
        steady_p99_ms: percentile(&latencies.alone_ms, 99),
        withheld_connections: SLOW.withheld,
        trickled_connections: SLOW.trickled,
        withheld_p50_ms: percentile(&latencies.crowded_ms, 50),
        withheld_p99_ms: percentile(&latencies.crowded_ms, 99),
        withheld_refused: latencies.refused,
    })
}

/// Figures of one kind of review, in memory and over TLS.
fn kind_figures(kind: Kind, runtime: &Runtime) -> Result<(KindFigures, InMemory)> {
    let reviews = review::kubelet_syncs(kind, 8);
    let in_memory = in_memory(kind, &reviews)?;
    let first = reviews.first().context("no review was built")?;
    let server = Process::start(kind.served())?;
    let load = runtime.block_on(load::run(&server, PATH, &first.body.clone().into()))?;
    let review_us_p50 = percentile(&in_memory.review, 50);
    let parse_us_p50 = percentile(&in_memory.parse, 50);
    let figures = KindFigures {
        samples: in_memory.review.len(),
        review_us_p50,
        review_us_p99: percentile(&in_memory.review, 99),
        review_parse_ratio: review_us_p50 / parse_us_p50,
        tls_cpu_us_per_review: load.cpu_us,
        tls_cpu_parse_ratio: load.cpu_us / parse_us_p50,
        tls_samples: load.latencies_ms.len(),
        tls_rps: load.per_second,
        tls_p50_ms: percentile(&load.latencies_ms, 50),
        tls_p99_ms: percentile(&load.latencies_ms, 99),
    };
    Ok((figures, in_memory))
}

impl Report for NodeStatusReport {
    /// Withheld bodies at most double the latency of other reviews.
    fn criteria(&self) -> Vec<Criterion> {
        vec![
            Criterion::at_most(
                "withheld_p99_ms",
                self.withheld_p99_ms,
                (2.0 * self.steady_p99_ms).max(5.0),
            ),
            #[expect(clippy::cast_precision_loss, reason = "a few hundred at most")]
            Criterion::at_most("withheld_refused", self.withheld_refused as f64, 0.0),
        ]
    }
}

impl Kind {
    fn served(self) -> &'static Served {
        match self {
            Self::Plain => &PLAIN,
            Self::Amplified => &AMPLIFIED,
            Self::Quieted => &QUIETED,
        }
    }
}

/// Router with the endpoints of nodes, for a node of this kind.
fn router(kind: Kind) -> Result<Router> {
    review_router::router(&[Family::Nodes], "", stores(kind)?)
}

/// Stores that contain one amplified node, as used by the reviews of this bench.
///
/// # Errors
/// None in practice: the node's hint is a constant.
pub fn amplified_stores() -> Result<Stores> {
    stores(Kind::Amplified)
}

/// The review of an amplified node that this bench measures, 80 kB long.
///
/// # Errors
/// None in practice.
pub fn amplified_review() -> Result<Vec<u8>> {
    let reviews = review::kubelet_syncs(Kind::Amplified, 1);
    Ok(reviews.into_iter().next().context("no review was built")?.body)
}

/// CPU time in microseconds, ascending.
struct InMemory {
    review: Vec<f64>,
    parse: Vec<f64>,
    scan: Vec<f64>,
}

/// Times reviews in memory, alternating with a bare parse of the same bytes.
fn in_memory(kind: Kind, reviews: &[review::Sync]) -> Result<InMemory> {
    let router = router(kind)?;
    let endpoint = router.endpoint(PATH)?;
    let answer = |body: &[u8]| answer(&router, endpoint, black_box(body));
    for sync in reviews {
        let decision = answer(&sync.body).decision;
        ensure!(
            decision.acted == kind.acts() && decision.errors.is_empty(),
            "the decision does not match {kind:?}: {decision:?}"
        );
    }
    let (mut review, mut parse, mut scanned) = (Vec::new(), Vec::new(), Vec::new());
    for (turn, sync) in reviews.iter().cycle().take(WARM_UP + SAMPLES).enumerate() {
        let review_us = cpu_us(|| answer(&sync.body));
        let parse_us = cpu_us(|| serde_json::from_slice::<IgnoredAny>(black_box(&sync.body)));
        let scan_us = cpu_us(|| scan(black_box(&sync.body)));
        if turn >= WARM_UP {
            review.push(review_us);
            parse.push(parse_us);
            scanned.push(scan_us);
        }
    }
    Ok(InMemory {
        review: ascending(review),
        parse: ascending(parse),
        scan: ascending(scanned),
    })
}

/// Locates the members that every review reads.
fn scan(body: &[u8]) -> bool {
    let text = str::from_utf8(body).ok();
    text.is_some_and(|text| Tree::parse(text, review::OPENED).is_ok())
}

#[cfg(test)]
mod tests {
    use super::{withheld::SlowConnections, *};

    #[test]
    fn reviews_have_the_size_of_a_kubelet_with_fifty_images() {
        for sync in review::kubelet_syncs(Kind::Quieted, 3) {
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
    fn reviews_are_sent_at_a_steady_rate_with_and_without_slow_connections() {
        let router = router(Kind::Quieted).unwrap();
        let body = review::kubelet_syncs(Kind::Quieted, 1)[0].body.clone();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        let slow = SlowConnections {
            withheld: 32,
            trickled: 8,
            waves: 1,
        };
        let found = runtime
            .block_on(withheld::run(router, PATH, body.into(), slow))
            .unwrap();
        let asked = found.alone_ms.len() + found.crowded_ms.len() + found.refused;
        assert!((100..=120).contains(&asked), "{asked} reviews");
    }

    #[test]
    fn reviews_are_decided_as_their_kind_requires() {
        for kind in Kind::ALL {
            let router = router(kind).unwrap();
            let endpoint = router.endpoint(PATH).unwrap();
            for sync in review::kubelet_syncs(kind, 8) {
                let decision = answer(&router, endpoint, &sync.body).decision;
                assert_eq!(decision.acted, kind.acts(), "{decision:?}");
                let is_patched = decision.operations > 0;
                assert_eq!(
                    (is_patched, decision.errors.len()),
                    (kind != Kind::Plain, 0),
                    "{kind:?}"
                );
            }
        }
    }
}
