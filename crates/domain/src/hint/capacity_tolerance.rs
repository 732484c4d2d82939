//! Compares two capacities of one node: a difference of more than 2 % of the Node's means two machines. Agent and
//! webhook use it.

/// A larger difference than this between two capacities, in percent of the Node's, is one.
pub const CAPACITY_TOLERANCE: u64 = 2;

/// True if capacities are so far apart that they are of two machines: `difference` is more than [`CAPACITY_TOLERANCE`]
/// percent of what the Node says.
pub fn differs(of_node: u64, difference: u64) -> bool {
    u128::from(difference) * 100 > u128::from(of_node) * u128::from(CAPACITY_TOLERANCE)
}
