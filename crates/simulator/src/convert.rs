//! Conversions between whole amounts, used by policies, and real numbers, used by the simulator for draws and means.

/// A count or an amount as a real number.
#[expect(clippy::cast_precision_loss, reason = "amounts of a node are far below 2^52")]
pub(super) const fn real(whole: u64) -> f64 {
    whole as f64
}

/// A real number rounded up to a whole amount; 0 if negative or not a number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the conversion saturates, which is what is documented"
)]
pub(super) fn whole(real: f64) -> u64 {
    real.ceil() as u64
}

/// A length or an index as an amount.
pub(super) fn long(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
