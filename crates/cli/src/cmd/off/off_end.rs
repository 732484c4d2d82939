//! [`OffEnd`]: the last line of `off`: restored, waiting or unanswered.

use std::fmt;

use headroom_domain::names;
use serde_json::{Value, json};

use super::node_result::{OffResult, Remains};

/// Limit of named nodes; the others are counted.
const MOST_NAMED: usize = 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OffEnd {
    Restored {
        all: usize,
    },
    /// A webhook processed all writes and restores the other nodes later.
    Waiting {
        /// Nodes that are not raw yet, each with the reason.
        left: Vec<(String, String)>,
        all: usize,
    },
    /// No webhook processed the write to some nodes.
    Unanswered {
        left: Vec<String>,
        all: usize,
        /// Commands that find the cause and restore raw values.
        by_hand: ByHand,
    },
}

/// Input of the commands that replace the webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ByHand {
    /// `kubectl` with the flags that select the same cluster.
    pub(crate) kubectl: String,
    pub(crate) namespace: String,
    /// Selected node; `None` for all.
    pub(crate) node: Option<String>,
}

impl OffEnd {
    /// Combines the results. One unanswered node makes the whole result unanswered, because the others then wait for
    /// nothing else.
    pub(crate) fn new<'r>(results: impl Iterator<Item = &'r OffResult> + Clone, by_hand: ByHand) -> Self {
        let all = results.clone().count();
        let unanswered: Vec<String> = results
            .clone()
            .filter(|result| result.remains == Remains::Unanswered)
            .map(|result| result.node.clone())
            .collect();
        if !unanswered.is_empty() {
            return Self::Unanswered {
                left: unanswered,
                all,
                by_hand,
            };
        }
        let waiting = results.filter_map(|result| Some((result.node.clone(), result.waits_for()?)));
        let left: Vec<_> = waiting.collect();
        if left.is_empty() {
            Self::Restored { all }
        } else {
            Self::Waiting { left, all }
        }
    }

    pub(crate) fn json(&self) -> Value {
        match self {
            Self::Restored { all } => json!({"end": "restored", "nodes": all}),
            Self::Waiting { left, all } => {
                let left: serde_json::Map<String, Value> = left
                    .iter()
                    .map(|(node, why)| (node.clone(), why.as_str().into()))
                    .collect();
                json!({"end": "waiting", "nodes": all, "waiting": left})
            }
            Self::Unanswered { left, all, by_hand } => {
                json!({"end": "unanswered", "nodes": all, "unanswered": left, "by_hand": by_hand.commands()})
            }
        }
    }
}

impl ByHand {
    /// The first command finds the webhook, the second makes kubelets restore raw values.
    fn commands(&self) -> [String; 2] {
        let Self {
            kubectl,
            namespace,
            node,
        } = self;
        let nodes = node
            .as_ref()
            .map_or_else(|| "nodes --all".to_owned(), |node| format!("node {node}"));
        [
            format!("{kubectl} -n {namespace} get pods"),
            format!("{kubectl} annotate {nodes} {}-", names::MARKER),
        ]
    }
}

impl fmt::Display for OffEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Restored { all } => write!(f, "restored: {all} of {all} nodes have raw allocatable"),
            Self::Waiting { left, all } => {
                let texts = left.iter().map(|(node, why)| format!("{node} ({why})"));
                let named = named(texts, left.len());
                write!(
                    f,
                    "waiting: {} of {all} nodes are not raw yet: {named}",
                    left.len()
                )
            }
            Self::Unanswered { left, all, by_hand } => {
                let [find, restore] = by_hand.commands();
                let named = named(left.iter().cloned(), left.len());
                write!(
                    f,
                    "unanswered: no webhook processed the writes to {} of {all} nodes: {named}; find the cause with `{find}`, or let the \
                     kubelets restore raw values with `{restore}`",
                    left.len()
                )
            }
        }
    }
}

/// The first texts, and the number of the others.
fn named(texts: impl Iterator<Item = String>, all: usize) -> String {
    let named: Vec<String> = texts.take(MOST_NAMED).collect();
    let more = match all.saturating_sub(named.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", named.join(", "))
}

#[cfg(test)]
mod tests {
    use headroom_domain::resource::PerResource;

    use super::*;

    fn result(node: &str, remains: Remains) -> OffResult {
        OffResult {
            node: node.to_owned(),
            remains,
            allocatable: PerResource {
                cpu: Some(5_000),
                memory: Some(8 << 30),
            },
            raw: PerResource {
                cpu: Some(4_000),
                memory: Some(8 << 30),
            },
        }
    }

    fn by_hand(node: Option<&str>) -> ByHand {
        ByHand {
            kubectl: "kubectl --context prod".to_owned(),
            namespace: "headroom-system".to_owned(),
            node: node.map(str::to_owned),
        }
    }

    fn end(results: &[OffResult], node: Option<&str>) -> OffEnd {
        OffEnd::new(results.iter(), by_hand(node))
    }

    #[test]
    fn all_raw_nodes_are_restored() {
        let restored = end(
            &[result("a", Remains::Nothing), result("b", Remains::Nothing)],
            None,
        );
        assert_eq!(
            restored.to_string(),
            "restored: 2 of 2 nodes have raw allocatable"
        );
        assert_eq!(restored.json(), json!({"end": "restored", "nodes": 2}));
    }

    #[test]
    fn waiting_nodes_are_named_with_the_reason() {
        let results = [
            result("a", Remains::Nothing),
            result("b", Remains::Held),
            result("c", Remains::Due),
        ];
        let waiting = end(&results, None);
        assert_eq!(
            waiting.to_string(),
            "waiting: 2 of 3 nodes are not raw yet: b (its bound pods need cpu 5000m of 4000m), c (the webhook's next write \
             restores it)"
        );
        let expected = json!({
            "end": "waiting", "nodes": 3,
            "waiting": {
                "b": "its bound pods need cpu 5000m of 4000m", "c": "the webhook's next write restores it",
            },
        });
        assert_eq!(waiting.json(), expected);
    }

    #[test]
    fn one_unanswered_node_prints_the_commands() {
        let results = [result("a", Remains::Held), result("b", Remains::Unanswered)];
        let unanswered = end(&results, None);
        assert_eq!(
            unanswered.to_string(),
            "unanswered: no webhook processed the writes to 1 of 2 nodes: b; find the cause with `kubectl --context prod -n \
             headroom-system get pods`, or let the kubelets restore raw values with `kubectl --context prod annotate \
             nodes --all headroom.sh/amplified-allocatable-`"
        );
        let commands = unanswered.json()["by_hand"].clone();
        assert_eq!(
            commands[1],
            "kubectl --context prod annotate nodes --all headroom.sh/amplified-allocatable-"
        );
        let one = end(&results[1..], Some("b")).to_string();
        assert!(
            one.ends_with("annotate node b headroom.sh/amplified-allocatable-`"),
            "{one}"
        );
    }

    #[test]
    fn at_most_ten_nodes_are_named() {
        let results: Vec<_> = (10..35)
            .map(|number| result(&format!("n{number}"), Remains::Unanswered))
            .collect();
        let text = end(&results, None).to_string();
        assert!(
            text.contains(" 25 of 25 nodes: n10, ") && text.contains(", n19 and 15 more; "),
            "{text}"
        );
    }
}
