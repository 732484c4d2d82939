//! The benches of `cargo xtask bench`. Each compares alternatives in one run and prints one flat object whose keys
//! carry their units.
#![forbid(unsafe_code)]

pub mod agent_overhead;
mod audit;
pub mod brake_reaction;
mod configmap;
mod cost;
pub mod criterion;
mod dear_bodies;
pub mod declaration;
mod estimator;
pub mod fleet;
mod frame;
mod mixed;
pub mod node_harm;
pub mod node_status;
pub mod node_storm;
mod pod;
mod pod_review;
mod quota;
mod revisions;
pub mod served;
pub mod table;
mod target;
mod vitals;

use self::{declaration::Row, served::Served};

/// All benches. A new one is a file and a line here.
pub static BENCHES: &[&Row] = &[
    &node_status::ROW,
    &dear_bodies::ROW,
    &agent_overhead::ROW,
    &estimator::ROW,
    &node_storm::ROW,
    &node_harm::ROW,
    &brake_reaction::ROW,
    &brake_reaction::cut_off::ROW,
    &fleet::ROW,
    &mixed::ROW,
    &configmap::ROW,
    &pod::ROW,
    &quota::ROW,
    &frame::ROW,
];

/// The servers that benches load.
pub static SERVED: &[&Served] = &[
    &node_status::PLAIN,
    &node_status::AMPLIFIED,
    &node_status::QUIETED,
    &mixed::SERVED,
    &configmap::MANY_ENTRIES,
    &configmap::SIX_KEYS,
    &pod::WITHOUT_PROFILES,
    &pod::WITH_10_PROFILES,
    &pod::WITH_100_PROFILES,
    &quota::FEW,
    &quota::MORE,
    &quota::MANY,
];

/// The nearest-rank percentile of an ascending list; 0 if it is empty.
fn percentile(ascending: &[f64], percent: usize) -> f64 {
    let rank = (ascending.len() * percent).div_ceil(100).max(1);
    ascending.get(rank - 1).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_take_the_nearest_rank() {
        let list: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!((percentile(&list, 50), percentile(&list, 99)), (100.0, 198.0));
        assert_eq!((percentile(&[7.0], 99), percentile(&[], 50)), (7.0, 0.0));
    }
}
