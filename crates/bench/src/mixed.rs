//! `bench mixed`: do heartbeats wait for other requests? Reviews of Nodes at a steady pace, alone and beside many Pods, a heavy
//! endpoint and bodies that trickle in.

mod crowd;
mod heavy;
mod pace;

use std::{iter, time::Duration};

use anyhow::{Result, ensure};
use headroom_kit::gate::GateSet;
use headroom_webhook::{
    admission::{
        endpoint::{AnyEndpoint, Family},
        endpoints,
        features::Features,
        router::{Limits, Options, Router},
    },
    args::LOG_SAMPLE,
    store::sources,
};
use serde::Serialize;
use tokio::{
    runtime::Runtime,
    sync::watch,
    time::{Instant, sleep_until},
};

use self::pace::{Answers, SteadyPace};
use crate::{
    criterion::Criterion,
    declaration::{BenchResult, Row, no_flags},
    node_status::{
        self,
        review::{self, Kind},
    },
    percentile,
    pod_review::{self, Amounts},
    served::{Process, Served},
};

/// The bench.
pub(crate) static ROW: Row = Row {
    name: "mixed",
    about: "500 reviews of Nodes a second, alone and beside 1,000 of Pods, 20 of an endpoint that takes 5 ms and 256 bodies that come a byte a second.",
    flags: no_flags,
    run: |_| {
        let report = run(Duration::from_secs(10))?;
        BenchResult::new(&report, report.criteria())
    },
};

/// The server that it asks.
pub(crate) static SERVED: Served = Served {
    name: "mixed",
    router,
};

const NODES: SteadyPace = SteadyPace {
    path: node_status::PATH,
    per_second: 500,
    connections: 16,
};
const PODS: SteadyPace = SteadyPace {
    path: "/mutate-pod",
    per_second: 1_000,
    connections: 32,
};
const HEAVY: SteadyPace = SteadyPace {
    path: heavy::PATH,
    per_second: 20,
    connections: 4,
};
/// Connections whose bodies come a byte a second.
const SLOW: usize = 256;
/// From the first connection to the first review that counts.
const WARM_UP: Duration = Duration::from_secs(1);

/// The figures. Latencies count from the moment at which a review was due.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct MixedReport {
    /// How long each half counts.
    seconds: u64,
    node_per_second: u32,
    pod_per_second: u32,
    heavy_per_second: u32,
    slow_connections: usize,
    alone_node_samples: usize,
    alone_node_p50_ms: f64,
    alone_node_p99_ms: f64,
    node_samples: usize,
    node_p50_ms: f64,
    node_p99_ms: f64,
    /// Reviews of Nodes that got no verdict.
    node_refused: usize,
    pod_samples: usize,
    pod_p50_ms: f64,
    pod_p99_ms: f64,
    /// Reviews of Pods that got no verdict.
    pod_refused: usize,
    heavy_samples: usize,
    heavy_p50_ms: f64,
    heavy_p99_ms: f64,
    /// Heavy reviews that got no verdict.
    heavy_refused: usize,
    /// Bodies that the server gave up; each connection then comes again.
    slow_given_up: usize,
    /// CPUs that the server kept busy with Nodes alone.
    alone_server_cpus: f64,
    /// CPUs that the server kept busy with all of it.
    server_cpus: f64,
    /// Memory of the server before the first connection.
    idle_resident_mib: f64,
    /// Memory of the server beside Nodes alone.
    alone_resident_mib: f64,
    /// The most memory of the server.
    peak_resident_mib: f64,
}

/// What one half came to.
struct Half {
    nodes: Answers,
    /// CPUs that the server kept busy.
    server_cpus: f64,
    resident_mib: f64,
}

/// What was asked besides Nodes.
struct Others {
    pods: Answers,
    heavy: Answers,
    slow_given_up: usize,
}

/// Measures for that long with Nodes alone, and as long with everything.
fn run(measured: Duration) -> Result<MixedReport> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let server = Process::start(&SERVED)?;
    let idle = server.vitals()?;
    let (alone, ()) = half(&runtime, &server, measured, |_| async { Ok(()) })?;
    let (mixed, others) = half(&runtime, &server, measured, |begin| {
        others(&server, begin, measured)
    })?;
    ensure!(
        alone.nodes.latencies_ms.len() >= 100 && mixed.nodes.latencies_ms.len() >= 100,
        "fewer than 100 reviews were answered"
    );
    let (alone_nodes, nodes) = (&alone.nodes.latencies_ms, &mixed.nodes.latencies_ms);
    let (pods, heavy) = (&others.pods.latencies_ms, &others.heavy.latencies_ms);
    Ok(MixedReport {
        seconds: measured.as_secs(),
        node_per_second: NODES.per_second,
        pod_per_second: PODS.per_second,
        heavy_per_second: HEAVY.per_second,
        slow_connections: SLOW,
        alone_node_samples: alone_nodes.len(),
        alone_node_p50_ms: percentile(alone_nodes, 50),
        alone_node_p99_ms: percentile(alone_nodes, 99),
        node_samples: nodes.len(),
        node_p50_ms: percentile(nodes, 50),
        node_p99_ms: percentile(nodes, 99),
        node_refused: alone.nodes.refused + mixed.nodes.refused,
        pod_samples: pods.len(),
        pod_p50_ms: percentile(pods, 50),
        pod_p99_ms: percentile(pods, 99),
        pod_refused: others.pods.refused,
        heavy_samples: heavy.len(),
        heavy_p50_ms: percentile(heavy, 50),
        heavy_p99_ms: percentile(heavy, 99),
        heavy_refused: others.heavy.refused,
        slow_given_up: others.slow_given_up,
        alone_server_cpus: alone.server_cpus,
        server_cpus: mixed.server_cpus,
        idle_resident_mib: idle.rss_mib,
        alone_resident_mib: alone.resident_mib,
        peak_resident_mib: server.vitals()?.peak_rss_mib,
    })
}

/// Asks about Nodes, beside what `others` do.
fn half<T, F>(
    runtime: &Runtime,
    server: &Process,
    measured: Duration,
    others: impl FnOnce(Instant) -> F,
) -> Result<(Half, T)>
where
    F: Future<Output = Result<T>>,
{
    runtime.block_on(async {
        let begin = Instant::now() + WARM_UP;
        let bodies = review::kubelet_syncs(Kind::Quieted, 8);
        let bodies = bodies.into_iter().map(|sync| sync.body.into()).collect();
        let vitals = async {
            sleep_until(begin).await;
            let before = server.vitals()?;
            sleep_until(begin + measured).await;
            anyhow::Ok((before, server.vitals()?))
        };
        let (nodes, others, vitals) =
            tokio::join!(NODES.run(server, bodies, begin, measured), others(begin), vitals);
        let (before, after) = vitals?;
        let half = Half {
            nodes: nodes?,
            server_cpus: after.cpu.saturating_sub(before.cpu).as_secs_f64() / measured.as_secs_f64(),
            resident_mib: after.rss_mib,
        };
        Ok((half, others?))
    })
}

/// Asks about everything but Nodes.
async fn others(server: &Process, begin: Instant, measured: Duration) -> Result<Others> {
    let (pods, heavy, slow_given_up) = tokio::join!(
        PODS.run(
            server,
            vec![pod_review::review(Amounts::Batch).into()],
            begin,
            measured
        ),
        HEAVY.run(server, vec![heavy::review().into()], begin, measured),
        crowd::run(server, &[NODES.path, PODS.path], SLOW, begin + measured),
    );
    Ok(Others {
        pods: pods?,
        heavy: heavy?,
        slow_given_up: slow_given_up?,
    })
}

impl MixedReport {
    /// No heartbeat is refused, and none waits.
    fn criteria(&self) -> Vec<Criterion> {
        #[expect(clippy::cast_precision_loss, reason = "a few thousand at most")]
        let refused = self.node_refused as f64;
        vec![
            Criterion::at_most("node_refused", refused, 0.0),
            Criterion::at_most("node_p99_ms", self.node_p99_ms, 5.0),
        ]
    }
}

/// The endpoints of nodes and pods as they are served, and a heavy one.
fn router() -> Result<Router> {
    let families = [Family::Nodes, Family::Koordinator];
    let endpoints = endpoints::served(&families);
    let heavy: &dyn AnyEndpoint = &heavy::ENDPOINT;
    let stores = node_status::stores(Kind::Quieted)?;
    for source in sources::ALL {
        stores.known.record(source, watch::channel(true).1);
    }
    Ok(Router::new(Options {
        endpoints: endpoints.into_iter().chain(iter::once(heavy)).collect(),
        features: Features::with_gates(GateSet::parse(endpoints::gates(), "")?).shared(),
        stores,
        limits: Limits::default(),
        log_sample: LOG_SAMPLE,
    }))
}

#[cfg(test)]
mod tests {
    use std::time::Instant as StdInstant;

    use headroom_testbed::thread::cpu_time;
    use headroom_webhook::admission::endpoint::Deadline;

    use super::*;

    #[test]
    fn each_review_makes_its_endpoint_work() {
        let router = router().unwrap();
        let decision = |path: &str, body: &[u8]| {
            let deadline = Deadline::after(StdInstant::now(), Duration::from_secs(60));
            let endpoint = router.endpoint(path).unwrap();
            router.answer(endpoint, body, deadline).decision
        };
        let sync = review::kubelet_syncs(Kind::Quieted, 1).remove(0);
        assert_eq!(decision(NODES.path, &sync.body).acted, Kind::Quieted.acts());
        let pod = pod_review::review(Amounts::Batch);
        assert!((4_000..=6_000).contains(&pod.len()), "{}", pod.len());
        let decided = decision(PODS.path, &pod);
        assert!(decided.operations > 0, "{decided:?}");
        let before = cpu_time();
        let decided = decision(HEAVY.path, &heavy::review());
        assert!(decided.errors.is_empty(), "{decided:?}");
        assert!(cpu_time() >= before + heavy::TAKES);
    }
}
