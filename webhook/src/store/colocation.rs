//! Stores for the admission of pods: pods by name, and colocation profiles. They exist only where an endpoint that is
//! served reads them.

pub mod pod_fan;
mod pod_keys;
pub mod pods;
pub mod profiles;
