//! Conversions between integer amounts, used by policies, and real numbers, used by the simulator for draws and
//! means.

/// Converts a count or an amount to a real number.
#[expect(clippy::cast_precision_loss, reason = "amounts of a node are far below 2^52")]
pub(super) const fn real(whole: u64) -> f64 {
    whole as f64
}

/// Rounds up to an integer amount; 0 if negative or NaN.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the conversion saturates, which is what is documented"
)]
pub(super) fn whole(real: f64) -> u64 {
    real.ceil() as u64
}

/// Converts a length or an index to an amount.
pub(super) fn long(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
