//! `bench configmap`: the cost of a review of Koordinator's ConfigMap: 100 entries beside 5,000 nodes, and six keys of six
//! entries beside 208, of which one changes or all do.

mod documents;

use std::sync::Arc;

use anyhow::Result;
use headroom_kit::gate::GateSet;
use headroom_webhook::{
    admission::{
        endpoint::{Family, SloConfiguration, Stores},
        endpoints,
        features::Features,
        router::{Limits, Options, Router},
    },
    args::LOG_SAMPLE,
    store::{
        changes::Changes,
        informer::Store as _,
        nodes::{NodeListing, Nodes},
        sources,
    },
};
use serde::Serialize;
use serde_json::json;
use tokio::sync::watch;

use self::documents::Workload;
use crate::{
    cost::ReviewCost,
    criterion::Criterion,
    declaration::{BenchResult, Row, no_flags},
    served::Served,
};

/// The bench.
pub(crate) static ROW: Row = Row {
    name: "configmap",
    about: "Reviews of Koordinator's ConfigMap: 100 new entries of one key beside 5,000 nodes, and six entries of each of six keys beside 208, of which one key changes or all do. CPU per review in memory and at the TLS socket, as a multiple of a bare parse of the same bytes.",
    flags: no_flags,
    run: |_| {
        let report = run()?;
        BenchResult::new(&report, report.criteria())
    },
};

pub(crate) static MANY_ENTRIES: Served = Served {
    name: "configmap-entries",
    router: || router(Workload::MANY_ENTRIES.nodes),
};
pub(crate) static SIX_KEYS: Served = Served {
    name: "configmap-keys",
    router: || router(Workload::SIX_KEYS.nodes),
};

const PATH: &str = "/validate-configmap";
const GATES: &str = "ConfigMapValidatingWebhook=true";

/// The figures.
#[derive(Debug, Clone, Serialize)]
struct ConfigMapReport {
    many_entries_nodes: usize,
    many_entries: ReviewCost,
    six_keys_nodes: usize,
    six_keys: ReviewCost,
    six_new_keys: ReviewCost,
}

fn run() -> Result<ConfigMapReport> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let of = |served, workload: &Workload, samples| {
        ReviewCost::measure(&runtime, served, PATH, &workload.review(), samples)
    };
    Ok(ConfigMapReport {
        many_entries_nodes: Workload::MANY_ENTRIES.nodes,
        many_entries: of(&MANY_ENTRIES, &Workload::MANY_ENTRIES, 500)?,
        six_keys_nodes: Workload::SIX_KEYS.nodes,
        six_keys: of(&SIX_KEYS, &Workload::SIX_KEYS, 2_000)?,
        six_new_keys: of(&SIX_KEYS, &Workload::SIX_NEW_KEYS, 2_000)?,
    })
}

impl ConfigMapReport {
    /// A review stays within a multiple of what passing over its bytes takes.
    fn criteria(&self) -> Vec<Criterion> {
        vec![
            Criterion::at_most(
                "many_entries.tls_cpu_parse_ratio",
                self.many_entries.tls_cpu_parse_ratio,
                60.0,
            ),
            Criterion::at_most(
                "six_keys.tls_cpu_parse_ratio",
                self.six_keys.tls_cpu_parse_ratio,
                6.0,
            ),
            Criterion::at_most(
                "six_new_keys.tls_cpu_parse_ratio",
                self.six_new_keys.tls_cpu_parse_ratio,
                6.0,
            ),
        ]
    }
}

/// The endpoint as it is served, beside that many nodes.
fn router(nodes: usize) -> Result<Router> {
    let mut stores = Stores::default();
    stores.slo = SloConfiguration {
        nodes: known_nodes(nodes)?,
        ..stores.slo
    };
    for source in sources::ALL {
        stores.known.record(source, watch::channel(true).1);
    }
    Ok(Router::new(Options {
        endpoints: endpoints::served(&[Family::Koordinator]),
        features: Features::with_gates(GateSet::parse(endpoints::gates(), GATES)?).shared(),
        stores,
        limits: Limits::default(),
        log_sample: LOG_SAMPLE,
    }))
}

/// The store of nodes, with that many in it. Each has the label of one entry.
fn known_nodes(count: usize) -> Result<Arc<Nodes>> {
    let nodes = Nodes::new(Arc::<Changes>::default(), Arc::default(), Arc::default());
    let mut listing = NodeListing::default();
    for index in 0..count {
        let node = json!({"metadata": {
            "name": format!("node-{index:04}"),
            "uid": format!("uid-{index}"),
            "resourceVersion": "1",
            "labels": documents::node_labels(index),
        }});
        Nodes::list(&mut listing, serde_json::from_value(node)?);
    }
    nodes.replace(listing);
    Ok(Arc::new(nodes))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use headroom_webhook::admission::{endpoint::Deadline, error::ReviewOutcome};

    use super::*;

    #[test]
    fn each_review_is_checked_whole_and_allowed() {
        for workload in [Workload::MANY_ENTRIES, Workload::SIX_KEYS, Workload::SIX_NEW_KEYS] {
            let router = router(workload.nodes).unwrap();
            let endpoint = router.endpoint(PATH).unwrap();
            let answer = |body: &[u8]| {
                let deadline = Deadline::after(Instant::now(), Duration::from_secs(60));
                router.answer(endpoint, body, deadline)
            };
            let review = workload.review();
            let allowed = answer(&review).decision;
            assert_eq!(allowed.outcome, ReviewOutcome::Allowed, "{allowed:?}");
            // The last entry of the first key is looked at, too: the keys are in the order of their names.
            let text = String::from_utf8(review).unwrap();
            let ends = ["cpu-burst-config", "oldObject"].map(|end| text.find(end));
            let end = ends.into_iter().flatten().min().unwrap();
            let last = text[..end].rfind("amd64").unwrap();
            let wrong = format!("{}amd 64{}", &text[..last], &text[last + 5..]);
            let denied = answer(wrong.as_bytes()).decision;
            assert_eq!(denied.outcome, ReviewOutcome::Denied, "{denied:?}");
        }
    }
}
