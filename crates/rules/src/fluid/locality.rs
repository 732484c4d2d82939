//! Nodes near the data of a Pod: required for Datasets that the Pod's labels name, preferred for the others.

use std::collections::BTreeMap;

use headroom_domain::names::{FLUID_FUSE_LOCALITY, FLUID_NODE_LOCALITY, FLUID_SCHEDULE};
use serde_json::Value;

use super::{
    READS_NODE_SELECTOR,
    dataset::MountedDataset,
    plugins::Localities,
    runtime::NodeCondition,
    terms::{PreferredTerm, Term, TermError, joined, prefer, require},
};
use crate::switch::Switches;

/// Parts of a Pod, besides its affinity, that decide about localities.
#[derive(Debug, Clone, Copy)]
pub struct PodLocality<'p> {
    /// Labels of the Pod.
    pub labels: &'p BTreeMap<String, String>,
    /// Node selector of the Pod.
    pub node_selector: &'p BTreeMap<String, String>,
}

/// Adds the localities of the Datasets. A Pod that names a configured locality itself stays as it is. `affinity` is the
/// member of the Pod's specification and may be `null`.
///
/// # Errors
/// The member is not a valid affinity, or it has too many conditions.
pub fn place(
    affinity: &mut Value,
    pod: PodLocality<'_>,
    datasets: &[MountedDataset],
    (localities, switches): (&Localities, &Switches),
) -> Result<(), TermError> {
    if has_locality(affinity, pod, localities, switches) {
        return Ok(());
    }
    let (required, preferred): (Vec<_>, Vec<_>) = datasets
        .iter()
        .partition(|dataset| is_required(pod.labels, &dataset.claim));
    let alternatives = |dataset: &MountedDataset| -> Vec<Term> {
        let conditions = conditions(dataset).filter(|(locality, _)| localities.is_required(locality));
        conditions.map(|(_, condition)| vec![condition]).collect()
    };
    let terms = joined(required.into_iter().map(alternatives).collect(), switches)?;
    require(affinity, &terms, switches)?;
    let terms: Vec<PreferredTerm> = preferred
        .into_iter()
        .flat_map(conditions)
        .filter_map(|(locality, condition)| {
            let weight = localities.weight(&locality)?;
            Some(PreferredTerm { weight, condition })
        })
        .collect();
    prefer(affinity, &terms)
}

/// Localities of a Dataset, each with its node condition: those that Fluid defines, then those of its cached data.
fn conditions(dataset: &MountedDataset) -> impl Iterator<Item = (String, NodeCondition)> {
    let built_in = [
        (FLUID_NODE_LOCALITY, &dataset.worker_label),
        (FLUID_FUSE_LOCALITY, &dataset.fuse_label),
    ];
    let built_in =
        built_in.map(|(locality, label)| (locality.to_owned(), NodeCondition::equals(label, "true")));
    let of_cache = dataset.runtime.cache_conditions.iter();
    let of_cache = of_cache.map(|condition| (condition.key.clone(), condition.clone()));
    built_in.into_iter().chain(of_cache)
}

/// True if a label of the Pod requires the data of this claim.
fn is_required(labels: &BTreeMap<String, String>, claim: &str) -> bool {
    let (start, end) = FLUID_SCHEDULE;
    let value = labels.get(&format!("{start}{claim}{end}"));
    value.is_some_and(|value| value == "required")
}

/// True if the Pod itself names a configured locality.
fn has_locality(
    affinity: &Value,
    pod: PodLocality<'_>,
    localities: &Localities,
    switches: &Switches,
) -> bool {
    const PREFERRED: &str = "/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution";
    const REQUIRED: &str = "/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let list = |path| {
        affinity
            .pointer(path)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    };
    let preferred = list(PREFERRED).filter_map(|term| term.get("preference"));
    let mut terms = preferred.chain(list(REQUIRED));
    let names_locality = |term: &Value| {
        let conditions = term.get("matchExpressions").and_then(Value::as_array);
        let mut keys = conditions
            .into_iter()
            .flatten()
            .filter_map(|condition| condition.get("key")?.as_str());
        keys.any(|key| localities.have(key))
    };
    if terms.any(names_locality) {
        return true;
    }
    let mut selected = pod.node_selector.keys();
    switches.is_on(&READS_NODE_SELECTOR) && selected.any(|key| localities.have(key))
}
