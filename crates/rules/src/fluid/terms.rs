//! Node affinity terms that are added to a Pod, each once.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{ALL_DATASETS, EMPTY_TERMS, runtime::NodeCondition};
use crate::switch::Switches;

/// Most node conditions of a Pod, over all terms, once terms are added. Two hundred Datasets with a handful of labels
/// each are below it.
const MOST_CONDITIONS: usize = 1_024;

/// Conditions of one term, all of which a node must meet.
pub(super) type Term = Vec<NodeCondition>;

/// A condition that nodes should meet, with its weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PreferredTerm {
    pub(super) weight: i64,
    pub(super) condition: NodeCondition,
}

/// Reasons why terms cannot be added to a Pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TermError {
    /// The value at this path is not an object.
    #[error("{0} is not an object")]
    NoObject(&'static str),
    /// The value at this path is not a list.
    #[error("{0} is not a list")]
    NoList(&'static str),
    /// The Pod would have too many conditions.
    #[error("the pod's Datasets and its own node affinity have more than {MOST_CONDITIONS} node conditions")]
    TooMany,
}

const AFFINITY: &str = "spec.affinity";
const NODE_AFFINITY: &str = "spec.affinity.nodeAffinity";
const REQUIRED: &str = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution";
const TERMS: &str =
    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
const PREFERRED: &str = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution";

/// Terms of several Datasets, each with its alternatives: all Datasets must be met, or with the switch off, one of
/// them.
pub(super) fn joined(of_datasets: Vec<Vec<Term>>, switches: &Switches) -> Result<Vec<Term>, TermError> {
    let of_datasets = of_datasets.into_iter().filter(|terms| !terms.is_empty());
    if !switches.is_on(&ALL_DATASETS) {
        return limited(of_datasets.flatten().collect());
    }
    let mut all: Vec<Term> = Vec::new();
    for alternatives in of_datasets {
        if all.is_empty() {
            all = limited(alternatives)?;
            continue;
        }
        let sum = |terms: &[Term]| terms.iter().map(Vec::len).sum::<usize>();
        let size = sum(&all)
            .saturating_mul(alternatives.len())
            .saturating_add(sum(&alternatives).saturating_mul(all.len()));
        if size > MOST_CONDITIONS {
            return Err(TermError::TooMany);
        }
        if let [only] = alternatives.as_slice() {
            for term in &mut all {
                extend(term, only);
            }
            continue;
        }
        all = all
            .iter()
            .flat_map(|term| alternatives.iter().map(move |more| union(term, more)))
            .collect();
    }
    Ok(all)
}

fn limited(terms: Vec<Term>) -> Result<Vec<Term>, TermError> {
    let size: usize = terms.iter().map(Vec::len).sum();
    if size > MOST_CONDITIONS {
        Err(TermError::TooMany)
    } else {
        Ok(terms)
    }
}

fn union(term: &Term, more: &Term) -> Term {
    let mut union = term.clone();
    extend(&mut union, more);
    union
}

/// Adds the conditions that a term does not have.
fn extend(term: &mut Term, more: &Term) {
    for condition in more {
        if !term.contains(condition) {
            term.push(condition.clone());
        }
    }
}

/// Requires one of `terms`, none of which is empty, of the nodes of a Pod, in addition to its own terms. `affinity` is
/// the member of the specification and may be `null`.
///
/// A term that has all conditions of one of `terms` already stays as it is.
pub(super) fn require(affinity: &mut Value, terms: &[Term], switches: &Switches) -> Result<(), TermError> {
    if terms.is_empty() {
        return Ok(());
    }
    let node = object(entry(object(affinity, AFFINITY)?, "nodeAffinity"), NODE_AFFINITY)?;
    let required = entry(node, "requiredDuringSchedulingIgnoredDuringExecution");
    let existing = list(entry(object(required, REQUIRED)?, "nodeSelectorTerms"), TERMS)?;
    let added = || terms.iter().map(|term| to_json(term));
    if existing.is_empty() {
        existing.extend(added());
        return Ok(());
    }
    if existing.iter().all(is_empty) {
        if !switches.is_on(&EMPTY_TERMS) {
            *existing = added().collect();
        }
        return Ok(());
    }
    let count = |term: &Value| conditions(term).map_or(0, Vec::len);
    if existing.iter().map(count).sum::<usize>() > MOST_CONDITIONS {
        return Err(TermError::TooMany);
    }
    let mut combined = Vec::new();
    let mut size: usize = 0;
    for term in existing.iter().filter(|term| !is_empty(term)) {
        let own = known_conditions(term);
        let has_all = |more: &Term| more.iter().all(|condition| own.contains(condition));
        if terms.iter().any(has_all) {
            size = size.saturating_add(count(term));
            combined.push(term.clone());
        } else {
            for more in terms {
                size = size.saturating_add(count(term)).saturating_add(more.len());
                if size > MOST_CONDITIONS {
                    return Err(TermError::TooMany);
                }
                combined.push(with_conditions(term, more, &own)?);
            }
        }
    }
    *existing = combined;
    Ok(())
}

/// Adds terms that the scheduler prefers, unless the Pod has them.
pub(super) fn prefer(affinity: &mut Value, terms: &[PreferredTerm]) -> Result<(), TermError> {
    if terms.is_empty() {
        return Ok(());
    }
    let node = object(entry(object(affinity, AFFINITY)?, "nodeAffinity"), NODE_AFFINITY)?;
    let preferred = entry(node, "preferredDuringSchedulingIgnoredDuringExecution");
    let existing = list(preferred, PREFERRED)?;
    let mut known: BTreeSet<(i64, NodeCondition)> = existing.iter().filter_map(only_condition).collect();
    for PreferredTerm { weight, condition } in terms {
        if !known.insert((*weight, condition.clone())) {
            continue;
        }
        if existing.len() >= MOST_CONDITIONS {
            return Err(TermError::TooMany);
        }
        existing.push(json!({"weight": weight, "preference": to_json(std::slice::from_ref(condition))}));
    }
    Ok(())
}

/// Weight and condition of a preferred term that has one condition and nothing else.
fn only_condition(term: &Value) -> Option<(i64, NodeCondition)> {
    let weight = term.get("weight")?.as_i64()?;
    let preference = term.get("preference")?;
    let has_fields = preference
        .get("matchFields")
        .is_some_and(|fields| !fields.is_null());
    match conditions(preference)?.as_slice() {
        [condition] if !has_fields => Some((weight, NodeCondition::from_json(condition)?)),
        _ => None,
    }
}

fn to_json(term: &[NodeCondition]) -> Value {
    let conditions: Vec<Value> = term.iter().map(NodeCondition::to_json).collect();
    json!({"matchExpressions": conditions})
}

fn conditions(term: &Value) -> Option<&Vec<Value>> {
    term.get("matchExpressions")?.as_array()
}

fn known_conditions(term: &Value) -> BTreeSet<NodeCondition> {
    let own = conditions(term).into_iter().flatten();
    own.filter_map(NodeCondition::from_json).collect()
}

/// A copy of a term with further conditions.
fn with_conditions(term: &Value, more: &Term, own: &BTreeSet<NodeCondition>) -> Result<Value, TermError> {
    let mut copy = term.clone();
    let conditions = list(entry(object(&mut copy, TERMS)?, "matchExpressions"), TERMS)?;
    let new = more.iter().filter(|condition| !own.contains(condition));
    conditions.extend(new.map(NodeCondition::to_json));
    Ok(copy)
}

/// True for a term without conditions, which matches no node.
fn is_empty(term: &Value) -> bool {
    let lacks = |member: &str| {
        let list = term.get(member).and_then(Value::as_array);
        list.is_none_or(Vec::is_empty)
    };
    lacks("matchExpressions") && lacks("matchFields")
}

fn entry<'v>(object: &'v mut Map<String, Value>, name: &str) -> &'v mut Value {
    object.entry(name).or_insert(Value::Null)
}

fn object<'v>(value: &'v mut Value, path: &'static str) -> Result<&'v mut Map<String, Value>, TermError> {
    if value.is_null() {
        *value = json!({});
    }
    value.as_object_mut().ok_or(TermError::NoObject(path))
}

fn list<'v>(value: &'v mut Value, path: &'static str) -> Result<&'v mut Vec<Value>, TermError> {
    if value.is_null() {
        *value = json!([]);
    }
    value.as_array_mut().ok_or(TermError::NoList(path))
}
