//! The Prometheus range queries of `advise`: one for each kind of number, by the usual names, each replaceable.

use std::{collections::BTreeMap, fmt, str::FromStr};

use headroom_domain::resource::Resource;

/// Subject of a query's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Of {
    /// Measured use of a node.
    NodeUse,
    /// Capacity of a node.
    NodeCapacity,
    /// What the node advertises.
    NodeAllocatable,
    /// Measured use of a pod, page cache that is in use included.
    PodUse,
    /// Memory of a pod that goes away with it.
    PodAnonymous,
    /// Request of a pod that has not ended.
    PodRequest,
    /// Labels of a node, of which one names its pool.
    NodePool,
}

/// One range query.
#[derive(Debug, PartialEq, Eq)]
pub struct Query {
    /// Its name in `--query` and of the files of saved answers.
    pub name: &'static str,
    /// What its numbers are of.
    pub of: Of,
    /// The resource: CPU in cores, memory in bytes.
    pub resource: Resource,
    /// The expression, unless it is replaced. Its series carry the label `node`, those of pods `namespace` and `pod`.
    pub promql: &'static str,
    /// What is asked where that has no series and is not replaced.
    pub otherwise: Option<&'static str>,
}

/// Every query. Usage is cAdvisor's, as the kubelet serves it; the rest is of kube-state-metrics. Where the series of whole nodes are
/// dropped, as kube-prometheus-stack drops those without a pod, the use of a node is that of its node-exporter.
///
/// A window of two minutes for nodes holds two scrapes at the usual interval of 30 s or 60 s; pods are asked for by
/// frames of five minutes. Pods that have ended are left out: kube-state-metrics goes on listing their requests.
pub static QUERIES: [Query; 11] = [
    Query {
        name: "node-cpu",
        of: Of::NodeUse,
        resource: Resource::Cpu,
        promql: r#"sum by (node) (rate(container_cpu_usage_seconds_total{id="/"}[2m]))"#,
        otherwise: Some(
            r#"sum by (node) (rate(node_cpu_seconds_total{mode!~"idle|iowait|steal"}[2m]) * on (namespace, pod) group_left (node) max by (namespace, pod, node) (kube_pod_info{node!=""}))"#,
        ),
    },
    Query {
        name: "node-memory",
        of: Of::NodeUse,
        resource: Resource::Memory,
        promql: r#"sum by (node) (container_memory_working_set_bytes{id="/"})"#,
        otherwise: Some(
            r#"sum by (node) ((node_memory_MemTotal_bytes - node_memory_MemAvailable_bytes) * on (namespace, pod) group_left (node) max by (namespace, pod, node) (kube_pod_info{node!=""}))"#,
        ),
    },
    Query {
        name: "node-cpu-capacity",
        of: Of::NodeCapacity,
        resource: Resource::Cpu,
        promql: r#"max by (node) (kube_node_status_capacity{resource="cpu"})"#,
        otherwise: None,
    },
    Query {
        name: "node-memory-capacity",
        of: Of::NodeCapacity,
        resource: Resource::Memory,
        promql: r#"max by (node) (kube_node_status_capacity{resource="memory"})"#,
        otherwise: None,
    },
    Query {
        name: "node-cpu-allocatable",
        of: Of::NodeAllocatable,
        resource: Resource::Cpu,
        promql: r#"max by (node) (kube_node_status_allocatable{resource="cpu"})"#,
        otherwise: None,
    },
    Query {
        name: "node-memory-allocatable",
        of: Of::NodeAllocatable,
        resource: Resource::Memory,
        promql: r#"max by (node) (kube_node_status_allocatable{resource="memory"})"#,
        otherwise: None,
    },
    Query {
        name: "pod-cpu",
        of: Of::PodUse,
        resource: Resource::Cpu,
        promql: r#"sum by (node, namespace, pod) (rate(container_cpu_usage_seconds_total{container!="",pod!=""}[5m]))"#,
        otherwise: None,
    },
    Query {
        name: "pod-memory",
        of: Of::PodUse,
        resource: Resource::Memory,
        promql: r#"sum by (node, namespace, pod) (container_memory_working_set_bytes{container!="",pod!=""})"#,
        otherwise: None,
    },
    Query {
        name: "pod-memory-anonymous",
        of: Of::PodAnonymous,
        resource: Resource::Memory,
        promql: r#"sum by (node, namespace, pod) (container_memory_rss{container!="",pod!=""})"#,
        otherwise: None,
    },
    Query {
        name: "pod-cpu-request",
        of: Of::PodRequest,
        resource: Resource::Cpu,
        promql: r#"sum by (node, namespace, pod) (kube_pod_container_resource_requests{resource="cpu",node!=""}) * on (namespace, pod) group_left () max by (namespace, pod) (kube_pod_status_phase{phase=~"Pending|Running"} == 1)"#,
        otherwise: None,
    },
    Query {
        name: "pod-memory-request",
        of: Of::PodRequest,
        resource: Resource::Memory,
        promql: r#"sum by (node, namespace, pod) (kube_pod_container_resource_requests{resource="memory",node!=""}) * on (namespace, pod) group_left () max by (namespace, pod) (kube_pod_status_phase{phase=~"Pending|Running"} == 1)"#,
        otherwise: None,
    },
];

/// What tells a node's pool: asked only where a label is named.
pub static POOLS: Query = Query {
    name: "node-labels",
    of: Of::NodePool,
    resource: Resource::Cpu,
    promql: "kube_node_labels",
    otherwise: None,
};

impl Query {
    /// True if there is no advice without its series.
    pub fn is_required(&self) -> bool {
        matches!(self.of, Of::NodeUse | Of::NodeCapacity | Of::NodeAllocatable)
    }

    /// True if a node's numbers are wanted at the finest step; all others once a frame.
    pub fn is_fine(&self) -> bool {
        self.of == Of::NodeUse
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// An expression in place of the usual one: `NAME=PROMQL`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    name: &'static str,
    promql: String,
}

/// The text is not `NAME=PROMQL` with the name of a query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplacementError {
    /// No name, or no expression.
    #[error("not NAME=PROMQL")]
    Shape,
    /// No query has that name.
    #[error("no query has the name {name:?}; there are {}", names())]
    Unknown {
        /// The name as given.
        name: String,
    },
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

/// The expression of each query, with replacements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expressions(BTreeMap<&'static str, String>);

impl Expressions {
    /// The usual ones, but for what is replaced; of two replacements of one query the later counts.
    pub fn new(replacements: &[Replacement]) -> Self {
        let usual = all().map(|query| (query.name, query.promql.to_owned()));
        let replaced = replacements
            .iter()
            .map(|Replacement { name, promql }| (*name, promql.clone()));
        Self(usual.chain(replaced).collect())
    }

    /// The expression of a query.
    pub fn expression(&self, query: &Query) -> &str {
        self.0.get(query.name).map_or(query.promql, String::as_str)
    }

    /// The expressions of a query, each asked where those before it have no series.
    pub fn expressions<'e>(&'e self, query: &'e Query) -> impl Iterator<Item = &'e str> {
        let first = self.expression(query);
        let otherwise = query.otherwise.filter(|_| first == query.promql);
        std::iter::once(first).chain(otherwise)
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
        let expressions = Expressions::new(&[replacement]);
        assert_eq!(expressions.expression(&QUERIES[0]), "sum(a{b=\"c\"})");
        assert_eq!(expressions.expression(&QUERIES[1]), QUERIES[1].promql);
    }

    #[test]
    fn what_is_replaced_has_nothing_in_its_place() {
        let usual = Expressions::new(&[]);
        let of_node: Vec<&str> = usual.expressions(&QUERIES[0]).collect();
        assert!(
            of_node.len() == 2 && of_node[1].contains("node_cpu_seconds_total"),
            "{of_node:?}"
        );
        let replaced = Expressions::new(&["node-cpu=a".parse().unwrap()]);
        assert_eq!(replaced.expressions(&QUERIES[0]).collect::<Vec<_>>(), ["a"]);
        assert_eq!(usual.expressions(&POOLS).count(), 1);
    }

    #[test]
    fn a_bad_replacement_says_what_is_wrong_with_it() {
        for shapeless in ["", "node-cpu", "node-cpu=", "node-cpu= "] {
            assert_eq!(
                shapeless.parse::<Replacement>(),
                Err(ReplacementError::Shape),
                "{shapeless:?}"
            );
        }
        let unknown = "node-gpu=up".parse::<Replacement>().unwrap_err().to_string();
        assert!(
            unknown.starts_with("no query has the name \"node-gpu\"; there are node-cpu, "),
            "{unknown}"
        );
    }
}
