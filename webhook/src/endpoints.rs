//! All admission endpoints; an endpoint exists when it stands in [`ENDPOINTS`].

mod mutate_node_status;
mod node;
mod validate_node;

use headroom_kit::gate::Gate;

use crate::endpoint::Endpoint;

/// Every endpoint. Clients meet mutating ones before validating ones, so they stand here in that order.
pub static ENDPOINTS: &[&Endpoint] = &[&mutate_node_status::ENDPOINT, &validate_node::ENDPOINT];

/// The gates of all steps.
pub fn gates() -> impl Iterator<Item = &'static Gate> {
    ENDPOINTS
        .iter()
        .flat_map(|endpoint| endpoint.steps)
        .map(|step| &step.gate)
}

#[cfg(test)]
mod tests;
