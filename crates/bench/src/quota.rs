//! `bench quota`: the cost of reviews of ElasticQuotas and of their pods, with 10, 1,000 and 20,000 quotas whose
//! status a scheduler writes every second.

mod reviews;
mod storm;
mod tree;

use std::sync::Arc;

use anyhow::Result;
use headroom_webhook::admission::{
    endpoint::{Colocation, Family, PodQuotas},
    router::Router,
};
use serde::Serialize;
use serde_json::Value;
use tokio::runtime::Runtime;

use self::{
    reviews::{changed, created, pod},
    tree::Tree,
};
use crate::{
    cost::ReviewCost,
    criterion::Criterion,
    declaration::{BenchResult, Report, Row, no_flags},
    review_router::{self, admission_review, listed_stores},
    served::Served,
};

pub(crate) static ROW: Row = Row {
    name: "quota",
    about: "Measures reviews of a new and a changed ElasticQuota and of a Pod in one, with 10, 1,000 and 20,000 quotas of one tree whose status a scheduler writes every second: CPU time per review in memory and over TLS, where it includes the status writes.",
    flags: no_flags,
    run: |_| BenchResult::new(&run()?),
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
/// Reviews that are timed one by one in memory.
const SAMPLES: usize = 5_000;
/// Limit of the highest cost of a tree divided by the lowest.
const FLAT: f64 = 2.0;

struct ReviewKind {
    name: &'static str,
    path: &'static str,
    request: fn(Tree) -> Value,
}

static KINDS: [ReviewKind; 4] = [
    ReviewKind {
        name: "new quota, mutation",
        path: MUTATE,
        request: created,
    },
    ReviewKind {
        name: "new quota, validation",
        path: VALIDATE,
        request: created,
    },
    ReviewKind {
        name: "changed quota, validation",
        path: VALIDATE,
        request: changed,
    },
    ReviewKind {
        name: "new pod, validation",
        path: VALIDATE_POD,
        request: pod,
    },
];

#[derive(Debug, Clone, Serialize)]
struct QuotaReport {
    reviews: Vec<QuotaReview>,
    flatness: Vec<Flatness>,
}

/// Figures of one kind of review with one tree.
#[derive(Debug, Clone, Serialize)]
struct QuotaReview {
    review: &'static str,
    quotas: usize,
    review_us_p50: f64,
    review_us_p99: f64,
    /// CPU time of the server per review, including the status writes.
    tls_cpu_us_per_review: f64,
    tls_p50_ms: f64,
    tls_p99_ms: f64,
    /// CPU time per status event, decoding included.
    storm_event_us: f64,
}

/// Highest cost of a tree divided by the lowest, for one kind of review.
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
            let body = admission_review(&(kind.request)(tree));
            let cost = ReviewCost::measure(&runtime, served, kind.path, &body, SAMPLES)?;
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

impl Report for QuotaReport {
    /// The cost of a review does not depend on the number of quotas.
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

/// Router with the endpoints of quotas and pods, for a tree whose scheduler writes status.
fn router(tree: Tree) -> Result<Router> {
    let (quotas, pods) = tree.stores()?;
    storm::start(tree, &quotas.index);
    let (mut stores, quotas) = (listed_stores(), Arc::new(quotas));
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
    review_router::router(&[Family::Koordinator], GATES, stores)
}

#[cfg(test)]
mod tests {
    use headroom_webhook::admission::error::ReviewOutcome;
    use serde_json::json;

    use super::*;
    use crate::review_router::answer;

    fn outcome(router: &Router, path: &str, request: &Value) -> ReviewOutcome {
        let endpoint = router.endpoint(path).unwrap();
        answer(router, endpoint, &admission_review(request))
            .decision
            .outcome
    }

    /// Reviews that exceed a limit are denied, so an allowed review was really checked.
    #[test]
    fn reviews_beyond_a_limit_are_denied_and_others_allowed() {
        for tree in [SMALL, MEDIUM] {
            let router = router(tree).unwrap();
            let mut too_much = created(tree);
            too_much["object"]["spec"]["min"]["cpu"] = json!(3);
            assert_eq!(outcome(&router, VALIDATE, &too_much), ReviewOutcome::Denied);
            let mut too_many = changed(tree);
            too_many["object"]["spec"]["min"]["cpu"] = json!(3);
            assert_eq!(outcome(&router, VALIDATE, &too_many), ReviewOutcome::Denied);
            let mut large = pod(tree);
            large["object"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("200000");
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
    fn status_writes_do_not_change_data_that_reviews_read() {
        let (quotas, _) = SMALL.stores().unwrap();
        assert!(storm::cost(SMALL, &quotas.index).unwrap() > 0.0);
    }
}
