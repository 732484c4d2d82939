//! `bench node-status`: the cost of an 80 kB review of nodes/status, in memory and at the TLS socket.

mod known_node;
pub(crate) mod review;
mod withheld;

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use headroom_kit::gate::GateSet;
use headroom_webhook::{
    admission::{
        draft::Tree,
        endpoint::{Deadline, Family},
        endpoints,
        features::Features,
        router::{Limits, Options, Router},
    },
    args::LOG_SAMPLE,
};
use serde::{Serialize, de::IgnoredAny};
use tokio::runtime::Runtime;

pub(crate) use self::known_node::stores;
use self::{review::Kind, withheld::CROWD};
use super::{
    cost::cpu_us,
    criterion::Criterion,
    declaration::{BenchResult, Row, no_flags},
    percentile,
    served::{Process, Served, load},
};

/// The bench.
pub static ROW: Row = Row {
    name: "node-status",
    about: "The webhook on an 80 kB nodes/status review that is left alone, amplified or quieted: CPU per review in memory and at the TLS socket, and latency beside bodies that are withheld.",
    flags: no_flags,
    run: |_| {
        let report = run()?;
        BenchResult::new(&report, report.criteria())
    },
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

/// Path of the endpoint under test.
pub(crate) const PATH: &str = "/mutate-node-status";
/// Reviews timed one by one in memory.
const SAMPLES: usize = 5_000;
/// Reviews before them, to fill caches.
const WARM_UP: usize = 500;

/// The figures. `review_*`, `parse_*` and `scan_*` are CPU time of one thread, `tls_cpu_*` of all threads of the server.
#[derive(Debug, Clone, Serialize)]
pub struct NodeStatusReport {
    /// Of a node that is left alone.
    pub plain: OfKind,
    /// Of a node that is amplified, in a write that is stored.
    pub amplified: OfKind,
    /// Of a node that is amplified, in a write that is not.
    pub quieted: OfKind,
    /// Length of the review.
    pub review_bytes: usize,
    /// Length of the object in it; oldObject is as long.
    pub object_bytes: usize,
    /// Parsing the bytes of an amplified node's review into nothing, in turns with the reviews.
    pub parse_us_p50: f64,
    /// Parsing the same bytes into nothing.
    pub parse_us_p99: f64,
    /// Finding the members of the same bytes that every review is asked for, and nothing of them.
    pub scan_us_p50: f64,
    /// Connections kept alive.
    pub tls_connections: usize,
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
}

/// The figures of one kind of reviews.
#[derive(Debug, Clone, Serialize)]
pub struct OfKind {
    /// Reviews behind `review_*`.
    pub samples: usize,
    /// Decode, decide and patch.
    pub review_us_p50: f64,
    /// Decode, decide and patch.
    pub review_us_p99: f64,
    /// `review_us_p50` / `parse_us_p50` of the same bytes.
    pub review_parse_ratio: f64,
    /// CPU time of the server for a review, with its part of TLS, of HTTP and of the kernel's work.
    pub tls_cpu_us_per_review: f64,
    /// `tls_cpu_us_per_review` / `parse_us_p50` of the same bytes.
    pub tls_cpu_parse_ratio: f64,
    /// Requests behind `tls_*`.
    pub tls_samples: usize,
    /// Requests per second over all connections; client and server share the machine.
    pub tls_rps: f64,
    /// Time from the first byte out to the last byte in.
    pub tls_p50_ms: f64,
    /// Time from the first byte out to the last byte in.
    pub tls_p99_ms: f64,
}

/// Measures.
///
/// # Errors
/// If a review is not answered as its kind is, or the load cannot be put on.
pub fn run() -> Result<NodeStatusReport> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let of = |kind| of_kind(kind, &runtime);
    let (plain, _) = of(Kind::Plain)?;
    let (quieted, _) = of(Kind::Quieted)?;
    let (amplified, in_memory) = of(Kind::Amplified)?;
    let reviews = review::kubelet_syncs(Kind::Amplified, 1);
    let first = reviews.first().context("there are reviews")?;
    let router = router(Kind::Amplified)?;
    let beside = runtime.block_on(withheld::run(router, PATH, first.body.clone().into(), CROWD))?;
    ensure!(
        beside.crowded_ms.len() >= 100,
        "only {} samples",
        beside.crowded_ms.len()
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
        steady_samples: beside.crowded_ms.len(),
        steady_p50_ms: percentile(&beside.alone_ms, 50),
        steady_p99_ms: percentile(&beside.alone_ms, 99),
        withheld_connections: CROWD.withheld,
        trickled_connections: CROWD.trickled,
        withheld_p50_ms: percentile(&beside.crowded_ms, 50),
        withheld_p99_ms: percentile(&beside.crowded_ms, 99),
        withheld_refused: beside.refused,
    })
}

/// The figures of reviews of one kind, in memory and at the socket.
fn of_kind(kind: Kind, runtime: &Runtime) -> Result<(OfKind, InMemory)> {
    let reviews = review::kubelet_syncs(kind, 8);
    let in_memory = in_memory(kind, &reviews)?;
    let first = reviews.first().context("there are reviews")?;
    let server = Process::start(kind.served())?;
    let load = runtime.block_on(load::run(&server, PATH, &first.body.clone().into()))?;
    let review_us_p50 = percentile(&in_memory.review, 50);
    let parse_us_p50 = percentile(&in_memory.parse, 50);
    let figures = OfKind {
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

impl NodeStatusReport {
    /// Who withholds a body may at most double the time of others.
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
    /// The server that is asked such reviews.
    fn served(self) -> &'static Served {
        match self {
            Self::Plain => &PLAIN,
            Self::Amplified => &AMPLIFIED,
            Self::Quieted => &QUIETED,
        }
    }
}

/// The endpoints of nodes, for a node of that kind.
fn router(kind: Kind) -> Result<Router> {
    Ok(Router::new(Options {
        endpoints: endpoints::served(&[Family::Nodes]),
        features: Features::with_gates(GateSet::parse(endpoints::gates(), "")?).shared(),
        stores: stores(kind)?,
        limits: Limits::default(),
        log_sample: LOG_SAMPLE,
    }))
}

/// CPU time of each review and of passing over its bytes, in microseconds, ascending.
struct InMemory {
    review: Vec<f64>,
    parse: Vec<f64>,
    scan: Vec<f64>,
}

/// Times reviews of a kind in memory, in turns with a parser that looks at nothing.
fn in_memory(kind: Kind, reviews: &[review::Sync]) -> Result<InMemory> {
    let router = router(kind)?;
    let endpoint = router.endpoint(PATH)?;
    let answer = |body: &[u8]| {
        let deadline = Deadline::after(Instant::now(), Duration::from_secs(1));
        router.answer(endpoint, black_box(body), deadline)
    };
    for sync in reviews {
        let decision = answer(&sync.body).decision;
        ensure!(
            decision.acted == kind.acts() && decision.errors.is_empty(),
            "not {kind:?}: {decision:?}"
        );
    }
    let mut times = InMemory {
        review: Vec::new(),
        parse: Vec::new(),
        scan: Vec::new(),
    };
    for (turn, sync) in reviews.iter().cycle().take(WARM_UP + SAMPLES).enumerate() {
        let reviewed = cpu_us(|| answer(&sync.body));
        let parsed = cpu_us(|| serde_json::from_slice::<IgnoredAny>(black_box(&sync.body)));
        let scanned = cpu_us(|| scan(black_box(&sync.body)));
        if turn >= WARM_UP {
            times.review.push(reviewed);
            times.parse.push(parsed);
            times.scan.push(scanned);
        }
    }
    let InMemory { review, parse, scan } = &mut times;
    for list in [review, parse, scan] {
        list.sort_by(f64::total_cmp);
    }
    Ok(times)
}

/// Finds what every review is asked for.
fn scan(body: &[u8]) -> bool {
    let text = str::from_utf8(body).ok();
    text.is_some_and(|text| Tree::parse(text, review::OPENED).is_ok())
}

#[cfg(test)]
mod tests {
    use super::{withheld::Crowd, *};

    #[test]
    fn a_review_has_the_size_of_a_kubelet_with_fifty_images() {
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
    fn reviews_are_asked_at_a_steady_pace_alone_and_beside_a_crowd() {
        let router = router(Kind::Quieted).unwrap();
        let body = review::kubelet_syncs(Kind::Quieted, 1)[0].body.clone();
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
    fn reviews_are_answered_as_their_kind_says() {
        for kind in Kind::ALL {
            let router = router(kind).unwrap();
            let endpoint = router.endpoint(PATH).unwrap();
            for sync in review::kubelet_syncs(kind, 8) {
                let deadline = Deadline::after(Instant::now(), Duration::from_secs(60));
                let decision = router.answer(endpoint, &sync.body, deadline).decision;
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
