//! `Advice`: the figures of a replay, for each pool and each node.

use std::collections::BTreeMap;

use headroom_domain::{
    ratio::Cents,
    resource::{PerResource, Resource},
};

use super::{
    EmptyQuery, ReplayRequest,
    replay::{Policy, ReplayedNode, Tally},
    span::Span,
    trend::Trend,
};

/// The name of the one pool where no label names pools, and of nodes without that label.
const ALL: &str = "all";
const NONE: &str = "none";

/// The result of a replay: what Headroom would have given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// The stretch that was replayed.
    pub span: Span,
    /// Seconds between two samples of a node.
    pub step_s: u64,
    /// Bounds and targets.
    pub policy: Policy,
    /// The pools, by name.
    pub pools: Vec<Group>,
    /// The nodes, by name.
    pub nodes: Vec<Group>,
    /// Queries that had no series.
    pub empty: Vec<EmptyQuery>,
}

/// A node, or the nodes of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// The pool: of a pool, itself.
    pub pool: String,
    /// Number of nodes.
    pub nodes: usize,
    /// Pods that ran there, from the second day on.
    pub pods: u64,
    /// Those of them that were there in a frame with a peak above what there is, had the room been filled, and not without.
    pub pods_at_risk: u64,
    /// Figures, where there is more than a day of measurements.
    pub figures: PerResource<Option<Figures>>,
    /// The same over time.
    pub course: PerResource<Trend>,
}

/// Figures of one resource. CPU counts in milli-cores, memory in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// Frames of all nodes behind them.
    pub frames: usize,
    /// The ratio in the lowest 5 % of the frames, the middle, and the highest 5 %.
    pub ratio: [Cents; 3],
    /// The middle of what is needed: below 1.00 more is advertised than is safe to use.
    pub needed: Cents,
    /// Raw allocatable of all nodes, in the mean.
    pub raw: u64,
    /// What the ratio adds to it, in the mean.
    pub gained: u64,
    /// Share of frames with a peak above capacity (memory: raw allocatable), in ppm, as it was.
    pub saturated_ppm: u32,
    /// The same had the room been filled with pods that use as much of their requests.
    pub would_saturate_ppm: u32,
    /// Hourly decisions that a whole day followed.
    pub judged: u64,
    /// Share of them after which use exceeded the predicted peak, in ppm; none were judged without.
    pub missed_ppm: Option<u32>,
}

impl Advice {
    /// Figures of the nodes that were replayed.
    pub fn summarize(span: Span, order: &ReplayRequest, nodes: impl Iterator<Item = ReplayedNode>) -> Self {
        let nodes: Vec<ReplayedNode> = nodes.filter(ReplayedNode::has_view).collect();
        let pool = |node: &ReplayedNode| match (&order.pool_label, node.pool()) {
            (None, _) => ALL.to_owned(),
            (Some(_), None) => NONE.to_owned(),
            (Some(_), Some(pool)) => pool.to_owned(),
        };
        let mut pools: BTreeMap<String, Vec<&ReplayedNode>> = BTreeMap::new();
        for node in &nodes {
            pools.entry(pool(node)).or_default().push(node);
        }
        Self {
            span,
            step_s: order.step_s,
            policy: order.policy,
            pools: pools
                .into_iter()
                .map(|(name, nodes)| Group::summarize(name.clone(), name, &nodes))
                .collect(),
            nodes: nodes
                .iter()
                .map(|node| Group::summarize(node.name().to_owned(), pool(node), &[node]))
                .collect(),
            empty: Vec::new(),
        }
    }

    /// The resources that the policy lets grow.
    pub fn resources(&self) -> impl Iterator<Item = Resource> + '_ {
        Resource::ALL
            .into_iter()
            .filter(|resource| self.policy.bounds.get(*resource).max > Cents::ONE)
    }

    /// The nodes that need less of a resource than they advertise.
    pub fn overcommitted(&self, resource: Resource) -> impl Iterator<Item = (&Group, &Figures)> {
        self.nodes
            .iter()
            .filter_map(move |node| Some((node, node.figures.get(resource).as_ref()?)))
            .filter(|(_, figures)| figures.needed < Cents::ONE)
    }
}

impl Group {
    fn summarize(name: String, pool: String, nodes: &[&ReplayedNode]) -> Self {
        let figures = |resource| {
            let tallies: Vec<&Tally> = nodes.iter().map(|node| node.tally(resource)).collect();
            Figures::summarize(&tallies)
        };
        let course = |resource| {
            let tallies: Vec<(&str, &Tally)> = nodes
                .iter()
                .map(|node| (node.name(), node.tally(resource)))
                .collect();
            Trend::join(&tallies)
        };
        Self {
            name,
            pool,
            nodes: nodes.len(),
            pods: nodes.iter().map(|node| node.pods()).sum(),
            pods_at_risk: nodes.iter().map(|node| node.pods_at_risk()).sum(),
            figures: PerResource::from_fn(figures),
            course: PerResource::from_fn(course),
        }
    }
}

impl Group {
    /// How many nodes of the mean size of these have as much of a resource as the ratio adds, in hundredths; `None` without figures.
    pub fn gained_nodes_cents(&self, resource: Resource) -> Option<u64> {
        let Figures { raw, gained, .. } = self.figures.get(resource).as_ref()?;
        let nodes = u128::try_from(self.nodes).ok()?;
        let cents = (u128::from(*gained) * nodes * 100).checked_div(u128::from(*raw))?;
        u64::try_from(cents).ok()
    }
}

impl Figures {
    /// Figures of all tallies together; `None` where no frame was counted.
    fn summarize(tallies: &[&Tally]) -> Option<Self> {
        let all = |ratios: fn(&Tally) -> &Vec<u32>| {
            let mut all: Vec<u32> = tallies.iter().flat_map(|tally| ratios(tally)).copied().collect();
            all.sort_unstable();
            all
        };
        let (given, needed) = (all(|tally| &tally.given), all(|tally| &tally.needed));
        let frames = given.len();
        if frames == 0 {
            return None;
        }
        let sum = |count: fn(&Tally) -> u64| tallies.iter().map(|tally| count(tally)).sum::<u64>();
        let mean = |total: fn(&Tally) -> u128| {
            let means = tallies.iter().map(|tally| {
                let frames = u128::try_from(tally.given.len().max(1)).unwrap_or(1);
                u64::try_from(total(tally) / frames).unwrap_or(u64::MAX)
            });
            means.fold(0, u64::saturating_add)
        };
        let judged = sum(|tally| tally.judged);
        let counted = u64::try_from(frames).unwrap_or(u64::MAX);
        Some(Self {
            frames,
            ratio: [5, 50, 95].map(|percent| nearest_rank(&given, percent)),
            needed: nearest_rank(&needed, 50),
            raw: mean(|tally| tally.raw),
            gained: mean(|tally| tally.gained),
            saturated_ppm: ppm(sum(|tally| tally.saturated), counted),
            would_saturate_ppm: ppm(sum(|tally| tally.would_saturate), counted),
            judged,
            missed_ppm: (judged > 0).then(|| ppm(sum(|tally| tally.missed), judged)),
        })
    }

    /// What the ratio adds, as a share of raw allocatable, in ppm.
    pub fn gained_ppm(&self) -> u32 {
        ppm(self.gained, self.raw)
    }
}

/// The element of rank ceil(n × percent / 100) of what is sorted.
fn nearest_rank(sorted: &[u32], percent: usize) -> Cents {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    Cents(sorted.get(rank - 1).copied().unwrap_or_default())
}

fn ppm(part: u64, whole: u64) -> u32 {
    let ppm = u128::from(part) * 1_000_000 / u128::from(whole.max(1));
    u32::try_from(ppm).unwrap_or(u32::MAX)
}
