//! Range queries of `advise`, one for each kind of number, with the usual metric names; each can be replaced.

use std::{collections::BTreeMap, fmt, iter, str::FromStr};

use headroom_domain::resource::Resource;

use super::{
    external_labels::NODE_SERIES,
    matcher::{LabelMatcher, add_matchers},
};

/// Kind of number that a query returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QueryKind {
    /// Measured use of a node.
    NodeUse,
    NodeCapacity,
    NodeAllocatable,
    /// Measured use of a pod, including active page cache.
    PodUse,
    /// Memory of a pod that is freed with it.
    PodAnonymous,
    /// Requests of a pod that is pending or running.
    PodRequest,
    /// Labels of a node, one of which names its pool.
    NodePool,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Query {
    /// Name in `--query`, and of the files of saved responses.
    pub name: &'static str,
    pub kind: QueryKind,
    /// CPU in cores, or memory in bytes.
    pub resource: Resource,
    /// Default expression. Its series have the label `node`, those of pods also `namespace` and `pod`.
    pub promql: &'static str,
    /// Expression that is used if the default one has no series.
    pub otherwise: Option<&'static str>,
}

/// All queries. Use is from cAdvisor in the kubelet, the rest from kube-state-metrics. If the series of whole nodes
/// are dropped, as
/// kube-prometheus-stack drops series without a pod, the use of a node is from node-exporter.
///
/// A window of two minutes contains at least two scrapes at the usual interval of 30 s or 60 s; pods are queried by
/// frames of five minutes.
/// Terminated pods are excluded, because kube-state-metrics still lists their requests.
///
/// Two scrape jobs, or two instances of kube-state-metrics, store a series twice, with different labels of the target.
/// So a `sum` has only operands that an inner `max` has reduced to one series for each object. The kubelet's series of
/// CPU are totals; those of single CPUs, which other builds of cAdvisor have, are excluded.
pub static QUERIES: [Query; 11] = [
    Query {
        name: "node-cpu",
        kind: QueryKind::NodeUse,
        resource: Resource::Cpu,
        promql: r#"max by (node) (rate(container_cpu_usage_seconds_total{id="/",cpu=~"total|"}[2m]))"#,
        otherwise: Some(
            r#"sum by (node) (max by (node, cpu, mode) (rate(node_cpu_seconds_total{mode!~"idle|iowait|steal"}[2m]) * on (namespace, pod) group_left (node) max by (namespace, pod, node) (kube_pod_info{node!=""})))"#,
        ),
    },
    Query {
        name: "node-memory",
        kind: QueryKind::NodeUse,
        resource: Resource::Memory,
        promql: r#"max by (node) (container_memory_working_set_bytes{id="/"})"#,
        otherwise: Some(
            r#"max by (node) ((node_memory_MemTotal_bytes - node_memory_MemAvailable_bytes) * on (namespace, pod) group_left (node) max by (namespace, pod, node) (kube_pod_info{node!=""}))"#,
        ),
    },
    Query {
        name: "node-cpu-capacity",
        kind: QueryKind::NodeCapacity,
        resource: Resource::Cpu,
        promql: r#"max by (node) (kube_node_status_capacity{resource="cpu"})"#,
        otherwise: None,
    },
    Query {
        name: "node-memory-capacity",
        kind: QueryKind::NodeCapacity,
        resource: Resource::Memory,
        promql: r#"max by (node) (kube_node_status_capacity{resource="memory"})"#,
        otherwise: None,
    },
    Query {
        name: "node-cpu-allocatable",
        kind: QueryKind::NodeAllocatable,
        resource: Resource::Cpu,
        promql: r#"max by (node) (kube_node_status_allocatable{resource="cpu"})"#,
        otherwise: None,
    },
    Query {
        name: "node-memory-allocatable",
        kind: QueryKind::NodeAllocatable,
        resource: Resource::Memory,
        promql: r#"max by (node) (kube_node_status_allocatable{resource="memory"})"#,
        otherwise: None,
    },
    Query {
        name: "pod-cpu",
        kind: QueryKind::PodUse,
        resource: Resource::Cpu,
        promql: r#"sum by (node, namespace, pod) (max by (node, namespace, pod, container) (rate(container_cpu_usage_seconds_total{container!="",pod!="",cpu=~"total|"}[5m])))"#,
        otherwise: None,
    },
    Query {
        name: "pod-memory",
        kind: QueryKind::PodUse,
        resource: Resource::Memory,
        promql: r#"sum by (node, namespace, pod) (max by (node, namespace, pod, container) (container_memory_working_set_bytes{container!="",pod!=""}))"#,
        otherwise: None,
    },
    Query {
        name: "pod-memory-anonymous",
        kind: QueryKind::PodAnonymous,
        resource: Resource::Memory,
        promql: r#"sum by (node, namespace, pod) (max by (node, namespace, pod, container) (container_memory_rss{container!="",pod!=""}))"#,
        otherwise: None,
    },
    Query {
        name: "pod-cpu-request",
        kind: QueryKind::PodRequest,
        resource: Resource::Cpu,
        promql: r#"sum by (node, namespace, pod) (max by (node, namespace, pod, container) (kube_pod_container_resource_requests{resource="cpu",node!=""})) * on (namespace, pod) group_left () max by (namespace, pod) (kube_pod_status_phase{phase=~"Pending|Running"} == 1)"#,
        otherwise: None,
    },
    Query {
        name: "pod-memory-request",
        kind: QueryKind::PodRequest,
        resource: Resource::Memory,
        promql: r#"sum by (node, namespace, pod) (max by (node, namespace, pod, container) (kube_pod_container_resource_requests{resource="memory",node!=""})) * on (namespace, pod) group_left () max by (namespace, pod) (kube_pod_status_phase{phase=~"Pending|Running"} == 1)"#,
        otherwise: None,
    },
];

/// Query for a node's pool; only used with `--pool-label`.
pub static POOLS: Query = Query {
    name: "node-labels",
    kind: QueryKind::NodePool,
    resource: Resource::Cpu,
    promql: "kube_node_labels",
    otherwise: None,
};

impl Query {
    /// True if there is no advice without its series.
    pub fn is_required(&self) -> bool {
        matches!(
            self.kind,
            QueryKind::NodeUse | QueryKind::NodeCapacity | QueryKind::NodeAllocatable
        )
    }

    /// True for numbers of a node that are needed at every step; all others are needed once a frame.
    pub fn is_fine(&self) -> bool {
        self.kind == QueryKind::NodeUse
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Replacement of an expression: `NAME=PROMQL`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    name: &'static str,
    promql: String,
}

/// The text is not `NAME=PROMQL` with the name of a query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplacementError {
    /// The name or the expression is missing.
    #[error("not NAME=PROMQL")]
    Shape,
    #[error("no query is named {name:?}; names are {}", names())]
    Unknown { name: String },
}

fn all() -> impl Iterator<Item = &'static Query> {
    QUERIES.iter().chain([&POOLS])
}

fn names() -> String {
    all().map(|query| query.name).collect::<Vec<_>>().join(", ")
}

impl FromStr for Replacement {
    type Err = ReplacementError;

    fn from_str(text: &str) -> Result<Self, ReplacementError> {
        let (name, promql) = text.split_once('=').ok_or(ReplacementError::Shape)?;
        let (name, promql) = (name.trim(), promql.trim());
        if promql.is_empty() {
            return Err(ReplacementError::Shape);
        }
        let query = all()
            .find(|query| query.name == name)
            .ok_or_else(|| ReplacementError::Unknown {
                name: name.chars().take(40).collect(),
            })?;
        Ok(Self {
            name: query.name,
            promql: promql.to_owned(),
        })
    }
}

/// Expressions of each query, after replacements and with the matchers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expressions {
    /// In order; the next one is used if the previous ones have no series.
    by_query: BTreeMap<&'static str, Vec<String>>,
    matchers: Vec<LabelMatcher>,
    has_defaults: bool,
}

impl Expressions {
    /// The default expressions with these replacements and matchers. The last replacement of a query wins.
    pub fn new(replacements: &[Replacement], matchers: &[LabelMatcher]) -> Self {
        let usual = |query: &Query| {
            let promql = iter::once(query.promql).chain(query.otherwise);
            (query.name, promql.map(str::to_owned).collect())
        };
        let mut by_query: BTreeMap<&'static str, Vec<String>> = all().map(usual).collect();
        for Replacement { name, promql } in replacements {
            by_query.insert(name, vec![promql.clone()]);
        }
        let is_default = |query: &Query| {
            replacements
                .iter()
                .all(|replacement| replacement.name != query.name)
        };
        for promql in by_query.values_mut().flatten() {
            *promql = add_matchers(promql, matchers);
        }
        Self {
            by_query,
            matchers: matchers.to_vec(),
            has_defaults: QUERIES.iter().any(is_default),
        }
    }

    /// Expressions of a query, in order; the next one is used if the previous ones have no series.
    pub fn expressions(&self, query: &Query) -> &[String] {
        self.by_query.get(query.name).map_or(&[], Vec::as_slice)
    }

    /// Selector of the nodes' series with all labels; `None` if all queries are replaced.
    pub fn node_series(&self) -> Option<String> {
        self.has_defaults
            .then(|| add_matchers(NODE_SERIES, &self.matchers))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<_> = all().map(|query| query.name).collect();
        assert_eq!(names.len(), all().count());
    }

    #[test]
    fn an_expression_is_replaced_by_name() {
        let replacement: Replacement = "node-cpu=sum(a{b=\"c\"})".parse().unwrap();
        let expressions = Expressions::new(&[replacement], &[]);
        assert_eq!(expressions.expressions(&QUERIES[0]), ["sum(a{b=\"c\"})"]);
        assert_eq!(expressions.expressions(&QUERIES[1])[0], QUERIES[1].promql);
        assert_eq!(expressions.node_series().unwrap(), NODE_SERIES);
    }

    #[test]
    fn a_replaced_expression_has_no_fallback() {
        let usual = Expressions::new(&[], &[]);
        let of_node = usual.expressions(&QUERIES[0]);
        assert!(
            of_node.len() == 2 && of_node[1].contains("node_cpu_seconds_total"),
            "{of_node:?}"
        );
        let replaced = Expressions::new(&["node-cpu=a".parse().unwrap()], &[]);
        assert_eq!(replaced.expressions(&QUERIES[0]), ["a"]);
        assert_eq!(usual.expressions(&POOLS).len(), 1);
    }

    #[test]
    fn each_expression_has_the_matchers() {
        let replacement = "node-cpu=a".parse().unwrap();
        let expressions = Expressions::new(&[replacement], &["c=x".parse().unwrap()]);
        assert_eq!(expressions.expressions(&QUERIES[0]), [r#"a{c="x"}"#]);
        for promql in all().flat_map(|query| expressions.expressions(query)) {
            let (braces, matchers) = (promql.matches('{').count(), promql.matches(r#"{c="x""#).count());
            assert!(matchers > 0 && matchers == braces, "{promql}");
        }
        assert!(expressions.node_series().unwrap().contains(r#"{c="x","#));
        let all: Vec<Replacement> = QUERIES
            .iter()
            .map(|query| format!("{query}=a").parse().unwrap())
            .collect();
        assert_eq!(Expressions::new(&all, &[]).node_series(), None);
    }

    #[test]
    fn an_invalid_replacement_is_explained() {
        for shapeless in ["", "node-cpu", "node-cpu=", "node-cpu= "] {
            assert_eq!(
                shapeless.parse::<Replacement>(),
                Err(ReplacementError::Shape),
                "{shapeless:?}"
            );
        }
        let unknown = "node-gpu=up".parse::<Replacement>().unwrap_err().to_string();
        assert!(
            unknown.starts_with("no query is named \"node-gpu\"; names are node-cpu, "),
            "{unknown}"
        );
    }
}
