//! Stores for the admission of pods: pods by name, colocation profiles with the namespaces and priority classes that they
//! name, and the labels that pods must have. They exist only where an endpoint that is served reads them.

pub mod label_rules;
pub mod limit_ranges;
pub mod namespaces;
pub mod pod_fan;
mod pod_keys;
pub mod pods;
pub mod priority_classes;
pub mod profile_sources;
pub mod profiles;
mod quota_members;
