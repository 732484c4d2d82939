//! `bench pod`: the cost of a review of a new Pod beside 0, 10 and 100 colocation profiles, of its check, of an empty object,
//! and of an endpoint that allows at once.

mod allow;
pub(crate) mod profiles;

use std::iter;

use anyhow::Result;
use headroom_kit::gate::GateSet;
use headroom_webhook::{
    admission::{
        endpoint::{AnyEndpoint, Colocation, Family, Stores},
        endpoints,
        features::Features,
        router::{Limits, Options, Router},
    },
    args::LOG_SAMPLE,
    store::sources,
};
use serde::Serialize;
use tokio::{runtime::Runtime, sync::watch};

use crate::{
    cost::ReviewCost,
    criterion::Criterion,
    declaration::{BenchResult, Row, no_flags},
    pod_review::{self, Amounts},
    served::Served,
};

/// The bench.
pub(crate) static ROW: Row = Row {
    name: "pod",
    about: "Reviews of new Pods of 4 to 6 kB beside 0, 10 and 100 colocation profiles, of which one in ten selects the Pod: CPU per review in memory and at the TLS socket, beside a review of an empty object, the check of Pods, and an endpoint that allows at once.",
    flags: no_flags,
    run: |_| {
        let report = run()?;
        BenchResult::new(&report, report.criteria())
    },
};

pub(crate) static WITHOUT_PROFILES: Served = Served {
    name: "pods-0",
    router: || router(0),
};
pub(crate) static WITH_10_PROFILES: Served = Served {
    name: "pods-10",
    router: || router(10),
};
pub(crate) static WITH_100_PROFILES: Served = Served {
    name: "pods-100",
    router: || router(100),
};

const MUTATE: &str = "/mutate-pod";
const VALIDATE: &str = "/validate-pod";
/// Reviews timed one by one in memory.
const SAMPLES: usize = 5_000;

/// The figures, of one review each.
#[derive(Debug, Clone, Serialize)]
struct PodReport {
    /// An endpoint that allows at once.
    allowed_at_once: ReviewCost,
    /// An object without members, beside ten profiles.
    empty: ReviewCost,
    /// A new Pod beside no profile.
    profiles_0: ReviewCost,
    /// Beside ten profiles, of which one selects it.
    profiles_10: ReviewCost,
    /// Beside a hundred, of which ten select it.
    profiles_100: ReviewCost,
    /// The check of the Pod that comes of it.
    checked: ReviewCost,
    /// CPU at the socket beside ten profiles, as a multiple of that of an endpoint that allows at once.
    profiles_10_tls_cpu_ratio: f64,
    /// CPU at the socket of a check, as a multiple of that of an endpoint that allows at once.
    checked_tls_cpu_ratio: f64,
}

fn run() -> Result<PodReport> {
    let runtime = Runtime::new()?;
    let pod = pod_review::review(Amounts::Native);
    let of = |served, path, body: &[u8]| ReviewCost::measure(&runtime, served, path, body, SAMPLES);
    let allowed_at_once = of(&WITH_10_PROFILES, allow::PATH, &pod)?;
    let profiles_10 = of(&WITH_10_PROFILES, MUTATE, &pod)?;
    let checked = of(&WITH_10_PROFILES, VALIDATE, &pod_review::review(Amounts::Batch))?;
    let ratio = |cost: &ReviewCost| cost.tls_cpu_us_per_review / allowed_at_once.tls_cpu_us_per_review;
    Ok(PodReport {
        profiles_10_tls_cpu_ratio: ratio(&profiles_10),
        checked_tls_cpu_ratio: ratio(&checked),
        empty: of(&WITH_10_PROFILES, MUTATE, &pod_review::empty())?,
        profiles_0: of(&WITHOUT_PROFILES, MUTATE, &pod)?,
        profiles_10,
        profiles_100: of(&WITH_100_PROFILES, MUTATE, &pod)?,
        checked,
        allowed_at_once,
    })
}

impl PodReport {
    /// Ten profiles at most double what a review costs anyway.
    fn criteria(&self) -> Vec<Criterion> {
        vec![Criterion::at_most(
            "profiles_10_tls_cpu_ratio",
            self.profiles_10_tls_cpu_ratio,
            2.0,
        )]
    }
}

/// The endpoints of pods as they are served, beside that many profiles, and one that allows at once.
fn router(profiles: usize) -> Result<Router> {
    let mut stores = Stores::default();
    stores.colocation = Colocation {
        profiles: profiles::sources(profiles)?,
        ..stores.colocation
    };
    for source in sources::ALL {
        stores.known.record(source, watch::channel(true).1);
    }
    let allow: &dyn AnyEndpoint = &allow::ENDPOINT;
    let endpoints = endpoints::served(&[Family::Koordinator]);
    Ok(Router::new(Options {
        endpoints: endpoints.into_iter().chain(iter::once(allow)).collect(),
        features: Features::with_gates(GateSet::parse(endpoints::gates(), "")?).shared(),
        stores,
        limits: Limits::default(),
        log_sample: LOG_SAMPLE,
    }))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use headroom_webhook::admission::{endpoint::Deadline, error::ReviewOutcome, router::ReviewDecision};

    use super::*;

    fn decided(profiles: usize, path: &str, body: &[u8]) -> ReviewDecision {
        let router = router(profiles).unwrap();
        let deadline = Deadline::after(Instant::now(), Duration::from_secs(60));
        let endpoint = router.endpoint(path).unwrap();
        let decision = router.answer(endpoint, body, deadline).decision;
        assert_eq!(decision.outcome, ReviewOutcome::Allowed, "{decision:?}");
        decision
    }

    /// The selected Pod becomes a batch Pod, in few operations.
    #[test]
    fn each_review_is_decided_as_its_row_says() {
        let pod = pod_review::review(Amounts::Native);
        assert!((4_000..=6_000).contains(&pod.len()), "{}", pod.len());
        assert_eq!(decided(0, MUTATE, &pod).operations, 0);
        for profiles in [10, 100] {
            let operations = decided(profiles, MUTATE, &pod).operations;
            assert!((5..=12).contains(&operations), "{operations}");
        }
        assert_eq!(decided(10, MUTATE, &pod_review::empty()).operations, 0);
        assert_eq!(decided(10, allow::PATH, &pod).operations, 0);
        decided(10, VALIDATE, &pod_review::review(Amounts::Batch));
    }
}
