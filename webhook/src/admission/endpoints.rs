//! List of all admission endpoints; an endpoint exists only if it is in [`ENDPOINTS`].

mod draft_pod;
mod mutate_elasticquota;
mod mutate_fluid_pod;
mod mutate_node_status;
mod mutate_pod;
mod mutate_reservation;
mod node_fields;
mod pod_membership;
mod pod_types;
mod probe_node;
mod profiles;
pub mod quota_behaviour;
mod quota_fields;
mod validate_configmap;
mod validate_elasticquota;
mod validate_elasticquotaprofile;
mod validate_node;
mod validate_pod;
mod validate_pod_binding;

use headroom_kit::gate::{Gate, GateSet};

pub use self::mutate_node_status::{PROBE_ANSWER, PROBE_ANSWER_VERIFIED};
use crate::admission::{
    endpoint::{AnyEndpoint, Family},
    features::IGNORED_GATES,
};

/// Every endpoint. Clients meet mutating ones before validating ones, so they stand here in that order.
pub static ENDPOINTS: &[&dyn AnyEndpoint] = &[
    &mutate_node_status::ENDPOINT,
    &probe_node::ENDPOINT,
    &mutate_pod::ENDPOINT,
    &mutate_fluid_pod::ENDPOINT,
    &mutate_reservation::ENDPOINT,
    &mutate_elasticquota::ENDPOINT,
    &validate_node::ENDPOINT,
    &validate_pod::ENDPOINT,
    &validate_pod_binding::ENDPOINT,
    &validate_elasticquota::ENDPOINT,
    &validate_elasticquotaprofile::ENDPOINT,
    &validate_configmap::ENDPOINT,
];

/// Endpoint of `nodes/status`, for its own reference page.
pub static NODE_STATUS: &dyn AnyEndpoint = &mutate_node_status::ENDPOINT;

/// The name of its one entry.
pub const NODE_STATUS_ENTRY: &str = mutate_node_status::ENTRY;

/// The endpoints of these families.
pub fn served(families: &[Family]) -> Vec<&'static dyn AnyEndpoint> {
    let endpoints = ENDPOINTS.iter().copied();
    endpoints
        .filter(|endpoint| families.contains(&endpoint.declaration().family()))
        .collect()
}

/// The gates of all endpoints and steps, and those without effect.
pub fn gates() -> impl Iterator<Item = &'static Gate> {
    let of_endpoints = ENDPOINTS.iter().flat_map(|endpoint| endpoint.gates());
    of_endpoints.chain(&IGNORED_GATES)
}

/// The names of all steps.
pub fn step_names() -> impl Iterator<Item = &'static str> {
    ENDPOINTS
        .iter()
        .flat_map(|endpoint| endpoint.steps())
        .map(|step| step.name)
}

/// True if the gate of amplification is on, so that the webhook sets allocatable.
pub fn amplifies(gates: &GateSet) -> bool {
    NODE_STATUS.is_enabled(gates)
}

#[cfg(test)]
mod tests;
