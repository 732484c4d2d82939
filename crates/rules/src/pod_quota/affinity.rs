//! A Pod of a quota tree runs on the nodes of the tree: the tree's node conditions are added to the Pod's node
//! affinity.

use headroom_domain::selector::{LabelSelector, LabelSelectorRequirement};
use serde_json::{Map, Value, json};

use crate::{
    quota::{
        Quota, QuotaTree,
        tree::{AncestorPath, PathEnd, ancestor_path},
    },
    switch::{Switch, Switches},
};

/// Switch: terms that match no node stay unchanged, and a tree for all nodes adds no condition.
pub static TREE_NODES: Switch = Switch {
    name: "QuotaTreeNodes",
    default: true,
    row: "D-19, terms",
    koordinator: "a tree without node conditions adds a term that matches no node, an empty term gets the conditions of the tree, and conditions that a term already has are added again",
    about: "a tree without node conditions changes nothing, an empty term stays empty, and no term has a condition twice",
    why: "otherwise a pod that may run on every node would never run, and a pod that may run on no node would run",
};

/// Switch: the profile of a tree is in the namespace of the tree's root.
pub static TREE_NAMESPACE: Switch = Switch {
    name: "QuotaTreeNamespace",
    default: true,
    row: "D-19, namespace",
    koordinator: "the first ElasticQuotaProfile with the ID of a tree selects its nodes, whatever its namespace",
    about: "only an ElasticQuotaProfile in the namespace of the tree's root quota selects its nodes",
    why: "a tenant could move the pods of another tenant's tree to nodes of its choice",
};

/// Namespace of the root of a quota's tree; `None` if the path to it is broken.
pub fn root_namespace(quota: &Quota, tree: &dyn QuotaTree) -> Option<Box<str>> {
    let AncestorPath { names, end } = ancestor_path(quota, tree);
    match (end, names.last()) {
        (PathEnd::Root, None) => Some(quota.namespace.clone()),
        (PathEnd::Root, Some(root)) => Some(tree.by_name(root)?.namespace.clone()),
        (PathEnd::Orphan | PathEnd::Cycle | PathEnd::TooLong, _) => None,
    }
}

/// Maximum number of conditions added to a Pod, over all terms. Pods written by users have a handful.
const MOST_CONDITIONS: usize = 4_096;

/// Reasons why the affinity of a Pod cannot be changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AffinityError {
    /// The value at this path is not an object.
    #[error("{0} is not an object")]
    NoObject(&'static str),
    /// The value at this path is not a list.
    #[error("{0} is not a list")]
    NoList(&'static str),
    /// The terms would get more than 4,096 conditions in total.
    #[error("more than {MOST_CONDITIONS} conditions would be added to spec.affinity")]
    TooMany,
}

/// Adds the conditions of `nodes` to each required node affinity term of a Pod; without terms, adds one. `affinity`
/// is the member of the specification and may be `null`.
///
/// # Errors
/// The member is not a valid affinity, or it has too many terms.
pub fn require(
    affinity: &mut Value,
    nodes: &LabelSelector,
    switches: &Switches,
) -> Result<(), AffinityError> {
    const TERMS: &str =
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let is_ours = switches.is_on(&TREE_NODES);
    let conditions = conditions(nodes);
    if conditions.is_empty() && is_ours {
        return Ok(());
    }
    let affinity = object(affinity, "spec.affinity")?;
    let node = object(entry(affinity, "nodeAffinity"), "spec.affinity.nodeAffinity")?;
    let required = object(
        entry(node, "requiredDuringSchedulingIgnoredDuringExecution"),
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
    )?;
    let terms = list(entry(required, "nodeSelectorTerms"), TERMS)?;
    if terms.is_empty() {
        terms.push(json!({}));
        let [term] = terms.as_mut_slice() else {
            return Ok(());
        };
        return add(term, &conditions, is_ours);
    }
    if terms.len().saturating_mul(conditions.len()) > MOST_CONDITIONS {
        return Err(AffinityError::TooMany);
    }
    terms
        .iter_mut()
        .filter(|term| !(is_ours && is_empty(term)))
        .try_for_each(|term| add(term, &conditions, is_ours))
}

/// Conditions of a selector: its labels by name, then its expressions in order.
fn conditions(nodes: &LabelSelector) -> Vec<Value> {
    let LabelSelector {
        match_labels,
        match_expressions,
    } = nodes;
    let of_labels = match_labels
        .iter()
        .map(|(key, value)| json!({"key": key, "operator": "In", "values": [value]}));
    let own = match_expressions.iter().map(|condition| {
        let LabelSelectorRequirement {
            key,
            operator,
            values,
        } = condition;
        if values.is_empty() {
            json!({"key": key, "operator": operator})
        } else {
            json!({"key": key, "operator": operator, "values": values})
        }
    });
    of_labels.chain(own).collect()
}

fn add(term: &mut Value, conditions: &[Value], is_once: bool) -> Result<(), AffinityError> {
    if conditions.is_empty() {
        return Ok(());
    }
    let term = object(term, "a node selector term")?;
    let there = list(
        entry(term, "matchExpressions"),
        "matchExpressions of a node selector term",
    )?;
    for condition in conditions {
        if !(is_once && there.contains(condition)) {
            there.push(condition.clone());
        }
    }
    Ok(())
}

/// Returns true for a term without conditions, which matches no node.
fn is_empty(term: &Value) -> bool {
    let is_none =
        |conditions: &Value| conditions.is_null() || conditions.as_array().is_some_and(Vec::is_empty);
    let members = ["matchExpressions", "matchFields"];
    term.is_object() && members.iter().all(|name| term.get(name).is_none_or(is_none))
}

fn entry<'v>(members: &'v mut Map<String, Value>, name: &str) -> &'v mut Value {
    members.entry(name).or_insert(Value::Null)
}

fn object<'v>(value: &'v mut Value, path: &'static str) -> Result<&'v mut Map<String, Value>, AffinityError> {
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().ok_or(AffinityError::NoObject(path))
}

fn list<'v>(value: &'v mut Value, path: &'static str) -> Result<&'v mut Vec<Value>, AffinityError> {
    if value.is_null() {
        *value = Value::Array(Vec::new());
    }
    value.as_array_mut().ok_or(AffinityError::NoList(path))
}
