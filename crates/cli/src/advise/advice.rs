//! [`Advice`]: figures of a replay, for each pool and each node.

use std::collections::BTreeMap;

use headroom_domain::{
    ratio::Cents,
    resource::{PerResource, Resource},
};

use super::{
    EmptyQuery, ReplayRequest,
    plausibility::ImplausibleNode,
    replay::{Policy, ReplayedNode, Tally},
    span::Span,
    trend::Trend,
};

/// Name of the only pool without a pool label, and of the pool of nodes without that label.
const ALL: &str = "all";
const NONE: &str = "none";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// Time range that was replayed.
    pub span: Span,
    /// Seconds between two samples of a node.
    pub step_s: u64,
    pub policy: Policy,
    pub pools: Vec<Group>,
    pub nodes: Vec<Group>,
    /// Nodes that are in no figure.
    pub left_out: Vec<ImplausibleNode>,
    pub empty: Vec<EmptyQuery>,
}

/// Figures of a node, or of the nodes of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    pub name: String,
    /// Pool of the node; the pool itself for a pool.
    pub pool: String,
    pub nodes: usize,
    /// Number of pods that ran there, from the second day on.
    pub pods: u64,
    /// Pods that were present in a frame whose peak would have exceeded capacity if the gained amount had been
    /// filled, but did not.
    pub pods_at_risk: u64,
    /// `None` without more than a day of measurements.
    pub figures: PerResource<Option<Figures>>,
    pub course: PerResource<Trend>,
}

/// Figures of one resource. CPU is in milli-cores, memory in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    pub frames: usize,
    /// Ratio at the 5th, 50th and 95th percentile of the frames.
    pub ratio: [Cents; 3],
    /// Median of the ratio that is safe; below 1.00, the node advertises more than is safe.
    pub needed: Cents,
    /// Mean raw allocatable of all nodes, summed.
    pub raw: u64,
    /// Mean amount that the ratio adds to it.
    pub gained: u64,
    /// Share of frames with a measured peak above capacity (memory: raw allocatable), in ppm.
    pub saturated_ppm: u32,
    /// Share of such frames if the gained amount were filled with pods of the same use per request.
    pub would_saturate_ppm: u32,
    /// Hourly decisions with a whole day of measurements after them.
    pub judged: u64,
    /// Share of these decisions after which use exceeded the predicted peak, in ppm; `None` without decisions.
    pub missed_ppm: Option<u32>,
}

impl Advice {
    /// Computes the figures of the replayed nodes.
    pub fn summarize(span: Span, order: &ReplayRequest, nodes: impl Iterator<Item = ReplayedNode>) -> Self {
        let (mut kept, mut left_out) = (Vec::new(), Vec::new());
        for node in nodes.filter(ReplayedNode::has_view) {
            match node.excess() {
                None => kept.push(node),
                Some(excess) => left_out.push(ImplausibleNode {
                    name: node.name().to_owned(),
                    excess,
                }),
            }
        }
        let nodes = kept;
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
            left_out,
            empty: Vec::new(),
        }
    }

    /// Resources that the policy amplifies.
    pub fn resources(&self) -> impl Iterator<Item = Resource> + '_ {
        Resource::ALL
            .into_iter()
            .filter(|resource| self.policy.bounds.get(*resource).max > Cents::ONE)
    }

    /// Nodes that advertise more of a resource than is safe.
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
    /// Number of average nodes of the group that have the gained amount, in hundredths; `None` without figures.
    pub fn gained_nodes_cents(&self, resource: Resource) -> Option<u64> {
        let Figures { raw, gained, .. } = self.figures.get(resource).as_ref()?;
        let nodes = u128::try_from(self.nodes).ok()?;
        let cents = (u128::from(*gained) * nodes * 100).checked_div(u128::from(*raw))?;
        u64::try_from(cents).ok()
    }
}

impl Figures {
    /// Combines the figures of tallies; `None` without frames.
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

    /// Gained amount as a share of raw allocatable, in ppm.
    pub fn gained_ppm(&self) -> u32 {
        ppm(self.gained, self.raw)
    }
}

/// The element of rank ceil(n × percent / 100) of a sorted list.
fn nearest_rank(sorted: &[u32], percent: usize) -> Cents {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    Cents(sorted.get(rank - 1).copied().unwrap_or_default())
}

fn ppm(part: u64, whole: u64) -> u32 {
    let ppm = u128::from(part) * 1_000_000 / u128::from(whole.max(1));
    u32::try_from(ppm).unwrap_or(u32::MAX)
}
