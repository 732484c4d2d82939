//! The benches of `cargo xtask bench`. Each compares alternatives in one run and prints one flat object whose keys
//! contain their units.
#![forbid(unsafe_code)]

pub mod agent_overhead;
mod audit;
pub mod brake_reaction;
mod configmap;
mod cost;
pub mod criterion;
pub mod declaration;
mod estimator;
pub mod fleet;
mod frame;
pub mod node_harm;
pub mod node_status;
pub mod node_storm;
mod pod;
mod quota;
mod review_router;
mod revisions;
pub mod served;
mod statistics;
pub mod table;
mod target;
mod vitals;

use self::{declaration::Row, served::Served};

/// All benches. A new bench needs a file and a line here.
pub static BENCHES: &[&Row] = &[
    &node_status::ROW,
    &agent_overhead::ROW,
    &estimator::ROW,
    &node_storm::ROW,
    &node_harm::ROW,
    &brake_reaction::ROW,
    &brake_reaction::cut_off::ROW,
    &fleet::ROW,
    &configmap::ROW,
    &pod::ROW,
    &quota::ROW,
    &frame::ROW,
];

/// Servers that run as separate processes under load.
pub static SERVED: &[&Served] = &[
    &node_status::PLAIN,
    &node_status::AMPLIFIED,
    &node_status::QUIETED,
    &configmap::MANY_ENTRIES,
    &configmap::SIX_KEYS,
    &pod::WITHOUT_PROFILES,
    &pod::WITH_10_PROFILES,
    &pod::WITH_100_PROFILES,
    &quota::FEW,
    &quota::MORE,
    &quota::MANY,
];
