//! Compares two capacities of one node: if they differ by more than 2 % of the Node's, they belong to two machines.
//! Agent and webhook use it.

/// Largest difference between two capacities of one machine, in percent of the Node's capacity.
pub const CAPACITY_TOLERANCE: u64 = 2;

/// Returns true if `difference` is more than [`CAPACITY_TOLERANCE`] percent of the Node's capacity, so that the two
/// capacities belong to different machines.
pub fn differs(of_node: u64, difference: u64) -> bool {
    u128::from(difference) * 100 > u128::from(of_node) * u128::from(CAPACITY_TOLERANCE)
}
