//! Stores for the admission of pods: pods by name, and colocation profiles with the namespaces and priority classes that they
//! name. They exist only where an endpoint that is served reads them.

pub mod namespaces;
pub mod pod_fan;
mod pod_keys;
pub mod pods;
pub mod priority_classes;
pub mod profile_sources;
pub mod profiles;
