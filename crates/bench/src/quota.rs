//! `bench quota`: the cost of reviews of ElasticQuotas and of pods that belong to one, beside 10, 1,000 and 20,000 quotas whose
//! status a scheduler writes each second.

mod reviews;
mod storm;
mod tree;

use std::sync::Arc;

use anyhow::Result;
use headroom_kit::gate::GateSet;
use headroom_webhook::{
    admission::{
        endpoint::{Colocation, Family, PodQuotas, Stores},
        endpoints,
        features::Features,
        router::{Limits, Options, Router},
    },
    args::LOG_SAMPLE,
    store::sources,
};
use serde::Serialize;
use serde_json::Value;
use tokio::{runtime::Runtime, sync::watch};

use self::{
    reviews::{changed, created, pod},
    tree::Tree,
};
use crate::{
    cost::ReviewCost,
    criterion::Criterion,
    declaration::{BenchResult, Row, no_flags},
    served::Served,
};

/// The bench.
pub(crate) static ROW: Row = Row {
    name: "quota",
    about: "Reviews of a new ElasticQuota, of one that changes, and of a Pod that belongs to one, beside 10, 1,000 and 20,000 quotas of one tree whose status a scheduler writes each second: CPU per review in memory and at the TLS socket, where the storm is part of it.",
    flags: no_flags,
    run: |_| {
        let report = run()?;
        BenchResult::new(&report, report.criteria())
    },
};

pub(crate) static FEW: Served = Served {
    name: "quotas-10",
    router: || router(SMALL),
};
pub(crate) static MORE: Served = Served {
    name: "quotas-1000",
    router: || router(MEDIUM),
};
pub(crate) static MANY: Served = Served {
    name: "quotas-20000",
    router: || router(LARGE),
};

const SMALL: Tree = Tree { quotas: 10 };
const MEDIUM: Tree = Tree { quotas: 1_000 };
const LARGE: Tree = Tree { quotas: 20_000 };

const MUTATE: &str = "/mutate-scheduling-sigs-k8s-io-v1alpha1-elasticquota";
const VALIDATE: &str = "/validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota";
const VALIDATE_POD: &str = "/validate-pod";
const GATES: &str = "EnableQuotaAdmission=true";
/// Reviews timed one by one in memory.
const SAMPLES: usize = 5_000;
/// The dearest tree may cost so many times what the cheapest does.
const FLAT: f64 = 2.0;

/// A kind of review that is asked for.
struct ReviewKind {
    name: &'static str,
    path: &'static str,
    review: fn(Tree) -> Value,
}

static KINDS: [ReviewKind; 4] = [
    ReviewKind {
        name: "a new quota is completed",
        path: MUTATE,
        review: created,
    },
    ReviewKind {
        name: "a new quota is checked",
        path: VALIDATE,
        review: created,
    },
    ReviewKind {
        name: "a change is checked",
        path: VALIDATE,
        review: changed,
    },
    ReviewKind {
        name: "a new pod is counted",
        path: VALIDATE_POD,
        review: pod,
    },
];

/// The figures.
#[derive(Debug, Clone, Serialize)]
struct QuotaReport {
    reviews: Vec<QuotaReview>,
    flatness: Vec<Flatness>,
}

/// Of one kind of review beside one tree.
#[derive(Debug, Clone, Serialize)]
struct QuotaReview {
    review: &'static str,
    quotas: usize,
    review_us_p50: f64,
    review_us_p99: f64,
    /// CPU time of the server for a review, the storm included.
    tls_cpu_us_per_review: f64,
    tls_p50_ms: f64,
    tls_p99_ms: f64,
    /// CPU time for an event of the storm, decoding included.
    storm_event_us: f64,
}

/// The dearest of the trees as a multiple of the cheapest, for one kind of review.
#[derive(Debug, Clone, Serialize)]
struct Flatness {
    review: &'static str,
    review_us_ratio: f64,
    tls_cpu_us_ratio: f64,
}

fn run() -> Result<QuotaReport> {
    let runtime = Runtime::new()?;
    let mut reviews = Vec::new();
    for (served, tree) in [(&FEW, SMALL), (&MORE, MEDIUM), (&MANY, LARGE)] {
        let storm_event_us = storm::cost(tree, &tree.stores()?.0.index)?;
        for kind in &KINDS {
            let body = (kind.review)(tree).to_string();
            let cost = ReviewCost::measure(&runtime, served, kind.path, body.as_bytes(), SAMPLES)?;
            reviews.push(QuotaReview {
                review: kind.name,
                quotas: tree.quotas,
                review_us_p50: cost.review_us_p50,
                review_us_p99: cost.review_us_p99,
                tls_cpu_us_per_review: cost.tls_cpu_us_per_review,
                tls_p50_ms: cost.tls_p50_ms,
                tls_p99_ms: cost.tls_p99_ms,
                storm_event_us,
            });
        }
    }
    let flatness = KINDS.iter().map(|kind| Flatness::between(&reviews, kind.name));
    Ok(QuotaReport {
        flatness: flatness.collect(),
        reviews,
    })
}

impl Flatness {
    fn between(reviews: &[QuotaReview], kind: &'static str) -> Self {
        let spread = |cost: fn(&QuotaReview) -> f64| {
            let costs = || reviews.iter().filter(|review| review.review == kind).map(cost);
            costs().fold(0.0, f64::max) / costs().fold(f64::INFINITY, f64::min)
        };
        Self {
            review: kind,
            review_us_ratio: spread(|review| review.review_us_p50),
            tls_cpu_us_ratio: spread(|review| review.tls_cpu_us_per_review),
        }
    }
}

impl QuotaReport {
    /// A review costs the same beside any number of quotas.
    fn criteria(&self) -> Vec<Criterion> {
        let of_kind = |flatness: &Flatness| {
            let criterion =
                |figure, ratio| Criterion::at_most(&format!("{figure}, {}", flatness.review), ratio, FLAT);
            [
                criterion("review_us_ratio", flatness.review_us_ratio),
                criterion("tls_cpu_us_ratio", flatness.tls_cpu_us_ratio),
            ]
        };
        self.flatness.iter().flat_map(of_kind).collect()
    }
}

/// The endpoints of quotas and of pods as they are served, beside such a tree and its scheduler.
fn router(tree: Tree) -> Result<Router> {
    let (quotas, pods) = tree.stores()?;
    storm::start(tree, &quotas.index);
    let (mut stores, quotas) = (Stores::default(), Arc::new(quotas));
    for source in sources::ALL {
        stores.known.record(source, watch::channel(true).1);
    }
    stores.colocation = Colocation {
        quotas: PodQuotas {
            tree: Arc::clone(&quotas) as _,
            pod_usage: pods,
            known: stores.known.clone(),
            ..stores.colocation.quotas
        },
        ..stores.colocation
    };
    stores.quotas = quotas;
    Ok(Router::new(Options {
        endpoints: endpoints::served(&[Family::Koordinator]),
        features: Features::with_gates(GateSet::parse(endpoints::gates(), GATES)?).shared(),
        stores,
        limits: Limits::default(),
        log_sample: LOG_SAMPLE,
    }))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use headroom_webhook::admission::{endpoint::Deadline, error::ReviewOutcome};
    use serde_json::json;

    use super::*;

    fn outcome(router: &Router, path: &str, review: &Value) -> ReviewOutcome {
        let deadline = Deadline::after(Instant::now(), Duration::from_secs(60));
        let endpoint = router.endpoint(path).unwrap();
        let decision = router
            .answer(endpoint, review.to_string().as_bytes(), deadline)
            .decision;
        decision.outcome
    }

    /// Each review is allowed for its own sake: one that asks for too much is not.
    #[test]
    fn reviews_are_decided_by_their_tree_and_their_pods() {
        for tree in [SMALL, MEDIUM] {
            let router = router(tree).unwrap();
            let mut too_much = created(tree);
            too_much["request"]["object"]["spec"]["min"]["cpu"] = json!(3);
            assert_eq!(outcome(&router, VALIDATE, &too_much), ReviewOutcome::Denied);
            let mut too_many = changed(tree);
            too_many["request"]["object"]["spec"]["min"]["cpu"] = json!(3);
            assert_eq!(outcome(&router, VALIDATE, &too_many), ReviewOutcome::Denied);
            let mut large = pod(tree);
            large["request"]["object"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] =
                json!("200000");
            assert_eq!(outcome(&router, VALIDATE_POD, &large), ReviewOutcome::Denied);
            for (path, review) in [
                (MUTATE, created(tree)),
                (VALIDATE, created(tree)),
                (VALIDATE, changed(tree)),
                (VALIDATE_POD, pod(tree)),
            ] {
                assert_eq!(outcome(&router, path, &review), ReviewOutcome::Allowed, "{path}");
            }
        }
    }

    #[test]
    fn a_write_of_the_scheduler_changes_nothing_that_is_read() {
        let (quotas, _) = SMALL.stores().unwrap();
        assert!(storm::cost(SMALL, &quotas.index).unwrap() > 0.0);
    }
}
