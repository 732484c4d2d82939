//! [`Past`]: samples of all series for a part of the history, in slots of equal length, and each node's values by
//! frame.

use std::collections::BTreeMap;

use headroom_domain::resource::{PerResource, Resource};

use super::{
    query::{Query, QueryKind},
    series::{Labels, Series},
    span::{FRAME_S, Span},
};

/// Label with the name of the node.
pub(super) const NODE_LABEL: &str = "node";

/// Values by slot; slots beyond the end are unknown.
type SlotValues = Vec<Option<u64>>;

/// A part of the history of all nodes.
#[derive(Debug)]
pub struct Past {
    span: Span,
    step_s: u64,
    nodes: BTreeMap<String, NodePast>,
}

#[derive(Debug, Default)]
pub struct NodePast {
    pool: Option<String>,
    used: PerResource<SlotValues>,
    capacity: PerResource<SlotValues>,
    allocatable: PerResource<SlotValues>,
    pods: BTreeMap<String, PodPast>,
}

#[derive(Debug, Default)]
struct PodPast {
    used: PerResource<SlotValues>,
    anonymous: SlotValues,
    requests: PerResource<SlotValues>,
}

/// Measurements of a node in one frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFrame {
    /// Number of the frame: seconds since 1970 divided by its length.
    pub index: u64,
    /// Samples of use in the frame.
    pub used: PerResource<Vec<u64>>,
    /// Samples in a frame without a gap.
    pub slots: usize,
    /// Capacity at the end of the frame.
    pub capacity: PerResource<Option<u64>>,
    /// Allocatable at the end of the frame.
    pub allocatable: PerResource<Option<u64>>,
    pub pods: BTreeMap<String, PodMoment>,
}

/// Measurements of a pod in one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PodMoment {
    /// Mean CPU over the frame, and memory at its end.
    pub used: PerResource<Option<u64>>,
    /// Anonymous memory at the end of the frame, which is freed with the pod.
    pub anonymous: Option<u64>,
    /// Requests; `None` for a pod without requests or a terminated pod.
    pub requests: PerResource<Option<u64>>,
}

impl PodMoment {
    /// True if the pod used a resource.
    pub fn has_use(&self) -> bool {
        Resource::ALL
            .into_iter()
            .any(|resource| self.used.get(resource).is_some())
    }

    /// True if the pod requests a resource.
    pub fn has_request(&self) -> bool {
        Resource::ALL
            .into_iter()
            .any(|resource| self.requests.get(resource).is_some())
    }
}

impl NodePast {
    /// Pool of the node, if a label names one.
    pub fn pool(&self) -> Option<&str> {
        self.pool.as_deref()
    }
}

impl Past {
    /// An empty history of `span`, with a sample of a node every `step_s` seconds.
    pub fn new(span: Span, step_s: u64) -> Self {
        Self {
            span,
            step_s,
            nodes: BTreeMap::new(),
        }
    }

    pub fn nodes(&self) -> &BTreeMap<String, NodePast> {
        &self.nodes
    }

    /// Adds the response to a query. Series without the required labels are left out. If two series have a value for
    /// the same slot,
    /// the larger value is kept.
    pub fn add(&mut self, query: &Query, pool_label: Option<&str>, answer: Vec<Series>) {
        let step_s = if query.is_fine() { self.step_s } else { FRAME_S };
        for Series { labels, samples } in answer {
            let Some(name) = labels.get(NODE_LABEL) else {
                continue;
            };
            if query.kind == QueryKind::NodePool {
                let node = self.nodes.entry(name.clone()).or_default();
                // Another instance of kube-state-metrics may lack the label.
                if let Some(pool) = pool_label.and_then(|label| labels.get(label)) {
                    node.pool = Some(pool.clone());
                }
                continue;
            }
            let span = self.span;
            let Some(column) = self.column(query, name, &labels) else {
                continue;
            };
            for (at_s, value) in samples {
                let Some(slot) = span.slot(at_s, step_s) else {
                    continue;
                };
                if column.len() <= slot {
                    column.resize(slot + 1, None);
                }
                if let Some(cell) = column.get_mut(slot) {
                    *cell = (*cell).max(Some(value));
                }
            }
        }
    }

    fn column(&mut self, query: &Query, name: &str, labels: &Labels) -> Option<&mut SlotValues> {
        let is_of_pod = matches!(
            query.kind,
            QueryKind::PodUse | QueryKind::PodAnonymous | QueryKind::PodRequest
        );
        let pod = if is_of_pod {
            Some(format!("{}/{}", labels.get("namespace")?, labels.get("pod")?))
        } else {
            None
        };
        let node = self.nodes.entry(name.to_owned()).or_default();
        let resource = query.resource;
        Some(match (query.kind, pod) {
            (QueryKind::NodeUse, _) => node.used.get_mut(resource),
            (QueryKind::NodeCapacity, _) => node.capacity.get_mut(resource),
            (QueryKind::NodeAllocatable, _) => node.allocatable.get_mut(resource),
            (QueryKind::PodUse, Some(pod)) => node.pods.entry(pod).or_default().used.get_mut(resource),
            (QueryKind::PodAnonymous, Some(pod)) => &mut node.pods.entry(pod).or_default().anonymous,
            (QueryKind::PodRequest, Some(pod)) => {
                node.pods.entry(pod).or_default().requests.get_mut(resource)
            }
            (QueryKind::NodePool, _)
            | (QueryKind::PodUse | QueryKind::PodAnonymous | QueryKind::PodRequest, None) => return None,
        })
    }

    /// Frames of a node, oldest first.
    pub fn moments<'p>(&self, node: &'p NodePast) -> impl Iterator<Item = NodeFrame> + use<'p> {
        let slots = usize::try_from(FRAME_S / self.step_s.max(1)).unwrap_or(1);
        let at = |columns: &PerResource<SlotValues>, slot: usize| columns.map(|_, column| cell(column, slot));
        self.span
            .frames()
            .enumerate()
            .map(move |(slot, index)| NodeFrame {
                index,
                used: node.used.map(|_, column| {
                    let cells = column.iter().skip(slot * slots).take(slots);
                    cells.filter_map(|cell| *cell).collect()
                }),
                slots,
                capacity: at(&node.capacity, slot),
                allocatable: at(&node.allocatable, slot),
                pods: node
                    .pods
                    .iter()
                    .map(|(name, pod)| {
                        let moment = PodMoment {
                            used: at(&pod.used, slot),
                            anonymous: cell(&pod.anonymous, slot),
                            requests: at(&pod.requests, slot),
                        };
                        (name.clone(), moment)
                    })
                    .filter(|(_, pod)| pod.has_use() || pod.has_request())
                    .collect(),
            })
    }
}

fn cell(column: &SlotValues, slot: usize) -> Option<u64> {
    column.get(slot).copied().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::query::{POOLS, QUERIES};

    fn query(name: &str) -> &'static Query {
        QUERIES.iter().find(|query| query.name == name).unwrap()
    }

    fn series(labels: &[(&str, &str)], samples: &[(u64, u64)]) -> Vec<Series> {
        let labels = labels
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        vec![Series {
            labels,
            samples: samples.to_vec(),
        }]
    }

    #[test]
    fn a_sample_belongs_to_the_frame_in_which_it_ends() {
        let mut past = Past::new(Span::new(600, 1200), 60);
        let node = [("node", "a")];
        past.add(
            query("node-cpu"),
            None,
            series(&node, &[(600, 9), (660, 1), (900, 5), (960, 6), (1200, 10)]),
        );
        past.add(
            query("node-cpu-capacity"),
            None,
            series(&node, &[(900, 4000), (1200, 8000)]),
        );
        let pod = [("node", "a"), ("namespace", "n"), ("pod", "p")];
        past.add(query("pod-cpu"), None, series(&pod, &[(1200, 7)]));
        past.add(query("pod-cpu-request"), None, series(&pod, &[(900, 100)]));
        let moments: Vec<_> = past.moments(&past.nodes()["a"]).collect();
        assert_eq!(moments.len(), 2);
        assert_eq!((moments[0].index, moments[0].slots), (2, 5));
        assert_eq!(moments[0].used.cpu, [1, 5]);
        assert_eq!(moments[1].used.cpu, [6, 10]);
        assert_eq!(
            (moments[0].capacity.cpu, moments[1].capacity.cpu),
            (Some(4000), Some(8000))
        );
        assert!(moments[0].pods["n/p"].has_request() && !moments[0].pods["n/p"].has_use());
        assert_eq!(moments[1].pods["n/p"].used.cpu, Some(7));
        assert_eq!(moments[1].pods["n/p"].requests.cpu, None);
    }

    #[test]
    fn series_without_labels_are_left_out_and_duplicates_are_not_summed() {
        let mut past = Past::new(Span::new(0, 300), 60);
        past.add(query("node-cpu"), None, series(&[("instance", "a")], &[(60, 1)]));
        past.add(
            query("pod-cpu"),
            None,
            series(&[("node", "a"), ("pod", "p")], &[(300, 1)]),
        );
        assert!(past.nodes().is_empty());
        for value in [3, 5, 4] {
            past.add(query("node-cpu"), None, series(&[("node", "a")], &[(60, value)]));
        }
        let moment = past.moments(&past.nodes()["a"]).next().unwrap();
        assert_eq!(moment.used.cpu, [5]);
    }

    #[test]
    fn a_label_names_the_pool() {
        let mut past = Past::new(Span::new(0, 300), 60);
        let labels = [("node", "a"), ("label_pool", "blue")];
        past.add(&POOLS, Some("label_none"), series(&labels, &[(300, 1)]));
        assert_eq!(past.nodes()["a"].pool(), None);
        past.add(&POOLS, Some("label_pool"), series(&labels, &[(300, 1)]));
        past.add(&POOLS, Some("label_pool"), series(&labels[..1], &[(300, 1)]));
        assert_eq!(past.nodes()["a"].pool(), Some("blue"));
    }
}
