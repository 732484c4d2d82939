//! Nodes on which the clients of a Pod's Datasets may run, and nodes without data for the other pods.

use headroom_domain::names::FLUID_DATASET_NUM;
use serde_json::Value;

use super::{
    dataset::MountedDataset,
    runtime::NodeCondition,
    terms::{PreferredTerm, Term, TermError, joined, prefer, require},
};
use crate::switch::Switches;

/// Weight of nodes without data for pods without Datasets.
const WEIGHT: i64 = 100;

/// Requires nodes on which the clients of all Datasets may run. `affinity` is the member of the Pod's specification and
/// may be `null`.
///
/// # Errors
/// The member is not a valid affinity, or it has too many conditions.
pub fn require_fuse(
    affinity: &mut Value,
    datasets: &[MountedDataset],
    switches: &Switches,
) -> Result<(), TermError> {
    let term = |dataset: &MountedDataset| -> Term {
        let labels = dataset.runtime.fuse_selector.iter();
        labels
            .map(|(key, value)| NodeCondition::equals(key, value))
            .collect()
    };
    let terms = datasets.iter().map(term).filter(|term| !term.is_empty());
    let terms = joined(terms.map(|term| vec![term]).collect(), switches)?;
    require(affinity, &terms, switches)
}

/// Prefers nodes without cached data.
///
/// # Errors
/// The member is not a valid affinity, or it has too many conditions.
pub fn prefer_without_data(affinity: &mut Value) -> Result<(), TermError> {
    let condition = NodeCondition {
        key: FLUID_DATASET_NUM.to_owned(),
        operator: "DoesNotExist".to_owned(),
        values: Vec::new(),
    };
    let term = PreferredTerm {
        weight: WEIGHT,
        condition,
    };
    prefer(affinity, &[term])
}
