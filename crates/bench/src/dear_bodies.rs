//! `bench dear-bodies`: the CPU time of reviews that are made to be dear, of 3 MB and of the longest that is read, for each
//! endpoint.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use headroom_kit::gate::GateSet;
use headroom_testbed::pathological::{BodyShape, GATES, Target, shapes, targets};
use headroom_webhook::{
    admission::{
        endpoint::{Colocation, Deadline, Family},
        endpoints,
        features::Features,
        router::{Limits, Options, Router},
    },
    args::LOG_SAMPLE,
    store::sources,
};
use serde::Serialize;
use serde_json::json;
use tokio::sync::watch;

use crate::{
    cost::cpu_us,
    criterion::Criterion,
    declaration::{BenchResult, Row, no_flags},
    node_status::{self, review::Kind},
    pod::profiles,
};

/// The bench.
pub(crate) static ROW: Row = Row {
    name: "dear-bodies",
    about: "Reviews of 3 MB and of the longest length that is read, made to cost as much as they can, in memory: the dearest of each endpoint, as the least CPU time of three.",
    flags: no_flags,
    run: |_| {
        let report = run(3)?;
        BenchResult::new(&report, report.criteria())
    },
};

/// A body whose CPU time has a bound.
const BODY: usize = 3_000_000;
/// The bound, in milliseconds.
const MOST_MS: f64 = 50.0;

/// The figures.
#[derive(Debug, Clone, Serialize)]
struct DearBodiesReport {
    /// Length of the bodies, in bytes.
    body_bytes: usize,
    /// Length of those that are as long as a body may be.
    longest_bytes: usize,
    /// The dearest body of each endpoint.
    endpoints: Vec<Dearest>,
}

/// The dearest body of an endpoint: its CPU time and what it is made of.
#[derive(Debug, Clone, Serialize)]
struct Dearest {
    path: &'static str,
    shape: &'static str,
    ms: f64,
    longest_shape: &'static str,
    longest_ms: f64,
}

fn run(rounds: usize) -> Result<DearBodiesReport> {
    let router = router()?;
    let longest_bytes = Limits::default().body_bytes;
    let dearest = |(path, shapes): (&'static str, Vec<BodyShape>)| {
        let (shape, ms) = dearest(&router, path, &shapes, BODY, rounds)?;
        let (longest_shape, longest_ms) = dearest(&router, path, &shapes, longest_bytes, rounds)?;
        Ok(Dearest {
            path,
            shape,
            ms,
            longest_shape,
            longest_ms,
        })
    };
    Ok(DearBodiesReport {
        body_bytes: BODY,
        longest_bytes,
        endpoints: bodies().into_iter().map(dearest).collect::<Result<_>>()?,
    })
}

/// What is posted to each endpoint.
fn bodies() -> Vec<(&'static str, Vec<BodyShape>)> {
    let nodes = [
        ("/mutate-node-status", shapes("status", "system:node:n1")),
        ("/validate-node", shapes("", "somebody")),
    ];
    let others = targets()
        .into_iter()
        .map(|Target { path, own, common }| (path, own.into_iter().chain(common).collect()));
    nodes.into_iter().chain(others).collect()
}

/// The dearest of the bodies of that length, and its CPU time in milliseconds: the least of so many rounds.
fn dearest(
    router: &Router,
    path: &str,
    shapes: &[BodyShape],
    bytes: usize,
    rounds: usize,
) -> Result<(&'static str, f64)> {
    let endpoint = router.endpoint(path)?;
    let ms = |body: &str| {
        let deadline = Deadline::after(Instant::now(), Duration::from_secs(60));
        cpu_us(|| router.answer(endpoint, black_box(body.as_bytes()), deadline)) / 1e3
    };
    let of = |shape: &BodyShape| {
        let body = shape.body(bytes);
        let least = (0..rounds).map(|_| ms(&body)).min_by(f64::total_cmp);
        Some((shape.name, least?))
    };
    let dearest = shapes
        .iter()
        .filter_map(of)
        .max_by(|(_, one), (_, other)| one.total_cmp(other));
    dearest.context("there are shapes and rounds")
}

/// All endpoints, for an amplified node and a profile that selects every pod. Every other source is known and empty.
fn router() -> Result<Router> {
    let mut stores = node_status::stores(Kind::Amplified)?;
    let profile = json!({"metadata": {"name": "p"}, "spec": {
        "labels": {"x": "1"}, "annotationKeysMapping": {"a": "b"}, "labelSuffixes": {"app": "-s"}, "schedulerName": "s",
        "patch": {"spec": {"containers": [{"name": "c", "env": [{"name": "A", "value": "1"}]}]}},
    }});
    stores.colocation = Colocation {
        profiles: profiles::sources_of([profile])?,
        ..stores.colocation
    };
    for source in sources::ALL {
        stores.known.record(source, watch::channel(true).1);
    }
    Ok(Router::new(Options {
        endpoints: endpoints::served(&[Family::Nodes, Family::Koordinator]),
        features: Features::with_gates(GateSet::parse(endpoints::gates(), GATES)?).shared(),
        stores,
        limits: Limits::default(),
        log_sample: LOG_SAMPLE,
    }))
}

impl DearBodiesReport {
    /// No body of 3 MB is dear.
    fn criteria(&self) -> Vec<Criterion> {
        let dearest = self.endpoints.iter().map(|endpoint| endpoint.ms);
        vec![Criterion::at_most("ms", dearest.fold(0.0, f64::max), MOST_MS)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_endpoint_is_asked() {
        let asked: Vec<&str> = bodies().iter().map(|(path, _)| *path).collect();
        let served = endpoints::served(&[Family::Nodes, Family::Koordinator]);
        for endpoint in served {
            assert!(
                asked.contains(&endpoint.declaration().path),
                "{}",
                endpoint.declaration().path
            );
        }
    }

    #[test]
    fn the_dearest_body_is_named() {
        let shapes = shapes("", "somebody");
        let (shape, ms) = dearest(&router().unwrap(), "/validate-node", &shapes, 10_000, 1).unwrap();
        assert!(
            shapes.iter().any(|other| other.name == shape) && ms > 0.0,
            "{shape}: {ms}"
        );
    }
}
