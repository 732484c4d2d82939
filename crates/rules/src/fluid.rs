//! Rules of Fluid's webhook for pods that read Datasets through the nodes: placement, mount propagation, and the names
//! of the Datasets.
//!
//! ```text
//! claims of a Pod -- dataset --> mounted Datasets --+-- nodes with their clients  (RequireNodeWithFuse)
//!                                                   +-- nodes with their data     (NodeAffinityWithCache)
//!                                                   +-- propagation of mounts     (MountPropagationInjector)
//!                                                   '-- names in an annotation    (DatasetUsageInjector)
//! no Dataset ----------------------------------------- nodes without data         (PreferNodesWithoutCache)
//! ```
//!
//! Each rule adds only what the Pod does not have yet, so a second call changes nothing.

pub mod dataset;
pub mod locality;
pub mod mounts;
pub mod node_terms;
pub mod plugins;
pub mod runtime;
mod terms;
pub mod usage;

pub use self::terms::TermError;
use crate::switch::Switch;

/// Switch: a pod with several Datasets needs nodes that have all of them.
pub static ALL_DATASETS: Switch = Switch {
    name: "FluidAllDatasets",
    default: true,
    row: "Fluid, several Datasets",
    koordinator: "Fluid: required nodes of several Datasets are alternatives: a pod may run on a node that has one of them",
    about: "a pod with several Datasets runs on nodes that have all of them",
    why: "on a node without the client of a Dataset the pod's volume cannot be mounted",
};

/// Switch: a pod that may run on no node stays as it is.
pub static EMPTY_TERMS: Switch = Switch {
    name: "FluidEmptyTerms",
    default: true,
    row: "Fluid, empty terms",
    koordinator: "Fluid: a pod with only empty required terms, which match no node, gets the terms of its Datasets instead",
    about: "such a pod stays as it is",
    why: "a pod that may run on no node would run",
};

/// Switch: the node selector of a pod counts as its own choice of locality.
pub static READS_NODE_SELECTOR: Switch = Switch {
    name: "FluidNodeSelector",
    default: true,
    row: "Fluid, node selector",
    koordinator: "Fluid: the plugin NodeAffinityWithCache does not read the pod's node selector",
    about: "a pod whose node selector has a configured locality gets no further localities",
    why: "a pod that selects a zone and gets another zone as required can run nowhere",
};

/// Joins names as Go prints a list: up to `most`, and the number of the others.
fn go_list<'n>(names: impl ExactSizeIterator<Item = &'n str>, most: usize) -> String {
    let others = names.len().saturating_sub(most);
    let mut shown: Vec<String> = names.take(most).map(str::to_owned).collect();
    if others > 0 {
        shown.push(format!("and {others} more"));
    }
    format!("[{}]", shown.join(" "))
}

#[cfg(test)]
mod tests;
