//! Kubernetes quantities: exact values, parsed and printed like Kubernetes' Go package.
//!
//! Grammar, rounding and canonical form are those of `k8s.io/apimachinery/pkg/api/resource`: fractions of 10⁻⁹ round
//! away from zero, binary values saturate at 2⁶³-1, the format family is kept. An exponent has 64 bits, of which the
//! lower 32 count. Deliberate differences: decimal values saturate at 10²⁹, and multiples of 1000E print all their
//! digits.

mod arithmetic;
pub(crate) mod json;

use std::{cmp::Ordering, fmt, str::FromStr};

/// Number of nano units in 1.
const NANO: i128 = 1_000_000_000;
/// Largest amount that is returned as an integer, and the largest that Kubernetes keeps of a binary quantity.
const LARGEST: i128 = i64::MAX as i128;
/// Largest stored amount of any quantity, in nano units.
const MOST: i128 = 10_i128.pow(38);
/// Most digits of a number that is parsed without a digit list. Times 10¹⁸ or 2⁶⁰ it fits 128 bits easily. Kubernetes
/// parses such decimal numbers as a 64-bit integer and a scale.
const MOST_SHORT: usize = 18;

/// Family of suffixes in which a quantity is written and printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// `n u m` none `k M G T P E`: powers of 1000.
    DecimalSi,
    /// `Ki Mi Gi Ti Pi Ei`: powers of 1024.
    BinarySi,
    /// Exponents such as `e3`: powers of ten.
    DecimalExponent,
}

/// Amount of a resource: an exact number of 10⁻⁹ units and the family in which it prints.
///
/// Equality and order compare amounts: `4` equals `4000m`.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    nano: i128,
    format: Format,
}

/// The text is not a Kubernetes quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a quantity")]
pub struct QuantityError {
    /// First characters of the text.
    text: String,
}

impl Quantity {
    /// Quantity of `milli` thousandths (milli-cores), in decimal form.
    pub fn from_milli(milli: u64) -> Self {
        Self {
            nano: i128::from(milli) * (NANO / 1000),
            format: Format::DecimalSi,
        }
    }

    /// Quantity of whole `units` (bytes), printed in `format`.
    pub fn from_units(units: u64, format: Format) -> Self {
        Self {
            nano: i128::from(units) * NANO,
            format,
        }
    }

    /// Family in which the quantity prints.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Thousandths, rounded away from zero; `None` if negative or above 2⁶³-1.
    pub fn milli(&self) -> Option<u64> {
        Self::scaled(self.nano, NANO / 1000)
    }

    /// Whole units, rounded away from zero; `None` if negative or above 2⁶³-1.
    pub fn units(&self) -> Option<u64> {
        Self::scaled(self.nano, NANO)
    }

    /// `nano` in steps of `unit`, rounded up.
    fn scaled(nano: i128, unit: i128) -> Option<u64> {
        if nano < 0 {
            return None;
        }
        let steps = nano / unit + i128::from(nano % unit != 0);
        (steps <= LARGEST).then(|| u64::try_from(steps).ok()).flatten()
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nano == other.nano
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nano.cmp(&other.nano)
    }
}

/// Scale of a suffix: a power of 10 or 2.
#[derive(Clone, Copy)]
enum Scale {
    /// Ten to the power of this exponent.
    Ten(i32),
    /// Two to the power of this exponent.
    Two(u32),
}

/// Scale and family of a suffix; `None` for one that Kubernetes does not know.
fn suffix(text: &str) -> Option<(Scale, Format)> {
    let si = |power| Some((Scale::Ten(power), Format::DecimalSi));
    let binary = |power| Some((Scale::Two(power), Format::BinarySi));
    match text {
        "n" => si(-9),
        "u" => si(-6),
        "m" => si(-3),
        "" => si(0),
        "k" => si(3),
        "M" => si(6),
        "G" => si(9),
        "T" => si(12),
        "P" => si(15),
        "E" => si(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => {
            let power: i64 = text.strip_prefix(['e', 'E'])?.parse().ok()?;
            Some((Scale::Ten(lower_half(power)), Format::DecimalExponent))
        }
    }
}

/// The lower 32 bits of an exponent, as Kubernetes truncates it: `1e4294967296` is 1.
fn lower_half(exponent: i64) -> i32 {
    let [a, b, c, d, ..] = exponent.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

/// True for a number without a digit that Kubernetes reads as zero, such as `m`: it parses the number as an integer. The
/// other ones are rejected.
fn is_empty_zero(scale: Scale) -> bool {
    match scale {
        Scale::Ten(power) => power >= -9,
        // Up to Ti the product fits 64 bits for certain.
        Scale::Two(shift) => shift <= 40,
    }
}

/// Power of ten of a number with a fraction of that length, as Kubernetes computes it with 32 bits.
fn decimal_power(power: i32, digits: usize, fraction: usize) -> i64 {
    let fraction = i32::try_from(fraction).unwrap_or(i32::MAX);
    let short = power.wrapping_sub(fraction);
    if digits <= MOST_SHORT && short >= -9 {
        return short.into();
    }
    -i64::from(power.wrapping_neg().wrapping_add(fraction))
}

/// The number with these decimal digits × 10^`power` in nano units, rounded away from zero and saturated.
fn nano(digits: &[u8], power: i64) -> i128 {
    let mut nano: i128 = 0;
    let mut place = power + i64::try_from(digits.len()).unwrap_or(i64::MAX) + 9;
    for &digit in digits {
        place -= 1;
        if digit == 0 {
            continue;
        }
        if place < 0 {
            return (nano + 1).min(MOST);
        }
        let unit = u32::try_from(place)
            .ok()
            .and_then(|place| 10_i128.checked_pow(place));
        nano = unit
            .and_then(|unit| nano.checked_add(i128::from(digit).checked_mul(unit)?))
            .map_or(MOST, |nano| nano.min(MOST));
    }
    nano
}

/// Nano units of any number.
fn long_nano(whole: &str, fraction: &str, scale: Scale) -> i128 {
    let digits = whole.bytes().chain(fraction.bytes());
    let digits: Vec<u8> = digits.map(|digit| digit - b'0').collect();
    let behind_point = i64::try_from(fraction.len()).unwrap_or(i64::MAX);
    match scale {
        Scale::Ten(power) => {
            let digits_in_kubernetes = whole.trim_start_matches('0').len().max(1) + fraction.len();
            nano(
                &digits,
                decimal_power(power, digits_in_kubernetes, fraction.len()),
            )
        }
        Scale::Two(shift) => nano(&shifted(&digits, shift), -behind_point).min(LARGEST * NANO),
    }
}

/// Nano units of a number with few digits and a common scale; `None` for others, which need a digit list.
fn short_nano(whole: &str, fraction: &str, scale: Scale) -> Option<i128> {
    if whole.len() + fraction.len() > MOST_SHORT {
        return None;
    }
    let digits = whole.bytes().chain(fraction.bytes());
    let number = digits.fold(0, |number: i128, digit| number * 10 + i128::from(digit - b'0'));
    match scale {
        Scale::Ten(power) => {
            let place = power
                .checked_sub(i32::try_from(fraction.len()).ok()?)?
                .checked_add(9)?;
            let place = u32::try_from(place).ok().filter(|place| *place <= 18)?;
            Some(number * 10_i128.pow(place))
        }
        Scale::Two(shift) => fraction.is_empty().then(|| (number << shift).min(LARGEST) * NANO),
    }
}

/// Decimal digits of `digits` × 2^`shift`, for a shift of at most 60.
fn shifted(digits: &[u8], shift: u32) -> Vec<u8> {
    let mut product = Vec::with_capacity(digits.len() + 19);
    // The carry is at most 2^60 between digits, and at most 10 × 2^60 after one digit is added.
    let mut carry: u64 = 0;
    let mut digits = digits.iter().rev();
    loop {
        match digits.next() {
            Some(&digit) => carry += u64::from(digit) << shift,
            None if carry == 0 => break,
            None => {}
        }
        product.push(u8::try_from(carry % 10).unwrap_or_default());
        carry /= 10;
    }
    product.reverse();
    product
}

impl FromStr for Quantity {
    type Err = QuantityError;

    /// Parses a quantity like Kubernetes; surrounding spaces are rejected.
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let wrong = || QuantityError {
            text: text.chars().take(40).collect(),
        };
        let (is_negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, text.get(1..).unwrap_or_default()),
            Some(b'+') => (false, text.get(1..).unwrap_or_default()),
            _ => (false, text),
        };
        let end = unsigned
            .find(|c: char| !(c.is_ascii_digit() || c == '.'))
            .unwrap_or(unsigned.len());
        let (number, rest) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if text.is_empty() || fraction.contains('.') {
            return Err(wrong());
        }
        let (scale, mut format) = suffix(rest).ok_or_else(wrong)?;
        if whole.is_empty() && fraction.is_empty() && !is_empty_zero(scale) {
            return Err(wrong());
        }
        let nano = short_nano(whole, fraction, scale).unwrap_or_else(|| long_nano(whole, fraction, scale));
        if format == Format::BinarySi && (1..NANO).contains(&nano) {
            format = Format::DecimalSi;
        }
        Ok(Self {
            nano: if is_negative { -nano } else { nano },
            format,
        })
    }
}

impl fmt::Display for Quantity {
    /// Canonical text: no fraction, and the largest suffix that leaves a whole number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_small = self.nano.abs() < 1024 * NANO;
        let is_whole = self.nano % NANO == 0;
        match self.format {
            Format::BinarySi if !is_small && is_whole => fmt_binary(self.nano / NANO, f),
            Format::BinarySi | Format::DecimalSi => fmt_decimal(self.nano, Format::DecimalSi, f),
            Format::DecimalExponent => fmt_decimal(self.nano, Format::DecimalExponent, f),
        }
    }
}

/// Whole units, divided by the largest power of 1024 that leaves no remainder.
fn fmt_binary(mut units: i128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    const SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let mut power = 0;
    while units % 1024 == 0 && power + 1 < SUFFIXES.len() {
        units /= 1024;
        power += 1;
    }
    write!(f, "{units}{}", SUFFIXES.get(power).unwrap_or(&""))
}

/// Nano units, divided by the largest power of 1000 that the family can express without a remainder.
fn fmt_decimal(mut value: i128, format: Format, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    const SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    if value == 0 {
        return f.write_str("0");
    }
    let mut step = 0;
    while value % 1000 == 0 && (format == Format::DecimalExponent || step + 1 < SUFFIXES.len()) {
        value /= 1000;
        step += 1;
    }
    match format {
        Format::DecimalExponent if step != 3 => {
            write!(f, "{value}e{}", i64::try_from(step).unwrap_or_default() * 3 - 9)
        }
        Format::DecimalExponent => write!(f, "{value}"),
        Format::DecimalSi | Format::BinarySi => write!(f, "{value}{}", SUFFIXES.get(step).unwrap_or(&"")),
    }
}

#[cfg(test)]
mod tests;
