//! `bench pod`: the cost of a review of a new Pod with 0, 10 and 100 colocation profiles, of its validation, of an
//! empty object, and of an endpoint that allows immediately.

mod allow;
mod profiles;
mod review;

use anyhow::Result;
use headroom_webhook::admission::{
    endpoint::{Colocation, Family},
    router::Router,
};
use serde::Serialize;
use tokio::runtime::Runtime;

use self::review::Amounts;
use crate::{
    cost::ReviewCost,
    criterion::Criterion,
    declaration::{BenchResult, Report, Row, no_flags},
    review_router::{listed_stores, router_with},
    served::Served,
};

pub(crate) static ROW: Row = Row {
    name: "pod",
    about: "Measures reviews of new Pods of 4 to 6 kB with 0, 10 and 100 colocation profiles, of which one in ten selects the Pod: CPU time per review in memory and over TLS, compared with an empty object, the validation of Pods, and an endpoint that allows immediately.",
    flags: no_flags,
    run: |_| BenchResult::new(&run()?),
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
/// Reviews that are timed one by one in memory.
const SAMPLES: usize = 5_000;

/// Figures of one review each.
#[derive(Debug, Clone, Serialize)]
struct PodReport {
    /// An endpoint that allows immediately.
    allowed_at_once: ReviewCost,
    /// An object without members, with ten profiles.
    empty: ReviewCost,
    /// A new Pod without profiles.
    profiles_0: ReviewCost,
    /// A new Pod with ten profiles, of which one selects it.
    profiles_10: ReviewCost,
    /// A new Pod with 100 profiles, of which ten select it.
    profiles_100: ReviewCost,
    /// Validation of the resulting Pod.
    checked: ReviewCost,
    /// CPU time over TLS with ten profiles, as a multiple of that of an endpoint that allows immediately.
    profiles_10_tls_cpu_ratio: f64,
    /// CPU time over TLS of a validation, as a multiple of that of an endpoint that allows immediately.
    checked_tls_cpu_ratio: f64,
}

fn run() -> Result<PodReport> {
    let runtime = Runtime::new()?;
    let pod = review::review(Amounts::Native);
    let of = |served, path, body: &[u8]| ReviewCost::measure(&runtime, served, path, body, SAMPLES);
    let allowed_at_once = of(&WITH_10_PROFILES, allow::PATH, &pod)?;
    let profiles_10 = of(&WITH_10_PROFILES, MUTATE, &pod)?;
    let checked = of(&WITH_10_PROFILES, VALIDATE, &review::review(Amounts::Batch))?;
    let ratio = |cost: &ReviewCost| cost.tls_cpu_us_per_review / allowed_at_once.tls_cpu_us_per_review;
    Ok(PodReport {
        profiles_10_tls_cpu_ratio: ratio(&profiles_10),
        checked_tls_cpu_ratio: ratio(&checked),
        empty: of(&WITH_10_PROFILES, MUTATE, &review::empty())?,
        profiles_0: of(&WITHOUT_PROFILES, MUTATE, &pod)?,
        profiles_10,
        profiles_100: of(&WITH_100_PROFILES, MUTATE, &pod)?,
        checked,
        allowed_at_once,
    })
}

impl Report for PodReport {
    /// Ten profiles at most double the cost of a review that is allowed immediately.
    fn criteria(&self) -> Vec<Criterion> {
        vec![Criterion::at_most(
            "profiles_10_tls_cpu_ratio",
            self.profiles_10_tls_cpu_ratio,
            2.0,
        )]
    }
}

/// Router with the endpoints of pods, this many profiles, and an endpoint that allows immediately.
fn router(profiles: usize) -> Result<Router> {
    let mut stores = listed_stores();
    stores.colocation = Colocation {
        profiles: profiles::sources(profiles)?,
        ..stores.colocation
    };
    router_with(&[Family::Koordinator], "", stores, &[&allow::ENDPOINT])
}

#[cfg(test)]
mod tests {
    use headroom_webhook::admission::{error::ReviewOutcome, router::ReviewDecision};

    use super::*;
    use crate::review_router::answer;

    fn decided(profiles: usize, path: &str, body: &[u8]) -> ReviewDecision {
        let router = router(profiles).unwrap();
        let endpoint = router.endpoint(path).unwrap();
        let decision = answer(&router, endpoint, body).decision;
        assert_eq!(decision.outcome, ReviewOutcome::Allowed, "{decision:?}");
        decision
    }

    /// The selected Pod becomes a batch Pod with few operations.
    #[test]
    fn reviews_are_decided_as_their_figures_assume() {
        let pod = review::review(Amounts::Native);
        assert!((4_000..=6_000).contains(&pod.len()), "{}", pod.len());
        assert_eq!(decided(0, MUTATE, &pod).operations, 0);
        for profiles in [10, 100] {
            let operations = decided(profiles, MUTATE, &pod).operations;
            assert!((5..=12).contains(&operations), "{operations}");
        }
        assert_eq!(decided(10, MUTATE, &review::empty()).operations, 0);
        assert_eq!(decided(10, allow::PATH, &pod).operations, 0);
        decided(10, VALIDATE, &review::review(Amounts::Batch));
    }
}
