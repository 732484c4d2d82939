//! Kubernetes quantities: exact value, Go-identical reading and canonical text.
//!
//! The grammar, rounding and canonical form are those of `k8s.io/apimachinery/pkg/api/resource`: values below
//! 10⁻⁹ round away from zero to one nano, values above 2⁶³-1 saturate there, the format family is kept.

use std::{cmp::Ordering, fmt, str::FromStr};

/// Units of the smallest representable value in 1.
const NANO: i128 = 1_000_000_000;
/// The largest value that Kubernetes keeps, in whole units.
const LARGEST: i128 = i64::MAX as i128;

/// The family of suffixes that a quantity was written with, and is printed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// `n u m` none `k M G T P E`: powers of 1000.
    DecimalSi,
    /// `Ki Mi Gi Ti Pi Ei`: powers of 1024.
    BinarySi,
    /// `e3`: powers of ten.
    DecimalExponent,
}

/// An amount of a resource: an exact number of 10⁻⁹ units and the family it prints in.
///
/// Equality and order go by amount: `4` equals `4000m`.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    nano: i128,
    format: Format,
}

/// The text is not a Kubernetes quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a quantity")]
pub struct QuantityError {
    /// The text, shortened.
    text: String,
}

impl Quantity {
    /// That many thousandths, in decimal form: milli-cores.
    pub fn from_milli(milli: u64) -> Self {
        Self {
            nano: i128::from(milli) * (NANO / 1000),
            format: Format::DecimalSi,
        }
    }

    /// That many whole units, printed in `format`: bytes.
    pub fn from_units(units: u64, format: Format) -> Self {
        Self {
            nano: i128::from(units) * NANO,
            format,
        }
    }

    /// The family this quantity prints in.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Thousandths, fractions away from zero; `None` if negative or above 2⁶³-1.
    pub fn milli(&self) -> Option<u64> {
        Self::scaled(self.nano, NANO / 1000)
    }

    /// Whole units, fractions away from zero; `None` if negative or above 2⁶³-1.
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

/// The scale that a suffix stands for.
#[derive(Clone, Copy)]
enum Scale {
    /// Times 10 to that power.
    Ten(i32),
    /// Times 2 to that power.
    Two(u32),
}

/// What a suffix means; `None` for one that Kubernetes does not know.
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
            let power = text.strip_prefix(['e', 'E'])?.parse().ok()?;
            Some((Scale::Ten(power), Format::DecimalExponent))
        }
    }
}

/// `digits` × 10^`power` in nano units, rounded away from zero and saturated.
fn nano_of_decimal(digits: &str, power: i64) -> i128 {
    let mut nano: i128 = 0;
    let mut place = power + i64::try_from(digits.len()).unwrap_or(i64::MAX) + 9;
    let ceiling = LARGEST * NANO;
    for digit in digits.bytes().map(|byte| i128::from(byte - b'0')) {
        place -= 1;
        if digit == 0 {
            continue;
        }
        if place < 0 {
            nano += 1;
            break;
        }
        let unit = u32::try_from(place)
            .ok()
            .and_then(|place| 10_i128.checked_pow(place));
        nano = unit
            .and_then(|unit| nano.checked_add(digit.checked_mul(unit)?))
            .unwrap_or(ceiling)
            .min(ceiling);
    }
    nano.min(ceiling)
}

/// `digits` with `fraction_digits` of them behind the point, × 2^`shift`, in nano units, rounded and saturated.
fn nano_of_binary(digits: &str, fraction_digits: usize, shift: u32) -> i128 {
    let ceiling = LARGEST * NANO;
    let (whole, fraction) = digits.split_at(digits.len() - fraction_digits);
    let mut nano = nano_of_decimal(whole, 0)
        .checked_mul(1 << shift)
        .unwrap_or(ceiling)
        .min(ceiling);
    // Digits beyond the 27th cannot reach a nano even times 2^60; they only round it up.
    let kept = fraction.get(..fraction.len().min(27)).unwrap_or(fraction);
    let dropped = fraction.get(kept.len()..).unwrap_or_default();
    let mut numerator: u128 = kept
        .bytes()
        .fold(0, |sum, byte| sum * 10 + u128::from(byte - b'0'));
    let mut denominator_digits = kept.len();
    // numerator × 2^shift × 10^9 / 10^digits, without leaving 128 bits: cancel tens first.
    while denominator_digits > 0 && numerator.is_multiple_of(10) {
        numerator /= 10;
        denominator_digits -= 1;
    }
    let (quotient, is_exact) = mul_div(numerator, shift, denominator_digits);
    let has_rest = !is_exact || dropped.bytes().any(|byte| byte != b'0');
    nano = nano
        .saturating_add(i128::try_from(quotient).unwrap_or(ceiling))
        .saturating_add(i128::from(has_rest));
    nano.min(ceiling)
}

/// `numerator` × 2^`shift` × 10⁹ / 10^`digits` and whether it came out even; `numerator` < 10^`digits`.
fn mul_div(numerator: u128, shift: u32, digits: usize) -> (u128, bool) {
    let denominator = 10_u128.pow(u32::try_from(digits).unwrap_or(u32::MAX).min(27));
    let mut quotient: u128 = 0;
    let mut rest = numerator;
    // Doubling keeps rest below the denominator, so nothing overflows.
    for _ in 0..shift {
        rest *= 2;
        quotient = quotient * 2 + rest / denominator;
        rest %= denominator;
    }
    for _ in 0..9 {
        rest *= 10;
        quotient = quotient * 10 + rest / denominator;
        rest %= denominator;
    }
    (quotient, rest == 0)
}

impl FromStr for Quantity {
    type Err = QuantityError;

    /// Reads a quantity as Kubernetes does; blanks around it are not accepted.
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
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(wrong());
        }
        let (scale, mut format) = suffix(rest).ok_or_else(wrong)?;
        let digits = format!("{whole}{fraction}");
        let nano = match scale {
            Scale::Ten(power) => nano_of_decimal(
                &digits,
                i64::from(power) - i64::try_from(fraction.len()).unwrap_or(i64::MAX),
            ),
            Scale::Two(shift) => nano_of_binary(&digits, fraction.len(), shift),
        };
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
    /// The canonical text: no fraction, the largest suffix that leaves a whole number.
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

/// Whole units with the largest power of 1024 taken out.
fn fmt_binary(mut units: i128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    const SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let mut power = 0;
    while units % 1024 == 0 && power + 1 < SUFFIXES.len() {
        units /= 1024;
        power += 1;
    }
    write!(f, "{units}{}", SUFFIXES.get(power).unwrap_or(&""))
}

/// Nano units with the largest power of 1000 taken out.
fn fmt_decimal(mut value: i128, format: Format, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    const SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    if value == 0 {
        return f.write_str("0");
    }
    let mut step = 0;
    while value % 1000 == 0 && step + 1 < SUFFIXES.len() {
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
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("4", "4")]
    #[case("4000m", "4")]
    #[case("0.5", "500m")]
    #[case("8388608Ki", "8Gi")]
    #[case("1000M", "1G")]
    #[case("1024Mi", "1Gi")]
    #[case("1.5Gi", "1536Mi")]
    #[case("1E", "1E")]
    #[case("1Ei", "1Ei")]
    #[case("12Pi", "12Pi")]
    #[case("32612508Ki", "32612508Ki")]
    #[case("12000", "12k")]
    #[case("1e3", "1e3")]
    #[case("12e2", "1200")]
    #[case("0.3Ki", "307200m")]
    #[case("0.0001Ki", "102400u")]
    #[case("1000Ki", "1000Ki")]
    #[case("512", "512")]
    #[case("0", "0")]
    #[case("0Ki", "0")]
    #[case("+1", "1")]
    #[case(".5", "500m")]
    #[case("5.", "5")]
    #[case("-4", "-4")]
    #[case("0.0000000001", "1n")]
    #[case("1n", "1n")]
    #[case("9223372036854775807", "9223372036854775807")]
    #[case("9223372036854775808", "9223372036854775807")]
    #[case("100E", "9223372036854775807")]
    #[case("100Ei", "9223372036854775807")]
    #[case("1500000000", "1500M")]
    fn the_canonical_text_is_gos(#[case] text: &str, #[case] canonical: &str) {
        assert_eq!(text.parse::<Quantity>().unwrap().to_string(), canonical);
    }

    #[rstest]
    #[case("")]
    #[case("4x")]
    #[case(" 4")]
    #[case("1,5")]
    #[case("0x2")]
    #[case("1.2.3")]
    #[case(".")]
    #[case("-")]
    #[case("Ki")]
    #[case("1KI")]
    #[case("1e")]
    #[case("1e1.5")]
    #[case("--1")]
    fn what_kubernetes_refuses_is_refused(#[case] text: &str) {
        assert!(text.parse::<Quantity>().is_err());
    }

    #[test]
    fn reading_out_rounds_up_and_refuses_negatives() {
        let quantity = |text: &str| text.parse::<Quantity>().unwrap();
        assert_eq!(quantity("1001u").milli(), Some(2));
        assert_eq!(quantity("1.5").units(), Some(2));
        assert_eq!(quantity("-1").units(), None);
        assert_eq!(quantity("10E").milli(), None);
        assert_eq!(quantity("9223372036854775807").units(), Some(i64::MAX as u64));
    }

    proptest! {
        #[test]
        fn printing_and_reading_again_keeps_the_amount(units in 0..=i64::MAX, suffix in "(n|u|m||k|Ki|Mi|e2)") {
            if let Ok(first) = format!("{units}{suffix}").parse::<Quantity>() {
                let again: Quantity = first.to_string().parse().unwrap();
                prop_assert_eq!(first, again);
                prop_assert_eq!(first.to_string(), again.to_string());
            }
        }

        #[test]
        fn a_fraction_of_a_binary_unit_is_exact(whole in 0_u64..1 << 20, quarter in 0_u64..4) {
            let text = format!("{whole}.{:02}Gi", quarter * 25);
            prop_assert_eq!(text.parse::<Quantity>().unwrap().units(), Some((whole << 30) + (quarter << 28)));
        }

        #[test]
        fn order_is_by_amount(left in 0_u64..1 << 62, right in 0_u64..1 << 62) {
            let (a, b) = (Quantity::from_units(left, Format::BinarySi), Quantity::from_units(right, Format::DecimalSi));
            prop_assert_eq!(a.cmp(&b), left.cmp(&right));
        }
    }
}
