//! `bench configmap`: the cost of a review of Koordinator's ConfigMap: 100 entries with 5,000 nodes, and six keys of
//! six entries with 208 nodes, of which one changes or all do.

mod documents;

use std::sync::Arc;

use anyhow::Result;
use headroom_webhook::{
    admission::{
        endpoint::{Family, SloConfiguration},
        router::Router,
    },
    store::{
        changes::Changes,
        informer::Store as _,
        nodes::{NodeListing, Nodes},
        pods::Pods,
    },
};
use serde::Serialize;
use serde_json::json;

use self::documents::Workload;
use crate::{
    cost::ReviewCost,
    criterion::Criterion,
    declaration::{BenchResult, Report, Row, no_flags},
    review_router::{self, listed_stores},
    served::Served,
};

pub(crate) static ROW: Row = Row {
    name: "configmap",
    about: "Measures reviews of Koordinator's ConfigMap: 100 new entries of one key with 5,000 nodes, and six entries in each of six keys with 208 nodes, where one key or all change. CPU time per review in memory and over TLS, as a multiple of a bare parse of the same bytes.",
    flags: no_flags,
    run: |_| BenchResult::new(&run()?),
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

impl Report for ConfigMapReport {
    /// A review costs at most these multiples of a bare parse of its bytes.
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

/// The endpoint with stores that contain `nodes` nodes.
fn router(nodes: usize) -> Result<Router> {
    let mut stores = listed_stores();
    stores.slo = SloConfiguration {
        nodes: known_nodes(nodes)?,
        ..stores.slo
    };
    review_router::router(&[Family::Koordinator], GATES, stores)
}

/// A store of `count` nodes; each matches the selector of one entry.
fn known_nodes(count: usize) -> Result<Arc<Nodes>> {
    let changes = Arc::<Changes>::default();
    let pods = Arc::new(Pods::new(Arc::clone(&changes), Arc::default()));
    let nodes = Nodes::new(changes, Arc::default(), pods, Arc::default());
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
    use headroom_webhook::admission::error::ReviewOutcome;

    use super::*;
    use crate::review_router::answer;

    #[test]
    fn valid_reviews_are_allowed_and_a_wrong_last_entry_is_denied() {
        for workload in [Workload::MANY_ENTRIES, Workload::SIX_KEYS, Workload::SIX_NEW_KEYS] {
            let router = router(workload.nodes).unwrap();
            let endpoint = router.endpoint(PATH).unwrap();
            let review = workload.review();
            let allowed = answer(&router, endpoint, &review).decision;
            assert_eq!(allowed.outcome, ReviewOutcome::Allowed, "{allowed:?}");
            // The last entry of the first key is checked too: keys are in the order of their names.
            let text = String::from_utf8(review).unwrap();
            let ends = ["cpu-burst-config", "oldObject"].map(|end| text.find(end));
            let end = ends.into_iter().flatten().min().unwrap();
            let last = text[..end].rfind("amd64").unwrap();
            let wrong = format!("{}amd 64{}", &text[..last], &text[last + 5..]);
            let denied = answer(&router, endpoint, wrong.as_bytes()).decision;
            assert_eq!(denied.outcome, ReviewOutcome::Denied, "{denied:?}");
        }
    }
}
