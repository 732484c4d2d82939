//! Sums, differences and signed whole numbers of quantities: exact, saturated or `None`.

use super::{Format, MOST, NANO, Quantity};

impl Quantity {
    /// The quantity zero in decimal form.
    pub const ZERO: Self = Self {
        nano: 0,
        format: Format::DecimalSi,
    };

    /// Quantity of whole units in decimal form; saturates at ±10²⁹.
    pub fn from_whole(whole: i128) -> Self {
        Self {
            nano: whole.saturating_mul(NANO).clamp(-MOST, MOST),
            format: Format::DecimalSi,
        }
    }

    /// Returns true for amounts below zero.
    pub fn is_negative(&self) -> bool {
        self.nano < 0
    }

    /// Returns true for zero in any format family.
    pub fn is_zero(&self) -> bool {
        self.nano == 0
    }

    /// Whole units, rounded away from zero; at most ±10²⁹.
    pub fn whole(&self) -> i128 {
        self.in_steps(NANO)
    }

    /// Whole thousandths, rounded away from zero; at most ±10³².
    pub fn whole_milli(&self) -> i128 {
        self.in_steps(NANO / 1000)
    }

    fn in_steps(&self, unit: i128) -> i128 {
        self.nano / unit + (self.nano % unit).signum()
    }

    /// Sum in the family of the left operand, or of the right one if the left is zero; `None` beyond ±10²⁹.
    pub fn checked_add(&self, other: &Self) -> Option<Self> {
        self.result(other, self.nano.checked_add(other.nano)?)
    }

    /// Difference in the family of the left operand, or of the right one if the left is zero; `None` beyond ±10²⁹.
    pub fn checked_sub(&self, other: &Self) -> Option<Self> {
        self.result(other, self.nano.checked_sub(other.nano)?)
    }

    /// Like [`Self::checked_add`], but saturates at ±10²⁹.
    pub fn saturating_add(&self, other: &Self) -> Self {
        let nano = self.nano.saturating_add(other.nano).clamp(-MOST, MOST);
        Self {
            nano,
            format: self.format_with(other),
        }
    }

    fn result(&self, other: &Self, nano: i128) -> Option<Self> {
        let format = self.format_with(other);
        (-MOST..=MOST).contains(&nano).then_some(Self { nano, format })
    }

    fn format_with(&self, other: &Self) -> Format {
        if self.is_zero() { other.format } else { self.format }
    }
}
