//! Replays the history of a Prometheus server through the agent's estimator, for `kubectl headroom advise`. The
//! result is the ratios
//! that Headroom would have set.
//!
//! ```text
//! source (server, files) -> series -> Past, day by day -> replay::Node (Estimator) -> Advice -> output
//! ```
//!
//! Averages over a minute replace the agent's measurements of milliseconds, and no brake acts. The printed ratios are
//! therefore
//! upper bounds, see [`CAVEATS`].

pub mod advice;
pub mod error;
pub mod external_labels;
pub mod matcher;
pub mod plausibility;
pub mod query;
pub mod record;
pub mod replay;
pub mod series;
pub mod slots;
pub mod source;
pub mod span;
pub mod trend;

use std::collections::{BTreeMap, BTreeSet};

pub use self::{advice::Advice, error::AdviceError, replay::Policy};
use self::{
    query::{QUERIES, Query, QueryKind},
    replay::ReplayedNode,
    series::Series,
    slots::{NODE_LABEL, Past},
    source::Source,
    span::{FRAME_S, Span},
};

/// Limits of the numbers, most important first.
pub const CAVEATS: [&str; 4] = [
    "averages over a minute hide bursts; an agent on the node measures them and sets lower ratios",
    "no brake acts here; an agent also brakes on CPU waits, reclaim and pressure",
    "requests are sums over containers, without regard to overhead, init containers and exclusive CPUs",
    "the first day is not counted, because the estimator needs a day of measurements",
];

#[derive(Debug, Clone)]
pub struct ReplayRequest {
    /// Time range to request from a server. Files are used in full.
    pub span: Span,
    /// Seconds between two samples of a node; divides a frame.
    pub step_s: u64,
    pub policy: Policy,
    /// Label of `kube_node_labels` that names a node's pool; without it all nodes are one pool.
    pub pool_label: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmptyQuery {
    pub name: &'static str,
    pub asked: String,
}

#[derive(Default)]
struct Replay {
    nodes: BTreeMap<String, ReplayedNode>,
    /// A node without known capacity and allocatable.
    unsized_node: Option<String>,
    answered: BTreeSet<&'static str>,
}

/// Replays the history.
///
/// # Errors
/// See [`AdviceError`].
pub async fn advise(source: &Source, order: &ReplayRequest) -> Result<Advice, AdviceError> {
    let mut replay = Replay::default();
    let span = match source {
        Source::Server(server) => {
            for part in order.span.parts() {
                server.check_clusters(&part).await?;
                let mut past = Past::new(part, order.step_s);
                for query in wanted(order) {
                    let answer = server.answer(query, &part).await?;
                    replay.add(&mut past, query, order, answer);
                }
                replay.play(&past, order);
            }
            order.span
        }
        Source::Saved(directory) => {
            let mut answers = Vec::new();
            for query in wanted(order) {
                answers.push((query, source::saved(directory, query)?));
            }
            let span = covered(&answers);
            let mut past = Past::new(span, order.step_s);
            for (query, series) in answers {
                replay.add(&mut past, query, order, series);
            }
            replay.play(&past, order);
            span
        }
    };
    let empty = replay.empty(order, source);
    let required = |empty: &&EmptyQuery| {
        let mut queries = QUERIES.iter();
        queries.any(|query| query.name == empty.name && query.is_required())
    };
    if let Some(EmptyQuery { name: query, asked }) = empty.iter().find(required) {
        let asked = asked.clone();
        return Err(AdviceError::Empty { query, asked });
    }
    let Replay {
        nodes, unsized_node, ..
    } = replay;
    if nodes.values().all(|node| !node.has_view()) {
        return Err(AdviceError::NoNode {
            measured: nodes.len(),
            example: unsized_node.unwrap_or_default(),
        });
    }
    let mut advice = Advice::summarize(span, order, nodes.into_values());
    if let (true, Some(first)) = (advice.nodes.is_empty(), advice.left_out.first()) {
        return Err(AdviceError::AllImplausible {
            nodes: advice.left_out.len(),
            example: first.to_string(),
        });
    }
    advice.empty = empty;
    Ok(advice)
}

fn wanted(order: &ReplayRequest) -> impl Iterator<Item = &'static Query> + use<> {
    QUERIES
        .iter()
        .chain(order.pool_label.is_some().then_some(&query::POOLS))
}

impl Replay {
    /// Adds the answer to a query.
    fn add(&mut self, past: &mut Past, query: &'static Query, order: &ReplayRequest, answer: Vec<Series>) {
        if answer.iter().any(|series| series.labels.contains_key(NODE_LABEL)) {
            self.answered.insert(query.name);
        }
        past.add(query, order.pool_label.as_deref(), answer);
    }

    /// Replays one part of the history, frame by frame.
    fn play(&mut self, past: &Past, order: &ReplayRequest) {
        for (name, node_past) in past.nodes() {
            let node = self.nodes.entry(name.clone());
            let node = node.or_insert_with(|| ReplayedNode::new(name.clone(), order.policy));
            for moment in past.moments(node_past) {
                node.replay(&moment);
            }
            if let Some(pool) = node_past.pool() {
                node.join(pool);
            }
            if !node.has_view() {
                self.unsized_node.get_or_insert_with(|| name.clone());
            }
        }
    }

    /// Queries that never returned a series.
    fn empty(&self, order: &ReplayRequest, source: &Source) -> Vec<EmptyQuery> {
        let empty = wanted(order).filter(|query| !self.answered.contains(query.name));
        empty
            .map(|query| EmptyQuery {
                name: query.name,
                asked: source.asked(query),
            })
            .collect()
    }
}

/// The whole frames for which nodes have samples.
fn covered(answers: &[(&Query, Vec<Series>)]) -> Span {
    let stamps = || {
        answers
            .iter()
            .filter(|(query, _)| query.kind == QueryKind::NodeUse)
            .flat_map(|(_, all)| all)
            .flat_map(|series| &series.samples)
            .map(|&(at_s, _)| at_s)
    };
    let from = stamps().min().unwrap_or_default();
    // The frame of the first sample is included, even if incomplete; its validity depends on its samples.
    Span::new(
        from.saturating_sub(1) / FRAME_S * FRAME_S,
        stamps().max().unwrap_or_default().next_multiple_of(FRAME_S),
    )
}
