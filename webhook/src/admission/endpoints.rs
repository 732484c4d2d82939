//! List of all admission endpoints; an endpoint exists only if it is in [`ENDPOINTS`].

mod mutate_node_status;
mod node_fields;
mod validate_node;

use headroom_kit::gate::{Gate, GateSet};

use crate::admission::endpoint::Endpoint;

/// Every endpoint. Clients meet mutating ones before validating ones, so they stand here in that order.
pub static ENDPOINTS: &[&Endpoint] = &[&mutate_node_status::ENDPOINT, &validate_node::ENDPOINT];

/// The endpoint of `nodes/status`, for what is said of it alone.
pub(crate) static NODE_STATUS: &Endpoint = &mutate_node_status::ENDPOINT;

/// The gates of all steps.
pub fn gates() -> impl Iterator<Item = &'static Gate> {
    ENDPOINTS
        .iter()
        .flat_map(|endpoint| endpoint.steps)
        .map(|step| &step.gate)
}

/// True if the gate of amplification is on: somebody sets allocatable.
pub fn amplifies(gates: &GateSet) -> bool {
    mutate_node_status::ENDPOINT.is_enabled(gates)
}

#[cfg(test)]
mod tests;
